/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_pool.c - an arena of huge pages of a pool (LAYOUT 10): all of it is reserved or none is
 * made, the index grows into the heap's pages, and nothing that is taken later can be missing. As
 * root the test adds pages to the pool and takes them out again; skipped where there are none.
 */
#include "store_test.h"
#include <store/hugepool.h>
#include <store/pool.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#define PAGE   ARENA_HUGE_PAGE
#define PAGES  16u
#define BUDGET (PAGES * PAGE)
#define ADD    40 /* pages that the test needs */

static struct hugepool pool(void) {
    struct hugepool p;
    ck_assert_int_eq(hugepool_look(PAGE, &p), 0);
    return p;
}

static int arena(uint64_t budget) {
    struct store_options o = {.budget = budget, .manager_id = 3, .managers = 5, .huge_page = PAGE};
    return arena_create(&o);
}

static uint64_t before_it;
static void before(void) {
    before_it = pool().available;
    box_open_at(arena(BUDGET));
}
static void after(void) {
    box_close();
    ck_assert_uint_eq(pool().available, before_it);
}
static uint64_t index_pages(void) {
    uint64_t n = 0;
    for (uint64_t at = 0; at < box.s->header->heap_off; at += PAGE)
        n += pool_owned(box.s->header, at);
    return n;
}
static void divided(void) {
    const struct arena_header *h = box.s->header;
    ck_assert_uint_eq(h->heap_limit / PAGE + index_pages(), PAGES);
    ck_assert_uint_le(h->heap_top * ARENA_PAGE, h->heap_limit);
    ck_assert_uint_le(h->used_bytes, h->budget);
    /* neither more nor less than was reserved */
    ck_assert_uint_eq(pool().available, before_it - PAGES);
}

START_TEST(all_pages_are_reserved_and_values_lie_in_them) {
    uint64_t n = 0;
    divided();
    ck_assert_uint_eq(stats().page_bytes, PAGE);
    ck_assert_uint_eq(stats().huge_bytes, index_pages() * PAGE);
    while (put(n, 20000, n) == 0)
        n++;
    ck_assert_uint_gt(n * 20000, BUDGET * 7 / 10);
    for (uint64_t k = 0; k < n; k++)
        ck_assert_int_eq(seen(k, 20000, k), 1);
    divided();
    ck_assert_uint_eq(stats().huge_bytes, BUDGET);
    ck_assert_uint_eq(stats().total_bytes, BUDGET);
}
END_TEST

START_TEST(with_too_few_pages_nothing_is_made_and_both_figures_are_said) {
    struct hugepool was = pool();
    char want[64], have[64];
    ck_assert_int_eq(arena((was.available + 1) * PAGE), DDICT_EFULL);
    snprintf(want, sizeof want, "%llu huge pages of 2.0 MiB",
             (unsigned long long)was.available + 1);
    snprintf(have, sizeof have, "%llu of the pool's %llu are free",
             (unsigned long long)was.available, (unsigned long long)was.pages);
    ck_assert_msg(strstr(dd_errmsg(), want) && strstr(dd_errmsg(), have) &&
                      strstr(dd_errmsg(), "vm.nr_hugepages"),
                  "%s", dd_errmsg());
    ck_assert_uint_eq(pool().available, was.available);
    ck_assert_int_eq(hugepool_fit(PAGE, was.available, "x"), 0);
    ck_assert_int_eq(hugepool_fit(PAGE, was.available + 1, "2 managers on node n1"), DDICT_EFULL);
    ck_assert_ptr_eq(strstr(dd_errmsg(), "2 managers on node n1: "), dd_errmsg());
    ck_assert_int_eq(hugepool_fit(32 * PAGE + PAGE, 1, "x"), -ENOENT);
    ck_assert_msg(strstr(dd_errmsg(), "2.0 MiB"), "%s", dd_errmsg());
}
END_TEST

