/* SPDX-License-Identifier: Apache-2.0 */
/* store_reader.c - the read side in states that last only microseconds, made by hand: invariants
 * I5, I8, I9, and damaged items. */
#include "store_test.h"
#include <store/index.h>
#include <store/segment.h>

#include <errno.h>
#include <pthread.h>

static void before(void) {
    box_open(64 * MIB);
}
static void after(void) {
    box_close();
}

static struct segment *segment_of(uint64_t k) {
    char key[32];
    uint32_t n = key_name(key, k);
    return index_segment(box.s, hash_of(key, n));
}
static uint64_t *word_of(uint64_t k) {
    char key[32];
    struct index_place p;
    uint32_t n = key_name(key, k);
    index_find(box.s, hash_of(key, n), key, n, &p);
    return p.slot;
}

START_TEST(short_keys_are_compared_whole) {
    /* Keys that differ in one byte, at every place, of every length that is compared inline. */
    uint8_t a[40], b[40];
    struct found f;
    for (uint32_t n = 1; n <= 40; n++) {
        value_fill(a, n, n);
        ck_assert_int_eq(put_bytes(a, n, 0, 0, STORE_ANY), 0);
        struct store_ref ref;
        ck_assert_int_eq(store_find(box.s, a, n, &ref), 0);
        for (uint32_t i = 0; i < n; i++) {
            memcpy(b, a, n);
            b[i] ^= 1;
            /* Asked for with the hash of a, only the bytes decide. */
            ck_assert_int_eq(reader_find(&box.view, ref.item->hash, b, n, &box.page->slot[0], &f),
                             DDICT_ENOKEY);
        }
        ck_assert_int_eq(reader_find(&box.view, ref.item->hash, a, n, &box.page->slot[0], &f), 0);
        reader_release(&box.page->slot[0]);
        if (n > 1)
            ck_assert_int_eq(
                reader_find(&box.view, ref.item->hash, a, n - 1, &box.page->slot[0], &f),
                DDICT_ENOKEY);
    }
}
END_TEST

#ifdef __SSE2__
START_TEST(both_ways_of_matching_a_bucket_agree) {
    static struct bucket k;
    uint64_t n = 1;
    for (unsigned turn = 0; turn < 20000; turn++) {
        uint64_t h = hash_of(&n, sizeof n);
        for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
            n = n * 6364136223846793005u + 1442695040888963407u;
            /* some have the tag, some all of it but one bit, some any */
            uint64_t tag = n >> 61 == 0  ? n >> 20 & 0xfffff
                           : n >> 61 < 4 ? HASH_TAG(h)
                                         : HASH_TAG(h) ^ 1u << (n >> 40) % 20;
            k.slot[i] = tag << WORD_OFFSET_BITS | (n >> 30 & WORD_OFFSET_MASK);
        }
        k.reach = HASH_TAG(h) << WORD_OFFSET_BITS; /* is no slot, whatever it looks like */
        unsigned plain = bucket_match_plain(&k, h), sse2 = bucket_match_sse2(&k, h);
        ck_assert_uint_eq(plain & ~sse2, 0);
        ck_assert_uint_eq(sse2 & ~0xaaa8u, 0);
        for (unsigned more = sse2 & ~plain; more; more &= more - 1)
            ck_assert_uint_eq((WORD_TAG(*bucket_word(&k, more)) ^ HASH_TAG(h)) & 0xffff0, 0);
    }
}
END_TEST
#define SSE2_TESTS both_ways_of_matching_a_bucket_agree,
#else
#define SSE2_TESTS
#endif

START_TEST(the_lease_names_the_item_and_this_arena) {
    struct found f;
    put(1, 100, 1);
    ck_assert_int_eq(look_slot(1, 8, &f), 0);
    ck_assert_uint_eq(box.page->slot[8], LEASE_WORD(7, f.off));
    ck_assert_uint_eq(LEASE_ARENA(box.page->slot[8]), 7);
    ck_assert_uint_eq(LEASE_OFFSET(box.page->slot[8]), f.off);
    ck_assert_ptr_eq(f.item, (const uint8_t *)box.view.header + f.off);
    reader_release(&box.page->slot[8]);
    ck_assert_uint_eq(box.page->slot[8], 0);
}
END_TEST

