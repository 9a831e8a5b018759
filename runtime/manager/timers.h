/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timers.h - the deadlines of one process in a heap: what fires next, and nothing that ticks. Single-threaded.
 *
 * They go by a clock of their own that stands still while the process is suspended. Each look at it that comes more than DD_SUSPEND_GAP_MS after the one
 * before is taken for a suspension, so whoever waits while a timer is armed waits in slices of timers_wait_ms(). Timers are armed by how long from now,
 * never by a time that was read before: what is armed right after a suspension has its full time and no more, whether the loop has noticed yet or not.
 */
#ifndef DDICT_MANAGER_TIMERS_H
#define DDICT_MANAGER_TIMERS_H

#include <base/defaults.h>

#include <stddef.h>
#include <stdint.h>

struct timer {      /* lies in what it belongs to; all zero is a timer that is not armed */
    uint64_t at_ns; /* by the clock of its timers */
    size_t pos;     /* place in the heap + 1; 0: not armed */
    void (*fire)(
        struct timer *t); /* not armed any more when called; may arm again or free itself */
};
struct timers {
    struct timer **heap;
    size_t n, cap;
    uint64_t looked_ns; /* CLOCK_MONOTONIC at the last look */
    uint64_t
        lost_ns; /* CLOCK_MONOTONIC less this is our clock: suspensions, and waits without a timer */
};

/* Our clock at a time of CLOCK_MONOTONIC. One that is older than the last look (a value kept by the caller) counts as that look. */
static inline uint64_t timers_look(struct timers *ts, uint64_t clock_ns) {
    if (clock_ns > ts->looked_ns) {
        if (clock_ns - ts->looked_ns > DD_SUSPEND_GAP_MS * 1000000ull)
            ts->lost_ns += clock_ns - ts->looked_ns;
        ts->looked_ns = clock_ns;
    }
    return ts->looked_ns - ts->lost_ns;
}
uint64_t timers_now(struct timers *ts); /* our clock */

/* Arm, or move an armed one: so long from now. 0 or -ENOMEM (then it is not armed); moving an armed one cannot fail. */
int timer_after(struct timers *ts, struct timer *t, uint64_t ns);
void timer_clear(struct timers *ts, struct timer *t); /* not armed: nothing */
static inline uint64_t timers_next(const struct timers *ts) {
    return ts->n ? ts->heap[0]->at_ns : UINT64_MAX;
}
void timers_run(struct timers *ts, uint64_t now_ns); /* by our clock */
/* For epoll_wait: milliseconds until the next, rounded up, at most half of DD_SUSPEND_GAP_MS; -1 when none. */
int timers_wait_ms(struct timers *ts);
void timers_free(struct timers *ts);

#endif
