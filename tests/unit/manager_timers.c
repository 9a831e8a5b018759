/* SPDX-License-Identifier: Apache-2.0 */
/* manager_timers.c - the heap of deadlines against a plain list. */
#include <manager/timers.h>

#include "unit.h"

#define N 500
static struct timers ts;
static struct timer t[N];
static unsigned fired[N], order;
static uint64_t last_at;

static void fire(struct timer *x) {
    ck_assert_uint_eq(x->pos, 0);
    ck_assert_uint_ge(x->at_ns, last_at);
    last_at = x->at_ns;
    fired[x - t]++;
    order++;
}

static void before(void) {
    for (int i = 0; i < N; i++) t[i] = (struct timer){.fire = fire};
}
static void after(void) { timers_free(&ts); }

START_TEST(they_fire_in_order_and_once) {
    uint64_t seed = 1;
    for (int i = 0; i < N; i++) ck_assert_int_eq(timer_set(&ts, &t[i], unit_random(&seed) % 1000), 0);
    for (int i = 0; i < N; i += 3) ck_assert_int_eq(timer_set(&ts, &t[i], unit_random(&seed) % 1000), 0); /* moved */
    for (int i = 0; i < N; i += 5) timer_clear(&ts, &t[i]);
    for (int i = 0; i < N; i += 10) timer_clear(&ts, &t[i]); /* again: nothing */
    for (uint64_t now = 0; now < 1000; now += 7) {
        last_at = 0;
        timers_run(&ts, now);
        for (int i = 0; i < N; i++) ck_assert(i % 5 == 0 ? fired[i] == 0 && t[i].pos == 0 : fired[i] == (t[i].at_ns <= now));
        uint64_t next = UINT64_MAX;
        for (int i = 0; i < N; i++)
            if (t[i].pos && t[i].at_ns < next) next = t[i].at_ns;
        ck_assert_uint_eq(timers_next(&ts), next);
    }
    last_at = 0;
    timers_run(&ts, 1000);
    ck_assert_uint_eq(order, N - N / 5);
    ck_assert_uint_eq(timers_next(&ts), UINT64_MAX);
    ck_assert_int_eq(timers_wait_ms(&ts, 0), -1);
}
END_TEST

static void fire_again(struct timer *x) {
    order++;
    timer_set(&ts, x, 5);
}

START_TEST(one_that_arms_itself_for_the_past_does_not_hold_up_the_turn) {
    t[0].fire = fire_again;
    timer_set(&ts, &t[0], 1);
    timer_set(&ts, &t[1], 2);
    timers_run(&ts, 10);
    ck_assert_uint_eq(fired[1], 1);
    ck_assert_uint_le(order, 3);
    ck_assert_uint_ne(t[0].pos, 0);
}
END_TEST

START_TEST(a_wait_is_rounded_up_and_a_shift_moves_all) {
    timer_set(&ts, &t[0], 1500000);
    timer_set(&ts, &t[1], 9000000);
    ck_assert_int_eq(timers_wait_ms(&ts, 0), 2);
    ck_assert_int_eq(timers_wait_ms(&ts, 500000), 1);
    ck_assert_int_eq(timers_wait_ms(&ts, 1500000), 0);
    timers_shift(&ts, 1000000000);
    ck_assert_int_eq(timers_wait_ms(&ts, 0), 1002);
    timers_run(&ts, 1000000000);
    ck_assert_uint_eq(order, 0);
    timers_run(&ts, 1009000000);
    ck_assert_uint_eq(order, 2);
}
END_TEST

UNIT_MAIN_WITH("manager_timers", before, after, they_fire_in_order_and_once, one_that_arms_itself_for_the_past_does_not_hold_up_the_turn,
               a_wait_is_rounded_up_and_a_shift_moves_all)
