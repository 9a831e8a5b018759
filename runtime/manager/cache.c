/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.c - how much of the arena the node cache may take while the dictionary is frozen. No owned
 * values are added in this time, so all free memory may be used, less some for the index and for
 * transit. A value that finds no room is not cached, and its readers get it as if the dictionary
 * were open.
 */
#include "cache.h"

#include "answers.h"
#include "manager.h"
#include "requester.h"
#include "transit.h"
#include <base/clock.h>
#include <base/error.h>

#include <errno.h>
#include <stdlib.h>

/* after an eviction that made no room, the next is tried so much later */
#define REFUSED_NS 1000000u
/* this part of the cache is evicted at once, for the leases are scanned once for each eviction */
#define EVICT_PART 64u
/* bytes of an item beside its key and value: header, padding, its share of the index */
#define ITEM_EXTRA 192u

struct cache_room {
    uint64_t limit, spare, refused_ns;
};

int cache_init(struct manager *m) {
    uint64_t budget = m->header->budget;
    m->cache = calloc(1, sizeof *m->cache);
    if (!m->cache)
        return -ENOMEM;
    m->cache->spare = budget / DD_CACHE_SPARE + transit_limit(m);
    m->cache->limit =
        m->setup->cache < budget - m->cache->spare ? m->setup->cache : budget - m->cache->spare;
    return 0;
}

void cache_free(struct manager *m) {
    free(m->cache);
    m->cache = NULL;
}

static bool cache_full(struct manager *m, uint64_t need) {
    const struct arena_header *h = m->header;
    uint64_t used = h->used_bytes - store_transit_bytes(m->store);
    return h->cached_bytes + need > m->cache->limit || used + need > h->budget - m->cache->spare;
}

static bool cache_make_room(struct manager *m, uint64_t need) {
    struct cache_room *c = m->cache;
    uint64_t part = c->limit / EVICT_PART;
    if (m->now - c->refused_ns < REFUSED_NS)
        return false;
    m->up->settle(m);
    if (store_cache_shrink(m->store, need > part ? need : part, &m->count->evictions) &&
        !cache_full(m, need))
        return true;
    c->refused_ns = m->now;
    return false;
}

bool cache_reserve(struct manager *m, uint64_t epoch, const uint8_t *key, uint32_t key_len,
                   const struct msg *r, struct store_ref *ref) {
    if (!epoch || epoch != m->frozen || r->status != 0 || r->val_len > m->cache->limit)
        return false;
    uint64_t need = r->val_len + r->val_len / 16 + key_len + ITEM_EXTRA;
    if (cache_full(m, need) && !cache_make_room(m, need))
        return false;
    if (store_cache_reserve(m->store, key, key_len, r->val_len, r->tag, r->version, ref) == 0)
        return true;
    m->cache->refused_ns = m->now;
    return false;
}

void cache_publish(struct manager *m, uint64_t epoch, struct store_ref *ref) {
    if (epoch != m->frozen || store_cache_add(m->store, ref) < 0)
        store_retire(m->store, ref->off);
}

bool cache_look(struct requester *a, const struct msg *req, const uint8_t *key) {
    struct manager *m = a->m;
    struct store_ref ref;
    uint64_t began = clock_ns();
    if (!m->frozen || store_cache_find(m->store, key, req->key_len, &ref) < 0)
        return false;
    m->count->cache_hits++;
    m->count->gets_local++;
    request_give(a, req, &ref, false, NULL);
    m->now = clock_ns();
    count_latency(m, DDICT_LATENCY_GET, began, m->now);
    return true;
}
