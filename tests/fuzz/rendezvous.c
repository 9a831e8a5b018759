/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.c - where the ranks of a step meet: what other nodes say of it, and what the processes
 * of this node ask, one after another. */
#include "fuzz.h"
#include <supervisor/clients.h>
#include <supervisor/control.h>
#include <supervisor/rendezvous.h>
#include <supervisor/supervisor.h>

enum { NODES = 4 };

/* --- whom rendezvous.c tells --- */
void control_rendezvous(struct supervisor *s, uint32_t to, uint32_t node, uint16_t port,
                        const char *step) {
    fuzz_must((to < NODES || to == UINT32_MAX) && node < NODES && strlen(step) < STEP_NAME_MAX);
}

bool control_decides(const struct supervisor *s) {
    return s->node_id == 0;
}

void clients_rendezvous_tell(struct supervisor *s, const char *step, const char *text) {
    fuzz_must(*text && strlen(text) < 128 && !strpbrk(step, " \n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    struct supervisor s = {.nodes = NODES, .managers = NODES};
    char text[256];
    s.node_id = fuzz_byte(&in) % 2;
    while (in.left > 0) {
        uint8_t what = fuzz_byte(&in), from = fuzz_byte(&in) % NODES, node = fuzz_byte(&in) % 8;
        uint32_t port = 0;
        fuzz_copy(&in, &port, what & 4 ? 4 : 2);
        size_t n = fuzz_byte(&in) % (STEP_NAME_MAX + 8);
        char *step = fuzz_text(&in, n);
        n = strlen(step);
        if (what & 1)
            rendezvous_hear(&s, from, node, what & 2 ? 0 : port, step, n);
        else if (n < STEP_NAME_MAX && rendezvous_ask(&s, step, 1 + from, -1, text, sizeof text) > 0)
            fuzz_must(strchr(text, ' '));
        free(step);
    }
    rendezvous_end(&s);
    return 0;
}
