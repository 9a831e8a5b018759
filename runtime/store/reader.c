/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.c - find a key without a lock (I5, I8, I9). To summarise: a word may be followed only under a lease that was re-checked behind
 * the fence; what is not found is a miss only if root, directory word and move counter stood still meanwhile. Stale words of an old
 * directory, of a segment that was split or of one that was used again are harmless by these two.
 */
#include <base/error.h>
#include <store/find.h>

static int damaged(uint64_t off) {
    return dd_error(DDICT_EPROTO, "the arena is damaged: no item at %llx", (unsigned long long)off);
}

/* One segment. */
FIND_INLINE int probe(const struct arena_view *a, const struct segment *g, uint64_t h, const void *key, size_t key_len, uint64_t *slot, struct found *out,
                      unsigned *tries) {
    unsigned b = HASH_BUCKET(h);
    const struct bucket *k = &g->bucket[b];
    const uint64_t reach = find_load(&k->reach);
    for (uint64_t d = 0;; k = &g->bucket[b]) {
        for (unsigned m = bucket_match(k, h); m; m &= m - 1) {
            const uint64_t *from = bucket_word(k, m);
            int rc = find_slot(a, from, h, key, key_len, slot, out, tries);
            if (rc == PROBE_BAD) return damaged(WORD_OFFSET(find_load(from)));
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
        uint64_t root = find_load(&a->header->root);
        STRESS_POINT(STRESS_R_ROOT);
        const uint64_t *dir = &a->dir[DIR_WORD(h, ROOT_DEPTH(root))];
        uint64_t off = find_load(dir);
        STRESS_POINT(STRESS_R_DIR);
        if (!off) return -EAGAIN; /* the manager has not opened it yet */
        const struct segment *g = find_at(a, off);
        uint64_t moves = find_load(&g->moves);
        STRESS_POINT(STRESS_R_PROBE);
        int rc = probe(a, g, h, key, key_len, slot, out, &tries);
        if (rc <= 0) return rc;
        __atomic_thread_fence(__ATOMIC_ACQUIRE); /* who saw MOVED sees the copy and the odd counter stored before it */
        if (rc == PROBE_ABSENT && (moves & 1)) {
            const struct segment *t = find_at(a, find_load(&g->sibling));
            if (DIR_INDEX(h, t->depth) == t->prefix) {
                rc = probe(a, t, h, key, key_len, slot, out, &tries);
                if (rc <= 0) return rc;
            }
        }
        STRESS_POINT(STRESS_R_MISSED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE); /* the probe's loads before those of the validation */
        if (rc == PROBE_ABSENT && ((find_load(&a->header->root) == root && find_load(dir) == off && find_load(&g->moves) == moves) || MUTANT(MUTANT_BLIND_MISS)))
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
    uint64_t off = find_load(&a->dir[DIR_WORD(h, ROOT_DEPTH(find_load(&a->header->root)))]);
    STRESS_POINT(STRESS_R_DIR);
    if (__builtin_expect(off != 0, 1)) {
        int rc = probe(a, find_at(a, off), h, key, key_len, slot, out, &tries);
        if (__builtin_expect(rc <= 0, 1)) return rc;
    }
    return find_validated(a, h, key, key_len, slot, out, tries);
}

/* The first lines of a value; the one behind the item's first is on its way already. Who reads on in order has the rest brought by the processor. */
#define VALUE_NEAR 512u
static inline void value_prefetch(const struct found *f) {
    uint64_t n = f->val_len < VALUE_NEAR ? f->val_len : VALUE_NEAR;
    for (uint64_t at = 64; at < n; at += 64) __builtin_prefetch((const uint8_t *)f->value + at);
}

void reader_find_many(struct find_one *w, unsigned n) {
    bool fenced = false;
    for (unsigned i = 0; i < n; i++) {
        struct find_one *o = &w[i];
        const struct bucket *k = find_bucket(o->a, find_segment(o->a, o->h), o->h);
        unsigned m = bucket_match(k, o->h);
        o->from = NULL;
        o->found = false;
        if (__builtin_expect(m == 0, 0)) continue;
        const uint64_t *from = bucket_word(k, m);
        uint64_t word = find_load(from);
        if (__builtin_expect(!WORD_LIVE(word), 0)) continue;
        o->from = from;
        o->word = word;
        find_prefetch(o->a, word);
        find_lease(o->a, word, o->slot);
        fenced |= o->a->fenced;
    }
    find_fence(fenced); /* one for all: each lease is stored before it and each word looked at again behind it */
    for (unsigned i = 0; i < n; i++) {
        struct find_one *o = &w[i];
        if (__builtin_expect(!o->from, 0)) continue;
        if (!(MUTANT(MUTANT_FIRST_ONLY) && i > 0) && !find_unchanged(o->a, o->from, o->word, o->slot)) continue;
        o->found = find_item_short(o->a, WORD_OFFSET(o->word), o->key, o->key_len, &o->f);
        if (__builtin_expect(!o->found, 0)) reader_release(o->slot);
        else value_prefetch(&o->f);
    }
}

void reader_prefetch(const struct arena_view *a, uint64_t h, int stage) {
    uint64_t off = find_load(&a->dir[DIR_WORD(h, ROOT_DEPTH(find_load(&a->header->root)))]);
    if (!off) return;
    const struct segment *g = find_at(a, off);
    const struct bucket *k = &g->bucket[HASH_BUCKET(h)];
    if (stage == 0) {
        __builtin_prefetch(k);
        __builtin_prefetch(&g->moves);
        return;
    }
    for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
        uint64_t word = __atomic_load_n(&k->slot[i], __ATOMIC_RELAXED);
        if (WORD_TAG(word) != HASH_TAG(h) || !WORD_LIVE(word)) continue;
        const uint8_t *item = find_at(a, WORD_OFFSET(word));
        __builtin_prefetch(item);
        __builtin_prefetch(item + 64);
    }
}

int reader_item(const struct arena_view *a, uint64_t off, struct found *out) {
    const struct arena_header *h = a->header;
    if (off % ARENA_GRANULE || off < h->heap_off || off - h->heap_off >= h->heap_len + h->spill_len || item_bad(a, off, find_at(a, off))) return damaged(off);
    item_describe(find_at(a, off), off, out);
    return 0;
}
