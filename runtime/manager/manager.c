/* SPDX-License-Identifier: Apache-2.0 */
/* manager.c - what all modules of a manager use. */
#include "manager.h"

#include "ledger.h"
#include "supmsg.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#define TICK_MS 50u

/* --- ddictd --- */
void manager_tell(struct manager *m, struct sup_msg *s) {
    struct pollfd p = {.fd = m->setup->sup_fd, .events = POLLOUT};
    struct deadline d;
    int e, left;
    deadline_start(&d, DD_HANDSHAKE_MS);
    while ((e = sup_send(p.fd, s, NULL, 0)) == -EAGAIN && (left = deadline_left(&d, -1)) > 0)
        poll(&p, 1, left);
    if (e < 0)
        __atomic_store_n(&m->stopping, true, __ATOMIC_RELAXED);
}

bool manager_may_serve(const struct manager *m) {
    if (!m->setup->survives)
        return true;
    uint64_t lease = __atomic_load_n(&m->setup->page->lease, __ATOMIC_ACQUIRE);
    struct timespec t;
    if (lease == UINT64_MAX)
        return true;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec < lease;
}

void manager_ticks(struct manager *m) {
    if (!m->tick.pos)
        timer_after(&m->timers, &m->tick, TICK_MS * 1000000ull);
}

void manager_ledger_look(struct manager *m) {
    if (ledger_grown(m->setup->ledger) && !m->ledger_shrink.pos)
        timer_after(&m->timers, &m->ledger_shrink, DD_LANE_IDLE_MS * 1000000ull);
}

void manager_stalls(struct manager *m) {
    if (!m->unstall.pos)
        timer_after(&m->timers, &m->unstall, DD_PEER_STUCK_MS * 1000000ull);
}
