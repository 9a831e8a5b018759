/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild.c - rebuild the private side of the heap from the arena (LAYOUT 7), in two steps. Opening
 * marks the blocks that words name. Settling, when the leases are known, keeps the blocks that
 * leases name as retired, and frees the rest. No item is read, but with a spill.
 */
#include "rebuild.h"

#include "budget.h"
#include "heap.h"
#include "lease.h"
#include "lease_pages.h"
#include "pages.h"
#include "segment.h"
#include "spill_away.h"
#include <base/error.h>
#include <base/hash.h>

#include <errno.h>
#include <string.h>

static int error_damaged(struct store *s, uint64_t off) {
    return dd_error(DDICT_EPROTO,
                    "the arena of manager %u is damaged: a word names %llx, which is no block",
                    s->header->manager_id, (unsigned long long)off);
}

static uint64_t page_of(struct store *s, uint64_t off) {
    return (off - s->header->heap_off) >> DD_PAGE_SHIFT;
}

static void zone_count_marked(struct store *s, struct zone *z, uint64_t bytes) {
    *z->used += bytes;
    if (z->first)
        s->header->spill_items++;
}

/* Mark the block as used. 1: it was not before; 0: it was; DDICT_EPROTO: not the start of a block.
 * */
static int block_mark(struct store *s, uint64_t off) {
    struct heap *h = &s->heap;
    if (!off || block_of(s, off) != off)
        return error_damaged(s, off);
    uint64_t page = page_of(s, off), e = h->pagemap[page];
    struct zone *z = zone_of(h, page);
    if (PAGEMAP_KIND(e) == PAGE_LARGE_HEAD) {
        if (h->ref[page])
            return 0;
        h->ref[page] = 1;
        zone_count_marked(s, z, PAGEMAP_VALUE(e) * ARENA_PAGE);
        if (!z->first)
            regions_large(h, page, PAGEMAP_VALUE(e), true);
        return 1;
    }
    if (PAGEMAP_KIND(e) == PAGE_SLAB)
        page -= PAGEMAP_VALUE(e);
    struct run *run = &h->run[h->ref[page]];
    const struct block_class *c = &h->class[run->class];
    unsigned b = (unsigned)((off - s->header->heap_off - page * ARENA_PAGE) / c->size);
    if (!(run->idle[b / 64] >> b % 64 & 1))
        return 0;
    run->idle[b / 64] &= ~(1ull << b % 64);
    run->free--;
    z->class_free[run->class]--;
    zone_count_marked(s, z, c->size);
    if (!z->first)
        region_of(h, page)->small += c->size;
    return 1;
}

/* The same for the block of an item and for its block in the spill. An item that only leases name
 * may share that block with the item that it was moved to; or it was free already, and the block in
 * the spill is another item's by now. */
static int item_mark(struct store *s, uint64_t off) {
    int rc = block_mark(s, off);
    struct item *item = arena_at(s, off);
    if (rc <= 0 || s->spill.fd < 0 || !(item->val_len & ITEM_AWAY))
        return rc;
    uint64_t away = item->check == item_check(item) && item_bytes(item) <= block_bytes(s, off)
                        ? item_away(item)->off
                        : 0;
    int there = away < s->header->file_size || block_of(s, away) != away ? -1 : block_mark(s, away);
    if (there < 0 || (there == 0 && away_share(s, away) < 0))
        item->val_len = 0; /* the block in the spill is not its own */
    return 1;
}

/* Pages of the run or extent whose head is at p, or 0 when the entries do not make one (killed
 * while it was marked). */
static uint64_t stretch_at(struct store *s, uint64_t p, uint64_t top) {
    const uint64_t *map = s->heap.pagemap;
    unsigned kind = PAGEMAP_KIND(map[p]), cls = PAGEMAP_CLASS(map[p]);
    uint64_t n = PAGEMAP_VALUE(map[p]);
    if (kind != PAGE_SLAB_HEAD && kind != PAGE_LARGE_HEAD)
        return 0;
    if (!n || n > top - p)
        return 0;
    if (kind == PAGE_SLAB_HEAD && (cls >= CLASSES || n != s->heap.class[cls].pages))
        return 0;
    for (uint64_t i = 1; i < n; i++)
        if (map[p + i] != PAGEMAP_ENTRY(kind + 1, cls, i))
            return 0;
    return n;
}

static void read_pagemap(struct store *s, const struct zone *z) {
    struct heap *h = &s->heap;
    uint64_t top = zone_top(z);
    for (uint64_t p = z->first; p < top;) {
        uint64_t n = stretch_at(s, p, top);
        if (!n) {
            if (h->pagemap[p] != PAGEMAP_HOLE)
                word_store(&h->pagemap[p], PAGEMAP_ENTRY(PAGE_FREE, 0, 0));
            h->holes += h->pagemap[p++] == PAGEMAP_HOLE;
            continue;
        }
        if (PAGEMAP_KIND(h->pagemap[p]) == PAGE_SLAB_HEAD)
            run_make(s, (uint32_t)p, PAGEMAP_CLASS(h->pagemap[p]));
        p += n;
    }
}

