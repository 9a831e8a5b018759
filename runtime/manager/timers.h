/* SPDX-License-Identifier: Apache-2.0 */
/* timers.h - the deadlines of one process in a heap: what fires next, and nothing that ticks. Single-threaded. */
#ifndef DDICT_MANAGER_TIMERS_H
#define DDICT_MANAGER_TIMERS_H

#include <stddef.h>
#include <stdint.h>

struct timer {              /* lies in what it belongs to; all zero is a timer that is not armed */
    uint64_t at_ns;
    size_t pos;             /* place in the heap + 1; 0: not armed */
    void (*fire)(struct timer *t); /* not armed any more when called; may arm again or free itself */
};
struct timers {
    struct timer **heap;
    size_t n, cap;
};

/* Arm, or move an armed one. 0 or -ENOMEM (then it is not armed). */
int timer_set(struct timers *ts, struct timer *t, uint64_t at_ns);
void timer_clear(struct timers *ts, struct timer *t); /* not armed: nothing */
static inline uint64_t timers_next(const struct timers *ts) { return ts->n ? ts->heap[0]->at_ns : UINT64_MAX; }
void timers_run(struct timers *ts, uint64_t now_ns);
/* We were stopped for so long: every deadline moves by it. */
void timers_shift(struct timers *ts, uint64_t by_ns);
/* For epoll_wait: milliseconds until the next, rounded up; -1 when none. */
int timers_wait_ms(const struct timers *ts, uint64_t now_ns);
void timers_free(struct timers *ts);

#endif
