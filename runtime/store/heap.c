/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap.c - blocks. A block of up to 32 KiB comes from a run: pages cut into blocks of one size
 * class. Sizes go in steps of 16 bytes up to 512, of 64 up to 2 KiB, then 16 steps for each
 * doubling; the uncut rest of a run is at most 1/64 of it. A larger block is an extent of whole
 * pages. So a block of 128 bytes and more is at most 1/8 larger than what was asked, or than the
 * next multiple of 64 where the value needs that alignment.
 */
#include "heap.h"

#include "compact.h"
#include "index.h"
#include "lease.h"
#include "pages.h"
#include "queue.h"
#include "rebuild.h"
#include "scan.h"
#include "spill.h"
#include <base/clock.h>
#include <base/error.h>

#include <errno.h>
#include <string.h>

#define RUN_PAGES_MAX 32u

/* The fewest pages that leave at most 1/64 uncut, else those that leave the smallest part. */
static void class_run(struct block_class *c) {
    uint32_t best = 0, best_rest = 0;
    for (uint32_t pages = RUN_PAGES_MIN; pages <= RUN_PAGES_MAX; pages++) {
        uint32_t bytes = pages * ARENA_PAGE, rest = bytes % c->size;
        if (bytes < c->size || bytes / c->size > RUN_BLOCKS_MAX)
            continue;
        if (!best || (uint64_t)rest * best < (uint64_t)best_rest * pages) {
            best = pages;
            best_rest = rest;
        }
        if (rest * 64 <= bytes)
            break;
    }
    c->pages = (uint16_t)best;
    c->blocks = (uint16_t)(best * ARENA_PAGE / c->size);
    uint32_t granules = c->size / ARENA_GRANULE;
    c->inverse = (uint32_t)(((1ull << 32) + granules - 1) / granules);
}

void heap_classes(struct heap *h) {
    unsigned c = 0, at = 0;
    for (uint32_t size = 48; size <= CLASS_SIZE_MAX; c++) {
        h->class[c].size = size;
        class_run(&h->class[c]);
        while (at * ARENA_GRANULE <= size)
            h->class_of[at++] = (uint8_t)c;
        uint32_t octave = 1u << (31 - __builtin_clz(size));
        size += size < 512 ? 16 : octave / 16 > 64 ? octave / 16 : 64;
    }
}

static uint64_t page_of(struct store *s, uint64_t off) {
    return (off - s->header->heap_off) >> DD_PAGE_SHIFT;
}
static uint64_t page_off(struct store *s, uint64_t page) {
    return s->header->heap_off + (page << DD_PAGE_SHIFT);
}

uint32_t run_make(struct store *s, uint32_t first, unsigned cls) {
    struct heap *h = &s->heap;
    uint32_t r = h->runs_idle;
    if (r)
        h->runs_idle = h->run[r].next;
    else
        r = ++h->runs_made;
    struct run *run = &h->run[r];
    memset(run, 0, sizeof *run);
    run->first = first;
    run->class = (uint8_t)cls;
    run->blocks = run->free = h->class[cls].blocks;
    for (unsigned b = 0; b < run->blocks; b += 64)
        run->idle[b / 64] = run->blocks - b >= 64 ? ~0ull : (1ull << (run->blocks - b)) - 1;
    zone_of(h, first)->class_free[cls] += run->blocks;
    if (!zone_of(h, first)->first)
        region_of(h, first)->run_pages += h->class[cls].pages;
    h->ref[first] = r;
    return r;
}

void run_list(struct store *s, uint32_t r) {
    struct heap *h = &s->heap;
    struct run *run = &h->run[r];
    struct zone *z = zone_of(h, run->first);
    run->listed = true;
    run->prev = NONE;
    run->next = z->partial[run->class];
    if (run->next)
        h->run[run->next].prev = r;
    z->partial[run->class] = r;
}

void run_unlist(struct heap *h, uint32_t r) {
    struct run *run = &h->run[r];
    if (run->next)
        h->run[run->next].prev = run->prev;
    if (run->prev)
        h->run[run->prev].next = run->next;
    else
        zone_of(h, run->first)->partial[run->class] = run->next;
    run->listed = false;
}

void run_release(struct store *s, uint32_t r) {
    struct heap *h = &s->heap;
    struct run *run = &h->run[r];
    uint32_t first = run->first, pages = h->class[run->class].pages;
    if (run->listed)
        run_unlist(h, r);
    if (zone_of(h, first)->empty[run->class] == r)
        zone_of(h, first)->empty[run->class] = NONE;
    zone_of(h, first)->class_free[run->class] -= run->blocks;
    if (!zone_of(h, first)->first)
        region_of(h, first)->run_pages -= pages;
    run->next = h->runs_idle;
    h->runs_idle = r;
    pages_unmark(s, first, pages);
    pages_give(s, first, pages);
}

