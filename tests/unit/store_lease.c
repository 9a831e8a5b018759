/* SPDX-License-Identifier: Apache-2.0 */
/* store_lease.c - a block is not reused while a lease or a pin holds it (I6), and no lease word can
 * do harm (I15). */
#include "store_test.h"
#include <store/budget.h>
#include <store/heap.h>
#include <store/index.h>
#include <store/lease.h>
#include <store/scan.h>

static void before(void) {
    box_open(16 * MIB);
}
static void after(void) {
    box_close();
}

START_TEST(a_held_value_stays_through_any_number_of_overwrites) {
    struct found f[3];
    for (uint64_t k = 0; k < 3; k++) {
        ck_assert_int_eq(put(k, 1000 + k * 50000, k), 0);
        ck_assert_int_eq(look_slot(k, (unsigned)k * 200, &f[k]), 0);
    }
    for (uint64_t i = 0; i < 2000; i++)
        for (uint64_t k = 0; k < 3; k++)
            ck_assert_int_eq(put(k, 1000 + k * 50000, 1000 + i), 0);
    for (uint64_t k = 0; k < 3; k++) {
        ck_assert(value_right(f[k].value, 1000 + k * 50000, k));
        reader_release(&box.page->slot[k * 200]);
    }
    struct manager_stats s = stats();
    ck_assert_uint_eq(s.retired_bytes, 0);
    ck_assert_uint_eq(s.leased_bytes, 0);
}
END_TEST

START_TEST(figures_name_the_largest_holder) {
    struct lease_chunk *other = lease_page_make();
    struct found f;
    ck_assert_int_eq(store_leases_add(box.s, 2, other, 777), 0);
    put(1, 100000, 1);
    put(2, 1000, 2);
    ck_assert_int_eq(look_slot(2, 0, &f), 0);
    ck_assert_int_eq(reader_find(&box.view, hash_of("k1", 2), "k1", 2, &other->slot[0], &f), 0);
    struct manager_stats s = stats();
    ck_assert_uint_eq(s.leased_bytes, 0); /* live ones hold nothing back */
    del(1);
    del(2);
    s = stats();
    ck_assert_uint_eq(s.leased_bytes, 25 * ARENA_PAGE + 1088);
    ck_assert_uint_eq(s.retired_bytes, s.leased_bytes);
    ck_assert_uint_eq(s.largest_holder_pid, 777);
    ck_assert_uint_eq(s.largest_holder_bytes, 25 * ARENA_PAGE);
    store_leases_remove(box.s, 2);
    s = stats();
    ck_assert_uint_eq(s.leased_bytes, 1088);
    ck_assert_uint_eq(s.largest_holder_pid, 4242);
    munmap(other, LEASE_FILE_SIZE);
}
END_TEST

START_TEST(a_client_that_dies_leaves_nothing) {
    struct manager_stats a, b;
    put(0, 10, 0);
    for (uint64_t round = 0; round < 200; round++) {
        struct lease_chunk *page = lease_page_make();
        struct found f;
        if (round == 1)
            a = stats();
        ck_assert_int_eq(store_leases_add(box.s, 50 + round, page, 1), 0);
        for (uint64_t k = 1; k < 20; k++) {
            char key[32];
            uint32_t n = key_name(key, k);
            put(k, 20000, k);
            ck_assert_int_eq(reader_find(&box.view, hash_of(key, n), key, n, &page->slot[k], &f),
                             0);
            del(k);
        }
        ck_assert_uint_gt(stats().leased_bytes, 0);
        store_leases_remove(box.s, 50 + round);
        munmap(page, LEASE_FILE_SIZE);
        store_work(box.s); /* without any further put */
        ck_assert_uint_eq(box.s->leases.retired_bytes, 0);
    }
    b = stats();
    ck_assert_int_eq(memcmp(&a, &b, sizeof a), 0);
}
END_TEST

