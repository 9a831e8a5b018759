/* SPDX-License-Identifier: Apache-2.0 */
/* store_store.c - what a manager does with its arena: modes, versions, refusals without side
 * effects, pop, clear, keys, figures. */
#include "store_test.h"
#include <store/budget.h>
#include <store/heap.h>

#include <errno.h>

/* --- failing libc: the n-th realloc or calloc from now on --- */
static int fail_in;
#ifndef __SANITIZE_ADDRESS__
extern void *__libc_realloc(void *, size_t), *__libc_calloc(size_t, size_t), *__libc_malloc(size_t);
static int failing(void) {
    if (!fail_in || --fail_in)
        return 0;
    errno = ENOMEM;
    return 1;
}
void *realloc(void *p, size_t n) {
    return failing() ? NULL : __libc_realloc(p, n);
}
void *calloc(size_t n, size_t size) {
    return failing() ? NULL : __libc_calloc(n, size);
}
void *malloc(size_t n) {
    return failing() ? NULL : __libc_malloc(n);
}
#endif

static void before(void) {
    box_open(64 * MIB);
}
static void after(void) {
    fail_in = 0;
    box_close();
}

START_TEST(what_was_put_is_found_by_manager_and_clients) {
    struct store_ref ref;
    ck_assert_int_eq(put(1, 1000, 17), 0);
    ck_assert(seen(1, 1000, 17));
    ck_assert_int_eq(store_find(box.s, "k1", 2, &ref), 0);
    ck_assert_uint_eq(ref.item->val_len, 1000);
    ck_assert(value_right(ref.value, 1000, 17));
    ck_assert_int_eq(store_find(box.s, "k2", 2, &ref), DDICT_ENOKEY);
    ck_assert(!seen(2, 1000, 17));
    ck_assert_uint_eq(store_header(box.s)->num_keys, 1);
}
END_TEST

START_TEST(keys_and_values_of_all_lengths_come_back) {
    static uint8_t key[DDICT_KEY_MAX];
    static const uint64_t lens[] = {0, 1, 7, 8, 255, 256, 257, 4095, 4096, 32768, 40000, 300001};
    struct found f;
    for (uint32_t n = 1; n <= DDICT_KEY_MAX; n = n < 64 ? n + 1 : n * 2) {
        for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
            value_fill(key, n, n);
            ck_assert_int_eq(put_bytes(key, n, lens[i], n + i, STORE_ANY), 0);
            ck_assert_int_eq(
                reader_find(&box.view, hash_of(key, n), key, n, &box.page->slot[3], &f), 0);
            ck_assert_uint_eq(f.val_len, lens[i]);
            ck_assert_uint_eq(f.item->key_len, n);
            ck_assert(value_right(f.value, lens[i], n + i));
            reader_release(&box.page->slot[3]);
            /* One bit of the key makes another key. */
            key[n / 3] ^= 4;
            ck_assert_int_eq(
                reader_find(&box.view, hash_of(key, n), key, n, &box.page->slot[3], &f),
                DDICT_ENOKEY);
            ck_assert_uint_eq(box.page->slot[3], 0);
        }
    }
}
END_TEST

START_TEST(keys_without_bytes_or_with_too_many_are_refused) {
    static char key[DDICT_KEY_MAX + 1];
    struct store_ref ref;
    ck_assert_int_eq(store_reserve(box.s, key, 0, 10, 0, &ref), DDICT_EKEYSIZE);
    ck_assert_int_eq(store_reserve(box.s, key, DDICT_KEY_MAX + 1, 10, 0, &ref), DDICT_EKEYSIZE);
}
END_TEST

START_TEST(a_value_larger_than_the_arena_is_refused_for_good_and_not_as_full) {
    struct store_ref ref;
    ck_assert_int_eq(store_reserve(box.s, "k", 1, 64 * MIB, 0, &ref), DDICT_EVALSIZE);
    ck_assert_int_eq(store_reserve(box.s, "k", 1, UINT64_MAX, 0, &ref), DDICT_EVALSIZE);
    ck_assert_int_eq(store_reserve(box.s, "k", 1, UINT64_MAX - 4096, 0, &ref), DDICT_EVALSIZE);
    ck_assert_int_eq(store_reserve_transit(box.s, 1ull << 62, 0, 1, &ref), DDICT_EVALSIZE);
    ck_assert_int_eq(put(1, 63 * MIB, 1), 0);
    ck_assert(seen(1, 63 * MIB, 1));
    ck_assert_int_eq(put(2, 2 * MIB, 1), DDICT_EFULL);
}
END_TEST