static void release_empty(struct store *s) {
    struct heap *h = &s->heap;
    for (unsigned i = 0; i < ZONES * CLASSES; i++) {
        uint32_t r = h->zone[i / CLASSES].empty[i % CLASSES];
        if (r && h->run[r].listed && h->run[r].free == h->run[r].blocks)
            run_release(s, r);
    }
}

/* Sweep what a clear, or deleted queues, left. If the request can wait, only in the time that is
 * left of this turn; true: there is more. Blocks retired here need a scan that begins later. */
static bool sweep_some(struct store *s) {
    if (!s->index.sweeps && !s->drops)
        return false;
    uint64_t began = clock_ns(), took = 0, own = DD_COMPACT_NS,
             *left = s->leases.wait ? &s->compact.left_ns : &own;
    while ((index_sweep(s) || queue_sweep(s, DD_QUEUE_SWEEP)) &&
           (took = clock_ns() - began) < *left) {
    }
    *left -= took < *left ? took : *left;
    if (s->leases.wait)
        *s->leases.wait = 0;
    return s->index.sweeps || s->drops;
}

int heap_relieve(struct store *s, int step) {
    if (step == 0) {
        bool more = sweep_some(s);
        int rc = more && s->leases.wait && !scan_small(s) ? -EINPROGRESS : scan_for_room(s);
        release_empty(s);
        if (rc < 0)
            return rc;
    }
    return step <= 1;
}

/* How hard to look for a block: only where pages are free already (IDLE), or by taking more memory
 * (MORE), or also by giving back memory of other free pages for it (PUNCH). */
enum how { IDLE, MORE, PUNCH };

static int take_pages(struct store *s, struct zone *z, uint64_t n, enum how how, uint32_t *first) {
    return how == IDLE ? pages_take_idle(s, z, n, first) : pages_take(s, z, n, how == PUNCH, first);
}

static void run_begin(struct store *s, uint32_t first, unsigned c) {
    pages_mark(s, first, s->heap.class[c].pages, PAGE_SLAB_HEAD, c);
    run_list(s, run_make(s, first, c));
}

static int run_add(struct store *s, struct zone *z, unsigned c, enum how how) {
    uint32_t pages = s->heap.class[c].pages, first;
    int rc = take_pages(s, z, pages, how, &first);
    if (rc == 0)
        run_begin(s, first, c);
    return rc;
}

uint64_t heap_scattered(const struct store *s) {
    uint64_t sum = 0;
    for (unsigned c = 0; c < CLASSES; c++)
        sum += s->heap.zone[ZONE_MEMORY].class_free[c] * s->heap.class[c].size;
    return sum;
}

void regions_large(struct heap *h, uint64_t first, uint64_t pages, bool add) {
    uint64_t fixed = pages * ARENA_PAGE > DD_COMPACT_LARGE ? REGION_FIXED : 0;
    for (uint64_t p = first, end = first + pages, next; p < end; p = next) {
        next = ((p >> h->region_shift) + 1) << h->region_shift;
        uint64_t bytes = fixed + ((next < end ? next : end) - p) * ARENA_PAGE;
        region_of(h, p)->large += add ? bytes : -bytes;
    }
}

static void zone_count_taken(struct store *s, struct zone *z, uint64_t bytes) {
    *z->used += bytes;
    if (!z->first)
        return;
    s->header->spill_items++;
    s->header->spilled_bytes += bytes;
}

static uint64_t take_block(struct store *s, struct zone *z, unsigned c) {
    struct heap *h = &s->heap;
    uint32_t r = z->partial[c];
    struct run *run = &h->run[r];
    unsigned w = 0;
    while (!run->idle[w])
        w++;
    unsigned b = w * 64 + (unsigned)__builtin_ctzll(run->idle[w]);
    run->idle[w] &= run->idle[w] - 1;
    z->class_free[c]--;
    if (--run->free == 0)
        run_unlist(h, r);
    zone_count_taken(s, z, h->class[c].size);
    if (!z->first)
        region_of(h, run->first)->small += h->class[c].size;
    return page_off(s, run->first) + (uint64_t)b * h->class[c].size;
}

