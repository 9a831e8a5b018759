/* SPDX-License-Identifier: Apache-2.0 */
/* spin.c - when spinning does not pay. */
#include "spin.h"

#include "clock.h"
#include "defaults.h"

#include <sched.h>
#include <unistd.h>

uint64_t spin_rest_end; /* 0: nothing was lost yet */
static int cores;       /* 0: not looked at yet */
static uint64_t looked; /* when */

static int cores_look(uint64_t now_ns) {
    cpu_set_t set;
    CPU_ZERO(&set);
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                        : (int)sysconf(_SC_NPROCESSORS_ONLN);
    n = n > 0 ? n : 1;
    /* relaxed, as all here: numbers of which an old one does no harm */
    __atomic_store_n(&cores, n, __ATOMIC_RELAXED);
    __atomic_store_n(&looked, now_ns, __ATOMIC_RELAXED);
    return n;
}

int spin_cores_at(uint64_t now_ns) {
    int n = __atomic_load_n(&cores, __ATOMIC_RELAXED);
    return n > 0 && now_ns < __atomic_load_n(&looked, __ATOMIC_RELAXED) + DD_SPIN_LOOK_NS
               ? n
               : cores_look(now_ns);
}

int spin_cores(void) {
    int n = __atomic_load_n(&cores, __ATOMIC_RELAXED);
    return n > 1 ? n : spin_cores_at(clock_ns());
}

void spin_timed(uint64_t from_ns, uint64_t to_ns) {
    if (to_ns < from_ns || to_ns - from_ns < DD_SPIN_LOST_NS)
        return;
    uint64_t lost = to_ns - from_ns, r = lost < DD_SPIN_REST_MAX_NS / DD_SPIN_REST
                                             ? lost * DD_SPIN_REST
                                             : DD_SPIN_REST_MAX_NS;
    if (to_ns + r > __atomic_load_n(&spin_rest_end, __ATOMIC_RELAXED))
        __atomic_store_n(&spin_rest_end, to_ns + r, __ATOMIC_RELAXED);
    cores_look(to_ns); /* they may have been taken from us since */
}

uint64_t spin_yield(uint64_t now_ns) {
    sched_yield();
    uint64_t after = clock_ns();
    spin_timed(now_ns, after);
    return after;
}