START_TEST(modes_ask_for_absent_or_present_keys) {
    ck_assert_int_eq(put_bytes("a", 1, 10, 1, STORE_EXISTING), DDICT_ENOKEY);
    ck_assert_uint_eq(store_header(box.s)->num_keys, 0);
    ck_assert_int_eq(put_bytes("a", 1, 10, 1, STORE_NEW), 0);
    uint64_t used = store_header(box.s)->used_bytes, version = store_header(box.s)->version;
    ck_assert_int_eq(put_bytes("a", 1, 10, 2, STORE_NEW), DDICT_EEXISTS);
    ck_assert_uint_eq(store_header(box.s)->used_bytes, used);
    ck_assert_uint_eq(store_header(box.s)->version, version);
    ck_assert_int_eq(put_bytes("a", 1, 10, 3, STORE_EXISTING), 0);
    struct store_ref ref;
    ck_assert_int_eq(store_find(box.s, "a", 1, &ref), 0);
    ck_assert(value_right(ref.value, 10, 3));
}
END_TEST

START_TEST(versions_grow_with_every_change) {
    struct store_ref ref;
    uint64_t last = 0, v;
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(store_reserve(box.s, "k", 1, 8, 0, &ref), 0);
        ck_assert_int_eq(store_commit(box.s, &ref, STORE_ANY, &v), 0);
        ck_assert_uint_gt(v, last);
        ck_assert_uint_eq(ref.item->version, v);
        last = v;
        if (i % 3 == 0)
            ck_assert_int_eq(store_remove(box.s, "k", 1, NULL), 0);
    }
    ck_assert_int_eq(store_clear(box.s), 0);
    ck_assert_uint_gt(store_header(box.s)->version, last);
}
END_TEST

START_TEST(a_version_that_was_reached_is_not_given_again) {
    struct store_ref ref;
    store_version_reach(box.s, 1000);
    store_version_reach(box.s, 10);
    ck_assert_int_eq(put(1, 10, 1), 0);
    ck_assert_int_eq(store_find(box.s, "k1", 2, &ref), 0);
    ck_assert_uint_eq(ref.item->version, 1001);
}
END_TEST

START_TEST(abort_gives_everything_back) {
    struct store_ref ref;
    ck_assert_int_eq(put(1, 10, 1), 0);
    struct manager_stats a = stats(), b;
    for (uint64_t len = 0; len < 5000000; len = len * 3 + 1) {
        ck_assert_int_eq(store_reserve(box.s, "x", 1, len, 0, &ref), 0);
        store_abort(box.s, &ref);
    }
    b = stats();
    ck_assert_uint_eq(b.num_keys, 1);
    /* The page map's pages that were used meanwhile stay taken. */
    ck_assert_uint_le(b.total_used_bytes - a.total_used_bytes, 4 * ARENA_PAGE);
}
END_TEST

START_TEST(a_key_that_changes_while_it_is_read_is_hashed_as_it_was_copied) {
    char lane[] = "before";
    struct store_ref ref;
    ck_assert_int_eq(store_reserve(box.s, lane, 6, 0, 0, &ref), 0);
    memcpy(lane, "behind", 6);
    ck_assert_int_eq(store_commit(box.s, &ref, STORE_ANY, NULL), 0);
    ck_assert_int_eq(store_find(box.s, "before", 6, &ref), 0);
    ck_assert_int_eq(store_find(box.s, "behind", 6, &ref), DDICT_ENOKEY);
}
END_TEST

START_TEST(many_keys_survive_all_splits) {
    const uint64_t n = 300000;
    for (uint64_t k = 0; k < n; k++)
        if (put(k, k % 40, k))
            ck_abort_msg("%llu", (unsigned long long)k);
    ck_assert_uint_eq(store_header(box.s)->num_keys, n);
    for (uint64_t k = 0; k < n; k++)
        if (!seen(k, k % 40, k))
            ck_abort_msg("%llu", (unsigned long long)k);
    for (uint64_t k = n; k < n + 1000; k++)
        ck_assert(!seen(k, 0, 0));
    ck_assert_uint_eq(keys_count(), n);
    for (uint64_t k = 0; k < n; k += 2)
        if (del(k))
            ck_abort_msg("%llu", (unsigned long long)k);
    for (uint64_t k = 0; k < n; k++)
        if (seen(k, k % 40, k) != (int)(k % 2))
            ck_abort_msg("%llu", (unsigned long long)k);
    ck_assert_uint_eq(keys_count(), n / 2);
}
END_TEST