static int small_take(struct store *s, struct zone *z, uint64_t size, enum how how, uint64_t *off) {
    unsigned c = s->heap.class_of[(size + ARENA_GRANULE - 1) / ARENA_GRANULE];
    int rc = z->partial[c] ? 0 : run_add(s, z, c, how);
    if (rc == 0)
        *off = take_block(s, z, c);
    return rc;
}

static uint64_t extent_begin(struct store *s, struct zone *z, uint32_t first, uint64_t n) {
    pages_mark(s, first, n, PAGE_LARGE_HEAD, 0);
    s->heap.ref[first] = NONE;
    zone_count_taken(s, z, n * ARENA_PAGE);
    if (!z->first)
        regions_large(&s->heap, first, n, true);
    return page_off(s, first);
}

static int large_take(struct store *s, struct zone *z, uint64_t size, enum how how, uint64_t *off) {
    uint64_t n = round_up(size, ARENA_PAGE) / ARENA_PAGE;
    uint32_t first;
    int rc = take_pages(s, z, n, how, &first);
    if (rc == 0)
        *off = extent_begin(s, z, first, n);
    return rc;
}

static int block_take(struct store *s, struct zone *z, uint64_t size, enum how how, uint64_t *off) {
    return size <= CLASS_SIZE_MAX ? small_take(s, z, size, how, off)
                                  : large_take(s, z, size, how, off);
}

/* Take a block of a larger class, at most twice as large. A block for an aligned value is aligned,
 * too (LAYOUT 4). */
static int larger_take(struct store *s, struct zone *z, uint64_t size, uint64_t *off) {
    const struct heap *h = &s->heap;
    for (unsigned c = h->class_of[(size + ARENA_GRANULE - 1) / ARENA_GRANULE];
         c < CLASSES && h->class[c].size <= 2 * size; c++) {
        if (!z->partial[c] || (size % 64 == 0 && h->class[c].size % 64))
            continue;
        *off = take_block(s, z, c);
        return 0;
    }
    return DDICT_EFULL;
}

int block_alloc_beside(struct store *s, uint64_t size, struct stretch not, uint32_t *spend,
                       uint64_t *off) {
    struct zone *z = &s->heap.zone[ZONE_MEMORY];
    bool small = size <= CLASS_SIZE_MAX;
    unsigned c = small ? s->heap.class_of[(size + ARENA_GRANULE - 1) / ARENA_GRANULE] : 0;
    uint64_t n = small ? s->heap.class[c].pages : round_up(size, ARENA_PAGE) / ARENA_PAGE;
    uint32_t first;
    if (small && z->partial[c]) {
        *off = take_block(s, z, c);
        return 0;
    }
    if (*spend >= n && pages_take_beside(s, n, not, &first) == 0) {
        if (*spend != UINT32_MAX)
            *spend -= (uint32_t)n;
        if (small)
            run_begin(s, first, c);
        *off = small ? take_block(s, z, c) : extent_begin(s, z, first, n);
        return 0;
    }
    return small ? larger_take(s, z, size, off) : DDICT_EFULL;
}

int block_alloc(struct store *s, uint64_t size, bool aligned, uint64_t *off) {
    struct zone *z = &s->heap.zone[ZONE_MEMORY];
    int rc;
    heap_ensure_settled(s);
    if (aligned)
        size = round_up(size, 64);
    /* if a window is open already, the simple ways had failed before */
    bool tried = false, going = s->spill.fd < 0 && (s->compact.open || s->compact.done_n > 0);
    s->compact.punching = false;
    for (int step = going ? 1 : -1;
         (rc = block_take(s, z, size, step > 0 ? PUNCH : MORE, off)) < 0;) {
        uint64_t n =
            size > CLASS_SIZE_MAX
                ? round_up(size, ARENA_PAGE) / ARENA_PAGE
                : s->heap.class[s->heap.class_of[(size + ARENA_GRANULE - 1) / ARENA_GRANULE]].pages;
        if (rc != DDICT_EFULL)
            return rc;
        if (s->compact.punching)
            return -EINPROGRESS;
        if ((step < 0 || going) && compact_later(s, n))
            return -EINPROGRESS;
        int more = going ? 0 : heap_relieve(s, ++step);
        if (more < 0)
            return more;
        if (more)
            continue;
        tried = true;
        if ((rc = compact_for(s, n)) == 0)
            continue;
        if (going && rc == DDICT_EFULL) {
            going = false;
            step = -1;
            continue;
        }
        if (rc != DDICT_EFULL ||
            (size <= CLASS_SIZE_MAX && (rc = larger_take(s, z, size, off)) == 0))
            return rc;
        return block_take(s, z, size, PUNCH, off); /* for the sentence */
    }
    s->compact.gained |= tried;
    return 0;
}

