/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap.c - blocks. Up to 32 KiB they come from runs of pages cut into one size: steps of 16 bytes up to 512, of 64 up to 2 KiB, then
 * 16 steps a doubling, and a run's uncut rest is at most 1/64 of it; larger blocks are extents of whole pages. So a block of 128 bytes and
 * more is at most 1/8 larger than what was asked, or than the next multiple of 64 where the value needs that alignment.
 */
#include <errno.h>
#include <string.h>

#include <base/error.h>
#include <store/state.h>

#define RUN_PAGES_MIN 4u  /* smaller runs cost more in struct run than they save */
#define RUN_PAGES_MAX 32u

/* The fewest pages that leave at most 1/64 uncut, else those that leave the smallest part. */
static void class_run(struct block_class *c) {
    uint32_t best = 0, best_rest = 0;
    for (uint32_t pages = RUN_PAGES_MIN; pages <= RUN_PAGES_MAX; pages++) {
        uint32_t bytes = pages * ARENA_PAGE, rest = bytes % c->size;
        if (bytes < c->size || bytes / c->size > RUN_BLOCKS_MAX) continue;
        if (!best || (uint64_t)rest * best < (uint64_t)best_rest * pages) {
            best = pages;
            best_rest = rest;
        }
        if (rest * 64 <= bytes) break;
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
        while (at * ARENA_GRANULE <= size) h->class_of[at++] = (uint8_t)c;
        uint32_t octave = 1u << (31 - __builtin_clz(size));
        size += size < 512 ? 16 : octave / 16 > 64 ? octave / 16 : 64;
    }
}

static uint64_t page_of(struct store *s, uint64_t off) { return (off - s->header->heap_off) >> DD_PAGE_SHIFT; }
static uint64_t page_off(struct store *s, uint64_t page) { return s->header->heap_off + (page << DD_PAGE_SHIFT); }

uint32_t run_make(struct store *s, uint32_t first, unsigned cls) {
    struct heap *h = &s->heap;
    uint32_t r = h->runs_idle;
    if (r) h->runs_idle = h->run[r].next;
    else r = ++h->runs_made;
    struct run *run = &h->run[r];
    memset(run, 0, sizeof *run);
    run->first = first;
    run->class = (uint8_t)cls;
    run->blocks = run->free = h->class[cls].blocks;
    for (unsigned b = 0; b < run->blocks; b += 64) run->idle[b / 64] = run->blocks - b >= 64 ? ~0ull : (1ull << (run->blocks - b)) - 1;
    h->class_free[cls] += run->blocks;
    h->ref[first] = r;
    return r;
}

void run_list(struct store *s, uint32_t r) {
    struct heap *h = &s->heap;
    struct run *run = &h->run[r];
    run->listed = true;
    run->prev = NONE;
    run->next = h->partial[run->class];
    if (run->next) h->run[run->next].prev = r;
    h->partial[run->class] = r;
}

static void run_unlist(struct heap *h, uint32_t r) {
    struct run *run = &h->run[r];
    if (run->next) h->run[run->next].prev = run->prev;
    if (run->prev) h->run[run->prev].next = run->next;
    else h->partial[run->class] = run->next;
    run->listed = false;
}

void run_release(struct store *s, uint32_t r) {
    struct heap *h = &s->heap;
    struct run *run = &h->run[r];
    uint32_t first = run->first, pages = h->class[run->class].pages;
    if (run->listed) run_unlist(h, r);
    h->class_free[run->class] -= run->blocks;
    run->next = h->runs_idle;
    h->runs_idle = r;
    pages_unmark(s, first, pages);
    pages_give(s, first, pages);
}

static void release_empty(struct store *s) {
    struct heap *h = &s->heap;
    for (unsigned c = 0; c < CLASSES; c++)
        for (uint32_t r = h->partial[c], next; r; r = next) {
            next = h->run[r].next;
            if (h->run[r].free == h->run[r].blocks) run_release(s, r);
        }
}

bool heap_relieve(struct store *s, int step) {
    if (step == 0) {
        while (index_sweep(s)) { }
        store_reclaim(s);
        release_empty(s);
    }
    return step <= 1;
}

static int run_add(struct store *s, unsigned c, bool punch) {
    struct heap *h = &s->heap;
    uint32_t first;
    int rc = pages_take(s, h->class[c].pages, punch, &first);
    if (rc < 0) return rc;
    pages_mark(s, first, h->class[c].pages, PAGE_SLAB_HEAD, c);
    run_list(s, run_make(s, first, c));
    return 0;
}