START_TEST(removing_what_is_absent_is_a_miss) {
    ck_assert_int_eq(del(1), DDICT_ENOKEY);
    ck_assert_int_eq(put(1, 1, 1), 0);
    ck_assert_int_eq(del(1), 0);
    ck_assert_int_eq(del(1), DDICT_ENOKEY);
    ck_assert_uint_eq(store_header(box.s)->num_keys, 0);
}
END_TEST

START_TEST(a_popped_value_stays_until_it_is_unpinned) {
    struct store_ref ref;
    ck_assert_int_eq(put(1, 100000, 5), 0);
    ck_assert_int_eq(store_remove(box.s, "k1", 2, &ref), 0);
    ck_assert(!seen(1, 100000, 5));
    for (int i = 0; i < 200; i++)
        ck_assert_int_eq(put(2, 100000, (uint64_t)i), 0);
    store_reclaim(box.s);
    ck_assert(value_right(ref.value, 100000, 5));
    struct manager_stats s = stats();
    ck_assert_uint_eq(s.retired_bytes, 25 * ARENA_PAGE);
    /* A client takes it over as the completion tells it to. */
    struct found f;
    reader_adopt(&box.view, ref.off, &box.page->slot[5]);
    store_unpin(box.s, ref.off);
    store_reclaim(box.s);
    ck_assert_int_eq(reader_item(&box.view, ref.off, &f), 0);
    ck_assert(value_right(f.value, 100000, 5));
    reader_release(&box.page->slot[5]);
    s = stats();
    ck_assert_uint_eq(s.retired_bytes, 0);
}
END_TEST

START_TEST(the_statistics_tell_the_machines_pages) {
    ck_assert_uint_eq(stats().page_bytes, (uint64_t)sysconf(_SC_PAGESIZE));
}
END_TEST

START_TEST(transit_blocks_are_counted_until_they_are_free) {
    struct store_ref a, b;
    struct found f;
    ck_assert_int_eq(store_reserve_transit(box.s, 5000, 6, 77, &a), 0);
    ck_assert_int_eq(store_reserve_transit(box.s, 100000, 6, 78, &b), 0);
    uint64_t both = block_bytes(box.s, a.off) + block_bytes(box.s, b.off);
    ck_assert_uint_eq(store_transit_bytes(box.s), both);
    value_fill(a.value, 5000, 3);
    ck_assert_int_eq(store_pin(box.s, a.off), 0);
    store_retire(box.s, a.off);
    store_reclaim(box.s);
    ck_assert_uint_eq(store_transit_bytes(box.s), both);
    ck_assert_int_eq(reader_item(&box.view, a.off, &f), 0);
    ck_assert_uint_eq(f.val_len, 5000);
    ck_assert_uint_eq(f.item->version, 77);
    ck_assert_uint_eq(f.item->tag, 6);
    ck_assert(value_right(f.value, 5000, 3));
    store_abort(box.s, &b);
    ck_assert_uint_eq(store_transit_bytes(box.s), block_bytes(box.s, a.off));
    store_unpin(box.s, a.off);
    store_reclaim(box.s);
    ck_assert_uint_eq(store_transit_bytes(box.s), 0);
    ck_assert_uint_eq(keys_count(), 0);
}
END_TEST

START_TEST(clear_removes_all_at_once_and_gives_the_memory_back_bit_by_bit) {
    for (uint64_t k = 0; k < 50000; k++)
        put(k, 100, k);
    uint64_t used = store_header(box.s)->used_bytes, segments = store_header(box.s)->segments;
    ck_assert_int_eq(store_clear(box.s), 0);
    ck_assert_uint_eq(store_header(box.s)->num_keys, 0);
    for (uint64_t k = 0; k < 50000; k += 7)
        ck_assert(!seen(k, 100, k));
    ck_assert_uint_eq(keys_count(), 0);
    /* New keys at once, while the old ones are swept. */
    ck_assert_int_eq(put(1, 200, 9), 0);
    int calls = 0;
    while (store_work(box.s))
        calls++;
    ck_assert_int_gt(calls, 10);
    ck_assert(seen(1, 200, 9));
    store_reclaim(box.s);
    ck_assert_uint_lt(store_header(box.s)->used_bytes, used / 3);
    for (uint64_t k = 0; k < 50000; k++)
        put(k, 100, k);
    ck_assert_uint_eq(keys_count(), 50000);
    /* the old ones were used again */
    ck_assert_uint_le(store_header(box.s)->segments, segments + 2);
}
END_TEST

