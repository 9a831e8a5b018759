/* SPDX-License-Identifier: Apache-2.0 */
/* store_cache.c - items of other managers while the dictionary is frozen: found as others, counted
 * as none, evicted by CLOCK, gone before it is open again. */
#include "store_test.h"

#include <errno.h>

static void before(void) {
    box_open(16 * MIB);
}
static void after(void) {
    box_close();
}

static int cache(uint64_t k, uint64_t len, uint64_t seed) {
    char key[32];
    struct store_ref ref;
    int rc = store_cache_reserve(box.s, key, key_name(key, k), len, 9, 1000 + k, &ref);
    if (rc < 0)
        return rc;
    value_fill(ref.value, len, seed);
    rc = store_cache_add(box.s, &ref);
    if (rc < 0)
        store_abort(box.s, &ref);
    return rc;
}

static void freeze(void) {
    store_freeze(box.s, 1, FREEZE_FROZEN);
}
static void drop_all(void) {
    while (store_cache_drop(box.s, 7)) {
    }
    store_reclaim(box.s);
}
/* As a client that read it. */
static void hint(unsigned chunk, uint64_t word) {
    box.page[chunk].hint[box.page[chunk].hints++ % LEASE_HINTS] = word;
}
static void read_key(uint64_t k) {
    struct found f;
    ck_assert_int_eq(look_slot(k, 0, &f), 0);
    reader_release(&box.page->slot[0]);
    hint(0, LEASE_WORD(7, f.off));
}
static bool is_there(uint64_t k) {
    struct found f;
    if (look_slot(k, 0, &f) != 0)
        return false;
    reader_release(&box.page->slot[0]);
    return true;
}

START_TEST(cached_items_are_found_and_are_in_no_figure_of_owned_ones) {
    struct found f;
    for (uint64_t k = 0; k < 1000; k++)
        ck_assert_int_eq(put(k, 100, k), 0);
    struct manager_stats was = stats();
    freeze();
    /* the index splits meanwhile */
    for (uint64_t k = 1000; k < 4000; k++)
        ck_assert_int_eq(cache(k, k % 3000, k), 0);
    ck_assert_int_eq(cache(2000, 10, 1), -EEXIST);
    for (uint64_t k = 0; k < 4000; k++)
        ck_assert_int_eq(seen(k, k < 1000 ? 100 : k % 3000, k), 1);
    ck_assert_int_eq(look_slot(2000, 0, &f), 0);
    ck_assert_uint_eq(f.item->version, 3000 | ITEM_CACHED); /* the owner's */
    reader_release(&box.page->slot[0]);
    struct manager_stats s = stats();
    ck_assert_uint_eq(s.num_keys, was.num_keys);
    ck_assert_uint_eq(keys_count(), 1000);
    ck_assert_uint_eq(s.cached_items, 3000);
    ck_assert_uint_eq(s.frozen, 1);
    ck_assert_uint_gt(s.cached_bytes, 3000 * 1000);
    ck_assert_uint_ge(s.total_used_bytes, was.total_used_bytes + s.cached_bytes);
}
END_TEST

START_TEST(nothing_cached_is_left_when_it_is_open_again) {
    for (uint64_t k = 0; k < 500; k++)
        put(k, 100, k);
    freeze();
    for (uint64_t k = 500; k < 3000; k++)
        cache(k, 500, k);
    store_freeze(box.s, 1, FREEZE_CLOSED);
    drop_all();
    store_freeze(box.s, 1, FREEZE_OPEN);
    for (uint64_t k = 0; k < 3000; k++)
        ck_assert_int_eq(seen(k, 100, k), k < 500);
    struct manager_stats s = stats();
    ck_assert_uint_eq(s.cached_items, 0);
    ck_assert_uint_eq(s.cached_bytes, 0);
    ck_assert_uint_eq(s.num_keys, 500);
    ck_assert_uint_eq(s.frozen, 0);
    for (uint64_t k = 500; k < 3000; k++)
        ck_assert_int_eq(put(k, 100, k), 0);
    ck_assert_uint_eq(keys_count(), 3000);
    store_freeze(box.s, 2, FREEZE_FROZEN);
    for (uint64_t k = 5000; k < 6000; k++)
        ck_assert_int_eq(cache(k, 64, k), 0);
    ck_assert_uint_eq(stats().cached_items, 1000);
}
END_TEST

