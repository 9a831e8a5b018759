/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.c - find a key without a lock (I5, I8, I9). To summarise: a word may be followed only under a lease that was re-checked behind
 * the fence; what is not found is a miss only if root, directory word and move counter stood still meanwhile. Stale words of an old
 * directory, of a segment that was split or of one that was used again are harmless by these two.
 */
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <base/error.h>
#include <store/reader.h>

enum { PROBE_FOUND = 0, PROBE_ABSENT = 1, PROBE_DISTURBED = 2 };

static inline const void *at(const struct arena_view *a, uint64_t off) { return (const uint8_t *)a->header + off; }
static inline uint64_t load(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline uint64_t load64(const void *p) { uint64_t v; memcpy(&v, p, 8); return v; }
static inline uint32_t load32(const void *p) { uint32_t v; memcpy(&v, p, 4); return v; }

/* Short keys without a call: two loads that overlap. */
static inline int key_equal(const uint8_t *x, const uint8_t *y, size_t n) {
    if (n >= 8) {
        if (n > 16) return memcmp(x, y, n) == 0;
        return load64(x) == load64(y) && load64(x + n - 8) == load64(y + n - 8);
    }
    if (n >= 4) return load32(x) == load32(y) && load32(x + n - 4) == load32(y + n - 4);
    return x[0] == y[0] && x[n / 2] == y[n / 2] && x[n - 1] == y[n - 1];
}

static int damaged(uint64_t off) {
    return dd_error(DDICT_EPROTO, "the arena is damaged: no item at %llx", (unsigned long long)off);
}

static inline int item_bad(const struct arena_view *a, uint64_t off, const struct item *i) {
    return off > a->map_len - sizeof(struct item) || i->check != item_check(i) || i->val_len > a->map_len - off - sizeof(struct item) - i->key_len;
}

static inline void describe(const struct item *item, uint64_t off, struct found *out) {
    out->item = item;
    out->val_len = item->val_len;
    out->value = (const uint8_t *)item + item_value_at(off, item->key_len, item->val_len);
    out->off = off;
}

/* Hold what word names. False when the slot word is no longer the same; the lease slot is then 0. */
static inline __attribute__((always_inline)) int hold(const struct arena_view *a, const uint64_t *from, uint64_t word, uint64_t *slot) {
    uint64_t lease = LEASE_WORD(a->local_index, WORD_OFFSET(word));
    const uint8_t *item = at(a, WORD_OFFSET(word));
    __builtin_prefetch(item); /* on the way while the fence waits; never faults */
    __builtin_prefetch(item + 64);
    STRESS_POINT(STRESS_R_FOUND);
    if (!MUTANT(MUTANT_NO_LEASE) && !MUTANT(MUTANT_LATE_SLOT)) __atomic_store_n(slot, lease, __ATOMIC_RELAXED);
    STRESS_POINT(STRESS_R_LEASED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* G; its partner F is in store_reclaim() */
    STRESS_POINT(STRESS_R_FENCED);
    if (!MUTANT(MUTANT_NO_RECHECK) && load(from) != word) {
        reader_release(slot);
        return 0;
    }
    STRESS_POINT(STRESS_R_CHECKED);
    if (MUTANT(MUTANT_LATE_SLOT)) __atomic_store_n(slot, lease, __ATOMIC_RELAXED);
    return 1;
}

/*
 * Bit i: slot i may hold the tag. Without a branch on what is found: a branch that the processor guesses wrong would keep it from going on
 * to the next look-up while this one waits for memory. Only a hint: words are loaded again, one by one.
 */
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
static inline unsigned bucket_match(const struct bucket *k, uint32_t tag) {
    const __m128 *v = (const __m128 *)(const void *)k;
    const __m128i want = _mm_set1_epi32((int)tag);
    __m128i low = _mm_castps_si128(_mm_shuffle_ps(v[0], v[1], 0xdd)); /* the upper halves of the words: tag << 12 | ... */
    __m128i high = _mm_castps_si128(_mm_shuffle_ps(v[2], v[3], 0xdd));
    low = _mm_cmpeq_epi32(_mm_srli_epi32(low, 12), want);
    high = _mm_cmpeq_epi32(_mm_srli_epi32(high, 12), want);
    unsigned m = (unsigned)_mm_movemask_ps(_mm_castsi128_ps(low)) | (unsigned)_mm_movemask_ps(_mm_castsi128_ps(high)) << 4;
    return m >> 1; /* the first word is reach */
}
#else
static inline unsigned bucket_match(const struct bucket *k, uint32_t tag) {
    unsigned m = 0;
    for (unsigned i = 0; i < BUCKET_SLOTS; i++) m |= (unsigned)(WORD_TAG(__atomic_load_n(&k->slot[i], __ATOMIC_RELAXED)) == tag) << i;
    return m;
}
#endif

/* Follow one slot that may hold the key. tries: words that may still change under our hands before we give up. */
static inline __attribute__((always_inline)) int probe_slot(const struct arena_view *a, const uint64_t *from, uint64_t h, const void *key, size_t key_len, uint64_t *slot,
                             struct found *out, unsigned *tries) {
    for (;;) {
        uint64_t word = load(from), off = WORD_OFFSET(word);
        if (!WORD_LIVE(word) || WORD_TAG(word) != HASH_TAG(h)) return PROBE_ABSENT;
        if (!hold(a, from, word, slot)) {
            if (--*tries == 0) return PROBE_DISTURBED;
            continue;
        }
        const struct item *item = at(a, off);
        if (__builtin_expect(item_bad(a, off, item), 0)) {
            reader_release(slot);
            return damaged(off);
        }
        if (__builtin_expect(item->hash == h && item->key_len == key_len && key_equal(item->key, key, key_len), 1)) {
            describe(item, off, out);
            return PROBE_FOUND;
        }
        reader_release(slot);
        return PROBE_ABSENT;
    }
}

/* One segment. */
static inline __attribute__((always_inline)) int probe(const struct arena_view *a, const struct segment *g, uint64_t h, const void *key, size_t key_len, uint64_t *slot,
                        struct found *out, unsigned *tries) {
    unsigned b = HASH_BUCKET(h);
    const struct bucket *k = &g->bucket[b];
    const uint64_t reach = load(&k->reach);
    for (uint64_t d = 0;; k = &g->bucket[b]) {
        for (unsigned m = bucket_match(k, (uint32_t)HASH_TAG(h)); m; m &= m - 1) {
            int rc = probe_slot(a, &k->slot[__builtin_ctz(m)], h, key, key_len, slot, out, tries);
            if (rc != PROBE_ABSENT) return rc;
        }
        if (++d > reach) return PROBE_ABSENT;
        if (++b == SEGMENT_BUCKETS) b = 0;
    }
}

/* The whole protocol; hits are found by the short way before it nearly always. */
static __attribute__((noinline)) int find_validated(const struct arena_view *a, uint64_t h, const void *key, size_t key_len, uint64_t *slot,
                                                    struct found *out, unsigned tries) {
    while (tries) {
        uint64_t root = load(&a->header->root);
        STRESS_POINT(STRESS_R_ROOT);
        const uint64_t *dir = &a->dir[DIR_WORD(h, ROOT_DEPTH(root))];
        uint64_t off = load(dir);
        STRESS_POINT(STRESS_R_DIR);
        if (!off) return -EAGAIN; /* the manager has not opened it yet */
        const struct segment *g = at(a, off);
        uint64_t moves = load(&g->moves);
        STRESS_POINT(STRESS_R_PROBE);
        int rc = probe(a, g, h, key, key_len, slot, out, &tries);
        if (rc <= 0) return rc;
        __atomic_thread_fence(__ATOMIC_ACQUIRE); /* who saw MOVED sees the copy and the odd counter stored before it */
        if (rc == PROBE_ABSENT && (moves & 1)) {
            const struct segment *t = at(a, load(&g->sibling));
            if (DIR_INDEX(h, t->depth) == t->prefix) {
                rc = probe(a, t, h, key, key_len, slot, out, &tries);
                if (rc <= 0) return rc;
            }
        }
        STRESS_POINT(STRESS_R_MISSED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE); /* the probe's loads before those of the validation */
        if (rc == PROBE_ABSENT && ((load(&a->header->root) == root && load(dir) == off && load(&g->moves) == moves) || MUTANT(MUTANT_BLIND_MISS)))
            return DDICT_ENOKEY;
        if (tries) tries--;
    }
    return -EAGAIN;
}

/*
 * A hit needs no look at the move counter, which lies in another page than the bucket: what hold() re-checked is right wherever it was
 * found. So the counter costs only those who do not find their key at once.
 */
int reader_find(const struct arena_view *a, uint64_t h, const void *key, size_t key_len, uint64_t *slot, struct found *out) {
    unsigned tries = DD_READ_RETRIES;
    uint64_t off = load(&a->dir[DIR_WORD(h, ROOT_DEPTH(load(&a->header->root)))]);
    STRESS_POINT(STRESS_R_DIR);
    if (__builtin_expect(off != 0, 1)) {
        int rc = probe(a, at(a, off), h, key, key_len, slot, out, &tries);
        if (__builtin_expect(rc <= 0, 1)) return rc;
    }
    return find_validated(a, h, key, key_len, slot, out, tries);
}

void reader_prefetch(const struct arena_view *a, uint64_t h, int stage) {
    uint64_t off = load(&a->dir[DIR_WORD(h, ROOT_DEPTH(load(&a->header->root)))]);
    if (!off) return;
    const struct segment *g = at(a, off);
    const struct bucket *k = &g->bucket[HASH_BUCKET(h)];
    if (stage == 0) {
        __builtin_prefetch(k);
        __builtin_prefetch(&g->moves);
        return;
    }
    for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
        uint64_t word = __atomic_load_n(&k->slot[i], __ATOMIC_RELAXED);
        if (WORD_TAG(word) != HASH_TAG(h) || !WORD_LIVE(word)) continue;
        const uint8_t *item = at(a, WORD_OFFSET(word));
        __builtin_prefetch(item);
        __builtin_prefetch(item + 64);
    }
}

int reader_item(const struct arena_view *a, uint64_t off, struct found *out) {
    const struct arena_header *h = a->header;
    if (off % ARENA_GRANULE || off < h->heap_off || off - h->heap_off >= h->heap_len || item_bad(a, off, at(a, off))) return damaged(off);
    describe(at(a, off), off, out);
    return 0;
}