START_TEST(clear_again_and_again_costs_nothing) {
    uint64_t segments = 0;
    for (int round = 0; round < 200; round++) {
        for (uint64_t k = 0; k < 500; k++)
            put(k, 10, (uint64_t)round);
        ck_assert_int_eq(store_clear(box.s), 0);
        if (round % 3)
            ck_assert_int_eq(store_clear(box.s), 0);
        if (round % 4 == 0)
            while (store_work(box.s)) {
            }
        if (round == 100)
            segments = store_header(box.s)->segments;
    }
    ck_assert_uint_eq(store_header(box.s)->segments, segments);
    while (store_work(box.s)) {
    }
    store_reclaim(box.s);
    struct manager_stats s = stats();
    ck_assert_uint_eq(s.num_keys, 0);
    ck_assert_uint_eq(s.retired_bytes, 0);
}
END_TEST

START_TEST(a_full_arena_can_be_cleared) {
    uint64_t n = 0;
    box_close();
    box_open(DD_MANAGER_MEM_MIN);
    while (put(n, 300, n) == 0)
        n++;
    /* Fill the rest with the smallest, so that not even a segment's worth is left. */
    for (uint64_t k = 0; put(1000000 + k, 0, k) == 0; k++) {
    }
    ck_assert_int_eq(store_clear(box.s), 0);
    ck_assert_int_eq(store_clear(box.s), 0);
    ck_assert_uint_eq(keys_count(), 0);
    for (uint64_t k = 0; k < n * 9 / 10; k++)
        ck_assert_int_eq(put(k, 300, k), 0);
    ck_assert_uint_le(box_memory(), DD_MANAGER_MEM_MIN);
}
END_TEST

/* All memory is held by readers, so that nothing can be freed for the index. */
START_TEST(an_arena_that_is_full_of_what_is_read_can_be_cleared_twice) {
    static const uint64_t sizes[] = {MIB, 128 << 10, 16 << 10, 4096, 512, 0};
    struct found f;
    uint64_t n, more = 0, rest;
    do { /* until no page is left */
        box_close();
        box_open(DD_MANAGER_MEM_MIN);
        n = 0;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (; put(n, sizes[i] + (n ? 0 : more), n) == 0; n++) {
                ck_assert_uint_lt(n, DD_LEASE_CHUNK_SLOTS);
                ck_assert_int_eq(look_slot(n, (unsigned)n, &f), 0);
            }
        rest = DD_MANAGER_MEM_MIN - budget_resident(box.s);
        more += rest;
    } while (rest > 0);
    ck_assert_int_eq(store_clear(box.s), 0);
    ck_assert_int_eq(store_clear(box.s), 0);
    ck_assert_uint_eq(keys_count(), 0);
    for (unsigned i = 0; i < n; i++)
        reader_release(&box.page->slot[i]);
    ck_assert_int_eq(put(1, MIB, 1), 0);
}
END_TEST

static int stop_at_five(void *arg, const void *key, uint32_t key_len) {
    return ++*(int *)arg == 5 ? -ECANCELED : 0;
}

START_TEST(a_walk_over_keys_stops_when_it_is_told_to) {
    for (uint64_t k = 0; k < 100; k++)
        put(k, 1, k);
    uint64_t cursor = 0;
    int n = 0;
    ck_assert_int_eq(store_keys(box.s, &cursor, stop_at_five, &n), -ECANCELED);
    ck_assert_int_eq(n, 5);
    ck_assert_uint_eq(cursor, 0);
    n = 0;
    ck_assert_int_eq(reader_keys(&box.view, &cursor, &box.page->slot[0], stop_at_five, &n),
                     -ECANCELED);
    ck_assert_int_eq(n, 5);
    ck_assert_uint_eq(cursor, 0);
    ck_assert_uint_eq(box.page->slot[0], 0);
}
END_TEST

