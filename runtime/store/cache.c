/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.c - items of other managers in the index of their proxy, while the dictionary is frozen
 * (LAYOUT 9). A new item takes the place in the ring of an evicted one, which lies behind the hand:
 * so the hand comes to it last.
 */
#include "cache.h"

#include "heap.h"
#include "index.h"
#include "lease.h"
#include "lease_pages.h"
#include "scan.h"
#include "segment.h"
#include <base/error.h>
#include <base/vec.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

void cache_open(struct store *s) {
    s->cache.hole = CACHE_NO_HOLE;
}

void cache_close(struct store *s) {
    free(s->cache.entry);
    table_free(&s->cache.at);
    memset(&s->cache, 0, sizeof s->cache);
    s->cache.hole = CACHE_NO_HOLE;
}

void store_freeze(struct store *s, uint64_t epoch, enum freeze_state state) {
    if (state == FREEZE_OPEN)
        cache_close(s);
    /* pairs with the acquire in session_cache() of the client */
    word_store(&s->header->freeze, FREEZE_MAKE(epoch, state));
}

/* --- the ring --- */
static int ring_room(struct cache *c) {
    if (c->hole != CACHE_NO_HOLE || c->made < c->cap)
        return 0;
    if (c->cap > UINT32_MAX / 2)
        return -ENOMEM;
    return VEC_ROOM(&c->entry, &c->cap, c->made + 1, 1024);
}

static int ring_add(struct cache *c, uint64_t off) {
    uint32_t *at = ring_room(c) == 0 ? table_add(&c->at, off) : NULL;
    if (!at)
        return dd_error(-ENOMEM, "no memory to note a cached value");
    uint32_t i = c->hole;
    if (i != CACHE_NO_HOLE)
        c->hole = (uint32_t)(c->entry[i] >> DD_GRANULE_SHIFT);
    else
        i = (uint32_t)c->made++;
    c->entry[i] = off;
    *at = i;
    return 0;
}

static void ring_remove(struct cache *c, uint64_t off) {
    uint32_t i = *table_find(&c->at, off);
    table_remove(&c->at, off);
    c->entry[i] = (uint64_t)c->hole << DD_GRANULE_SHIFT | CACHE_HOLE;
    c->hole = i;
}

void cache_touch(struct store *s, uint64_t off) {
    const uint32_t *i = table_find(&s->cache.at, off);
    if (i)
        s->cache.entry[*i] |= CACHE_READ;
}

int cache_moved(struct store *s, uint64_t from, uint64_t to) {
    struct cache *c = &s->cache;
    uint32_t *at = table_add(&c->at, to), *was = table_find(&c->at, from);
    if (!at)
        return dd_error(-ENOMEM, "no memory to note a cached value");
    *at = *was;
    c->entry[*was] = to | (c->entry[*was] & CACHE_READ);
    table_remove(&c->at, from);
    s->header->cached_bytes += block_bytes(s, to) - block_bytes(s, from);
    return 0;
}

/* --- in and out --- */
int store_cache_reserve(struct store *s, const void *key, uint32_t key_len, uint64_t val_len,
                        uint8_t tag, uint64_t version, struct store_ref *ref) {
    int rc = store_reserve_memory(s, key, key_len, val_len, tag, ref);
    if (rc < 0)
        return rc;
    ref->item->version = version | ITEM_CACHED;
    ref->item->check = item_check(ref->item);
    return 0;
}

int store_cache_add(struct store *s, struct store_ref *ref) {
    const struct item *item = ref->item;
    struct arena_header *h = s->header;
    struct index_place p;
    int rc;
    index_find(s, item->hash, item->key, item->key_len, &p);
    if (p.slot)
        return -EEXIST;
    while (!p.vacant) {
        if ((rc = segment_split(s, item->hash)) < 0)
            return rc;
        index_find(s, item->hash, item->key, item->key_len, &p);
    }
    if ((rc = ring_add(&s->cache, ref->off)) < 0)
        return rc;
    if (p.home->reach < p.distance)
        word_store(&p.home->reach, p.distance);            /* I13 */
    word_store(p.vacant, WORD_MAKE(item->hash, ref->off)); /* I3 */
    p.segment->live++;
    h->cached_items++;
    h->cached_bytes += block_bytes(s, ref->off);
    return 0;
}

/* False: no memory to note the retired block, so the item stays. */
static bool item_drop(struct store *s, uint64_t off) {
    const struct item *item = arena_at(s, off);
    struct arena_header *h = s->header;
    struct index_place p;
    if (retire_reserve(s, 1) < 0)
        return false;
    index_find(s, item->hash, item->key, item->key_len, &p);
    h->cached_items--;
    h->cached_bytes -= block_bytes(s, off);
    ring_remove(&s->cache, off);
    if (MUTANT(MUTANT_FRESH_EVICT)) {
        retire(s, off);
        store_reclaim(s);
    }
    STRESS_POINT(STRESS_W_EVICTING);
    word_store(p.slot, WORD_EMPTY);
    STRESS_POINT(STRESS_W_SWUNG);
    p.segment->live--;
    if (!MUTANT(MUTANT_FRESH_EVICT))
        retire(s, off);
    return true;
}

