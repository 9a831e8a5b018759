/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild.c - rebuild the private side of the heap from the arena (LAYOUT 7), in two steps. Opening
 * marks the blocks that words name, first as bits by offset and then as blocks of their runs.
 * Settling, when the leases are known, keeps the blocks that leases name as retired, and frees the
 * rest. No item is read, but with a spill.
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
#include <sys/mman.h>

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

/* Mark the block in the spill of the item at off, if it has one. An item that only leases name may
 * share that block with the item that it was moved to; or it was free already, and the block in the
 * spill is another item's by now. */
static void away_mark(struct store *s, uint64_t off) {
    struct item *item = arena_at(s, off);
    if (!(item->val_len & ITEM_AWAY))
        return;
    uint64_t away = item->check == item_check(item) && item_bytes(item) <= block_bytes(s, off)
                        ? item_away(item)->off
                        : 0;
    int there = away < s->header->file_size || block_of(s, away) != away ? -1 : block_mark(s, away);
    if (there < 0 || (there == 0 && away_share(s, away) < 0))
        item->val_len = 0; /* the block in the spill is not its own */
}

/* The same as block_mark(), for the block of an item and for its block in the spill. */
static int item_mark(struct store *s, uint64_t off) {
    int rc = block_mark(s, off);
    if (rc == 1 && s->spill.fd >= 0)
        away_mark(s, off);
    return rc;
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

/*
 * What words name, a bit for each offset. Words come in the order of hashes, so their blocks lie
 * anywhere in the heap: to look each of them up would miss the caches several times. These bits are
 * few, are found without a look-up, and are then compared with the runs and extents in the order of
 * pages. Offsets at the start of a page have a table of their own, so that extents, which all begin
 * there, take nothing of the large one.
 */
#define MARKS_PAGE  (ARENA_PAGE / ARENA_GRANULE / 8) /* bytes of `granule` for a page */
#define MARKS_AHEAD 8u /* buckets: the time of some 40 marks is that of a cache miss */
struct marks {
    uint64_t *page, *granule;
    size_t len;        /* of both tables; most of the memory of `granule` is never touched */
    uint64_t from, to; /* bytes of the heap: the part at hand */
    uint64_t left;     /* words of this part for which no block was found yet */
    uint64_t keys, hidden_keys; /* of all parts so far */
};

static int marks_open(struct marks *m, uint64_t pages) {
    size_t page = round_up((pages / 64 + 1) * sizeof *m->page, ARENA_PAGE);
    *m = (struct marks){.len = page + pages * MARKS_PAGE};
    m->page = mmap(NULL, m->len, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->page == MAP_FAILED)
        return dd_error(-errno, "no memory for the marks of blocks in use");
    m->granule = m->page + page / sizeof *m->page;
    return 0;
}

/* The bit of a place in the heap: bit *bit of the number at what is returned. */
static inline uint64_t *mark_of(const struct marks *m, uint64_t place, unsigned *bit) {
    bool page = place % ARENA_PAGE == 0;
    uint64_t n = page ? place / ARENA_PAGE : place / ARENA_GRANULE;
    *bit = n % 64;
    return (page ? m->page : m->granule) + n / 64;
}

static inline uint64_t is_marked(const struct marks *m, uint64_t place) {
    unsigned bit;
    uint64_t word = *mark_of(m, place, &bit); /* a statement of its own: `bit` is set by it */
    return word >> bit & 1;
}

/* The marks of this bucket are set soon: their cache lines come meanwhile. Empty slots fetch nothing
 * from nowhere, which is faster than to look for them. Inlined early: gcc takes a function that only
 * fetches for one without an effect, and drops its calls. */
static inline __attribute__((always_inline)) void bucket_expect(const struct store *s,
                                                                const struct marks *m,
                                                                const struct bucket *k) {
    for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
        uint64_t place = WORD_OFFSET(k->slot[i]) - s->header->heap_off;
        __builtin_prefetch((void *)((uintptr_t)m->granule + place / ARENA_GRANULE / 8), 1);
    }
}

static int segment_mark(struct store *s, const struct segment *g, struct marks *m, bool live) {
    const uint64_t first = s->header->heap_off, top = s->header->heap_top * ARENA_PAGE;
    for (unsigned b = 0; b < SEGMENT_BUCKETS; b++) {
        if (b + MARKS_AHEAD < SEGMENT_BUCKETS)
            bucket_expect(s, m, &g->bucket[b + MARKS_AHEAD]);
        for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
            uint64_t word = g->bucket[b].slot[i], place = WORD_OFFSET(word) - first;
            unsigned bit;
            if (!WORD_LIVE(word))
                continue;
            if (place >= top)
                return error_damaged(s, WORD_OFFSET(word));
            if (place < m->from || place >= m->to)
                continue;
            uint64_t *at = mark_of(m, place, &bit), old = *at;
            *at = old | 1ull << bit;
            if (old >> bit & 1)
                return error_damaged(s, WORD_OFFSET(word)); /* two words, one block */
            m->left++;
            m->keys += live && !(word & (WORD_HIDDEN | WORD_DOT));
            m->hidden_keys += live && (word & WORD_DOT);
        }
    }
    return 0;
}

