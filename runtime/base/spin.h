/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spin.h - may this process wait for something on its core for a moment, instead of asleep? Only with more than one core, and only as long as
 * nobody else wants them: whoever spins beside others that compute is set back by the scheduler, on newer kernels by a whole time slice each time it
 * yields, and what it waits for then finds it away for milliseconds. So each turn is timed. One that took longer than a turn can take means that the
 * core was given to somebody else; spinning then stops for DD_SPIN_REST times as long.
 */
#ifndef DDICT_BASE_SPIN_H
#define DDICT_BASE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

int spin_cores(void); /* that this process may use, when it was last looked at */

extern uint64_t spin_rest_end; /* of the process; of spin.c */
/* Relaxed: a hint that one thread gives to the others. */
static inline bool spin_pays(uint64_t now_ns) { return now_ns >= __atomic_load_n(&spin_rest_end, __ATOMIC_RELAXED); }

static inline void spin_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

/* Offer the core to who needs it more (on few cores who is to answer). now_ns: just read. Returns the time after it. */
uint64_t spin_yield(uint64_t now_ns);
void spin_timed(uint64_t from_ns, uint64_t to_ns); /* its second half: a turn took so long */

#endif