int store_cache_find(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref) {
    int rc = store_find(s, key, key_len, ref);
    if (rc == 0)
        cache_touch(s, ref->off);
    return rc;
}

/* --- the clock --- */
static int touch_leased(struct store *s, uint64_t block, uint32_t page) {
    cache_touch(s, block);
    return 0;
}

void store_cache_hints(struct store *s) {
    size_t page = 0, chunk = 0;
    if (!s->cache.at.used)
        return;
    while (leases_hints(s, cache_touch, &page, &chunk, UINT_MAX)) {
    }
    leases_each(s, touch_leased);
}

uint64_t store_cache_evict(struct store *s, uint64_t bytes, unsigned looks, uint64_t *evicted) {
    struct cache *c = &s->cache;
    uint64_t got = 0;
    for (; looks > 0 && got < bytes && c->at.used > 0; looks--) {
        if (c->hand >= c->made)
            c->hand = 0;
        uint64_t e = c->entry[c->hand];
        if (e & CACHE_HOLE) {
            c->hand++;
            continue;
        }
        /* its block would stay in use (I6) */
        if (table_find(&s->leases.held, e & ~(uint64_t)CACHE_READ)) {
            c->hand++;
            continue;
        }
        if (e & CACHE_READ) {
            c->entry[c->hand++] = e & ~(uint64_t)CACHE_READ;
            continue;
        }
        uint64_t size = block_bytes(s, e);
        if (!item_drop(s, e))
            break;
        got += size;
        ++*evicted;
        c->hand++;
    }
    return got;
}

bool store_cache_shrink(struct store *s, uint64_t bytes, uint64_t *evicted) {
    struct cache *c = &s->cache;
    uint64_t got;
    switch (c->stage) {
    case CACHE_LOOK:
        if (!scan_over(s, &c->scan, true))
            return false;
        c->want = bytes;
        c->page = c->chunk = c->looks = 0;
        c->stage = CACHE_HINTS; /* fall through */
    case CACHE_HINTS:
        if (leases_hints(s, cache_touch, &c->page, &c->chunk, DD_CACHE_HINTS))
            return false;
        c->stage = CACHE_EVICT; /* fall through */
    case CACHE_EVICT:
        got = store_cache_evict(s, c->want, DD_CACHE_LOOKS, evicted);
        c->want -= got < c->want ? got : c->want;
        c->looks += DD_CACHE_LOOKS;
        /* after two rounds the items that are left are being read */
        if (c->want && c->looks < 2 * c->made)
            return false;
        c->stage = CACHE_SCAN; /* fall through */
    case CACHE_SCAN:
        if (!scan_over(s, &c->scan, false))
            return false;
        c->stage = CACHE_LOOK;
    }
    return true;
}

bool store_cache_drop(struct store *s, unsigned n) {
    struct cache *c = &s->cache;
    for (; n > 0 && c->made > 0; n--) {
        uint64_t e = c->entry[c->made - 1];
        bool pass = MUTANT(MUTANT_KEEP_READ) && (e & CACHE_READ);
        if (!(e & CACHE_HOLE) && !pass && !item_drop(s, e & ~(uint64_t)CACHE_READ))
            return true;
        c->made--;
    }
    if (c->made == 0)
        cache_close(s);
    return c->made > 0;
}

int cache_forget(struct store *s) {
    struct arena_header *h = s->header;
    if (FREEZE_STATE(h->freeze) == FREEZE_OPEN || MUTANT(MUTANT_KEEP_CACHED))
        return 0;
    for (uint64_t n = 0; n < h->segments; n++) {
        struct segment *g = segment_at(s, n);
        if (s->index.state[n] == SEGMENT_FREE || s->index.state[n] == SEGMENT_HOLE)
            continue;
        for (unsigned b = 0; b < SEGMENT_BUCKETS; b++)
            for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
                uint64_t word = g->bucket[b].slot[i], off = WORD_OFFSET(word);
                if (!WORD_LIVE(word))
                    continue;
                if (off < h->heap_off || off - h->heap_off >= h->heap_len + h->spill_len)
                    return dd_error(DDICT_EPROTO,
                                    "the arena of manager %u is damaged: a word names %llx",
                                    h->manager_id, (unsigned long long)off);
                if (!(((const struct item *)arena_at(s, off))->version & ITEM_CACHED))
                    continue;
                word_store(&g->bucket[b].slot[i], WORD_EMPTY);
                g->live--;
            }
    }
    h->cached_items = h->cached_bytes = 0;
    return 0;
}
