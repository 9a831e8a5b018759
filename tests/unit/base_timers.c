/* SPDX-License-Identifier: Apache-2.0 */
/* base_timers.c - the heap of deadlines against a plain list, on a clock that the test sets. */
#include "unit.h"
#include <base/timers.h>

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define N  500
#define MS 1000000ull
static struct timers ts;
static struct timer t[N];
static unsigned fired[N], order;
static uint64_t last_at;

static uint64_t fake_ns; /* 0: the real clock */
int clock_gettime(clockid_t id, struct timespec *at) {
    if (!fake_ns)
        return (int)syscall(SYS_clock_gettime, id, at);
    at->tv_sec = (time_t)(fake_ns / 1000000000u);
    at->tv_nsec = (long)(fake_ns % 1000000000u);
    return 0;
}

static void fire(struct timer *x) {
    ck_assert_uint_eq(x->pos, 0);
    ck_assert_uint_ge(x->at_ns, last_at);
    last_at = x->at_ns;
    fired[x - t]++;
    order++;
}

static void before(void) {
    struct timespec now;
    /* near the truth: libcheck measures with the same call */
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    fake_ns = (uint64_t)now.tv_sec * 1000000000u;
    timers_now(&ts);
    for (int i = 0; i < N; i++)
        t[i] = (struct timer){.fire = fire};
}
static void after(void) {
    timers_free(&ts);
    fake_ns = 0;
}

START_TEST(they_fire_in_order_and_once) {
    uint64_t seed = 1, start = timers_now(&ts);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(timer_after(&ts, &t[i], unit_random(&seed) % 1000), 0);
    /* moved */
    for (int i = 0; i < N; i += 3)
        ck_assert_int_eq(timer_after(&ts, &t[i], unit_random(&seed) % 1000), 0);
    for (int i = 0; i < N; i += 5)
        timer_clear(&ts, &t[i]);
    for (int i = 0; i < N; i += 10)
        timer_clear(&ts, &t[i]); /* again: nothing */
    for (uint64_t now = start; now < start + 1000; now += 7) {
        last_at = 0;
        timers_run(&ts, now);
        for (int i = 0; i < N; i++)
            ck_assert(i % 5 == 0 ? fired[i] == 0 && t[i].pos == 0
                                 : fired[i] == (t[i].at_ns <= now));
        uint64_t next = UINT64_MAX;
        for (int i = 0; i < N; i++)
            if (t[i].pos && t[i].at_ns < next)
                next = t[i].at_ns;
        ck_assert_uint_eq(timers_next(&ts), next);
    }
    last_at = 0;
    timers_run(&ts, start + 1000);
    ck_assert_uint_eq(order, N - N / 5);
    ck_assert_uint_eq(timers_next(&ts), UINT64_MAX);
    ck_assert_int_eq(timers_wait_ms(&ts), -1);
}
END_TEST

static void fire_again(struct timer *x) {
    order++;
    timer_after(&ts, x, 0);
}

START_TEST(one_that_arms_itself_for_now_does_not_hold_up_the_turn) {
    t[0].fire = fire_again;
    timer_after(&ts, &t[0], 1);
    timer_after(&ts, &t[1], 2);
    fake_ns += 10;
    timers_run(&ts, timers_now(&ts));
    ck_assert_uint_eq(fired[1], 1);
    ck_assert_uint_le(order, 3);
    ck_assert_uint_ne(t[0].pos, 0);
}
END_TEST

START_TEST(a_wait_is_rounded_up_and_bounded) {
    ck_assert_int_eq(timers_wait_ms(&ts), -1);
    timer_after(&ts, &t[0], 1500000);
    timer_after(&ts, &t[1], 3600000 * MS);
    timer_after(&ts, &t[2], UINT64_MAX);
    ck_assert_int_eq(timers_wait_ms(&ts), 2);
    fake_ns += 500000;
    ck_assert_int_eq(timers_wait_ms(&ts), 1);
    fake_ns += 1000000;
    ck_assert_int_eq(timers_wait_ms(&ts), 0);
    timers_run(&ts, timers_now(&ts));
    ck_assert_uint_eq(order, 1);
    ck_assert_int_eq(timers_wait_ms(&ts), DD_SUSPEND_GAP_MS / 2);
}
END_TEST

/* Sleep as the loop does, as if nothing came. */
static void sleep_once(void) {
    int ms = timers_wait_ms(&ts);
    fake_ns += (uint64_t)ms * MS;
    timers_run(&ts, timers_now(&ts));
}

START_TEST(a_timer_without_suspension_is_as_late_as_it_was_asked_for) {
    uint64_t start = fake_ns;
    timer_after(&ts, &t[0], 34567 * MS);
    while (order == 0)
        sleep_once();
    ck_assert_uint_eq(fake_ns - start, 34567 * MS);
}
END_TEST

START_TEST(no_timer_is_late_because_we_were_stopped) {
    /* Whatever was left of the timer, and however much of the sleep was over: the time of the
     * suspension does not count. */
    for (uint64_t left = 300; left < 9000; left += 300) {
        for (uint64_t slept = 0; slept < left && slept < DD_SUSPEND_GAP_MS / 2; slept += 100) {
            order = 0;
            timer_after(&ts, &t[0], left * MS);
            timers_wait_ms(&ts);
            fake_ns += (slept + DD_SUSPEND_GAP_MS + 1) * MS;
            timers_run(&ts, timers_now(&ts));
            ck_assert_uint_eq(order, 0);
            uint64_t resumed = fake_ns;
            while (order == 0)
                sleep_once();
            ck_assert_uint_ge(fake_ns - resumed, (left - slept) * MS);
            ck_assert_uint_le(fake_ns - resumed, left * MS);
        }
    }
}
END_TEST

START_TEST(what_is_armed_after_a_suspension_is_not_late_by_it) {
    /* The order to end comes with the order to go on: the handler arms its timer before the loop
     * has looked at the clock. */
    timer_after(&ts, &t[0], 10000 * MS);
    timers_wait_ms(&ts);
    fake_ns += 600000 * MS;
    timer_after(&ts, &t[1], 500 * MS);
    timers_run(&ts, timers_now(&ts));
    ck_assert_uint_eq(order, 0);
    fake_ns += 500 * MS;
    timers_run(&ts, timers_now(&ts));
    ck_assert_uint_eq(fired[1], 1);
    ck_assert_uint_eq(fired[0], 0);
}
END_TEST

START_TEST(a_time_kept_from_before_does_not_turn_the_clock_back) {
    uint64_t kept = fake_ns;
    fake_ns += 700 * MS;
    uint64_t now = timers_now(&ts);
    ck_assert_uint_eq(timers_look(&ts, kept), now);
    ck_assert_uint_eq(timers_look(&ts, fake_ns), now);
}
END_TEST

UNIT_MAIN_WITH("manager_timers", before, after, they_fire_in_order_and_once,
               one_that_arms_itself_for_now_does_not_hold_up_the_turn,
               a_wait_is_rounded_up_and_bounded,
               a_timer_without_suspension_is_as_late_as_it_was_asked_for,
               no_timer_is_late_because_we_were_stopped,
               what_is_armed_after_a_suspension_is_not_late_by_it,
               a_time_kept_from_before_does_not_turn_the_clock_back)
