/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.c - find a key without a lock (I5, I8, I9). In short: a reader follows a word only under a
 * lease that it re-checked behind the fence. A key that it does not find is a miss only if root,
 * directory word and move counter stood still meanwhile. These two rules make stale words harmless:
 * of an old directory, of a segment that was split, and of one that was used again.
 */
#include "find.h"
#include <base/error.h>
#include <base/hash.h>
#include <base/io.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int error_damaged(uint64_t off) {
    return dd_error(DDICT_EPROTO, "the arena is damaged: no item at %llx", (unsigned long long)off);
}

/* One segment. */
FIND_INLINE int probe(const struct arena_view *a, const struct segment *g, uint64_t h,
                      const void *key, size_t key_len, uint64_t *slot, struct found *out,
                      unsigned *tries) {
    unsigned b = HASH_BUCKET(h);
    const struct bucket *k = &g->bucket[b];
    const uint64_t reach = find_load(&k->reach);
    for (uint64_t d = 0;; k = &g->bucket[b]) {
        for (unsigned m = bucket_match(k, h); m; m &= m - 1) {
            const uint64_t *from = bucket_word(k, m);
            int rc = find_slot(a, from, h, key, key_len, slot, out, tries);
            if (rc == PROBE_BAD)
                return error_damaged(WORD_OFFSET(find_load(from)));
            if (rc != PROBE_ABSENT)
                return rc;
        }
        if (++d > reach)
            return PROBE_ABSENT;
        if (++b == SEGMENT_BUCKETS)
            b = 0;
    }
}

/* The whole protocol; find_fast() finds nearly all hits before it. */
static __attribute__((noinline)) int find_validated(const struct arena_view *a, uint64_t h,
                                                    const void *key, size_t key_len, uint64_t *slot,
                                                    struct found *out, unsigned tries) {
    while (tries) {
        uint64_t root = find_load(&a->header->root);
        STRESS_POINT(STRESS_R_ROOT);
        const uint64_t *dir = &a->dir[DIR_WORD(h, ROOT_DEPTH(root))];
        uint64_t off = find_load(dir);
        STRESS_POINT(STRESS_R_DIR);
        if (!off)
            return -EAGAIN; /* the manager has not opened it yet */
        const struct segment *g = find_at(a, off);
        uint64_t moves = find_load(&g->moves);
        STRESS_POINT(STRESS_R_PROBE);
        int rc = probe(a, g, h, key, key_len, slot, out, &tries);
        if (rc <= 0)
            return rc;
        /* a reader that saw MOVED sees the copy and the odd counter, which were stored before it */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (rc == PROBE_ABSENT && (moves & 1)) {
            const struct segment *t = find_at(a, find_load(&g->sibling));
            if (DIR_INDEX(h, find_depth(t)) == find_prefix(t)) {
                rc = probe(a, t, h, key, key_len, slot, out, &tries);
                if (rc <= 0)
                    return rc;
            }
        }
        STRESS_POINT(STRESS_R_MISSED);
        /* the probe's loads before those of the validation */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (rc == PROBE_ABSENT && ((find_load(&a->header->root) == root && find_load(dir) == off &&
                                    find_load(&g->moves) == moves) ||
                                   MUTANT(MUTANT_BLIND_MISS)))
            return DDICT_ENOKEY;
        if (tries)
            tries--;
    }
    return -EAGAIN;
}

/*
 * A hit needs no look at the move counter, which lies in another page than the bucket: an item that
 * find_hold() re-checked is right wherever it was found. So the counter costs only a reader that
 * does not find its key at once.
 */
int reader_find(const struct arena_view *a, uint64_t h, const void *key, size_t key_len,
                uint64_t *slot, struct found *out) {
    unsigned tries = DD_READ_RETRIES;
    uint64_t off = find_load(&a->dir[DIR_WORD(h, ROOT_DEPTH(find_load(&a->header->root)))]);
    STRESS_POINT(STRESS_R_DIR);
    if (__builtin_expect(off != 0, 1)) {
        int rc = probe(a, find_at(a, off), h, key, key_len, slot, out, &tries);
        if (__builtin_expect(rc <= 0, 1))
            return rc;
    }
    return find_validated(a, h, key, key_len, slot, out, tries);
}

/* The first lines of a value; the line behind the item's first is on its way already. When a reader
 * goes on in order the processor fetches the rest by itself. */
#define VALUE_NEAR 512u
static inline void value_prefetch(const struct found *f) {
    uint64_t n = f->val_len < VALUE_NEAR ? f->val_len : VALUE_NEAR;
    for (uint64_t at = 64; at < n; at += 64)
        __builtin_prefetch((const uint8_t *)f->value + at);
}

