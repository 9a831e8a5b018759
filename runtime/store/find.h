/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find.h - the steps of a look-up, inline: reader.c builds reader_find() from them, and get and
 * view of libddict begin with find_fast(). The rules are I5, I8 and I9 of LAYOUT; their order of
 * steps is written here once.
 */
#ifndef DDICT_STORE_FIND_H
#define DDICT_STORE_FIND_H

#include <stdbool.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include "reader.h"

#define FIND_INLINE static inline __attribute__((always_inline))
enum { PROBE_FOUND = 0, PROBE_ABSENT = 1, PROBE_DISTURBED = 2, PROBE_BAD = 3 };

FIND_INLINE const void *find_at(const struct arena_view *a, uint64_t off) {
    return (const uint8_t *)a->header + off;
}
FIND_INLINE uint64_t find_load(const uint64_t *p) {
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
/* Which hashes a segment has, as its writer last said; right only where the move counter, the
 * directory word and the root stood still (I8). */
FIND_INLINE uint64_t find_prefix(const struct segment *g) {
    return __atomic_load_n(&g->prefix, __ATOMIC_RELAXED);
}
FIND_INLINE uint32_t find_depth(const struct segment *g) {
    return __atomic_load_n(&g->depth, __ATOMIC_RELAXED);
}
/* Bytes from the first bucket to the home bucket of h. */
FIND_INLINE uint64_t find_bucket_at(uint64_t h) {
    /* times 255 and 64 in one: below 2^30 */
    uint32_t x = (uint16_t)h * SEGMENT_BUCKETS * (uint32_t)sizeof(struct bucket);
    return x >> 16 & ~(uint32_t)(sizeof(struct bucket) - 1);
}
FIND_INLINE uint64_t find_load64(const void *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}
FIND_INLINE uint32_t find_load32(const void *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* Compares short keys without a call, by two loads that overlap. */
FIND_INLINE bool key_equal(const uint8_t *x, const uint8_t *y, size_t n) {
    if (__builtin_expect(n >= 8, 1)) {
        if (n > 16)
            return memcmp(x, y, n) == 0;
        return find_load64(x) == find_load64(y) && find_load64(x + n - 8) == find_load64(y + n - 8);
    }
    if (n >= 4)
        return find_load32(x) == find_load32(y) && find_load32(x + n - 4) == find_load32(y + n - 4);
    return x[0] == y[0] && x[n / 2] == y[n / 2] && x[n - 1] == y[n - 1];
}

/* The segment of hash h; 0: the manager has not opened the arena yet. */
FIND_INLINE uint64_t find_segment(const struct arena_view *a, uint64_t h) {
    return find_load(&a->dir[DIR_WORD(h, ROOT_DEPTH(find_load(&a->header->root)))]);
}

/*
 * Bit 2i + 1: word i of the bucket may be a slot with the tag (word 0 is the reach, which is no
 * slot). There is no branch on what is found: a branch that the processor guesses wrong would keep
 * it from going on to the next look-up while this one waits for memory. The result is a hint: the
 * words are loaded again, one by one.
 */
FIND_INLINE unsigned bucket_match_plain(const struct bucket *k, uint64_t h) {
    unsigned m = 0;
    for (unsigned i = 0; i < BUCKET_SLOTS; i++)
        m |= (unsigned)(WORD_TAG(__atomic_load_n(&k->slot[i], __ATOMIC_RELAXED)) == HASH_TAG(h))
             << (2 * i + 3);
    return m;
}
#ifdef __SSE2__
/* The same, but the lower 4 bits of the tag are not compared. */
FIND_INLINE unsigned bucket_match_sse2(const struct bucket *k, uint64_t h) {
    const __m128 *v = (const __m128 *)(const void *)k;
    /* the upper 16 bits of the tag */
    __m128i want = _mm_srli_epi64(_mm_cvtsi64_si128((long long)h), 20);
    want = _mm_shufflelo_epi16(want, 0);
    want = _mm_unpacklo_epi64(want, want);
    /* the upper halves of the words: tag << 12 | ... */
    __m128i low = _mm_castps_si128(_mm_shuffle_ps(v[0], v[1], 0xdd));
    __m128i high = _mm_castps_si128(_mm_shuffle_ps(v[2], v[3], 0xdd));
    low = _mm_cmpeq_epi16(low, want);
    high = _mm_cmpeq_epi16(high, want);
    low = _mm_packs_epi16(low, high); /* a byte for each half of these: the upper ones count */
    return (unsigned)_mm_movemask_epi8(low) & 0xaaa8u; /* one bit of two, none for word 0 */
}
#endif
FIND_INLINE unsigned bucket_match(const struct bucket *k, uint64_t h) {
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
    return bucket_match_sse2(k, h);
#else
    return bucket_match_plain(k, h);
#endif
}

FIND_INLINE const uint64_t *bucket_word(const struct bucket *k, unsigned match) {
    size_t bit = (size_t)__builtin_ctz(match);
    return (const uint64_t *)(const void *)((const uint8_t *)k + 4 * bit - 4);
}

/* WORD_OFFSET(word), by two shifts. */
FIND_INLINE uint64_t find_offset(uint64_t word) {
    enum { ABOVE = 64 - WORD_PLACE_BITS };
    return word << ABOVE >> (ABOVE - DD_GRANULE_SHIFT);
}

/* --- the three steps of I5 --- */
FIND_INLINE void find_lease(const struct arena_view *a, uint64_t word, uint64_t *slot) {
    STRESS_POINT(STRESS_R_FOUND);
    if (!MUTANT(MUTANT_NO_LEASE) && !MUTANT(MUTANT_LATE_SLOT))
        __atomic_store_n(slot, a->lease | find_offset(word), __ATOMIC_RELAXED);
    STRESS_POINT(STRESS_R_LEASED);
}
/* Fence G; its partner F is scan_fence() (lease.c). */
FIND_INLINE void find_fence(bool fenced) {
    if (fenced)
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else
        __atomic_signal_fence(
            /* the manager's membarrier makes it a fence when one is needed */
            __ATOMIC_SEQ_CST);
    STRESS_POINT(STRESS_R_FENCED);
}
/* False if the slot word has changed; the lease slot is then 0. */
FIND_INLINE bool find_unchanged(const struct arena_view *a, const uint64_t *from, uint64_t word,
                                uint64_t *slot) {
    if (!MUTANT(MUTANT_NO_RECHECK) && __builtin_expect(find_load(from) != word, 0)) {
        reader_release(slot);
        return false;
    }
    STRESS_POINT(STRESS_R_CHECKED);
    if (MUTANT(MUTANT_LATE_SLOT))
        __atomic_store_n(slot, a->lease | find_offset(word), __ATOMIC_RELAXED);
    return true;
}
FIND_INLINE void find_prefetch(const struct arena_view *a, uint64_t word) {
    const uint8_t *item = find_at(a, WORD_OFFSET(word));
    __builtin_prefetch(item); /* never faults */
    __builtin_prefetch(item + 64);
}

/* Hold the item that word names. False if the slot word has changed; the lease slot is then 0.
 * fenced: a->fenced. */
FIND_INLINE bool find_hold(const struct arena_view *a, const uint64_t *from, uint64_t word,
                           uint64_t *slot, bool fenced) {
    if (fenced)
        find_prefetch(a, word); /* on the way while the fence waits */
    find_lease(a, word, slot);
    find_fence(fenced);
    return find_unchanged(a, from, word, slot);
}

FIND_INLINE bool item_bad(const struct arena_view *a, uint64_t off, const struct item *i) {
    return off > a->last_item || i->check != item_check(i) ||
           i->val_len > a->last_item - off - i->key_len;
}

FIND_INLINE void item_describe(const struct item *item, uint64_t off, struct found *out) {
    out->item = item;
    out->val_len = item->val_len;
    out->value = item_value(item);
    out->off = off;
    out->away = NULL;
}
/* For an item of which item_bad() is true: is its value in the spill? Then *out describes it. */
bool item_elsewhere(const struct arena_view *a, uint64_t off, const struct item *item,
                    struct found *out);

/* Under a lease: is the item at off that of the key? */
FIND_INLINE int find_item(const struct arena_view *a, uint64_t off, uint64_t h, const void *key,
                          size_t key_len, struct found *out) {
    const struct item *item = find_at(a, off);
    bool here = !__builtin_expect(item_bad(a, off, item), 0);
    if (!here && !item_elsewhere(a, off, item, out))
        return PROBE_BAD;
    if (__builtin_expect(
            item->hash != h || item->key_len != key_len || !key_equal(item->key, key, key_len), 0))
        return PROBE_ABSENT;
    if (here)
        item_describe(item, off, out);
    return PROBE_FOUND;
}

/*
 * Where the value is. It is guessed, and the guess is compared with the item: so the value's lines
 * are loaded together with the item's, where a sum with the item's `pad` would wait for the item.
 * The guess is right for a value of 256 bytes and more. The arena begins at a multiple of 64, so
 * addresses may be rounded like offsets. False: it is a link, for which no guess is right.
 */
FIND_INLINE bool find_value(const struct item *item, size_t key_len, const void **value) {
    uintptr_t behind = (uintptr_t)item + sizeof *item + key_len;
    uintptr_t guess = (behind + 63) & ~(uintptr_t)63;
    *value = (const void *)guess;
    if (__builtin_expect(behind + (item->pad & (ITEM_PAD | ITEM_LINK)) == guess, 1))
        return true;
    if (__builtin_expect(item_is_link(item), 0))
        return false;
    *value = item_value_behind(item, key_len);
    return true;
}
/*
 * As find_item(), in fewer steps, for find_fast(): the key decides, and the value's end must lie in
 * the mapping whatever the header says. False also for a link, and a damaged word or header;
 * reader_find() tells them apart.
 */
FIND_INLINE bool find_item_short(const struct arena_view *a, uint64_t off, const void *key,
                                 size_t key_len, struct found *out) {
    const struct item *item = find_at(a, off);
    uint64_t room;
    if (__builtin_expect(__builtin_sub_overflow(a->last_short, off, &room), 0) ||
        __builtin_expect(item->val_len > room, 0))
        return false;
    if (__builtin_expect(item->key_len != key_len || !key_equal(item->key, key, key_len), 0))
        return false;
    if (__builtin_expect(!find_value(item, key_len, &out->value), 0))
        return false;
    out->item = item;
    out->val_len = item->val_len;
    out->off = off;
    return true;
}

/* Follow one slot that may hold the key. tries: how often the word may still change under our hands
 * before we give up. */
FIND_INLINE int find_slot(const struct arena_view *a, const uint64_t *from, uint64_t h,
                          const void *key, size_t key_len, uint64_t *slot, struct found *out,
                          unsigned *tries) {
    for (;;) {
        uint64_t word = find_load(from);
        if (!WORD_LIVE(word) || WORD_TAG(word) != HASH_TAG(h) || word & WORD_HIDDEN)
            return PROBE_ABSENT;
        if (!find_hold(a, from, word, slot, a->fenced)) {
            if (--*tries == 0)
                return PROBE_DISTURBED;
            continue;
        }
        int rc = find_item(a, WORD_OFFSET(word), h, key, key_len, out);
        if (__builtin_expect(rc != PROBE_FOUND, 0))
            reader_release(slot);
        return rc;
    }
}

FIND_INLINE const struct bucket *find_bucket(const struct arena_view *a, uint64_t segment,
                                             uint64_t h) {
    const struct bucket *first = find_at(a, segment + sizeof *first);
    return (const struct bucket *)(const void *)((const uint8_t *)first + find_bucket_at(h));
}

/* The first word with the right tag in bucket k. */
FIND_INLINE bool find_in_bucket(const struct arena_view *a, const struct bucket *k, uint64_t h,
                                const void *key, size_t key_len, uint64_t *slot,
                                struct found *out) {
    unsigned m = bucket_match(k, h);
    if (__builtin_expect(m == 0, 0))
        return false;
    const uint64_t *from = bucket_word(k, m);
    uint64_t word = find_load(from);
    /* EMPTY and MOVED have tag 0, too; they would lead into the header */
    if (__builtin_expect(!WORD_LIVE(word), 0))
        return false;
    if (!find_hold(a, from, word, slot, a->fenced))
        return false;
    if (__builtin_expect(find_item_short(a, find_offset(word), key, key_len, out), 1))
        return true;
    reader_release(slot);
    return false;
}

/*
 * The fast look-up: the first word with the right tag in the key's home bucket, or in the bucket
 * behind it. It finds nearly every hit. False: the key is not there, whatever the reason, and *slot
 * is 0; reader_find() finds the reason. key_len is valid.
 */
FIND_INLINE bool find_fast(const struct arena_view *a, uint64_t h, const void *key, size_t key_len,
                           uint64_t *slot, struct found *out) {
    /* without a segment it is in the page map, where no word leads to this key */
    const struct bucket *k = find_bucket(a, find_segment(a, h), h);
    STRESS_POINT(STRESS_R_DIR);
    if (__builtin_expect(find_in_bucket(a, k, h, key, key_len, slot, out), 1))
        return true;
    return HASH_BUCKET(h) != SEGMENT_BUCKETS - 1 && find_load(&k->reach) != 0 &&
           find_in_bucket(a, k + 1, h, key, key_len, slot, out);
}

#endif