START_TEST(lease_words_full_of_rubbish_do_no_harm) {
    uint64_t rng = 3;
    box.page->chunks = UINT32_MAX; /* all 2048 are read */
    struct lease_chunk *c = box.page;
    for (unsigned i = 0; i < 2000; i++)
        c[unit_random(&rng) % DD_LEASE_CHUNKS].slot[unit_random(&rng) % DD_LEASE_CHUNK_SLOTS] =
            unit_random(&rng);
    /* And some that name this arena, any offset. */
    for (unsigned i = 0; i < 2000; i++)
        c[i % 50].slot[i % DD_LEASE_CHUNK_SLOTS] =
            LEASE_WORD(7, unit_random(&rng) % (box.view.header->file_size + 4096)) |
            (i % 7 == 0 ? 0xf00000000000ull : 0);
    for (uint64_t i = 0; i < 3000; i++)
        ck_assert_int_eq(put(i % 100, 5000, i), 0);
    for (uint64_t k = 0; k < 100; k++)
        ck_assert(seen(k, 5000, 2900 + k));
    memset(box.page, 0, 60 * sizeof *box.page);
    box.page->chunks = DD_LEASE_CHUNKS;
    store_reclaim(box.s);
    ck_assert_uint_eq(stats().retired_bytes, 0);
}
END_TEST

START_TEST(a_lease_anywhere_inside_a_block_holds_it) {
    put(1, 3000, 1);
    put(2, 50000, 2);
    struct found f;
    ck_assert_int_eq(look_slot(1, 0, &f), 0);
    box.page->slot[0] += 100; /* 1600 bytes on */
    ck_assert_int_eq(look_slot(2, 1, &f), 0);
    box.page->slot[1] += 3000;
    del(1);
    del(2);
    store_reclaim(box.s);
    ck_assert_uint_gt(stats().leased_bytes, 53000);
    box.page->slot[0] = box.page->slot[1] = 0;
    ck_assert_uint_eq(stats().leased_bytes, 0);
}
END_TEST

START_TEST(leases_of_other_arenas_hold_nothing_here) {
    struct found f;
    put(1, 50000, 1);
    ck_assert_int_eq(look_slot(1, 0, &f), 0);
    box.page->slot[0] = LEASE_WORD(8, f.off);
    del(1);
    ck_assert_uint_eq(stats().retired_bytes, 0);
}
END_TEST

/* What a scan costs, as it counts it; and a lease in slots that were idle a moment before is seen.
 * */
START_TEST(slots_that_never_had_a_lease_are_passed_over) {
    struct found f;
    store_leases_add(box.s, 2, box.page, 1); /* twice the same page is twice the work */
    put(1, 100000, 1);
    del(1);
    store_reclaim(box.s);
    uint64_t all = box.s->leases.looked;
    ck_assert_uint_ge(all, 2 * DD_LEASE_CHUNK_SLOTS / 8 * DD_RECLAIM_LINE);
    box.page->idle = DD_LEASE_CHUNK_SLOTS - 7;
    put(1, 100000, 1);
    ck_assert_int_eq(look_slot(1, 6, &f), 0);
    put(2, 100000, 2);
    box.page->idle = DD_LEASE_CHUNK_SLOTS - 15; /* first this, then the lease */
    ck_assert_int_eq(look_slot(2, 14, &f), 0);
    del(1);
    del(2);
    store_reclaim(box.s);
    ck_assert_uint_eq(stats().leased_bytes, 2 * 25 * ARENA_PAGE);
    ck_assert_uint_lt(box.s->leases.looked, all / 5);
    box.page->slot[6] = box.page->slot[14] = 0;
    box.page->idle = UINT32_MAX; /* rubbish: all are looked at */
    box.page->slot[DD_LEASE_CHUNK_SLOTS - 1] = LEASE_WORD(7, f.off);
    store_reclaim(box.s);
    ck_assert_uint_eq(stats().leased_bytes, 25 * ARENA_PAGE);
    box.page->slot[DD_LEASE_CHUNK_SLOTS - 1] = 0;
    box.page->idle = 0;
    store_leases_remove(box.s, 2);
    ck_assert_uint_eq(stats().leased_bytes, 0);
}
END_TEST

