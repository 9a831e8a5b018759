/* SPDX-License-Identifier: Apache-2.0 */
/* index.c - the writer's look-up, and clear. There is one writer, so its loads are plain; stores
 * that readers see go through word_store(). */
#include "index.h"

#include "lease.h"
#include "operation.h"
#include "segment.h"
#include <base/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int index_open(struct store *s, bool fresh) {
    struct index *x = &s->index;
    uint64_t off;
    x->dir = arena_at(s, s->header->dir_off);
    x->segments_max = s->header->seg_len / DD_SEGMENT_SIZE;
    x->state = calloc(x->segments_max, 1);
    if (!x->state)
        return dd_error(-ENOMEM, "no memory for the table of segments");
    int rc;
    if (!fresh) {
        if ((rc = segments_recover(s)) < 0)
            return rc;
        /* one idle segment, to clear a full arena with; without it the clear sweeps first */
        if (!x->idle)
            segment_hand_out(s, true);
        return 0;
    }
    /* segments of a first opening that was killed */
    for (uint64_t n = 0; n < s->header->segments; n++)
        segment_drop(s, n);
    while (x->idle < 2)
        if ((rc = segment_hand_out(s, true)) < 0)
            return rc;
    if ((rc = segment_make(s, true, &off)) < 0)
        return rc;
    struct segment *g = arena_at(s, off);
    segment_cover(g, 0, 0);
    word_store(&x->dir[1], off);
    word_store(&s->header->root, ROOT_MAKE(1, 0));
    return 0;
}

void index_close(struct store *s) {
    free(s->index.state);
    s->index.state = NULL;
}

struct segment *index_segment(struct store *s, uint64_t hash) {
    return arena_at(s, s->index.dir[DIR_WORD(hash, ROOT_DEPTH(s->header->root))]);
}

void index_prefetch(struct store *s, uint64_t hash) {
    const struct bucket *k = &index_segment(s, hash)->bucket[HASH_BUCKET(hash)];
    __builtin_prefetch(k, 1);
}

void index_prefetch_item(struct store *s, uint64_t hash) {
    const struct bucket *k = &index_segment(s, hash)->bucket[HASH_BUCKET(hash)];
    for (unsigned i = 0; i < BUCKET_SLOTS; i++)
        if (WORD_LIVE(k->slot[i]) && WORD_TAG(k->slot[i]) == HASH_TAG(hash))
            __builtin_prefetch(arena_at(s, WORD_OFFSET(k->slot[i])));
}

void index_find(struct store *s, uint64_t hash, const void *key, uint32_t key_len,
                struct index_place *p) {
    struct segment *g = index_segment(s, hash);
    unsigned home = HASH_BUCKET(hash);
    *p = (struct index_place){.hash = hash, .segment = g, .home = &g->bucket[home]};
    for (unsigned d = 0; d < DD_BUCKET_REACH; d++) {
        unsigned b = home + d < SEGMENT_BUCKETS ? home + d : home + d - SEGMENT_BUCKETS;
        for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
            uint64_t *slot = &g->bucket[b].slot[i], word = *slot;
            if (!WORD_LIVE(word)) {
                if (p->vacant)
                    continue;
                p->vacant = slot;
                p->distance = d;
                continue;
            }
            if (WORD_TAG(word) != HASH_TAG(hash))
                continue;
            const struct item *item = arena_at(s, WORD_OFFSET(word));
            if (item->hash != hash || item->key_len != key_len || memcmp(item->key, key, key_len))
                continue;
            p->slot = slot;
            p->word = word;
            return;
        }
        if (d >= p->home->reach && p->vacant)
            return;
    }
}

int index_clear(struct store *s) {
    struct arena_header *h = s->header;
    struct index *x = &s->index;
    uint64_t off;
    int rc;
    /* The word of depth 0 must not be in use when the new segment is put there. */
    if (ROOT_DEPTH(h->root) == 0 && (rc = dir_grow(s)) < 0)
        return rc;
    if ((rc = segment_make(s, true, &off)) < 0)
        return rc;
    struct segment *g = arena_at(s, off);
    segment_cover(g, 0, 0);
    word_store(&x->dir[1], off);
    operation_clear(s);
    STRESS_POINT(STRESS_W_READY);
    word_store(&h->root, ROOT_MAKE(ROOT_GENERATION(h->root) + 1, 0));
    h->num_keys = h->hidden_keys = 0;
    uint64_t made = segment_number(s, off);
    for (uint64_t n = 0; n < h->segments; n++)
        if (x->state[n] == SEGMENT_LIVE && n != made) {
            x->state[n] = SEGMENT_SWEEP;
            x->sweeps++;
        }
    x->sweep_hint = 0;
    return 0;
}

bool index_sweep(struct store *s) {
    struct index *x = &s->index;
    if (!x->sweeps)
        return false;
    while (x->state[x->sweep_hint] != SEGMENT_SWEEP)
        x->sweep_hint++;
    struct segment *g = segment_at(s, x->sweep_hint);
    if (retire_reserve(s, g->live) < 0)
        return false;
    for (unsigned b = 0; b < SEGMENT_BUCKETS; b++)
        for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
            uint64_t word = g->bucket[b].slot[i];
            word_store(&g->bucket[b].slot[i], WORD_EMPTY);
            if (WORD_LIVE(word))
                retire(s, WORD_OFFSET(word));
        }
    g->live = 0;
    STRESS_POINT(STRESS_W_SWEPT);
    segment_drop(s, x->sweep_hint);
    x->sweeps--;
    return x->sweeps > 0;
}