START_TEST(the_index_grows_into_pages_of_the_heap) {
    uint64_t n = 0, first = index_pages();
    while (put(n, 8, n) == 0)
        n++;
    ck_assert_uint_gt(index_pages(), first);
    divided();
    for (uint64_t k = 0; k < n; k += 7)
        ck_assert_int_eq(seen(k, 8, k), 1);
    ck_assert_uint_gt(n, 300000);
}
END_TEST

START_TEST(the_index_grows_when_large_values_had_all_memory) {
    uint64_t n = 0, m = 0, first = index_pages();
    while (put(n, 100000, n) == 0)
        n++;
    for (uint64_t k = 0; k < n; k++)
        del(k);
    while (m < 250000 && put(m, 8, m) == 0)
        m++;
    ck_assert_uint_eq(m, 250000);
    ck_assert_uint_gt(index_pages(), first);
    divided();
    for (uint64_t k = 0; k < m; k += 7)
        ck_assert_int_eq(seen(k, 8, k), 1);
}
END_TEST

START_TEST(what_is_reserved_is_there_when_others_have_all_the_rest) {
    uint64_t n = 0, m = 0;
    int other = arena(pool().available * PAGE);
    ck_assert_int_ge(other, 0);
    ck_assert_uint_eq(pool().available, 0);
    while (m < 150000 && put(m, 8, m) == 0)
        m++; /* the index needs pages of its own */
    while (put(1000000 + n, 50000, n) == 0)
        n++;
    ck_assert_uint_ge(index_pages(), 2);
    ck_assert_uint_gt(n, 100);
    for (uint64_t k = 0; k < n; k++)
        ck_assert_int_eq(seen(1000000 + k, 50000, k), 1);
    for (uint64_t k = 0; k < m; k += 7)
        ck_assert_int_eq(seen(k, 8, k), 1);
    ck_assert_uint_eq(box.s->header->heap_limit / PAGE + index_pages(), PAGES);
    close(other);
}
END_TEST

START_TEST(all_is_populated_ahead_and_given_up_again_for_the_index) {
    uint64_t n = 0, done = 0;
    for (int64_t step; (step = store_populate(box.s)) > 0;)
        done += (uint64_t)step;
    ck_assert_uint_eq(done, box.s->header->heap_limit);
    ck_assert_uint_eq(stats().huge_bytes, BUDGET);
    divided();
    while (n < 200000 && put(n, 8, n) == 0)
        n++;
    ck_assert_uint_eq(n, 200000);
    ck_assert_uint_ge(index_pages(), 2);
    divided();
    ck_assert_int_eq(store_populate(box.s), 0);
    while (put(n, 30000, n) == 0)
        n++;
    divided();
    for (uint64_t k = 0; k < n; k += 11)
        ck_assert_int_eq(seen(k, k < 200000 ? 8 : 30000, k), 1);
}
END_TEST

START_TEST(another_manager_finds_all_and_goes_on) {
    uint64_t n = 0;
    for (; n < 150000; n++)
        ck_assert_int_eq(put(n, 8, n), 0);
    for (; n < 150200; n++)
        ck_assert_int_eq(put(n, 20000, n), 0);
    box_reopen();
    divided();
    for (uint64_t k = 0; k < n; k++)
        ck_assert_int_eq(seen(k, k < 150000 ? 8 : 20000, k), 1);
    while (put(n, 20000, n) == 0)
        n++;
    divided();
    for (uint64_t k = 150000; k < n; k++)
        ck_assert_int_eq(seen(k, 20000, k), 1);
    ck_assert_int_eq(store_clear(box.s), 0);
    while (store_work(box.s)) {
    }
    box_reopen();
    for (uint64_t k = 0; k < 150000; k++)
        ck_assert_int_eq(put(k, 20, k), 0);
    divided();
}
END_TEST

