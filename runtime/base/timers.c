/* SPDX-License-Identifier: Apache-2.0 */
/* timers.c - a binary heap of deadlines; each timer knows its place in it. */
#include "timers.h"

#include "clock.h"
#include "vec.h"

#include <errno.h>
#include <stdlib.h>

#define RUN_MOST 512u /* timers of one call: below a millisecond */

static void timer_place(struct timers *ts, size_t i, struct timer *t) {
    ts->heap[i] = t;
    t->pos = i + 1;
}

static void sift_up(struct timers *ts, size_t i) {
    struct timer *t = ts->heap[i];
    while (i > 0 && ts->heap[(i - 1) / 2]->at_ns > t->at_ns) {
        timer_place(ts, i, ts->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    timer_place(ts, i, t);
}

static void sift_down(struct timers *ts, size_t i) {
    struct timer *t = ts->heap[i];
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= ts->n)
            break;
        if (c + 1 < ts->n && ts->heap[c + 1]->at_ns < ts->heap[c]->at_ns)
            c++;
        if (ts->heap[c]->at_ns >= t->at_ns)
            break;
        timer_place(ts, i, ts->heap[c]);
        i = c;
    }
    timer_place(ts, i, t);
}

void timer_clear(struct timers *ts, struct timer *t) {
    if (t->pos == 0)
        return;
    size_t i = t->pos - 1;
    struct timer *last = ts->heap[--ts->n];
    t->pos = 0;
    if (last == t)
        return;
    timer_place(ts, i, last);
    sift_up(ts, i);
    sift_down(ts, last->pos - 1);
}

uint64_t timers_now(struct timers *ts) {
    return timers_look(ts, clock_ns());
}

int timer_after(struct timers *ts, struct timer *t, uint64_t ns) {
    uint64_t now = timers_now(ts);
    timer_clear(ts, t);
    if (VEC_ROOM(&ts->heap, &ts->cap, ts->n + 1, 64) < 0)
        return -ENOMEM;
    t->at_ns = ns < UINT64_MAX - now ? now + ns : UINT64_MAX;
    timer_place(ts, ts->n, t);
    sift_up(ts, ts->n++);
    return 0;
}

void timers_run(struct timers *ts, uint64_t now_ns) {
    /* A timer that arms itself for a moment already past waits for the next call, as those behind
     * many others do: no endless turn. */
    for (size_t guard = ts->n < RUN_MOST ? ts->n : RUN_MOST;
         guard > 0 && ts->n && ts->heap[0]->at_ns <= now_ns; guard--) {
        struct timer *t = ts->heap[0];
        timer_clear(ts, t);
        t->fire(t);
    }
}

int timers_wait_ms(struct timers *ts) {
    if (!ts->n)
        return -1;
    uint64_t now = timers_now(ts), at = ts->heap[0]->at_ns;
    if (at <= now)
        return 0;
    uint64_t ms = (at - now - 1) / 1000000 + 1;
    return ms > DD_SUSPEND_GAP_MS / 2 ? DD_SUSPEND_GAP_MS / 2 : (int)ms;
}

void timers_free(struct timers *ts) {
    free(ts->heap);
    ts->heap = NULL;
    ts->n = ts->cap = 0;
}
