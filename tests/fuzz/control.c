/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - what a ddictd is told by the others of its dictionary, which may be of any version of
 * mind: each message of its table and those without a row, from its parent, a child or an orphan, at
 * any stage, with payloads of any length, while nodes are lost and time passes. Behind it is the
 * whole ddictd but its connections, managers and files. Whatever it is told, the map of owners makes
 * sense, and changes by newer rows alone.
 */
#include "address.h"
#include "fuzz.h"
#include <base/clock.h>
#include <base/shadow.h>
#include <supervisor/attach_counts.h>
#include <supervisor/control.h>
#include <supervisor/control_messages.h>
#include <supervisor/coordinator.h>
#include <supervisor/election.h>
#include <supervisor/figures.h>
#include <supervisor/freeze.h>
#include <supervisor/grants.h>
#include <supervisor/held_map.h>
#include <supervisor/life_events.h>
#include <supervisor/lifecycle.h>
#include <supervisor/owner_map.h>
#include <supervisor/owner_steps.h>
#include <supervisor/record_writer.h>
#include <supervisor/rendezvous.h>
#include <supervisor/save_passes.h>
#include <supervisor/takeover.h>
#include <supervisor/tasks.h>

#include <sys/epoll.h>
#include <sys/socket.h>

enum { NODES = 3, MANAGERS = 4, OPS_MOST = 100 };

static struct supervisor s;
static struct status_page status;
static uint8_t keys[NODES][KEY_SIZE];
static struct owner_place before[MANAGERS];
static uint64_t fuzz_clock = 1000000000000ull;

/* --- the world, which is not there: --wrap --- */
uint64_t __wrap_clock_ns(void);
uint64_t __wrap_clock_ns(void) {
    return fuzz_clock += 1000;
}
void __wrap_log_line(int level, const char *fmt, ...);
void __wrap_log_line(int level, const char *fmt, ...) {
}
void __wrap_startup_print(const char *fmt, ...);
void __wrap_startup_print(const char *fmt, ...) {
}
void __wrap_startup_print_text(const char *head, const char *text);
void __wrap_startup_print_text(const char *head, const char *text) {
    fuzz_read(text, strlen(text));
}
/* It forks. */
void __wrap_record_writer_write(struct supervisor *sup, enum written_file file, char *text,
                                size_t len);
void __wrap_record_writer_write(struct supervisor *sup, enum written_file file, char *text,
                                size_t len) {
    fuzz_read(text, len);
    free(text);
}

/* --- a ddictd --- */
static void ddictd_make(uint32_t node, bool tasks) {
    s = (struct supervisor){.node = "n",
                            .node_id = node,
                            .nodes = NODES,
                            .managers = MANAGERS,
                            .deal = deal_known(MANAGERS, NODES, NODES),
                            .opt = {.replicas = 2, .drain_ms = 1000, .ready_ms = 1000},
                            .identity = {.keys = (const uint8_t(*)[KEY_SIZE])keys, .nodes = NODES},
                            .began = clock_ns(),
                            .lost_manager = UINT32_MAX,
                            .lost_node = UINT32_MAX,
                            .status_page = &status,
                            .status_page_ro_fd = -1};
    s.attach.fd = s.input.fd = s.script.fd = -1;
    s.opt.tasks = tasks ? 3 : 0;
    status = (struct status_page){0};
    s.timers.looked_ns = fuzz_clock;
    fuzz_must((s.epoll_fd = epoll_create1(EPOLL_CLOEXEC)) >= 0);
    fuzz_must((s.control_at = calloc(NODES, sizeof *s.control_at)));
    fuzz_must((s.node_names = calloc(NODES, sizeof *s.node_names)));
    /* nobody is there: what it says goes nowhere */
    s.control_fd = address_listen(&s.control_at[0].addr[0], 'c');
    for (unsigned i = 0; i < NODES; i++) {
        s.control_at[i].addr[0] = s.control_at[0].addr[0];
        s.control_at[i].naddr = 1;
        snprintf(s.node_names[i], sizeof s.node_names[i], "n%u", i);
    }
    fuzz_must(lifecycle_init(&s) == 0 && record_writer_init(&s) == 0);
    fuzz_must(attach_counts_init(&s) == 0 && tasks_init(&s) == 0);
    fuzz_must(owner_map_init(&s) == 0 && grants_init(&s) == 0);
    fuzz_must(held_map_init(&s) == 0 && election_init(&s) == 0);
    fuzz_must(coordinator_init(&s) == 0 && owner_steps_init(&s) == 0);
    fuzz_must(freezes_init(&s) == 0 && figures_init(&s) == 0);
    fuzz_must(control_start(&s, control_message_heard) == 0);
}