/* LAYOUT 13: values move in the pool's pages; nothing is given back, and none is missing. */
START_TEST(what_was_freed_is_of_use_to_other_sizes) {
    static const uint64_t was[] = {1000, 60000, 1000}, then[] = {60000, 1000000, 1000000};
    for (unsigned r = 0; r < 3; r++) {
        uint64_t n = 0, k = 0;
        while (put(n, was[r], n) == 0)
            n++;
        store_reclaim(box.s);
        uint64_t used = box.s->header->used_bytes;
        for (uint64_t i = 0; i < n; i++)
            if (i % 4)
                ck_assert_int_eq(del(i), 0);
        store_reclaim(box.s);
        uint64_t freed = used - box.s->header->used_bytes, moved = box.s->compact.moved_bytes;
        used = box.s->header->used_bytes;
        /* the clock ends a look for room, and on a busy machine too soon: it is tried again, when
         * that is allowed */
        for (unsigned refused = 0; refused < 4;) {
            if (put(1000000 + k, then[r], 7 + k) == 0) {
                k++;
                divided();
            } else if (++refused < 4)
                usleep((DD_COMPACT_AGAIN_MS + 50) * 1000);
        }
        ck_assert_uint_gt(box.s->compact.moved_bytes, moved);
        /* pieces of a MB: the last one is a large part of it */
        ck_assert_uint_ge((box.s->header->used_bytes - used) * 100 / freed, 80);
        for (uint64_t i = 0; i < n; i++)
            ck_assert_int_eq(seen(i, was[r], i), i % 4 == 0);
        for (uint64_t i = 0; i < k; i++)
            ck_assert_int_eq(seen(1000000 + i, then[r], 7 + i), 1);
        divided();
        for (uint64_t i = 0; i < n; i += 4)
            ck_assert_int_eq(del(i), 0);
        for (uint64_t i = 0; i < k; i++)
            ck_assert_int_eq(del(1000000 + i), 0);
        store_reclaim(box.s);
    }
}
END_TEST

START_TEST(a_budget_is_rounded_up_to_pages) {
    ck_assert_uint_eq(hugepool_budget(PAGE, 1), 4 * PAGE);
    ck_assert_uint_eq(hugepool_budget(PAGE, 5 * PAGE), 5 * PAGE);
    ck_assert_uint_eq(hugepool_budget(PAGE, 5 * PAGE + 1), 6 * PAGE);
    int fd = arena(4 << 20);
    ck_assert_int_ge(fd, 0);
    ck_assert_uint_eq(pool().available, before_it - PAGES - 4);
    close(fd);
}
END_TEST

static const char *const file = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
/* One test at a time: they count the pool's pages. */
static void pool_alone(void) {
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        flock(fd, LOCK_EX); /* to our end */
}

static long pool_pages(void) {
    long n = -1;
    FILE *f = fopen(file, "re");
    if (f && fscanf(f, "%ld", &n) != 1)
        n = -1;
    if (f)
        fclose(f);
    return n;
}
/* The kernel takes as many as it finds; who has no right to it changes nothing. */
static void pool_set(long pages) {
    char text[32];
    int fd = pages < 0 ? -1 : open(file, O_WRONLY | O_CLOEXEC),
        n = snprintf(text, sizeof text, "%ld", pages);
    if (fd < 0)
        return;
    if (write(fd, text, (size_t)n) != n)
        perror(file);
    close(fd);
}

int main(void) {
    struct hugepool p;
    const TTest *const tests[] = {all_pages_are_reserved_and_values_lie_in_them,
                                  with_too_few_pages_nothing_is_made_and_both_figures_are_said,
                                  the_index_grows_into_pages_of_the_heap,
                                  the_index_grows_when_large_values_had_all_memory,
                                  what_is_reserved_is_there_when_others_have_all_the_rest,
                                  all_is_populated_ahead_and_given_up_again_for_the_index,
                                  another_manager_finds_all_and_goes_on,
                                  what_was_freed_is_of_use_to_other_sizes,
                                  a_budget_is_rounded_up_to_pages};
    pool_alone();
    long had = pool_pages();
    int rc = 77;
    if (had >= 0)
        pool_set(had + ADD);
    if (hugepool_look(PAGE, &p) == 0 && p.available >= ADD)
        rc = unit_run("store_pool", tests, sizeof tests / sizeof *tests, before, after);
    else
        printf("no pool of %d huge pages of 2 MiB here: skipped\n", ADD);
    pool_set(had);
    return rc;
}
