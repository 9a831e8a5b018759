/* SPDX-License-Identifier: Apache-2.0 */
/* store_table.c - the private hash table against an array. */
#include "unit.h"
#include <store/table.h>

#include <string.h>

#define KEYS 600u

/* A large one moves its keys a few at a time: some are in the one, some in the other, and any may
 * go. */
START_TEST(a_large_one_that_grows_has_all_its_keys) {
    struct table t = {0};
    enum { MANY = 200000 };
    static uint32_t model[MANY];
    uint64_t rng = 7;
    size_t n = 0, both = 0;
    for (uint32_t k = 0; k < MANY; k++) {
        uint32_t *v = table_add(&t, (uint64_t)(k + 1) << 4);
        ck_assert_ptr_nonnull(v);
        ck_assert_uint_eq(*v, 0);
        *v = model[k] = k + 1;
        n++;
        uint32_t other = (uint32_t)(unit_random(&rng) % (k + 1));
        uint64_t key = (uint64_t)(other + 1) << 4;
        both += t.old.cap != 0;
        if (k % 3 == 0) {
            table_remove(&t, key);
            n -= model[other] != 0;
            model[other] = 0;
        } else {
            v = table_find(&t, key);
            ck_assert_uint_eq(v ? *v : 0, model[other]);
        }
        ck_assert_uint_eq(t.used, n);
    }
    ck_assert_uint_gt(both, MANY / 10);
    for (uint32_t k = 0; k < MANY; k++) {
        uint32_t *v = table_find(&t, (uint64_t)(k + 1) << 4);
        ck_assert_uint_eq(v ? *v : 0, model[k]);
    }
    table_free(&t);
}
END_TEST

START_TEST(it_agrees_with_an_array_through_random_changes) {
    struct table t = {0};
    uint32_t model[KEYS] = {0}; /* 0: absent */
    uint64_t rng = 1;
    size_t n = 0;
    for (uint32_t step = 1; step <= 200000; step++) {
        /* Keys that differ in low and in high bits. */
        uint32_t k = (uint32_t)(unit_random(&rng) % KEYS);
        uint64_t key = (uint64_t)(k + 1) << (k % 3 * 20);
        if (unit_random(&rng) % (step / 20000 % 2 ? 3 : 2)) {
            uint32_t *v = table_add(&t, key);
            ck_assert_ptr_nonnull(v);
            ck_assert_uint_eq(*v, model[k]);
            n += !model[k];
            *v = model[k] = step;
        } else {
            table_remove(&t, key);
            n -= !!model[k];
            model[k] = 0;
        }
        ck_assert_uint_eq(t.used, n);
        if (step % 997)
            continue;
        for (uint32_t i = 0; i < KEYS; i++) {
            uint32_t *v = table_find(&t, (uint64_t)(i + 1) << (i % 3 * 20));
            ck_assert_uint_eq(v ? *v : 0, model[i]);
        }
    }
    table_free(&t);
}
END_TEST

START_TEST(clear_forgets_all_and_shrinks_what_was_hardly_used) {
    struct table t = {0};
    for (uint64_t k = 1; k <= 10000; k++)
        *table_add(&t, k) = 1;
    size_t large = t.cap;
    table_clear(&t);
    ck_assert_uint_eq(t.cap, large);
    ck_assert_uint_eq(t.used, 0);
    ck_assert_ptr_null(table_find(&t, 5));
    table_add(&t, 5);
    table_clear(&t);
    ck_assert_uint_lt(t.cap, large);
    ck_assert_ptr_null(table_find(&t, 5));
    table_remove(&t, 5);
    table_free(&t);
}
END_TEST

UNIT_MAIN("store_table", a_large_one_that_grows_has_all_its_keys,
          it_agrees_with_an_array_through_random_changes,
          clear_forgets_all_and_shrinks_what_was_hardly_used)