static void ddictd_end(void) {
    control_close(&s);
    rendezvous_end(&s);
    record_writer_end(&s);
    attach_counts_end(&s);
    figures_end(&s);
    tasks_end(&s);
    freezes_end(&s);
    takeover_end(&s);
    owner_steps_end(&s);
    coordinator_end(&s);
    election_end(&s);
    held_map_end(&s);
    grants_end(&s);
    save_passes_end(&s);
    timers_free(&s.timers);
    free(s.owner_map);
    free(s.lifecycle);
    free(s.control_at);
    free(s.node_names);
    close(s.epoll_fd);
}

/* --- what holds --- */
static bool row_is(const struct owner_place *a, const struct owner_place *b) {
    return a->primary == b->primary && a->backup == b->backup && a->epoch == b->epoch &&
           a->primary_port == b->primary_port && a->backup_port == b->backup_port &&
           a->whole == b->whole;
}

static void map_check(void) {
    for (uint32_t i = 0; i < MANAGERS; i++) {
        const struct owner_place *p = &s.owner_map[i];
        fuzz_must(shadow_owner(&s.deal, p->primary) == i && p->primary < shadow_end(&s.deal));
        fuzz_must(p->backup == SHADOW_NONE || p->backup < shadow_end(&s.deal));
        fuzz_must(row_is(p, &before[i]) || p->epoch > before[i].epoch);
        before[i] = *p;
    }
}

/* --- what is said --- */
static void payload_shape(struct fuzz_input *in, unsigned type, char *payload, size_t len) {
    struct map_word w = {.primary = fuzz_byte(in) % 16, .backup = fuzz_byte(in) % 17};
    if (type != MSG_CTL_MAP || len != sizeof w)
        return;
    if (w.backup == 16)
        w.backup = SHADOW_NONE;
    memcpy(payload, &w, sizeof w);
}

/* The length that a message of this type has, mostly. */
static size_t length_of(unsigned type, uint8_t any) {
    switch (any & 1 ? type : 0) {
    case MSG_CTL_MAP:
        return sizeof(struct map_word);
    case MSG_CTL_NOTE:
        return sizeof(struct note);
    case MSG_CTL_SAVE:
        return sizeof(struct save_word);
    case MSG_CTL_FREEZE:
        return sizeof(struct freeze_word);
    case MSG_CTL_STATS:
        return sizeof(struct manager_stats);
    default:
        return any / 2;
    }
}

static void message_do(struct fuzz_input *in) {
    static const enum control_from froms[] = {FROM_PARENT, FROM_CHILD, FROM_ORPHAN};
    uint8_t how = fuzz_byte(in), which = fuzz_byte(in);
    struct control_said said = {.from = s.node_id == 0 ? FROM_CHILD : froms[which / 2 % 2 * 2],
                                .type = fuzz_byte(in) % (MSG_TYPE_N + 1u),
                                .manager = fuzz_byte(in) % 6};
    said.node = said.from == FROM_PARENT ? 0 : s.node_id + 1 + which % 2;
    if (said.node >= NODES)
        return;
    said.aux = fuzz_byte(in);
    if (how & 2)
        fuzz_copy(in, &said.aux, 8);
    if (how & 4)
        fuzz_copy(in, &said.manager, 4);
    said.tag = how & 8;
    said.len = length_of(said.type, fuzz_byte(in));
    char *payload = malloc(said.len ? said.len : 1);
    fuzz_must(payload);
    fuzz_copy(in, payload, said.len);
    if (how & 16)
        payload_shape(in, said.type, payload, said.len);
    said.payload = payload;
    int e = control_message_heard(&s, &said);
    fuzz_must(e <= 1);
    free(payload);
    map_check();
}

static void some_do(struct fuzz_input *in) {
    uint8_t what = fuzz_byte(in);
    switch (what % 8) {
    case 0:
        fuzz_clock += fuzz_byte(in) * 20000000ull;
        timers_run(&s.timers, timers_now(&s.timers));
        map_check();
        break;
    case 1:
        if (what / 8 == 0 && control_decides(&s) && s.stage == STAGE_READY && !s.lost)
            coordinator_node_lost(&s, 1 + fuzz_byte(in) % 2, timers_now(&s.timers), "silent");
        map_check();
        break;
    case 2:
        io_wait(s.epoll_fd, 0);
        map_check();
        break;
    default:
        message_do(in);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    uint8_t how = fuzz_byte(&in);
    ddictd_make(how % 3, how & 16);
    memcpy(before, s.owner_map, sizeof before);
    enum stage stage = s.stage;
    if (how & 8)
        supervisor_ready(&s);
    for (unsigned i = 0; in.left > 0 && i < OPS_MOST && s.stage != STAGE_OVER; i++) {
        some_do(&in);
        fuzz_must(s.stage >= stage && strlen(s.text) < sizeof s.text);
        stage = s.stage;
    }
    ddictd_end();
    return 0;
}
