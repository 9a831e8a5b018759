/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timers.h - the deadlines of one process in a heap: which fires next, without a periodic tick.
 * Single-threaded.
 *
 * Timers use a clock of their own, which stands still while the process is suspended. A look at
 * this clock more than DD_SUSPEND_GAP_MS after the look before is taken for a suspension. So a
 * process that waits while a timer is armed waits in slices of timers_wait_ms(). A timer is armed
 * by the time from now, never by a point in time that was read before: a timer that is armed right
 * after a suspension has its full time and no more, whether the loop has noticed the suspension or
 * not.
 */
#ifndef DDICT_BASE_TIMERS_H
#define DDICT_BASE_TIMERS_H

#include "defaults.h"

#include <stddef.h>
#include <stdint.h>

/* lies in what it belongs to; all zero is a timer that is not armed */
struct timer {
    uint64_t at_ns; /* by the clock of its timers */
    size_t pos;     /* place in the heap + 1; 0: not armed */
    /* not armed any more when called; may arm again or free itself */
    void (*fire)(struct timer *t);
};
struct timers {
    struct timer **heap;
    size_t n, cap;
    uint64_t looked_ns; /* CLOCK_MONOTONIC at the last look */
    /* CLOCK_MONOTONIC less this is our clock: suspensions, and waits without a timer */
    uint64_t lost_ns;
};

/* Our clock at a time of CLOCK_MONOTONIC. One that is older than the last look (a value kept by the
 * caller) counts as that look. */
static inline uint64_t timers_look(struct timers *ts, uint64_t clock_ns) {
    if (clock_ns > ts->looked_ns) {
        if (clock_ns - ts->looked_ns > DD_SUSPEND_GAP_MS * 1000000ull)
            ts->lost_ns += clock_ns - ts->looked_ns;
        ts->looked_ns = clock_ns;
    }
    return ts->looked_ns - ts->lost_ns;
}
uint64_t timers_now(struct timers *ts); /* our clock */

/* Arm, or move an armed one: so long from now. 0 or -ENOMEM (then it is not armed); moving an armed
 * one cannot fail. */
int timer_after(struct timers *ts, struct timer *t, uint64_t ns);
void timer_clear(struct timers *ts, struct timer *t); /* not armed: nothing */
static inline uint64_t timers_next(const struct timers *ts) {
    return ts->n ? ts->heap[0]->at_ns : UINT64_MAX;
}
void timers_run(struct timers *ts, uint64_t now_ns); /* by our clock */
/* For epoll_wait: milliseconds until the next, rounded up, at most half of DD_SUSPEND_GAP_MS; -1
 * when none. */
int timers_wait_ms(struct timers *ts);
void timers_free(struct timers *ts);

#endif
