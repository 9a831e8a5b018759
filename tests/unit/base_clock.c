/* SPDX-License-Identifier: Apache-2.0 */
/* base_clock.c - deadlines on a clock that the test sets. */
#include "unit.h"
#include <base/clock.h>
#include <base/defaults.h>

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t fake_ns; /* 0: the real clock */
int clock_gettime(clockid_t id, struct timespec *t) {
    if (!fake_ns)
        return (int)syscall(SYS_clock_gettime, id, t);
    t->tv_sec = (time_t)(fake_ns / 1000000000u);
    t->tv_nsec = (long)(fake_ns % 1000000000u);
    return 0;
}
static void pass_ms(uint64_t ms) {
    fake_ns += ms * 1000000u;
}
/* near the truth: libcheck measures with the same call */
static void before(void) {
    fake_ns = clock_ns();
}
static void after(void) {
    fake_ns = 0;
}

START_TEST(time_left_counts_down_to_zero_and_stays_there) {
    struct deadline d;
    deadline_start(&d, 25);
    ck_assert_int_eq(deadline_left(&d, 1000), 25);
    pass_ms(10);
    ck_assert_int_eq(deadline_left(&d, 1000), 15);
    ck_assert(!deadline_over(&d));
    pass_ms(15);
    ck_assert_int_eq(deadline_left(&d, 1000), 0);
    ck_assert(deadline_over(&d));
    pass_ms(1);
    ck_assert_int_eq(deadline_left(&d, 1000), 0);
}
END_TEST

START_TEST(what_is_left_of_a_millisecond_counts_as_one) {
    struct deadline d;
    deadline_start(&d, 2);
    fake_ns += 1999999;
    ck_assert_int_eq(deadline_left(&d, 1000), 1);
    ck_assert(!deadline_over(&d));
}
END_TEST

START_TEST(no_time_is_over_at_once) {
    struct deadline d;
    deadline_start(&d, 0);
    ck_assert(deadline_over(&d));
}
END_TEST

START_TEST(a_negative_time_is_the_default) {
    struct deadline d;
    deadline_start(&d, -1);
    for (int s = 0; s < DD_TIMEOUT_MS / 1000; s++) {
        ck_assert(!deadline_over(&d));
        pass_ms(1000);
    }
    ck_assert(deadline_over(&d));
}
END_TEST

START_TEST(a_slice_is_never_longer_than_asked_nor_than_half_a_suspend_gap) {
    struct deadline d;
    deadline_start(&d, 100000);
    ck_assert_int_eq(deadline_left(&d, 10), 10);
    ck_assert_int_eq(deadline_left(&d, 0), 0);
    ck_assert_int_eq(deadline_left(&d, 100000), DD_SUSPEND_GAP_MS / 2);
    ck_assert_int_eq(deadline_left(&d, -1), DD_SUSPEND_GAP_MS / 2);
}
END_TEST

START_TEST(the_time_of_a_suspension_is_given_back) {
    struct deadline d;
    deadline_start(&d, 3000);
    pass_ms(1000);
    ck_assert(!deadline_over(&d));
    pass_ms(600000);
    ck_assert(!deadline_over(&d));
    pass_ms(1999);
    ck_assert(!deadline_over(&d));
    pass_ms(1);
    ck_assert(deadline_over(&d));
}
END_TEST

START_TEST(a_gap_below_the_limit_is_not_given_back) {
    struct deadline d;
    deadline_start(&d, 1000);
    pass_ms(DD_SUSPEND_GAP_MS);
    ck_assert(deadline_over(&d));
}
END_TEST

START_TEST(a_deadline_that_was_over_before_the_suspension_stays_over) {
    struct deadline d;
    deadline_start(&d, 5);
    pass_ms(6);
    ck_assert(deadline_over(&d));
    pass_ms(10000);
    ck_assert(deadline_over(&d));
}
END_TEST

START_TEST(a_huge_time_does_not_overflow) {
    struct deadline d;
    deadline_start(&d, INT64_MAX);
    ck_assert_uint_eq(d.at_ns, UINT64_MAX);
    pass_ms(1);
    ck_assert(!deadline_over(&d));
    ck_assert_int_eq(deadline_left(&d, 7), 7);
}
END_TEST

START_TEST(the_real_clock_advances) {
    fake_ns = 0;
    uint64_t t = clock_ns();
    usleep(2000);
    ck_assert_uint_ge(clock_ns() - t, 2000000u);
}
END_TEST

UNIT_MAIN_WITH("base_clock", before, after, time_left_counts_down_to_zero_and_stays_there,
               what_is_left_of_a_millisecond_counts_as_one, no_time_is_over_at_once,
               a_negative_time_is_the_default,
               a_slice_is_never_longer_than_asked_nor_than_half_a_suspend_gap,
               the_time_of_a_suspension_is_given_back, a_gap_below_the_limit_is_not_given_back,
               a_deadline_that_was_over_before_the_suspension_stays_over,
               a_huge_time_does_not_overflow, the_real_clock_advances)