START_TEST(leases_in_later_chunks_are_seen_when_the_page_says_so) {
    struct found f;
    char key[] = "k1";
    put(1, 50000, 1);
    struct lease_chunk *c = box.page + 1000;
    ck_assert_int_eq(
        reader_find(&box.view, hash_of(key, 2), key, 2, &c->slot[DD_LEASE_CHUNK_SLOTS - 1], &f), 0);
    box.page->chunks = 1001;
    del(1);
    while (store_reclaim_some(box.s)) {
    } /* so many chunks are not looked at in one go */
    ck_assert_uint_gt(stats().leased_bytes, 0);
    while (store_reclaim_some(box.s)) {
    } /* the figures have begun the next one */
    reader_release(&c->slot[DD_LEASE_CHUNK_SLOTS - 1]);
    while (store_reclaim_some(box.s)) {
    }
    ck_assert_uint_eq(stats().leased_bytes, 0);
}
END_TEST

/* They come and go in any order; each that has a lease is seen, wherever its page stands, and those
 * without are hardly looked at. */
START_TEST(a_crowd_of_clients_is_scanned_quickly_and_none_is_missed) {
    enum { N = 1200, IDLE = 1000 };
    static struct lease_chunk *page[N];
    static bool there[N];
    uint64_t rng = 5, held = 0;
    for (unsigned i = 0; i < N; i++) {
        page[i] = lease_page_make();
        page[i]->idle = DD_LEASE_CHUNK_SLOTS - DD_LEASE_OPEN;
    }
    for (unsigned i = 0; i < IDLE; i++)
        ck_assert_int_eq(store_leases_add(box.s, 10 + i, page[i], i), 0);
    put(1, 1000, 1);
    del(1);
    store_reclaim(box.s);
    ck_assert_uint_eq(box.s->leases.retired_n, 0);
    ck_assert_uint_lt(box.s->leases.looked, MIB); /* so much later than for one */
    for (unsigned i = 0; i < IDLE; i++)
        there[i] = true;
    for (unsigned round = 0; round < 3000; round++) {
        unsigned i = (unsigned)(unit_random(&rng) % N);
        if (there[i])
            store_leases_remove(box.s, 10 + i);
        else
            ck_assert_int_eq(store_leases_add(box.s, 10 + i, page[i], i), 0);
        there[i] = !there[i];
    }
    for (uint64_t i = 0; i < N; i++) {
        struct found f;
        char key[32];
        uint32_t n = key_name(key, i);
        put(i, 1000, i);
        ck_assert_int_eq(
            reader_find(&box.view, hash_of(key, n), key, n, &page[i]->slot[i % DD_LEASE_OPEN], &f),
            0);
        held += there[i];
    }
    for (uint64_t i = 0; i < N; i++)
        del(i);
    for (int way = 0; way < 2; way++) {
        if (way)
            store_reclaim(box.s);
        else
            while (store_reclaim_some(box.s)) {
            }
        ck_assert_uint_eq(box.s->leases.retired_n, held);
    }
    for (uint64_t i = 0; i < N; i++) {
        reader_release(&page[i]->slot[i % DD_LEASE_OPEN]);
        if (there[i] && i % 2)
            store_leases_remove(box.s, 10 + i);
    }
    while (store_reclaim_some(box.s)) {
    }
    ck_assert_uint_eq(box.s->leases.retired_n, 0);
    for (unsigned i = 0; i < N; i++)
        munmap(page[i], LEASE_FILE_SIZE);
}
END_TEST