START_TEST(what_is_viewed_stays_when_it_is_evicted_or_dropped) {
    struct found f, g;
    uint64_t evicted = 0;
    freeze();
    ck_assert_int_eq(cache(1, 3000, 1), 0);
    ck_assert_int_eq(cache(2, 3000, 2), 0);
    ck_assert_int_eq(look_slot(1, 5, &f), 0);
    ck_assert_int_eq(look_slot(2, 6, &g), 0);
    ck_assert_uint_gt(store_cache_evict(box.s, 1, 10, &evicted), 3000);
    ck_assert_uint_eq(evicted, 1);
    drop_all();
    ck_assert(!is_there(1) && !is_there(2));
    for (uint64_t k = 10; k < 1000; k++)
        cache(k, 3000, k);
    ck_assert(value_right(f.value, 3000, 1));
    ck_assert(value_right(g.value, 3000, 2));
    uint64_t held = stats().retired_bytes;
    ck_assert_uint_ge(held, 6000);
    reader_release(&box.page->slot[5]);
    reader_release(&box.page->slot[6]);
    ck_assert_uint_eq(stats().retired_bytes, 0);
}
END_TEST

START_TEST(the_clock_evicts_in_order_what_nobody_read) {
    uint64_t evicted = 0;
    freeze();
    for (uint64_t k = 0; k < 100; k++)
        cache(k, 1000, k);
    for (uint64_t k = 0; k < 100; k += 10)
        read_key(k);
    store_cache_hints(box.s);
    store_cache_evict(box.s, UINT64_MAX, 50, &evicted);
    ck_assert_uint_eq(evicted, 45);
    for (uint64_t k = 0; k < 100; k++)
        ck_assert_int_eq(is_there(k), k >= 50 || k % 10 == 0);
    /* The holes are filled behind the hand. */
    for (uint64_t k = 100; k < 145; k++)
        cache(k, 1000, k);
    store_cache_hints(box.s); /* nothing new: what was read before counts once */
    store_cache_evict(box.s, UINT64_MAX, 50, &evicted);
    for (uint64_t k = 50; k < 100; k++)
        ck_assert_int_eq(is_there(k), k % 10 == 0);
    for (uint64_t k = 100; k < 145; k++)
        ck_assert(is_there(k));
    for (uint64_t k = 0; k < 50; k += 10)
        ck_assert(is_there(k));
    /* second round: no bit is set any more */
    store_cache_evict(box.s, UINT64_MAX, 200, &evicted);
    ck_assert_uint_eq(stats().cached_items, 0);
    ck_assert_uint_eq(evicted, 145);
}
END_TEST

START_TEST(what_is_leased_or_found_by_the_manager_counts_as_read) {
    struct found f;
    struct store_ref ref;
    uint64_t evicted = 0;
    freeze();
    for (uint64_t k = 0; k < 10; k++)
        cache(k, 1000, k);
    ck_assert_int_eq(look_slot(3, 7, &f), 0);
    ck_assert_int_eq(store_cache_find(box.s, "k5", 2, &ref), 0);
    ck_assert_int_eq(store_cache_find(box.s, "k50", 3, &ref), DDICT_ENOKEY);
    store_cache_hints(box.s);
    store_cache_evict(box.s, UINT64_MAX, 10, &evicted);
    for (uint64_t k = 0; k < 10; k++)
        ck_assert_int_eq(is_there(k), k == 3 || k == 5);
    reader_release(&box.page->slot[7]);
}
END_TEST

