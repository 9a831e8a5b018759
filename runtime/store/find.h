/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find.h - the steps of a look-up, inline: reader.c puts them together to reader_find(), libddict to its shortest way. The rules are I5, I8 and I9
 * of LAYOUT; what they say about the order of steps is written here once.
 */
#ifndef DDICT_STORE_FIND_H
#define DDICT_STORE_FIND_H

#include <stdbool.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <store/reader.h>

#define FIND_INLINE static inline __attribute__((always_inline))
enum { PROBE_FOUND = 0, PROBE_ABSENT = 1, PROBE_DISTURBED = 2, PROBE_BAD = 3 };

FIND_INLINE const void *find_at(const struct arena_view *a, uint64_t off) {
    return (const uint8_t *)a->header + off;
}
FIND_INLINE uint64_t find_load(const uint64_t *p) {
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
/* Steps for which gcc knows no short code by itself. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define FIND_ASM 1
#else
#define FIND_ASM 0
#endif
/* As find_load(p) == v. */
FIND_INLINE bool find_same(const uint64_t *p, uint64_t v) {
#if FIND_ASM
    bool same;
    __asm__ volatile("cmpq %2, %1"
                     : "=@cce"(same)
                     : "m"(*p), "r"(v)
                     : "memory"); /* loads keep their order on this machine */
    return same;
#else
    return find_load(p) == v;
#endif
}
/* DIR_WORD(h, depth). */
FIND_INLINE uint64_t find_dir_word(uint64_t h, uint32_t depth) {
#if FIND_ASM
    uint64_t word = 1;
    __asm__("shldq %%cl, %2, %0" : "+r"(word) : "c"(depth), "r"(h) : "cc");
    return word;
#else
    return DIR_WORD(h, depth);
#endif
}
/* Where the home bucket of h stands behind the first one. */
FIND_INLINE uint64_t find_bucket_at(uint64_t h) {
    uint32_t x; /* times 255 and 64 in one: below 2^30 */
#if FIND_ASM
    __asm__("imull %2, %1, %0"
            : "=r"(x)
            : "r"((uint32_t)(uint16_t)h), "i"(SEGMENT_BUCKETS * sizeof(struct bucket))
            : "cc");
#else
    x = (uint16_t)h * SEGMENT_BUCKETS * (uint32_t)sizeof(struct bucket);
#endif
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

/* Short keys without a call: two loads that overlap. */
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

/* The segment of hash h, 0: the manager has not opened it yet. */
FIND_INLINE uint64_t find_segment(const struct arena_view *a, uint64_t h) {
    return find_load(&a->dir[find_dir_word(h, ROOT_DEPTH(find_load(&a->header->root)))]);
}

/*
 * Bit 2i + 1: word i of the bucket may be a slot with the tag (word 0 is reach, which is none). Without a branch on what is found: a branch that the processor guesses wrong would keep it from going on
 * to the next look-up while this one waits for memory. Only a hint: words are loaded again, one by one.
 */
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
FIND_INLINE unsigned bucket_match(const struct bucket *k, uint64_t h) {
    const __m128 *v = (const __m128 *)(const void *)k;
    __m128i want =
        _mm_srli_epi64(_mm_cvtsi64_si128((long long)h), 20); /* the upper 16 bits of the tag */
    want = _mm_shufflelo_epi16(want, 0);
    want = _mm_unpacklo_epi64(want, want);
    __m128i low = _mm_castps_si128(
        _mm_shuffle_ps(v[0], v[1], 0xdd)); /* the upper halves of the words: tag << 12 | ... */
    __m128i high = _mm_castps_si128(_mm_shuffle_ps(v[2], v[3], 0xdd));
    low = _mm_cmpeq_epi16(low, want);
    high = _mm_cmpeq_epi16(high, want);
    __asm__("" : "+x"(low));          /* or gcc copies it */
    low = _mm_packs_epi16(low, high); /* a byte for each half of these: the upper ones count */
    return (unsigned)_mm_movemask_epi8(low) & 0xaaa8u; /* one bit of two, none for word 0 */
}
#else
FIND_INLINE unsigned bucket_match(const struct bucket *k, uint64_t h) {
    unsigned m = 0;
    for (unsigned i = 0; i < BUCKET_SLOTS; i++)
        m |= (unsigned)(WORD_TAG(__atomic_load_n(&k->slot[i], __ATOMIC_RELAXED)) == HASH_TAG(h))
             << (2 * i + 3);
    return m;
}
#endif

FIND_INLINE const uint64_t *bucket_word(const struct bucket *k, unsigned match) {
    size_t bit;
#if FIND_ASM
    __asm__("rep bsfl %1, %k0"
            : "=r"(bit)
            : "r"(match)
            : "cc"); /* tzcnt, or bsf on old processors: the same, as match is not 0 */
#else
    bit = (size_t)__builtin_ctz(match);
#endif
    return (const uint64_t *)(const void *)((const uint8_t *)k + 4 * bit - 4);
}

/* WORD_OFFSET(word), by two shifts. */
FIND_INLINE uint64_t find_offset(uint64_t word) {
    return word << (64 - WORD_OFFSET_BITS) >> (64 - WORD_OFFSET_BITS - DD_GRANULE_SHIFT);
}

/* --- the three steps of I5 --- */
FIND_INLINE void find_lease(const struct arena_view *a, uint64_t word, uint64_t *slot) {
    STRESS_POINT(STRESS_R_FOUND);
    if (!MUTANT(MUTANT_NO_LEASE) && !MUTANT(MUTANT_LATE_SLOT))
        __atomic_store_n(slot, a->lease | find_offset(word), __ATOMIC_RELAXED);
    STRESS_POINT(STRESS_R_LEASED);
}
/* G; its partner F is in store_reclaim(). */
FIND_INLINE void find_fence(bool fenced) {
    if (fenced)
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else
        __atomic_signal_fence(
            __ATOMIC_SEQ_CST); /* the manager's membarrier makes it a fence when one is needed */
    STRESS_POINT(STRESS_R_FENCED);
}
/* False when the slot word is no longer the same; the lease slot is then 0. */
FIND_INLINE bool find_unchanged(const struct arena_view *a, const uint64_t *from, uint64_t word,
                                uint64_t *slot) {
    if (!MUTANT(MUTANT_NO_RECHECK) && __builtin_expect(!find_same(from, word), 0)) {
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

/* Hold what word names. False when the slot word is no longer the same; the lease slot is then 0. fenced: a->fenced. */
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
/* item_bad() said so: is it one whose value is in the spill? Then *out describes it. */
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
 * As find_item(), in fewer steps, for the short way: the key decides, and the value's end must lie in the mapping whatever the header says. A word or
 * header that is damaged is not found so; reader_find() says what it is.
 */
/*
 * Where the value is, as a guess that is compared with what the item says, not as a sum with it: so its lines are on their way together with the item's, where the sum would wait for
 * it to come. The guess is that of a value of 256 bytes and more; the arena begins at a multiple of 64, so do its items' addresses and offsets.
 */
FIND_INLINE const void *find_value(const struct item *item, size_t key_len) {
    uintptr_t behind = (uintptr_t)item + sizeof *item + key_len;
#if FIND_ASM
    bool
        good; /* a pad is below 64, so only one leads to a multiple of 64. In a byte: it needs no register of its own */
    __asm__("" : "+r"(behind));
    uintptr_t guess = (behind + 63) & ~(uintptr_t)63;
    __asm__("addb %2, %b1\n\ttestb $63, %b1"
            : "=@ccz"(good), "+r"(behind)
            : "m"(item->pad), "r"(guess));
    if (__builtin_expect(good, 1))
        return (const void *)guess;
    __asm__("" : "+r"(item)); /* its key_len from there again: key_len needs no register so long */
    return item_value(item);
#else
    uintptr_t guess = (behind + 63) & ~(uintptr_t)63;
    return __builtin_expect(behind + item->pad == guess, 1) ? (const void *)guess
                                                            : item_value_behind(item, key_len);
#endif
}
FIND_INLINE bool find_item_short(const struct arena_view *a, uint64_t off, const void *key,
                                 size_t key_len, struct found *out) {
    const struct item *item = find_at(a, off);
    uint64_t room;
    if (__builtin_expect(__builtin_sub_overflow(a->last_short, off, &room), 0) ||
        __builtin_expect(item->val_len > room, 0))
        return false;
    size_t n = key_len;
    __asm__(
        ""
        : "+r"(n),
          "+r"(item)); /* or gcc keeps in registers what it can load or add up again for nothing */
    if (__builtin_expect(item->key_len != (uint32_t)n, 0))
        return false;
    const uint8_t *x = (const uint8_t *)item + sizeof *item, *y = key;
    if (__builtin_expect(key_len - 9 < 8 ? find_load64(x) != find_load64(y) ||
                                               find_load64(x - 8 + n) != find_load64(y - 8 + n)
                                         : !key_equal(x, y, n),
                         0))
        return false;
    out->value = find_value(item, n);
    __asm__("" : "+r"(item));
    out->item = item;
    out->val_len = item->val_len;
    out->off = off;
    return true;
}

/* Follow one slot that may hold the key. tries: words that may still change under our hands before we give up. */
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
    const uint8_t *k = (const uint8_t *)find_at(a, segment) + find_bucket_at(h);
    __asm__("" : "+r"(k)); /* one address, from which all words are reached */
    return (const struct bucket *)(const void *)k + 1;
}

/*
 * The short way: only the first word with the right tag in the bucket where the key is at home. Nearly every hit is found so. False: not there, whatever
 * the reason, and *slot is 0; reader_find() knows. key_len is valid. fenced: a->fenced. next: in the bucket behind it, where nearly all the others are.
 */
FIND_INLINE bool find_short(const struct arena_view *a, uint64_t h, const void *key, size_t key_len,
                            uint64_t *slot, struct found *out, bool fenced, bool next) {
    const struct bucket *k = find_bucket(
        a, find_segment(a, h),
        h); /* in the page map while there is no segment, where no word leads to this key */
    STRESS_POINT(STRESS_R_DIR);
    if (next && (HASH_BUCKET(h) == SEGMENT_BUCKETS - 1 || find_load(&k++->reach) == 0))
        return false;
    unsigned m = bucket_match(k, h);
    if (__builtin_expect(m == 0, 0))
        return false;
    const uint64_t *from = bucket_word(k, m);
    uint64_t word = find_load(
        from); /* where tag 0 is wanted perhaps EMPTY or MOVED: these lead into the header, where no key stands */
    if (!find_hold(a, from, word, slot, fenced))
        return false;
    if (__builtin_expect(find_item_short(a, find_offset(word), key, key_len, out), 1))
        return true;
    reader_release(slot);
    return false;
}

#endif
