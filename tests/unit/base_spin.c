/* SPDX-License-Identifier: Apache-2.0 */
/* base_spin.c - when spinning does not pay, on a clock, a scheduler and a number of cores that the
 * test sets. */
#include "unit.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/spin.h>

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t fake_ns; /* 0: the real clock */
static uint64_t yield_takes;
static int fake_cores = 2, looks;

int clock_gettime(clockid_t id, struct timespec *t) {
    if (!fake_ns)
        return (int)syscall(SYS_clock_gettime, id, t);
    t->tv_sec = (time_t)(fake_ns / 1000000000u);
    t->tv_nsec = (long)(fake_ns % 1000000000u);
    return 0;
}
int sched_yield(void) {
    fake_ns += yield_takes;
    return 0;
}
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
    looks++;
    CPU_ZERO_S(size, set);
    for (int i = 0; i < fake_cores; i++)
        CPU_SET_S((size_t)i, size, set);
    return 0;
}

/* near the truth: libcheck measures with the same call */
static void before(void) {
    fake_ns = clock_ns();
}
static void after(void) {
    fake_ns = 0;
}

static void yields(uint64_t takes) {
    yield_takes = takes;
    uint64_t from = fake_ns;
    ck_assert_uint_eq(spin_yield(from), from + takes);
}
static uint64_t rest_left(void) {
    return spin_pays(fake_ns) ? 0 : spin_rest_end - fake_ns;
}

START_TEST(short_turns_go_on) {
    ck_assert(spin_pays(fake_ns));
    for (int i = 0; i < 1000; i++)
        yields(DD_SPIN_LOST_NS - 1);
    ck_assert(spin_pays(fake_ns));
    spin_timed(fake_ns, fake_ns - 1000000000u); /* the clock of another core, a little behind */
    ck_assert(spin_pays(fake_ns));
}
END_TEST

START_TEST(a_lost_core_stops_the_spinning_for_a_multiple_of_what_was_lost) {
    for (uint64_t lost = DD_SPIN_LOST_NS; lost < 10000000000u; lost *= 3) {
        uint64_t want =
            lost * DD_SPIN_REST < DD_SPIN_REST_MAX_NS ? lost * DD_SPIN_REST : DD_SPIN_REST_MAX_NS;
        yields(lost);
        ck_assert_uint_eq(rest_left(), want);
        fake_ns += want - 1;
        ck_assert(!spin_pays(fake_ns));
        fake_ns += 1;
        ck_assert(spin_pays(fake_ns));
    }
}
END_TEST

START_TEST(a_short_loss_does_not_end_a_long_rest) {
    yields(20000000);
    uint64_t end = spin_rest_end;
    yields(DD_SPIN_LOST_NS);
    ck_assert_uint_eq(spin_rest_end, end);
}
END_TEST

START_TEST(what_several_threads_find_out_counts_once) {
    yields(3000000);
    uint64_t end = spin_rest_end;
    for (int i = 0; i < 10; i++)
        spin_timed(fake_ns - 3000000, fake_ns);
    ck_assert_uint_eq(spin_rest_end, end);
}
END_TEST

START_TEST(cores_that_were_taken_away_are_noticed) {
    ck_assert_int_eq(spin_cores(), 2);
    fake_cores = 1;
    ck_assert_int_eq(spin_cores(), 2);
    yields(3000000);
    ck_assert_int_eq(spin_cores(), 1);
}
END_TEST

START_TEST(cores_are_looked_at_now_and_then) {
    looks = 0;
    ck_assert_int_eq(spin_cores_at(fake_ns), 2);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(spin_cores_at(fake_ns + DD_SPIN_LOOK_NS / 1000 * (uint64_t)i), 2);
    ck_assert_int_eq(looks, 1);
    fake_cores = 1;
    fake_ns += DD_SPIN_LOOK_NS - 1;
    ck_assert_int_eq(spin_cores_at(fake_ns), 2);
    ck_assert_int_eq(spin_cores_at(++fake_ns), 1);
    ck_assert_int_eq(looks, 2);
    fake_cores = 3;
    /* given back: noticed without a turn, as there is none */
    ck_assert_int_eq(spin_cores(), 1);
    fake_ns += DD_SPIN_LOOK_NS;
    ck_assert_int_eq(spin_cores(), 3);
    fake_cores = 1;
    fake_ns += 10 * (uint64_t)DD_SPIN_LOOK_NS;
    /* who spins, and has not looked at the clock, learns it by a turn */
    ck_assert_int_eq(spin_cores(), 3);
    ck_assert_int_eq(looks, 3);
}
END_TEST

UNIT_MAIN_WITH("base_spin", before, after, short_turns_go_on,
               a_lost_core_stops_the_spinning_for_a_multiple_of_what_was_lost,
               a_short_loss_does_not_end_a_long_rest, what_several_threads_find_out_counts_once,
               cores_that_were_taken_away_are_noticed, cores_are_looked_at_now_and_then)