/* The bit of its word that says so is no part of where it is: else the lease would hold nothing. */
START_TEST(the_lease_of_a_hidden_key_names_its_item) {
    static const char key[] = "sddict.lock";
    uint64_t *slot = &box.page->slot[8], h = hash_of(key, sizeof key - 1);
    struct found f;
    ck_assert_int_eq(put_bytes(key, sizeof key - 1, 100, 1, STORE_ANY), 0);
    ck_assert_int_eq(reader_find(&box.view, h, key, sizeof key - 1, slot, &f), 0);
    ck_assert_ptr_eq(f.item, (const uint8_t *)box.view.header + f.off);
    ck_assert_uint_eq(*slot, LEASE_WORD(7, f.off));
    reader_release(slot);
    ck_assert(find_fast(&box.view, h, key, sizeof key - 1, slot, &f));
    ck_assert_uint_eq(*slot, LEASE_WORD(7, f.off));
    reader_release(slot);
}
END_TEST

START_TEST(while_a_segment_splits_the_key_is_found_on_both_sides_of_the_move) {
    for (uint64_t k = 0; k < 50; k++)
        put(k, 10, k);
    struct segment *old = segment_of(0);
    uint64_t off;
    ck_assert_int_eq(segment_make(box.s, false, &off), 0);
    struct segment *to = arena_at(box.s, off);
    to->depth = 1;
    to->prefix = 1;
    old->sibling = off;
    old->moves++;
    /* Move word by word; at every moment every key is there, and what is not there is a miss and
     * not a retry. */
    for (uint64_t k = 0; k < 50; k++) {
        char key[32];
        uint32_t n = key_name(key, k);
        uint64_t h = hash_of(key, n), *from = word_of(k);
        if (h >> 63) {
            uint64_t *into = to->bucket[HASH_BUCKET(h)].slot;
            while (*into)
                into++; /* 50 keys do not fill a bucket */
            *into = *from;
            if (k % 2)
                *from = WORD_MOVED;
        }
        for (uint64_t i = 0; i < 50; i++)
            ck_assert(seen(i, 10, i));
        ck_assert(!seen(100 + k, 0, 0));
    }
}
END_TEST

START_TEST(a_key_of_the_lower_half_is_not_sought_in_the_sibling) {
    struct found f;
    put(1, 10, 1);
    struct segment *old = segment_of(1);
    uint64_t off, h = 0, word;
    char key[32];
    uint32_t n = 0;
    /* A key whose top bit is 0, with its word in the sibling only: it must be a miss. */
    for (uint64_t k = 2;; k++) {
        n = key_name(key, k);
        h = hash_of(key, n);
        if (h >> 63)
            continue;
        put(k, 10, k);
        word = *word_of(k);
        *word_of(k) = WORD_EMPTY;
        break;
    }
    ck_assert_int_eq(segment_make(box.s, false, &off), 0);
    struct segment *to = arena_at(box.s, off);
    to->depth = 1;
    to->prefix = 1;
    to->bucket[HASH_BUCKET(h)].slot[0] = word;
    old->sibling = off;
    old->moves++;
    ck_assert_int_eq(reader_find(&box.view, h, key, n, &box.page->slot[0], &f), DDICT_ENOKEY);
}
END_TEST

static int stop; /* atomic */
static uint64_t *swing_at, swing_a, swing_b;
static void *swing(void *arg) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        __atomic_store_n(swing_at, swing_b, __ATOMIC_RELEASE);
        __atomic_store_n(swing_at, swing_a, __ATOMIC_RELEASE);
    }
    return NULL;
}

