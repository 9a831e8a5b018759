/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spin.h - may this process wait on its core for a moment, instead of asleep? Only if it has more
 * than one core, and only while no other process wants them. The scheduler sets back a process that
 * spins beside others that compute, on newer kernels by a whole time slice at each yield; the event
 * that it waits for then finds it away for milliseconds. So each turn is timed. A turn that took
 * longer than a turn can take means that the core was given to another process; spinning then stops
 * for DD_SPIN_REST times as long.
 *
 * Cores are counted by affinity (taskset, a cgroup's cpuset), which may change at any time. A quota
 * (cpu.max, cfs_quota_us) is not read: a process that has used up its quota is away for
 * milliseconds, which shows as a turn that took too long.
 */
#ifndef DDICT_BASE_SPIN_H
#define DDICT_BASE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * That this thread may use. The first looks again when a turn took too long, and where one core is
 * all there was: a look at the clock then, which nobody notices who goes to sleep. The second, for
 * who has just read the clock, whenever DD_SPIN_LOOK_NS have passed. Else both cost a few
 * instructions.
 */
int spin_cores(void);
int spin_cores_at(uint64_t now_ns);

extern uint64_t spin_rest_end; /* of the process; of spin.c */
/* Relaxed: a hint that one thread gives to the others. */
static inline bool spin_pays(uint64_t now_ns) {
    return now_ns >= __atomic_load_n(&spin_rest_end, __ATOMIC_RELAXED);
}

static inline void spin_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

/* Offer the core to who needs it more (on few cores who is to answer). now_ns: just read. Returns
 * the time after it. */
uint64_t spin_yield(uint64_t now_ns);
void spin_timed(uint64_t from_ns, uint64_t to_ns); /* its second half: a turn took so long */

#endif
