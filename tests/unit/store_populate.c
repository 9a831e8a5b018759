/* SPDX-License-Identifier: Apache-2.0 */
/* store_populate.c - memory ahead of use: in steps, beside the writer, never more than the budget.
 * */
#include "store_test.h"
#include <base/page.h>
#include <store/budget.h>

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>

#define POPULATE_WRITE 23
#define HEAPS          8

static int fail_with; /* errno of a populating madvise */
static int fail_remove;
static struct {
    void *at;
    size_t len;
} huge[HEAPS]; /* where huge pages were asked for */
static unsigned huges;
int madvise(void *at, size_t len, int advice) {
    if (advice == MADV_HUGEPAGE) {
        ck_assert_uint_lt(huges, HEAPS);
        huge[huges].at = at;
        huge[huges++].len = len;
    }
    int e = advice == POPULATE_WRITE ? fail_with : advice == MADV_REMOVE ? fail_remove : 0;
    if (!e)
        return (int)syscall(SYS_madvise, at, len, advice);
    errno = e;
    return -1;
}

static void before(void) {
    fail_with = fail_remove = 0;
    huges = 0;
}
static void after(void) {
    box_close();
}

static uint64_t populate_all(void) {
    uint64_t all = 0;
    int steps = 0;
    for (int64_t n; (n = store_populate(box.s)) > 0 && steps < 10000; steps++) {
        ck_assert_int_le(n, (int64_t)DD_POPULATE_STEP);
        all += (uint64_t)n;
    }
    ck_assert_int_lt(steps, 10000);
    return all;
}

START_TEST(all_but_a_sixteenth_is_populated_in_steps) {
    box_open(128 * MIB);
    uint64_t before_it = box_memory(), n = populate_all();
    ck_assert_uint_eq(n, box.s->header->populated);
    ck_assert_uint_gt(n, 119 * MIB);
    ck_assert_uint_le(n, 120 * MIB);
    /* with its part of the page map */
    ck_assert_uint_eq(box_memory(),
                      before_it + n + round_up(n / ARENA_PAGE * sizeof(uint64_t), ARENA_PAGE));
    ck_assert_uint_le(budget_resident(box.s), 128 * MIB);
    ck_assert_int_eq(store_populate(box.s), 0);
}
END_TEST

START_TEST(kernels_without_populate_are_touched_page_by_page) {
    fail_with = EINVAL;
    box_open(32 * MIB);
    uint64_t before_it = box_memory(), n = populate_all();
    ck_assert_uint_gt(n, 29 * MIB);
    /* with its part of the page map */
    ck_assert_uint_eq(box_memory(),
                      before_it + n + round_up(n / ARENA_PAGE * sizeof(uint64_t), ARENA_PAGE));
}
END_TEST

START_TEST(without_memory_it_stops_and_puts_go_on) {
    box_open(32 * MIB);
    ck_assert_int_gt(store_populate(box.s), 0);
    fail_with = ENOMEM;
    uint64_t done = box.s->header->populated;
    ck_assert_int_eq(store_populate(box.s), 0);
    fail_with = 0;
    ck_assert_int_eq(store_populate(box.s), 0); /* for good: the kernel said no */
    ck_assert_uint_eq(box.s->header->populated, done);
    ck_assert_int_eq(put(1, 20 * MIB, 1), 0);
    ck_assert(seen(1, 20 * MIB, 1));
}
END_TEST

START_TEST(a_populated_arena_can_be_used_to_the_full) {
    box_open(32 * MIB);
    populate_all();
    uint64_t n = 0;
    while (put(n, 2000, n) == 0)
        n++;
    ck_assert_uint_gt(n * 2112, 30 * MIB);
    ck_assert_uint_le(box_memory(), 32 * MIB);
    for (uint64_t k = 0; k < n; k++)
        ck_assert(seen(k, 2000, k));
}
END_TEST

START_TEST(the_index_takes_populated_memory_when_the_budget_asks_for_it) {
    box_open(32 * MIB);
    populate_all();
    uint64_t n = 0;
    while (put(n, 0, n) == 0)
        n++;
    /* 48 bytes of heap and more than 16 of index a key: the index needs more than the sixteenth. */
    ck_assert_uint_gt(box.s->header->segments * DD_SEGMENT_SIZE, 4 * MIB);
    ck_assert_uint_le(box_memory(), 32 * MIB);
    ck_assert_uint_eq(keys_count(), n);
    ck_assert_uint_gt(n, 400000);
}
END_TEST

START_TEST(memory_that_cannot_be_given_back_is_not_spent_twice) {
    box_open(32 * MIB);
    populate_all();
    fail_remove = EOPNOTSUPP;
    uint64_t n = 0;
    while (put(n, 0, n) == 0)
        n++;
    ck_assert_uint_le(box_memory(), 32 * MIB);
    ck_assert_uint_eq(keys_count(), n);
}
END_TEST

START_TEST(what_lies_below_the_watermark_is_left_alone) {
    box_open(64 * MIB);
    ck_assert_int_eq(put(1, 20 * MIB, 1), 0);
    uint64_t top = box.s->header->heap_top * ARENA_PAGE;
    ck_assert_int_gt(store_populate(box.s), 0);
    ck_assert_uint_gt(box.s->header->populated, top);
    ck_assert(seen(1, 20 * MIB, 1));
}
END_TEST