START_TEST(a_word_that_swings_for_ever_is_given_up_or_read_whole) {
    struct store_ref b;
    put(1, 100, 1);
    swing_at = word_of(1);
    swing_a = *swing_at;
    ck_assert_int_eq(store_reserve(box.s, "k1", 2, 100, 9, &b), 0);
    value_fill(b.value, 100, 2);
    b.item->check = item_check(b.item);
    swing_b = WORD_MAKE(b.item->hash, b.off);
    pthread_t t;
    __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
    ck_assert_int_eq(pthread_create(&t, NULL, swing, NULL), 0);
    for (int i = 0; i < 300000; i++) {
        struct found f;
        int rc = look_slot(1, 0, &f);
        if (rc != -EAGAIN &&
            (rc || (!value_right(f.value, 100, 1) && !value_right(f.value, 100, 2))))
            ck_abort_msg("code %d", rc);
        if (rc == -EAGAIN && box.page->slot[0])
            ck_abort_msg("the lease stayed");
        reader_release(&box.page->slot[0]);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(t, NULL);
}
END_TEST

START_TEST(damaged_items_are_errors_and_leave_no_lease) {
    struct store_ref ref;
    struct found f;
    for (int what = 0; what < 6; what++) {
        put(1, 100, 1);
        ck_assert_int_eq(store_find(box.s, "k1", 2, &ref), 0);
        struct item *i = ref.item, good = *i;
        if (what == 0)
            i->check ^= 1;
        if (what == 1)
            i->val_len++;
        if (what == 2)
            i->key_len++;
        if (what == 3)
            i->version++;
        if (what == 4)
            i->val_len = UINT64_MAX - 100, i->check = item_check(i);
        if (what == 5)
            memset(i, 0, sizeof *i);
        ck_assert_int_eq(look_slot(1, 0, &f), DDICT_EPROTO);
        ck_assert_uint_eq(box.page->slot[0], 0);
        ck_assert_int_eq(reader_item(&box.view, ref.off, &f), DDICT_EPROTO);
        memcpy(i, &good, sizeof good);
        ck_assert(seen(1, 100, 1));
    }
    /* A word that names nothing. */
    uint64_t *word = word_of(1), good = *word;
    *word = (good & ~((1ull << WORD_OFFSET_BITS) - 1)) | (box.view.map_len >> 4);
    ck_assert_int_eq(look_slot(1, 0, &f), DDICT_EPROTO);
    *word = good;
    ck_assert(seen(1, 100, 1));
}
END_TEST

START_TEST(offsets_of_completions_are_checked) {
    struct found f;
    const struct arena_header *h = box.view.header;
    uint64_t top = h->heap_off + h->heap_len;
    const uint64_t bad[] = {0,        16,         h->heap_off - 16, h->heap_off + 8, top,
                            top - 16, UINT64_MAX, UINT64_MAX - 15,  1ull << 48};
    put(1, 10, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(reader_item(&box.view, bad[i], &f), DDICT_EPROTO);
}
END_TEST

START_TEST(a_walk_is_given_up_when_a_split_does_not_end) {
    uint64_t cursor = 0, n = 0;
    put(1, 10, 1);
    segment_of(1)->moves++;
    ck_assert_int_eq(reader_keys(&box.view, &cursor, &box.page->slot[0], count_key, &n), -EAGAIN);
    ck_assert_uint_eq(n, 0);
    ck_assert_uint_eq(cursor, 0);
    segment_of(1)->moves++;
    ck_assert_int_eq(reader_keys(&box.view, &cursor, &box.page->slot[0], count_key, &n), 1);
}
END_TEST

START_TEST(walks_of_both_sides_take_each_others_cursors) {
    for (uint64_t k = 0; k < 20000; k++)
        put(k, 1, k);
    uint64_t cursor = 0, n = 0, turns = 0;
    do {
        int rc = turns++ % 2 ? store_keys(box.s, &cursor, count_key, &n)
                             : reader_keys(&box.view, &cursor, &box.page->slot[0], count_key, &n);
        ck_assert_int_ge(rc, 0);
    } while (cursor);
    ck_assert_uint_eq(n, 20000);
    ck_assert_uint_gt(turns, 8);
}
END_TEST

UNIT_MAIN_WITH("store_reader", before, after, short_keys_are_compared_whole,
               SSE2_TESTS the_lease_names_the_item_and_this_arena,
               the_lease_of_a_hidden_key_names_its_item,
               while_a_segment_splits_the_key_is_found_on_both_sides_of_the_move,
               a_key_of_the_lower_half_is_not_sought_in_the_sibling,
               a_word_that_swings_for_ever_is_given_up_or_read_whole,
               damaged_items_are_errors_and_leave_no_lease, offsets_of_completions_are_checked,
               a_walk_is_given_up_when_a_split_does_not_end,
               walks_of_both_sides_take_each_others_cursors)