/* Whether the segment has words that name blocks. */
static bool segment_counts(const struct store *s, uint64_t n) {
    return s->index.state[n] != SEGMENT_FREE && s->index.state[n] != SEGMENT_HOLE;
}

static int words_mark(struct store *s, struct marks *m) {
    int rc = 0;
    for (uint64_t n = 0; rc == 0 && n < s->header->segments; n++)
        if (segment_counts(s, n))
            rc = segment_mark(s, segment_at(s, n), m, s->index.state[n] == SEGMENT_LIVE);
    return rc;
}

/* The offset of a word that names no block. */
static uint64_t word_astray(struct store *s) {
    for (uint64_t n = 0; n < s->header->segments; n++)
        for (unsigned i = 0; segment_counts(s, n) && i < SEGMENT_BUCKETS * BUCKET_SLOTS; i++) {
            uint64_t word = segment_at(s, n)->bucket[i / BUCKET_SLOTS].slot[i % BUCKET_SLOTS];
            if (WORD_LIVE(word) && block_of(s, WORD_OFFSET(word)) != WORD_OFFSET(word))
                return WORD_OFFSET(word);
        }
    return 0;
}

static void run_take_marks(struct store *s, struct run *run, struct marks *m) {
    struct zone *z = &s->heap.zone[ZONE_MEMORY];
    const struct block_class *c = &s->heap.class[run->class];
    uint64_t place = (uint64_t)run->first * ARENA_PAGE;
    unsigned used = 0;
    for (unsigned b = 0; b < run->blocks; b++, place += c->size) {
        uint64_t marked = is_marked(m, place);
        run->idle[b / 64] &= ~(marked << b % 64);
        used += (unsigned)marked;
        if (marked && s->spill.fd >= 0)
            away_mark(s, s->header->heap_off + place);
    }
    run->free = (uint16_t)(run->free - used);
    z->class_free[run->class] -= used;
    zone_count_marked(s, z, (uint64_t)used * c->size);
    region_of(&s->heap, run->first)->small += (uint64_t)used * c->size;
    m->left -= used;
}

/* Mark the blocks of these pages. */
static void pages_take_marks(struct store *s, struct marks *m) {
    struct heap *h = &s->heap;
    for (uint64_t p = m->from / ARENA_PAGE; p < m->to / ARENA_PAGE;) {
        uint64_t e = h->pagemap[p], place = p * ARENA_PAGE;
        if (PAGEMAP_KIND(e) == PAGE_SLAB_HEAD)
            run_take_marks(s, &h->run[h->ref[p]], m);
        else if (PAGEMAP_KIND(e) == PAGE_LARGE_HEAD && is_marked(m, place)) {
            item_mark(s, s->header->heap_off + place);
            m->left--;
        }
        p += PAGEMAP_KIND(e) == PAGE_FREE ? 1 : PAGEMAP_VALUE(e);
    }
}

/* Where the part from `from` on ends, if `bytes` of memory may be taken for its marks. A run, or an
 * extent, is in one part. */
static uint64_t part_end(const struct store *s, uint64_t from, uint64_t bytes) {
    const uint64_t *map = s->heap.pagemap;
    uint64_t top = s->header->heap_top, p = from / ARENA_PAGE, n = bytes / MARKS_PAGE + 1;
    if (n >= top - p)
        return top * ARENA_PAGE;
    p += n;
    if (PAGEMAP_KIND(map[p]) == PAGE_SLAB || PAGEMAP_KIND(map[p]) == PAGE_LARGE) {
        uint64_t head = p - PAGEMAP_VALUE(map[p]);
        p = head + PAGEMAP_VALUE(map[head]);
    }
    return p * ARENA_PAGE;
}

/* Mark the blocks that words name: all of them at once; in parts where memory is short, each of
 * which goes over all words. */
static int words_take(struct store *s, struct marks *m) {
    const char *limit;
    uint64_t bytes = memlimit_room(&limit), top = s->header->heap_top * ARENA_PAGE;
    if (bytes < m->len / DD_REBUILD_PARTS)
        bytes = m->len / DD_REBUILD_PARTS;
    do {
        m->from = m->to;
        m->to = part_end(s, m->from, bytes);
        int rc = words_mark(s, m);
        if (rc < 0)
            return rc;
        pages_take_marks(s, m);
        if (m->left)
            return error_damaged(s, word_astray(s));
        if (m->to < top)
            madvise(m->page, m->len, MADV_DONTNEED);
    } while (m->to < top);
    return 0;
}

int heap_rebuild(struct store *s) {
    struct arena_header *h = s->header;
    struct marks m;
    for (int i = 0; i < ZONES; i++) {
        const struct zone *z = &s->heap.zone[i];
        if (*z->out > z->end - z->first)
            return dd_error(DDICT_EPROTO, "the arena of manager %u is damaged: its watermark",
                            h->manager_id);
        read_pagemap(s, z);
    }
    h->used_bytes = budget_fixed(s);
    h->spill_used = h->spill_items = 0;
    int rc = marks_open(&m, h->heap_top);
    if (rc < 0)
        return rc;
    if ((rc = words_take(s, &m)) == 0) {
        h->num_keys = m.keys; /* readers look at it meanwhile */
        h->hidden_keys = m.hidden_keys;
    }
    munmap(m.page, m.len);
    return rc;
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
