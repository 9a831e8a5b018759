/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - monotonic time, and deadlines that do not count the time of a suspension. */
#include "clock.h"

#include "defaults.h"

#include <limits.h>
#include <time.h>

#define NS_PER_MS      1000000ull
#define SUSPEND_GAP_NS (DD_SUSPEND_GAP_MS * NS_PER_MS)

uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void deadline_start(struct deadline *d, int64_t timeout_ms) {
    uint64_t now = clock_ns(), ms = timeout_ms < 0 ? DD_TIMEOUT_MS : (uint64_t)timeout_ms;
    d->last_ns = now;
    d->at_ns = ms > (UINT64_MAX - now) / NS_PER_MS ? UINT64_MAX : now + ms * NS_PER_MS;
}

/* Nanoseconds left, after the time we were suspended is given back. */
static uint64_t deadline_update(struct deadline *d) {
    uint64_t now = clock_ns(), gap = now - d->last_ns;
    d->last_ns = now;
    if (d->at_ns == UINT64_MAX)
        return UINT64_MAX;
    /* A deadline that was over when we were stopped stays over. */
    if (gap > SUSPEND_GAP_NS && d->at_ns > now - gap)
        d->at_ns += gap;
    return d->at_ns > now ? d->at_ns - now : 0;
}

int deadline_left(struct deadline *d, int slice_ms) {
    uint64_t left = deadline_update(d), cap = DD_SUSPEND_GAP_MS / 2;
    if (slice_ms >= 0 && (uint64_t)slice_ms < cap)
        cap = (uint64_t)slice_ms;
    left = left > cap * NS_PER_MS ? cap : (left + NS_PER_MS - 1) / NS_PER_MS;
    return (int)left;
}

int deadline_over(struct deadline *d) {
    return deadline_update(d) == 0;
}