void reader_find_many(struct find_one *w, unsigned n) {
    bool fenced = false;
    for (unsigned i = 0; i < n; i++) {
        struct find_one *o = &w[i];
        const struct bucket *k = find_bucket(o->a, find_segment(o->a, o->h), o->h);
        unsigned m = bucket_match(k, o->h);
        o->from = NULL;
        o->found = false;
        if (__builtin_expect(m == 0, 0))
            continue;
        const uint64_t *from = bucket_word(k, m);
        uint64_t word = find_load(from);
        if (__builtin_expect(!WORD_LIVE(word), 0))
            continue;
        o->from = from;
        o->word = word;
        find_prefetch(o->a, word);
        find_lease(o->a, word, o->slot);
        fenced |= o->a->fenced;
    }
    /* one fence for all: each lease is stored before it, and each word is read again behind it */
    find_fence(fenced);
    for (unsigned i = 0; i < n; i++) {
        struct find_one *o = &w[i];
        if (__builtin_expect(!o->from, 0))
            continue;
        if (!(MUTANT(MUTANT_FIRST_ONLY) && i > 0) &&
            !find_unchanged(o->a, o->from, o->word, o->slot))
            continue;
        o->found = find_item_short(o->a, WORD_OFFSET(o->word), o->key, o->key_len, &o->f);
        if (__builtin_expect(!o->found, 0))
            reader_release(o->slot);
        else
            value_prefetch(&o->f);
    }
}

int reader_item(const struct arena_view *a, uint64_t off, struct found *out) {
    const struct arena_header *h = a->header;
    if (off % ARENA_GRANULE || off < h->heap_off || off - h->heap_off >= h->heap_len)
        return error_damaged(off);
    if (item_bad(a, off, find_at(a, off)))
        return item_elsewhere(a, off, find_at(a, off), out) ? 0 : error_damaged(off);
    item_describe(find_at(a, off), off, out);
    return 0;
}

/* --- in the spill --- */
bool item_elsewhere(const struct arena_view *a, uint64_t off, const struct item *item,
                    struct found *out) {
    const struct arena_header *h = a->header;
    if (off > h->file_size - sizeof *item || !(item->val_len & ITEM_AWAY) ||
        item->check != item_check(item))
        return false;
    uint64_t len = item_len(item), room = h->file_size - off - sizeof *item;
    if (len > h->spill_len || item->key_len > DDICT_KEY_MAX ||
        item_bytes(item) - sizeof *item > room)
        return false;
    const struct item_away *away = item_away(item);
    if (away->off < h->file_size || away->off - h->file_size > h->spill_len - len)
        return false;
    *out = (struct found){
        .item = item, .value = find_at(a, away->off), .val_len = len, .off = off, .away = away};
    return true;
}

static int error_unread(const struct found *f, const char *what) {
    return dd_error(-EIO, "a value of %llu bytes in the spill can not be read: %s",
                    (unsigned long long)f->val_len, what);
}

static int chunk_read(const struct arena_view *a, const struct found *f, uint8_t *buf, uint64_t at,
                      uint64_t len) {
    ssize_t n = read_all_at(a->spill_fd, buf, len, f->away->off - a->header->file_size + at);
    if (n != (ssize_t)len)
        return error_unread(f, n < 0 ? dd_strerror((int)n) : "its file is shorter than it was");
    return XXH3_64bits(buf, len) == f->away->sum[at / DD_SPILL_CHUNK]
               ? 0
               : error_unread(f, "its disk gave back other bytes than were written");
}

int away_read(const struct arena_view *a, const struct found *f, void *buf, uint64_t at,
              uint64_t len) {
    int rc = 0;
    for (uint64_t n, done = 0; rc == 0 && done < len; done += n) {
        /* by chunks: the sum of one that is in the cache is cheap */
        n = len - done < DD_SPILL_CHUNK ? len - done : DD_SPILL_CHUNK;
        rc = chunk_read(a, f, (uint8_t *)buf + done, at + done, n);
    }
    return rc;
}

int away_check(const struct arena_view *a, const struct found *f) {
    uint8_t *buf = malloc(DD_SPILL_CHUNK);
    int rc = buf ? 0 : dd_error(-ENOMEM, "no memory to read a value in the spill");
    for (uint64_t n, at = 0; rc == 0 && at < f->val_len; at += n) {
        n = f->val_len - at < DD_SPILL_CHUNK ? f->val_len - at : DD_SPILL_CHUNK;
        rc = chunk_read(a, f, buf, at, n);
    }
    free(buf);
    return rc;
}