START_TEST(pins_nest_and_unpinning_the_unpinned_is_harmless) {
    struct store_ref ref;
    put(1, 50000, 1);
    ck_assert_int_eq(store_find(box.s, "k1", 2, &ref), 0);
    ck_assert_int_eq(store_pin(box.s, ref.off), 0);
    ck_assert_int_eq(store_pin(box.s, ref.off), 0);
    del(1);
    store_reclaim(box.s);
    ck_assert(value_right(ref.value, 50000, 1));
    store_unpin(box.s, ref.off);
    store_reclaim(box.s);
    ck_assert_uint_gt(stats().retired_bytes, 0);
    store_unpin(box.s, ref.off);
    ck_assert_uint_eq(stats().retired_bytes, 0);
    store_unpin(box.s, ref.off);
    store_unpin(box.s, 12345 * 16);
}
END_TEST

START_TEST(aborting_a_pinned_block_waits_for_the_pin) {
    struct store_ref ref;
    ck_assert_int_eq(store_reserve(box.s, "x", 1, 50000, 0, &ref), 0);
    ck_assert_int_eq(store_pin(box.s, ref.off), 0);
    store_abort(box.s, &ref);
    ck_assert_uint_gt(stats().retired_bytes, 0);
    store_unpin(box.s, ref.off);
    ck_assert_uint_eq(stats().retired_bytes, 0);
}
END_TEST

START_TEST(memory_that_was_retired_is_used_again_before_the_arena_is_full) {
    /* 40 MB through 16 MiB, nobody calls store_work */
    for (uint64_t i = 0; i < 40000; i++)
        ck_assert_int_eq(put(i % 10, 1000, i), 0);
    ck_assert_uint_lt(box.s->header->heap_top * ARENA_PAGE, 4 * MIB);
}
END_TEST

START_TEST(many_held_values_do_not_make_every_put_slow) {
    struct found f;
    box.page->chunks = 8;
    for (uint64_t k = 0; k < 4000; k++) {
        put(k, 1000, k);
        char key[32];
        uint32_t n = key_name(key, k);
        ck_assert_int_eq(
            reader_find(&box.view, hash_of(key, n), key, n,
                        &box.page[k / DD_LEASE_CHUNK_SLOTS].slot[k % DD_LEASE_CHUNK_SLOTS], &f),
            0);
        del(k);
    }
    store_reclaim(box.s);
    ck_assert_uint_eq(box.s->leases.kept, 4000);
    ck_assert(!scan_wanted(box.s));
    for (uint64_t i = 0; i < 1100; i++)
        put(9999, 1000, i);
    ck_assert(!scan_wanted(box.s)); /* 1 MiB alone would be enough without them */
}
END_TEST

/* Few blocks are retired, and the last scan saw no lease: how many came since is only known when
 * they are looked at. */
START_TEST(leases_that_came_since_the_last_scan_are_not_noted_all_at_once) {
    enum { N = 8 * DD_SCAN_LEASES };
    struct leases *l = &box.s->leases;
    struct found f;
    box.page->chunks = N / DD_LEASE_CHUNK_SLOTS + 1;
    for (uint64_t k = 0; k < N; k++) {
        char key[32];
        uint32_t n = key_name(key, k);
        ck_assert_int_eq(put(k, 100, k), 0);
        ck_assert_int_eq(
            reader_find(&box.view, hash_of(key, n), key, n,
                        &box.page[k / DD_LEASE_CHUNK_SLOTS].slot[k % DD_LEASE_CHUNK_SLOTS], &f),
            0);
        ck_assert_int_eq(del(k), 0);
    }
    ck_assert_uint_eq(l->begun, 0);
    ck_assert(scan_small(box.s));
    unsigned steps = 0;
    for (bool more = true; more; steps++) {
        uint64_t held = l->scan.held.used;
        more = store_reclaim_some(box.s);
        if (l->scan.on)
            ck_assert_uint_le(l->scan.held.used, held + DD_SCAN_LEASES + DD_LEASE_CHUNK_SLOTS);
    }
    ck_assert_uint_ge(steps, 4);
    ck_assert_uint_eq(l->begun, 1);
    ck_assert_uint_eq(l->done, 1);
    ck_assert_uint_eq(l->held.used, N);
    ck_assert_uint_eq(l->retired_n, N);
    memset(box.page[0].slot, 0, sizeof box.page[0].slot);
    while (store_reclaim_some(box.s)) {
    }
    ck_assert_uint_eq(l->retired_n, N - DD_LEASE_CHUNK_SLOTS);
}
END_TEST

