/* SPDX-License-Identifier: Apache-2.0 */
/* base_vec.c - an array grows by doubling, and loses nothing where there is no memory. */
#include "unit.h"
#include <base/vec.h>

#include <stdbool.h>

/* Of all objects of this test (-Wl,--wrap=realloc). */
static bool memory_ends;
static unsigned calls;
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size) {
    calls++;
    return memory_ends ? NULL : __real_realloc(old, size);
}

struct pair {
    uint64_t a, b;
};

static int room_call(struct pair **p, size_t *cap, size_t want, size_t first) {
    return VEC_ROOM(p, cap, want, first);
}
/* Not inline: of a NULL that it knows the compiler makes malloc(). */
static int (*volatile room)(struct pair **p, size_t *cap, size_t want, size_t first) = room_call;

static int room_without_memory(struct pair **p, size_t *cap, size_t want) {
    memory_ends = true;
    int rc = room(p, cap, want, 4);
    memory_ends = false;
    return rc;
}

START_TEST(it_grows_by_doubling) {
    struct pair *p = NULL;
    size_t cap = 0;
    calls = 0;
    for (size_t n = 0; n < 10000; n++) {
        ck_assert_int_eq(room(&p, &cap, n + 1, 16), 0);
        ck_assert_uint_gt(cap, n);
        p[n] = (struct pair){n, ~n};
    }
    ck_assert_uint_eq(cap, 16384);
    ck_assert_uint_eq(calls, 11);
    for (size_t n = 0; n < 10000; n++)
        ck_assert(p[n].a == n && p[n].b == ~n);
    ck_assert_int_eq(room(&p, &cap, 100000, 16), 0); /* many at once */
    ck_assert_uint_eq(cap, 131072);
    ck_assert(p[9999].a == 9999);
    ck_assert_int_eq(room(&p, &cap, 0, 16), 0);
    ck_assert_uint_eq(calls, 12);
    free(p);
}
END_TEST

START_TEST(without_memory_all_is_as_it_was) {
    struct pair *p = NULL, *was;
    size_t cap = 0;
    ck_assert_int_eq(room_without_memory(&p, &cap, 1), -ENOMEM);
    ck_assert(!p && cap == 0);
    ck_assert_int_eq(room(&p, &cap, 4, 4), 0);
    for (uint64_t n = 0; n < 4; n++)
        p[n].a = n;
    was = p;
    ck_assert_int_eq(room_without_memory(&p, &cap, 5), -ENOMEM);
    ck_assert_int_eq(room_without_memory(&p, &cap, 4), 0); /* there is room */
    ck_assert(p == was && cap == 4 && p[3].a == 3);
    ck_assert_int_eq(room(&p, &cap, 5, 4), 0);
    ck_assert(cap == 8 && p[3].a == 3);
    free(p);
}
END_TEST

START_TEST(more_bytes_than_a_size_can_say_are_refused) {
    struct pair *p = NULL;
    size_t cap = 0;
    calls = 0;
    ck_assert_int_eq(room(&p, &cap, SIZE_MAX / sizeof *p + 1, 16), -ENOMEM);
    ck_assert_int_eq(room(&p, &cap, SIZE_MAX, 16), -ENOMEM);
    ck_assert_int_eq(room(&p, &cap, SIZE_MAX, SIZE_MAX), -ENOMEM);
    ck_assert_uint_eq(calls, 0);
    ck_assert(!p && cap == 0);
}
END_TEST

UNIT_MAIN("base_vec", it_grows_by_doubling, without_memory_all_is_as_it_was,
          more_bytes_than_a_size_can_say_are_refused)
