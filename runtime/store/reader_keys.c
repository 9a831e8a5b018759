/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader_keys.c - the keys of one segment, exact for those that are present throughout. First the
 * words are copied; the copy counts only if no split came between (I8). Then each key is copied
 * under a lease of its own; again the result counts only if no split came between. A word that was
 * replaced meanwhile is followed if its tag is the same: it names the same key, or one that was not
 * present throughout.
 */
#include "find.h"
#include <base/error.h>
#include <base/vec.h>

#include <stdlib.h>
#include <string.h>

struct keys { /* the copies: u32 length, bytes, again and again */
    uint8_t *buf;
    size_t len, cap;
    int count;
};

struct look { /* what must stand still */
    const uint64_t *dir;
    const struct segment *segment;
    uint64_t root, off, moves;
};

static const void *at(const struct arena_view *a, uint64_t off) {
    return (const uint8_t *)a->header + off;
}
static uint64_t word_load(const uint64_t *p) {
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static void look_begin(const struct arena_view *a, uint64_t cursor, struct look *l) {
    l->root = word_load(&a->header->root);
    l->dir = &a->dir[DIR_WORD(cursor, ROOT_DEPTH(l->root))];
    l->off = word_load(l->dir);
    l->segment = at(a, l->off);
    l->moves = l->off ? word_load(&l->segment->moves) : 1;
}

static int look_holds(const struct arena_view *a, const struct look *l) {
    STRESS_POINT(STRESS_R_MISSED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return word_load(&a->header->root) == l->root && word_load(l->dir) == l->off &&
           word_load(&l->segment->moves) == l->moves;
}

static int keys_add(struct keys *k, const struct item *item) {
    size_t need = k->len + sizeof(uint32_t) + item->key_len;
    if (VEC_ROOM(&k->buf, &k->cap, need, 65536) < 0)
        return dd_error(-ENOMEM, "no memory for the keys of a segment");
    memcpy(k->buf + k->len, &item->key_len, sizeof(uint32_t));
    memcpy(k->buf + k->len + sizeof(uint32_t), item->key, item->key_len);
    k->len = need;
    k->count++;
    return 0;
}

/* The key behind one slot; 1 when it changes too fast. */
static int key_copy(const struct arena_view *a, const uint64_t *from, uint64_t word, uint64_t *slot,
                    struct keys *k) {
    uint64_t tag = WORD_TAG(word);
    for (unsigned tries = 0; tries < DD_READ_RETRIES; tries++) {
        if (!WORD_LIVE(word) || WORD_TAG(word) != tag || word & WORD_HIDDEN)
            return 0;
        uint64_t off = WORD_OFFSET(word);
        __atomic_store_n(slot, LEASE_WORD(a->local_index, off), __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_SEQ_CST); /* I5, as in reader_find() */
        STRESS_POINT(STRESS_R_FENCED);
        uint64_t now = word_load(from);
        if (now == word) {
            struct found f;
            int rc = reader_item(a, off, &f);
            if (rc == 0 && !(f.item->version & ITEM_CACHED))
                rc = keys_add(k, f.item);
            reader_release(slot);
            return rc;
        }
        reader_release(slot);
        word = now;
    }
    return 1;
}

/* One try: 0, 1 disturbed, or a negative code. */
static int keys_gather(const struct arena_view *a, const struct look *l, uint64_t *slot,
                       uint64_t (*words)[BUCKET_SLOTS], struct keys *k) {
    const struct segment *g = l->segment;
    if (l->moves & 1)
        return 1;
    for (unsigned b = 0; b < SEGMENT_BUCKETS; b++)
        for (unsigned i = 0; i < BUCKET_SLOTS; i++)
            words[b][i] = __atomic_load_n(&g->bucket[b].slot[i], __ATOMIC_RELAXED);
    if (!look_holds(a, l))
        return 1;
    k->len = 0;
    k->count = 0;
    for (unsigned b = 0; b < SEGMENT_BUCKETS; b++) {
        if (b + 2 < SEGMENT_BUCKETS)
            for (unsigned i = 0; i < BUCKET_SLOTS; i++)
                if (WORD_LIVE(words[b + 2][i]))
                    __builtin_prefetch(at(a, WORD_OFFSET(words[b + 2][i])));
        for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
            int rc = key_copy(a, &g->bucket[b].slot[i], words[b][i], slot, k);
            if (rc)
                return rc;
        }
    }
    return look_holds(a, l) ? 0 : 1;
}

int reader_keys(const struct arena_view *a, uint64_t *cursor, uint64_t *slot,
                int (*fn)(void *arg, const void *key, uint32_t key_len), void *arg) {
    uint64_t(*words)[BUCKET_SLOTS] = malloc(SEGMENT_BUCKETS * sizeof *words);
    struct keys k = {0};
    uint64_t next = 0;
    int rc = words ? 1 : dd_error(-ENOMEM, "no memory for the words of a segment");
    for (unsigned tries = 0; rc == 1 && tries < DD_READ_RETRIES; tries++) {
        struct look l;
        /* a split lasts some 50 us */
        for (unsigned pause = 0; pause < tries * 32; pause++)
            __atomic_signal_fence(__ATOMIC_SEQ_CST);
        look_begin(a, *cursor, &l);
        if (l.off)
            next = segment_next(find_prefix(l.segment), find_depth(l.segment));
        rc = keys_gather(a, &l, slot, words, &k);
    }
    if (rc == 1)
        rc = -EAGAIN;
    for (size_t p = 0; rc == 0 && p < k.len;) {
        uint32_t len;
        memcpy(&len, k.buf + p, sizeof len);
        rc = fn(arg, k.buf + p + sizeof len, len);
        p += sizeof len + len;
    }
    if (rc == 0) {
        rc = k.count;
        *cursor = next;
    }
    free(words);
    free(k.buf);
    return rc;
}