static int put_again(uint64_t k, uint64_t len, unsigned *waited) {
    struct store_ref ref;
    uint64_t scan = 0;
    char key[32];
    uint32_t n = key_name(key, k);
    int rc;
    while ((rc = store_reserve_again(box.s, key, n, len, 9, &ref, &scan)) == -EINPROGRESS) {
        ++*waited;
        store_work(box.s);
    }
    if (rc < 0)
        return rc;
    ref_fill_in(&ref, len, k);
    if ((rc = store_commit(box.s, &ref, STORE_ANY, NULL)) < 0)
        store_abort(box.s, &ref);
    return rc;
}

/* There is a block for the value, but no room for another segment before a large scan is over. */
START_TEST(a_split_waits_for_a_large_scan) {
    enum { LARGE = 6000, KEYS = 10000000 };
    struct segment *g = NULL;
    unsigned waited = 0;
    uint64_t small = KEYS, k = 2 * KEYS, used;
    for (uint64_t i = 0; i < LARGE; i++)
        ck_assert_int_eq(put(i, 500, i), 0);
    while (put(small, 8, small) == 0)
        small++;
    for (uint64_t i = 0; i < LARGE; i += 2)
        ck_assert_int_eq(del(i), 0);
    store_reclaim(box.s);
    for (uint64_t i = KEYS; i < small - 1000; i++)
        ck_assert_int_eq(del(i), 0);
    ck_assert(!scan_small(box.s));
    used = box.s->header->segments;
    for (unsigned n = 0; !waited && n < LARGE / 2; k++) { /* until one segment is full */
        char key[32];
        uint64_t hash = hash_of(key, key_name(key, k));
        if (!g)
            g = index_segment(box.s, hash);
        if (index_segment(box.s, hash) != g)
            continue;
        ck_assert_int_eq(put_again(k, 500, &waited), 0);
        n++;
    }
    ck_assert_uint_gt(waited, 0);
    ck_assert_uint_eq(box.s->header->segments, used + 1);
    ck_assert_int_eq(seen(k - 1, 500, k - 1), 1);
    ck_assert_uint_le(budget_resident(box.s), box.s->header->budget);
}
END_TEST

/* Many leases and many retired blocks: no call looks at more than its share, and what is held
 * stays, whoever holds it. */
