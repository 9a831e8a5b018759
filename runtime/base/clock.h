/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - monotonic time and deadlines. A deadline grows by the time the process was suspended: each look at it notices
 * a gap of more than DD_SUSPEND_GAP_MS since the last look where the waits between looks are shorter.
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
 * Milliseconds left, rounded up, 0 when over, at most slice_ms and at most half of DD_SUSPEND_GAP_MS (slice_ms < 0: only that), so
 * that a caller who waits that long and looks again is never taken for suspended.
 */
int deadline_left(struct deadline *d, int slice_ms);
int deadline_over(struct deadline *d);

#endif
