/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - monotonic time and deadlines. A deadline is extended by the time that the process was
 * suspended. Each look at it compares the time with the last look; a gap of more than
 * DD_SUSPEND_GAP_MS is a suspension, because waits between looks are shorter than that.
 */
#ifndef DDICT_BASE_CLOCK_H
#define DDICT_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_ns(void); /* CLOCK_MONOTONIC */
static inline uint64_t clock_ms(void) {
    return clock_ns() / 1000000u;
}

struct deadline {
    uint64_t at_ns;   /* UINT64_MAX: never (internal use only) */
    uint64_t last_ns; /* the last look */
};
void deadline_start(struct deadline *d, int64_t timeout_ms); /* < 0: DD_TIMEOUT_MS */
/*
 * Milliseconds left, rounded up, 0 when over, at most slice_ms and at most half of
 * DD_SUSPEND_GAP_MS (slice_ms < 0: only that), so that a caller who waits that long and looks again
 * is never taken for suspended.
 */
int deadline_left(struct deadline *d, int slice_ms);
int deadline_over(struct deadline *d);

#endif