START_TEST(a_large_scan_is_made_in_parts) {
    enum { N = 40000, CHUNKS = 40, LEASED = CHUNKS * DD_LEASE_CHUNK_SLOTS };
    static uint64_t off[N];
    struct leases *l = &box.s->leases;
    struct lease_chunk *other = lease_page_make(), *late = lease_page_make();
    ck_assert_int_eq(store_leases_add(box.s, 2, other, 4243), 0);
    for (uint64_t k = 0; k < N; k++) {
        char key[32];
        struct store_ref ref;
        if (put(k, 100, k) || store_find(box.s, key, key_name(key, k), &ref))
            ck_abort_msg("put");
        off[k] = ref.off;
    }
    uint64_t bytes = block_bytes(box.s, off[0]);
    other->chunks = CHUNKS;
    for (unsigned k = 0; k < LEASED; k++)
        other[k / DD_LEASE_CHUNK_SLOTS].slot[k % DD_LEASE_CHUNK_SLOTS] = LEASE_WORD(7, off[k]);
    ck_assert_int_eq(store_pin(box.s, off[N - 1]), 0);
    ck_assert_int_eq(store_pin(box.s, off[N - 2]), 0);
    for (uint64_t k = 0; k < N; k++)
        if (del(k))
            ck_abort_msg("del");
    ck_assert_uint_eq(l->retired_n, N);
    ck_assert(!scan_small(box.s));
    unsigned steps = 0, looks = 0;
    bool amidst = false; /* of the leases of the second page */
    for (bool more = true; more; steps++) {
        uint64_t held = l->scan.held.used, blocks = l->retired_bytes / bytes;
        more = store_work(box.s);
        ck_assert_uint_le(blocks - l->retired_bytes / bytes, DD_SCAN_BLOCKS);
        if (l->scan.on)
            ck_assert_uint_le(l->scan.held.used, held + DD_SCAN_LEASES + DD_LEASE_CHUNK_SLOTS + 2);
        if (l->scan.on && l->scan.at == 0)
            looks++;
        if (amidst || !l->scan.on || l->scan.page != 1 || l->scan.chunk == 0)
            continue;
        amidst = true;
        /* the lease comes where the scan was, then the pin goes */
        other[0].slot[0] = LEASE_WORD(7, off[N - 1]);
        store_unpin(box.s, off[N - 1]);
        store_leases_remove(box.s, 1);
        ck_assert_int_eq(store_leases_add(box.s, 3, late, 4244), 0);
        /* of a child: its parent has had it until now */
        late->slot[5] = LEASE_WORD(7, off[N - 3]);
    }
    ck_assert(amidst);
    ck_assert_uint_ge(looks, 2);
    ck_assert_uint_ge(steps, 5);
    ck_assert_uint_eq(l->retired_n, LEASED + 3); /* and the pinned two, and the child's */
    ck_assert_uint_eq(l->retired_bytes, l->retired_n * bytes);
    for (unsigned i = 0; i < l->retired_n; i++)
        if (block_of(box.s, l->retired[i]) != l->retired[i])
            ck_abort_msg("retired and not there");
    store_unpin(box.s, off[N - 2]);
    while (store_reclaim_some(box.s)) {
    }
    ck_assert_uint_eq(l->retired_n, LEASED + 1);
    /* One that is given up in the middle, for a scan that is wanted at once. */
    memset(other, 0, (LEASED / 2 / DD_LEASE_CHUNK_SLOTS) * sizeof *other);
    other->chunks = CHUNKS;
    while (!(l->scan.on && l->scan.at))
        ck_assert(store_reclaim_some(box.s));
    put(1, 100, 1);
    del(1);
    store_reclaim(box.s);
    ck_assert_uint_eq(l->retired_n, LEASED / 2 + 1);
    ck_assert_uint_eq(l->leased_bytes, l->retired_n * bytes);
    store_leases_remove(box.s, 2);
    store_leases_remove(box.s, 3);
    while (store_reclaim_some(box.s)) {
    }
    ck_assert_uint_eq(l->retired_n, 0);
    ck_assert_uint_eq(l->retired_bytes, 0);
    munmap(other, LEASE_FILE_SIZE);
    munmap(late, LEASE_FILE_SIZE);
}
END_TEST

UNIT_MAIN_WITH("store_lease", before, after, a_held_value_stays_through_any_number_of_overwrites,
               figures_name_the_largest_holder, a_client_that_dies_leaves_nothing,
               lease_words_full_of_rubbish_do_no_harm, a_lease_anywhere_inside_a_block_holds_it,
               leases_of_other_arenas_hold_nothing_here,
               leases_in_later_chunks_are_seen_when_the_page_says_so,
               slots_that_never_had_a_lease_are_passed_over,
               pins_nest_and_unpinning_the_unpinned_is_harmless,
               aborting_a_pinned_block_waits_for_the_pin,
               memory_that_was_retired_is_used_again_before_the_arena_is_full,
               many_held_values_do_not_make_every_put_slow,
               leases_that_came_since_the_last_scan_are_not_noted_all_at_once,
               a_large_scan_is_made_in_parts, a_split_waits_for_a_large_scan,
               a_crowd_of_clients_is_scanned_quickly_and_none_is_missed)