static void huge_is(uint64_t budget, uint64_t huge_page, unsigned times) {
    struct store_options o = {
        .budget = budget, .manager_id = 3, .managers = 5, .huge_page = huge_page};
    huges = 0;
    box_open_at(arena_create(&o));
    ck_assert_uint_eq(huges, times);
    /* the manager's, which populates, and a reader's */
    const void *base[] = {box.s->header, box.view.header};
    for (unsigned i = 0; i < times; i++) {
        ck_assert_ptr_eq(huge[i].at, (const uint8_t *)base[i] + box.s->header->heap_off);
        ck_assert_uint_eq(huge[i].len, box.s->header->heap_len);
        ck_assert_uint_eq((uintptr_t)huge[i].at % ARENA_HUGE_PAGE, 0);
    }
    box_close();
}

START_TEST(huge_pages_are_asked_for_where_they_are_wanted_and_pay) {
    const unsigned times = page_size() == ARENA_PAGE ? 2 : 0;
    huge_is(DD_HUGE_ARENA, HUGE_ADVISE, times);
    huge_is(4 * DD_HUGE_ARENA, HUGE_ADVISE, times);
    huge_is(DD_HUGE_ARENA - ARENA_PAGE, HUGE_ADVISE, 0);
    huge_is(16 * MIB, HUGE_ADVISE, 0);
    huge_is(4 * DD_HUGE_ARENA, HUGE_NO, 0);
}
END_TEST

static int stop; /* atomic */
static void *populator(void *arg) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED) && store_populate(box.s) > 0) {
    }
    return NULL;
}

START_TEST(a_second_thread_populates_beside_the_writer) {
    for (int round = 0; round < 3; round++) {
        pthread_t t;
        uint64_t rng = (uint64_t)round, n = 0;
        if (box.s)
            box_close();
        box_open(64 * MIB);
        fail_with = round % 2 ? EINVAL : 0;
        __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
        ck_assert_int_eq(pthread_create(&t, NULL, populator, NULL), 0);
        for (; n < 8000; n++) {
            uint64_t k = unit_random(&rng) % 3000;
            int rc = n % 8 == 7 ? del(k) : put(k, unit_random(&rng) % 40000, k);
            if (rc && rc != DDICT_EFULL && rc != DDICT_ENOKEY)
                ck_abort_msg("code %d", rc);
        }
        __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
        pthread_join(t, NULL);
        ck_assert_uint_le(box_memory(), 64 * MIB);
        for (uint64_t k = 0; k < 3000; k++) {
            struct found f;
            if (look_slot(k, 0, &f))
                continue;
            if (!value_right(f.value, f.val_len, k))
                ck_abort_msg("key %llu", (unsigned long long)k);
            reader_release(&box.page->slot[0]);
        }
    }
}
END_TEST

/* The thread may be at a step and get no processor: who needs memory of free pages takes it where
 * that step is not, and does not wait. */
START_TEST(who_gives_memory_back_does_not_wait_for_a_step_under_way) {
    box_open(32 * MIB);
    uint64_t n = 0, holes = 0, first = UINT64_MAX;
    while (put(n, 100000, n) == 0)
        n++;
    for (uint64_t k = 0; k < n; k += 2)
        ck_assert_int_eq(del(k), 0);
    store_reclaim(box.s);
    for (uint64_t p = 0; first == UINT64_MAX; p++)
        if (PAGEMAP_KIND(box.s->heap.pagemap[p]) == PAGE_FREE)
            first = p;
    uint64_t end = first + 200; /* where such a step would be */
    pthread_mutex_lock(&box.s->populate.busy);
    figure_set(&box.s->populate.at, first * ARENA_PAGE);
    figure_set(&box.s->populate.to, end * ARENA_PAGE);
    /* in a row: above, with the memory of others */
    for (uint64_t k = 0; k < 4; k++)
        ck_assert_int_eq(put(n + k, 2 * MIB, k), 0);
    figure_set(&box.s->populate.to, 0);
    pthread_mutex_unlock(&box.s->populate.busy);
    for (uint64_t p = 0; p < box.s->header->heap_top; p++) {
        holes += box.s->heap.pagemap[p] == PAGEMAP_HOLE;
        if (p >= first && p < end)
            ck_assert_uint_ne(box.s->heap.pagemap[p], PAGEMAP_HOLE);
    }
    ck_assert_uint_gt(holes, 6 * MIB / ARENA_PAGE);
    for (uint64_t k = 0; k < 4; k++)
        ck_assert(seen(n + k, 2 * MIB, k));
    for (uint64_t k = 0; k < n; k++)
        ck_assert_int_eq(seen(k, 100000, k), k % 2);
    ck_assert_uint_le(box_memory(), 32 * MIB);
}
END_TEST

UNIT_MAIN_WITH("store_populate", before, after, all_but_a_sixteenth_is_populated_in_steps,
               kernels_without_populate_are_touched_page_by_page,
               without_memory_it_stops_and_puts_go_on, a_populated_arena_can_be_used_to_the_full,
               the_index_takes_populated_memory_when_the_budget_asks_for_it,
               memory_that_cannot_be_given_back_is_not_spent_twice,
               what_lies_below_the_watermark_is_left_alone,
               huge_pages_are_asked_for_where_they_are_wanted_and_pay,
               a_second_thread_populates_beside_the_writer,
               who_gives_memory_back_does_not_wait_for_a_step_under_way)