START_TEST(figures_add_up) {
    for (uint64_t k = 0; k < 1000; k++)
        put(k, 1024, k);
    struct manager_stats s = stats();
    ck_assert_uint_eq(s.manager_id, 3);
    ck_assert_uint_eq(s.total_bytes, 64 * MIB);
    ck_assert_uint_eq(s.num_keys, 1000);
    ck_assert_uint_eq(s.pool_free_space + s.total_used_bytes, s.total_bytes);
    ck_assert_double_eq_tol(s.pool_utilization,
                            100.0 * (double)s.total_used_bytes / (double)s.total_bytes, 1e-9);
    ck_assert_uint_ge(s.total_used_bytes, 1000 * 1088);
    ck_assert_uint_lt(s.total_used_bytes, 1000 * 1200);
    for (uint64_t k = 0; k < 1000; k++)
        del(k);
    s = stats();
    ck_assert_uint_eq(s.retired_bytes, 0);
    ck_assert_uint_eq(s.total_used_bytes, budget_fixed(box.s));
}
END_TEST

#ifndef __SANITIZE_ADDRESS__
START_TEST(without_private_memory_calls_fail_and_change_nothing) {
    struct store_ref ref;
    struct store *s;
    ck_assert_int_eq(put(1, 100, 1), 0);
    /* The first replaced value needs a list. */
    ck_assert_int_eq(store_reserve(box.s, "k1", 2, 5, 0, &ref), 0);
    fail_in = 1;
    ck_assert_int_eq(store_commit(box.s, &ref, STORE_ANY, NULL), -ENOMEM);
    fail_in = 1;
    ck_assert_int_eq(store_remove(box.s, "k1", 2, NULL), -ENOMEM);
    ck_assert(seen(1, 100, 1));
    ck_assert_int_eq(store_commit(box.s, &ref, STORE_ANY, NULL), 0);
    fail_in = 1;
    ck_assert_int_eq(store_remove(box.s, "k1", 2, &ref), -ENOMEM); /* the pin */
    fail_in = 1;
    ck_assert_int_eq(store_reserve_transit(box.s, 10, 0, 1, &ref), -ENOMEM);
    ck_assert_uint_eq(store_transit_bytes(box.s), 0);
    fail_in = 1;
    ck_assert_int_eq(store_open(&s, box.fd, -1, 0), -ENOMEM);
    fail_in = 2;
    ck_assert_int_eq(store_open(&s, box.fd, -1, 0), -ENOMEM);
    for (int i = 0; i < 15; i++)
        ck_assert_int_eq(store_leases_add(box.s, 100 + (uint64_t)i, box.page, 1), 0);
    fail_in = 1;
    ck_assert_int_eq(store_leases_add(box.s, 99, box.page, 1), -ENOMEM);
    for (int i = 0; i < 15; i++)
        store_leases_remove(box.s, 100 + (uint64_t)i);
    uint64_t cursor = 0;
    int n = 0;
    fail_in = 1;
    ck_assert_int_eq(reader_keys(&box.view, &cursor, &box.page->slot[0], stop_at_five, &n),
                     -ENOMEM);
    fail_in = 2;
    ck_assert_int_eq(reader_keys(&box.view, &cursor, &box.page->slot[0], stop_at_five, &n),
                     -ENOMEM);
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(keys_count(), 1);
    ck_assert_uint_eq(box.page->slot[0], 0);
}
END_TEST
#else
#define without_private_memory_calls_fail_and_change_nothing removing_what_is_absent_is_a_miss
#endif

UNIT_MAIN_WITH("store_store", before, after, what_was_put_is_found_by_manager_and_clients,
               keys_and_values_of_all_lengths_come_back,
               keys_without_bytes_or_with_too_many_are_refused,
               a_value_larger_than_the_arena_is_refused_for_good_and_not_as_full,
               modes_ask_for_absent_or_present_keys, versions_grow_with_every_change,
               a_version_that_was_reached_is_not_given_again, abort_gives_everything_back,
               a_key_that_changes_while_it_is_read_is_hashed_as_it_was_copied,
               many_keys_survive_all_splits, removing_what_is_absent_is_a_miss,
               a_popped_value_stays_until_it_is_unpinned, the_statistics_tell_the_machines_pages,
               transit_blocks_are_counted_until_they_are_free,
               clear_removes_all_at_once_and_gives_the_memory_back_bit_by_bit,
               clear_again_and_again_costs_nothing, a_full_arena_can_be_cleared,
               an_arena_that_is_full_of_what_is_read_can_be_cleared_twice,
               a_walk_over_keys_stops_when_it_is_told_to, figures_add_up,
               without_private_memory_calls_fail_and_change_nothing)