START_TEST(hints_of_any_form_do_no_harm) {
    uint64_t rng = 5, evicted = 0;
    freeze();
    for (uint64_t k = 0; k < 100; k++) {
        put(200 + k, 100, k);
        cache(k, 100, k);
    }
    for (int round = 0; round < 200; round++) {
        box.page->chunks = round % 3 == 0 ? unit_random(&rng) : 1 + unit_random(&rng) % 20;
        for (unsigned i = 0; i < 64; i++)
            hint((unsigned)(unit_random(&rng) % 20),
                 unit_random(&rng) % 3 ? unit_random(&rng)
                                       : LEASE_WORD(7, unit_random(&rng) % (40 * MIB)));
        if (round % 5 == 0)
            box.page[round % 20].hints = unit_random(&rng);
        store_cache_hints(box.s);
    }
    box.page->chunks = 1;
    while (stats().cached_items)
        store_cache_evict(box.s, UINT64_MAX, 100, &evicted);
    for (uint64_t k = 0; k < 100; k++)
        ck_assert_int_eq(seen(200 + k, 100, k), 1);
}
END_TEST

START_TEST(a_full_arena_caches_what_fits_and_keeps_what_it_owns) {
    uint64_t n = 0, evicted = 0;
    while (n < 1500 && put(n, 5000, n) == 0)
        n++;
    freeze();
    uint64_t k = n;
    while (cache(k, 5000, k) == 0)
        k++;
    ck_assert_uint_gt(k, n);
    ck_assert_int_eq(cache(k, 5000, k), DDICT_EFULL);
    /* One goes, one comes. */
    for (unsigned i = 0; i < 500; i++) {
        store_cache_hints(box.s);
        ck_assert_uint_gt(store_cache_evict(box.s, 5000, 1000, &evicted), 0);
        store_reclaim(box.s);
        ck_assert_int_eq(cache(k, 5000, k), 0);
        ck_assert_int_eq(seen(k, 5000, k), 1);
        k++;
    }
    ck_assert_uint_eq(evicted, 500);
    for (uint64_t i = 0; i < n; i++)
        ck_assert_int_eq(seen(i, 5000, i), 1);
    drop_all();
    ck_assert_uint_eq(keys_count(), n);
    ck_assert_uint_le(box_memory(), 16 * MIB);
}
END_TEST

START_TEST(another_manager_finds_only_what_is_owned) {
    for (int state = FREEZE_CLOSED; state <= FREEZE_FROZEN; state++) {
        for (uint64_t k = 0; k < 2000; k++)
            put(k, 100, k);
        store_freeze(box.s, 9, FREEZE_FROZEN);
        for (uint64_t k = 2000; k < 6000; k++)
            cache(k, 300, k);
        struct found f;
        ck_assert_int_eq(look_slot(3000, 9, &f), 0);
        store_freeze(box.s, 9, (enum freeze_state)state);
        box_reopen();
        ck_assert_uint_eq(FREEZE_EPOCH(box.s->header->freeze), 9);
        for (uint64_t k = 0; k < 6000; k++)
            ck_assert_int_eq(seen(k, 100, k), k < 2000);
        ck_assert_uint_eq(keys_count(), 2000);
        struct manager_stats s = stats();
        ck_assert_uint_eq(s.num_keys, 2000);
        ck_assert_uint_eq(s.cached_items, 0);
        ck_assert(value_right(f.value, 300, 3000)); /* held by a view */
        reader_release(&box.page->slot[9]);
        ck_assert_int_eq(cache(3000, 10, 1), 0);
        drop_all();
        store_freeze(box.s, 9, FREEZE_OPEN);
    }
}
END_TEST

UNIT_MAIN_WITH("store_cache", before, after,
               cached_items_are_found_and_are_in_no_figure_of_owned_ones,
               nothing_cached_is_left_when_it_is_open_again,
               what_is_viewed_stays_when_it_is_evicted_or_dropped,
               the_clock_evicts_in_order_what_nobody_read,
               what_is_leased_or_found_by_the_manager_counts_as_read, hints_of_any_form_do_no_harm,
               a_full_arena_caches_what_fits_and_keeps_what_it_owns,
               another_manager_finds_only_what_is_owned)