int heap_rebuild(struct store *s) {
    struct arena_header *h = s->header;
    uint64_t keys = 0;
    for (int i = 0; i < ZONES; i++) {
        const struct zone *z = &s->heap.zone[i];
        if (*z->out > z->end - z->first)
            return dd_error(DDICT_EPROTO, "the arena of manager %u is damaged: its watermark",
                            h->manager_id);
        read_pagemap(s, z);
    }
    h->used_bytes = budget_fixed(s);
    h->spill_used = h->spill_items = 0;
    for (uint64_t n = 0; n < h->segments; n++) {
        struct segment *g = segment_at(s, n);
        if (s->index.state[n] == SEGMENT_FREE || s->index.state[n] == SEGMENT_HOLE)
            continue;
        for (unsigned b = 0; b < SEGMENT_BUCKETS; b++)
            for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
                uint64_t word = g->bucket[b].slot[i];
                if (!WORD_LIVE(word))
                    continue;
                int rc = item_mark(s, WORD_OFFSET(word));
                if (rc < 0)
                    return rc;
                if (rc == 0)
                    return error_damaged(s, WORD_OFFSET(word)); /* two words, one block */
                keys += s->index.state[n] == SEGMENT_LIVE && !(word & WORD_HIDDEN);
            }
    }
    h->num_keys = keys;
    return 0;
}

/* Clients name blocks, in leases and answers: one in the spill is no item. */
static bool is_in_memory(const struct store *s, uint64_t off) {
    return off < s->header->file_size;
}

static int keep_leased(struct store *s, uint64_t block, uint32_t page) {
    if (!is_in_memory(s, block))
        return 0;
    if (retire_reserve(s, 1) < 0)
        return -ENOMEM;
    if (item_mark(s, block) == 1)
        retire(s, block);
    return 0;
}

int store_keep(struct store *s, uint64_t off) {
    int rc = off && is_in_memory(s, off) && block_of(s, off) == off ? retire_reserve(s, 2)
                                                                    : DDICT_EPROTO;
    if (rc < 0)
        return rc;
    if (!s->settled && item_mark(s, off) == 1)
        retire(s, off);
    return store_pin(s, off);
}

int store_keep_reserved(struct store *s, uint64_t off) {
    struct item *item = arena_at(s, off);
    if (s->settled || !off || !is_in_memory(s, off) || block_of(s, off) != off ||
        item_bytes(item) > block_bytes(s, off))
        return DDICT_EPROTO;
    int rc = item_mark(s, off);
    if (rc != 1)
        return rc < 0 ? rc : 1;
    /* the life before may have died while it gave the item its place in the index */
    item->hash = key_hash(item->key, item->key_len);
    item->version = 0;
    item->check = item_check(item);
    return 0;
}

static void settle_zone(struct store *s, struct zone *z, bool all) {
    struct heap *h = &s->heap;
    uint64_t top = zone_top(z);
    for (uint64_t p = z->first; p < top;) {
        uint64_t e = h->pagemap[p], n = PAGEMAP_VALUE(e);
        if (PAGEMAP_KIND(e) == PAGE_FREE) {
            p++;
            continue;
        }
        bool slab = PAGEMAP_KIND(e) == PAGE_SLAB_HEAD, idle = false;
        struct run *run = slab ? &h->run[h->ref[p]] : NULL;
        if (all)
            idle = slab ? run->free == run->blocks : !h->ref[p];
        if (slab && (idle || !all)) {
            /* Count its blocks as not free: it becomes free pages, or stays in use for good. */
            z->class_free[run->class] -= run->free;
            run->free = 0;
            memset(run->idle, 0, sizeof run->idle);
        } else if (slab && run->free) {
            run_list(s, h->ref[p]);
        }
        if (idle) {
            if (slab) {
                if (!z->first)
                    region_of(h, p)->run_pages -= (uint32_t)n;
                run->next = h->runs_idle;
                h->runs_idle = h->ref[p];
            }
            pages_unmark(s, (uint32_t)p, n);
        }
        p += n;
    }
}

void heap_settle(struct store *s) {
    /* Without memory to note a lease nothing is freed: then too much stays in use, but nothing is
     * reused too early. */
    bool all = leases_each(s, keep_leased) >= 0;
    s->settled = true;
    for (int i = 0; i < ZONES; i++)
        settle_zone(s, &s->heap.zone[i], all);
    pages_rebuild_spans(s);
}