static uint64_t take_block(struct store *s, unsigned c) {
    struct heap *h = &s->heap;
    uint32_t r = h->partial[c];
    struct run *run = &h->run[r];
    unsigned w = 0;
    while (!run->idle[w]) w++;
    unsigned b = w * 64 + (unsigned)__builtin_ctzll(run->idle[w]);
    run->idle[w] &= run->idle[w] - 1;
    h->class_free[c]--;
    if (--run->free == 0) run_unlist(h, r);
    s->header->used_bytes += h->class[c].size;
    return page_off(s, run->first) + (uint64_t)b * h->class[c].size;
}

static int small_alloc(struct store *s, uint64_t size, uint64_t *off) {
    unsigned c = s->heap.class_of[(size + ARENA_GRANULE - 1) / ARENA_GRANULE];
    for (int step = -1, rc; !s->heap.partial[c]; step++) {
        if (step >= 0 && !heap_relieve(s, step)) return DDICT_EFULL;
        if (s->heap.partial[c]) break;
        if ((rc = run_add(s, c, step > 0)) < 0 && rc != DDICT_EFULL) return rc;
    }
    *off = take_block(s, c);
    return 0;
}

static int large_alloc(struct store *s, uint64_t size, uint64_t *off) {
    uint64_t n = round_up(size, ARENA_PAGE) / ARENA_PAGE;
    uint32_t first;
    for (int step = -1, rc; (rc = pages_take(s, n, step > 0, &first)) < 0;)
        if (rc != DDICT_EFULL || !heap_relieve(s, ++step)) return rc;
    pages_mark(s, first, n, PAGE_LARGE_HEAD, 0);
    s->heap.ref[first] = NONE;
    s->header->used_bytes += n * ARENA_PAGE;
    *off = page_off(s, first);
    return 0;
}

int block_alloc(struct store *s, uint64_t size, bool aligned, uint64_t *off) {
    settled(s);
    if (aligned) size = round_up(size, 64);
    return size <= CLASS_SIZE_MAX ? small_alloc(s, size, off) : large_alloc(s, size, off);
}

void block_free(struct store *s, uint64_t off) {
    struct heap *h = &s->heap;
    uint64_t page = page_of(s, off), e = h->pagemap[page];
    if (PAGEMAP_KIND(e) == PAGE_LARGE_HEAD) {
        uint64_t n = PAGEMAP_VALUE(e);
        s->header->used_bytes -= n * ARENA_PAGE;
        pages_unmark(s, (uint32_t)page, n);
        pages_give(s, (uint32_t)page, n);
        return;
    }
    if (PAGEMAP_KIND(e) == PAGE_SLAB) page -= PAGEMAP_VALUE(e);
    uint32_t r = h->ref[page];
    struct run *run = &h->run[r];
    const struct block_class *c = &h->class[run->class];
    unsigned b = (unsigned)(((off - page_off(s, page)) / ARENA_GRANULE * c->inverse) >> 32);
    run->idle[b / 64] |= 1ull << b % 64;
    h->class_free[run->class]++;
    s->header->used_bytes -= c->size;
    if (run->free++ == 0) run_list(s, r);
    /* One empty run a class stays, so that a put and a delete in turn do not write the page map. */
    if (run->free == run->blocks && (run->next || run->prev)) run_release(s, r);
}

uint64_t block_bytes(struct store *s, uint64_t off) {
    uint64_t e = s->heap.pagemap[page_of(s, off)];
    return PAGEMAP_KIND(e) == PAGE_LARGE_HEAD ? PAGEMAP_VALUE(e) * ARENA_PAGE : s->heap.class[PAGEMAP_CLASS(e)].size;
}

uint64_t block_of(struct store *s, uint64_t off) {
    const struct arena_header *a = s->header;
    if (off < a->heap_off || off - a->heap_off >= a->heap_top * ARENA_PAGE) return 0;
    uint64_t page = page_of(s, off), e = s->heap.pagemap[page];
    unsigned kind = PAGEMAP_KIND(e);
    if (kind == PAGE_FREE) return 0;
    if (kind == PAGE_SLAB || kind == PAGE_LARGE) page -= PAGEMAP_VALUE(e);
    if (kind >= PAGE_LARGE_HEAD) return page_off(s, page);
    const struct block_class *c = &s->heap.class[PAGEMAP_CLASS(e)];
    uint64_t b = ((off - page_off(s, page)) / ARENA_GRANULE * c->inverse) >> 32;
    return b < c->blocks ? page_off(s, page) + b * c->size : 0;
}