int block_alloc_moving(struct store *s, uint64_t size, uint64_t *off) {
    return block_take(s, &s->heap.zone[ZONE_MEMORY], size, MORE, off);
}

int block_alloc_spill(struct store *s, uint64_t size, bool aligned, uint64_t *off) {
    return block_take(s, &s->heap.zone[ZONE_SPILL], aligned ? round_up(size, 64) : size, MORE, off);
}

int block_alloc_any(struct store *s, uint64_t size, bool aligned, uint64_t *off) {
    uint64_t bytes = aligned ? round_up(size, 64) : size;
    if (s->spill.fd < 0)
        return block_alloc(s, size, aligned, off);
    heap_ensure_settled(s);
    for (;;) {
        bool tight = spill_tight(s, bytes);
        int rc = tight ? block_take(s, &s->heap.zone[ZONE_MEMORY], bytes, IDLE, off)
                       : block_alloc(s, size, aligned, off),
            room;
        if (rc != DDICT_EFULL && rc != -EINPROGRESS)
            return rc;
        if (!tight)
            spill_tighten(s, bytes);
        room = spill_make_room(s, bytes);
        /* before a put is refused, look through all of memory once more */
        if (room == 0 || (room == DDICT_EFULL && tight))
            s->spill.tight_until = 0;
        else
            return room == DDICT_EFULL ? rc : room;
    }
}

void block_free(struct store *s, uint64_t off) {
    struct heap *h = &s->heap;
    uint64_t page = page_of(s, off), e = h->pagemap[page];
    struct zone *z = zone_of(h, page);
    if (z->first)
        s->header->spill_items--;
    if (PAGEMAP_KIND(e) == PAGE_LARGE_HEAD) {
        uint64_t n = PAGEMAP_VALUE(e);
        *z->used -= n * ARENA_PAGE;
        if (!z->first) {
            h->freed += n * ARENA_PAGE;
            regions_large(h, page, n, false);
        }
        pages_unmark(s, (uint32_t)page, n);
        pages_give(s, (uint32_t)page, n);
        return;
    }
    if (PAGEMAP_KIND(e) == PAGE_SLAB)
        page -= PAGEMAP_VALUE(e);
    uint32_t r = h->ref[page];
    struct run *run = &h->run[r];
    const struct block_class *c = &h->class[run->class];
    unsigned b = (unsigned)(((off - page_off(s, page)) / ARENA_GRANULE * c->inverse) >> 32);
    run->idle[b / 64] |= 1ull << b % 64;
    z->class_free[run->class]++;
    *z->used -= c->size;
    if (!z->first) {
        h->freed += c->size;
        region_of(h, run->first)->small -= c->size;
    }
    if (run->free++ == 0 && !run->fenced)
        run_list(s, r);
    /* One empty run of each class stays, so that alternate puts and deletes do not write the page
     * map. */
    if (run->free != run->blocks)
        return;
    if (run->next || run->prev || run->fenced)
        run_release(s, r);
    else
        z->empty[run->class] = r;
}

uint64_t block_bytes(struct store *s, uint64_t off) {
    uint64_t e = s->heap.pagemap[page_of(s, off)];
    return PAGEMAP_KIND(e) == PAGE_LARGE_HEAD ? PAGEMAP_VALUE(e) * ARENA_PAGE
                                              : s->heap.class[PAGEMAP_CLASS(e)].size;
}

uint64_t block_of(struct store *s, uint64_t off) {
    const struct arena_header *a = s->header;
    if (off < a->heap_off || off - a->heap_off >= (uint64_t)s->heap.pages * ARENA_PAGE)
        return 0;
    uint64_t page = page_of(s, off);
    if (page >= zone_top(zone_of(&s->heap, page)))
        return 0;
    uint64_t e = s->heap.pagemap[page];
    unsigned kind = PAGEMAP_KIND(e);
    if (kind == PAGE_FREE)
        return 0;
    if (kind == PAGE_SLAB || kind == PAGE_LARGE)
        page -= PAGEMAP_VALUE(e);
    if (kind >= PAGE_LARGE_HEAD)
        return page_off(s, page);
    const struct block_class *c = &s->heap.class[PAGEMAP_CLASS(e)];
    uint64_t b = ((off - page_off(s, page)) / ARENA_GRANULE * c->inverse) >> 32;
    return b < c->blocks ? page_off(s, page) + b * c->size : 0;
}
