/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact.c - moves items in memory so that free memory comes together (LAYOUT 13), a little at a
 * time. It chooses a window of the heap, fences its runs off, moves the items that live there
 * elsewhere, and a scan makes the window free (I6). Readers notice only a word that has changed
 * under their hands (I5).
 *
 * Two things can be missing. Pages: then windows whose runs have many free blocks are emptied into
 * other runs. Or pages in a row, when the top of the heap has none: then the window with the least
 * in it is emptied as a whole.
 */
#include "compact.h"

#include "cache.h"
#include "heap.h"
#include "index.h"
#include "lease.h"
#include "pages.h"
#include "rebuild.h"
#include "scan.h"
#include "segment.h"
#include "spill_away.h"
#include <base/clock.h>
#include <base/error.h>

#include <errno.h>
#include <string.h>

#define WORTH 16u /* at most so many bytes are moved to gain one */
/* 64 MiB in a row; a larger value goes to the top of the heap, which gets the memory of other free
 * pages */
#define ROW_PAGES_MAX 16384u
#define LOOK_ITEMS    16u /* items between looks at the clock, of 32 KiB at most */
#define LOOK_RUNS     64u /* runs of a class that are looked at for free blocks */
#define DONE_PART     16u /* at most 1/16 of the heap is fenced and waits for a scan */
/* in the time in which a scan looks at a lease, so many bytes can be moved */
#define LEASE_COST 1024u

static struct zone *memory_of(struct store *s) {
    return &s->heap.zone[ZONE_MEMORY];
}
static uint64_t page_off(struct store *s, uint64_t page) {
    return s->header->heap_off + (page << DD_PAGE_SHIFT);
}

/* --- one item --- */
static bool item_move(struct store *s, uint64_t off) {
    struct compact *c = &s->compact;
    const struct item *item = arena_at(s, off);
    struct index_place p;
    uint64_t to;
    if (!item->key_len || item->check != item_check(item) || pin_held(s, off) ||
        table_find(&s->leases.held, off))
        return false;
    index_find(s, item->hash, item->key, item->key_len, &p);
    /* no word names it yet, or any more */
    if (!p.slot || WORD_OFFSET(p.word) != off)
        return false;
    const struct item_away *away = item_away(item);
    uint64_t bytes = item_bytes(item),
             size = !away && item->val_len >= DD_VALUE_ALIGN_MIN ? round_up(bytes, 64) : bytes;
    if (retire_reserve(s, 1) < 0 || block_alloc_beside(s, size, c->window, &c->spend, &to) < 0)
        return false;
    if (item->version & ITEM_CACHED && cache_moved(s, off, to) < 0) {
        block_free(s, to);
        return false;
    }
    if (away && away_share(s, away->off) < 0) {
        block_free(s, to);
        return false;
    }
    memcpy(arena_at(s, to), item, bytes); /* alignment and `pad` are right for both places */
    STRESS_POINT(STRESS_W_CARRIED);
    if (MUTANT(MUTANT_FRESH_MOVE)) {
        block_free(s, off);
        memset(arena_at(s, off), 0, bytes);
    }
    word_store(p.slot, WORD_MOVE(p.word, to)); /* I3 */
    STRESS_POINT(STRESS_W_SWUNG);
    c->moved_bytes += bytes;
    c->moved_blocks += block_bytes(s, off);
    if (!MUTANT(MUTANT_FRESH_MOVE))
        retire(s, off);
    return true;
}

/* --- the window --- */
static void run_fence(struct store *s, uint32_t r) {
    struct run *run = &s->heap.run[r];
    if (run->fenced)
        return;
    if (run->listed)
        run_unlist(&s->heap, r);
    run->fenced = true;
    if (run->free == run->blocks)
        run_release(s, r);
}

static void run_unfence(struct store *s, uint32_t r) {
    struct run *run = &s->heap.run[r];
    if (!run->fenced)
        return;
    run->fenced = false;
    if (run->free)
        run_list(s, r);
}

/* The first page of what lies at page p, a run, an extent, or a free page; *pages receives its
 * length. */
static uint64_t head_at(const struct heap *h, uint64_t p, uint64_t *pages) {
    uint64_t e = h->pagemap[p];
    unsigned kind = PAGEMAP_KIND(e);
    if (kind == PAGE_SLAB || kind == PAGE_LARGE)
        p -= PAGEMAP_VALUE(e);
    *pages = kind == PAGE_FREE ? 1 : PAGEMAP_VALUE(h->pagemap[p]);
    return p;
}

static bool is_run(const struct heap *h, uint64_t head) {
    return PAGEMAP_KIND(h->pagemap[head]) == PAGE_SLAB_HEAD;
}

static uint64_t stretch_end(struct store *s, struct stretch w) {
    uint64_t top = zone_top(memory_of(s));
    return w.to < top ? w.to : top;
}

static void stretch_fence(struct store *s, struct stretch w,
                          void (*fn)(struct store *s, uint32_t r)) {
    struct heap *h = &s->heap;
    for (uint64_t p = w.from, end = stretch_end(s, w), head, n; p < end; p = head + n) {
        head = head_at(h, p, &n);
        if (is_run(h, head))
            fn(s, h->ref[head]);
    }
}

static void regions_mark_tried(struct store *s, uint64_t from, uint64_t to) {
    struct heap *h = &s->heap;
    for (uint64_t p = from; p < to && p < memory_of(s)->end;
         p = ((p >> h->region_shift) + 1) << h->region_shift)
        region_of(h, p)->tried = s->compact.round;
}

/* Make the old blocks of windows that are done free, but for those that are read, and unfence the
 * windows. False: the scan for that goes on. */
static bool windows_scan(struct store *s) {
    struct compact *c = &s->compact;
    c->closing = true;
    if (!scan_over(s, &c->scan, false))
        return false;
    c->closing = false;
    while (c->done_n > 0)
        stretch_fence(s, c->done[--c->done_n], run_unfence);
    c->done_moved = c->moved_bytes;
    if (c->done_pages > 0)
        c->stuck_bytes = 0; /* something could be moved */
    c->done_pages = 0;
    return true;
}

/* One scan serves several windows if it costs more than emptying one. But windows that are done
 * stay fenced until then, so they are at most a part of the heap. */
static void window_close(struct store *s, bool now) {
    struct compact *c = &s->compact;
    const struct leases *l = &s->leases;
    uint64_t used = zone_top(memory_of(s)) >> s->heap.region_shift,
             most = used / DONE_PART < COMPACT_DONE ? used / DONE_PART : COMPACT_DONE;
    c->open = false;
    c->done[c->done_n++] = c->window;
    if (now || c->done_n >= most ||
        c->moved_bytes - c->done_moved >= l->looked + l->held.used * LEASE_COST)
        windows_scan(s);
}

/* Is there room elsewhere for all items of the run? */
static bool run_fits(struct store *s, const struct run *run) {
    const struct heap *h = &s->heap;
    const struct zone *z = memory_of(s);
    const struct compact *c = &s->compact;
    uint32_t need = (uint32_t)run->blocks - run->free, have = 0, size = h->class[run->class].size;
    if (!c->in_a_row && run->free * WORTH < run->blocks)
        return false; /* nothing gained */
    for (unsigned cls = run->class; cls < CLASSES && h->class[cls].size <= 2 * size; cls++) {
        unsigned looks = 0;
        for (uint32_t r = z->partial[cls]; r && have < need && looks < LOOK_RUNS;
             r = h->run[r].next, looks++)
            have += h->run[r].free;
        if (have >= need || c->spend >= h->class[cls].pages)
            return true;
    }
    return false;
}

/* Is a block of the run leased or pinned? Then the run stays, and moving the others is useless. */
static bool run_held(struct store *s, uint64_t head, const struct run *run) {
    uint64_t off = page_off(s, head), size = s->heap.class[run->class].size;
    if (!s->leases.held.used && !s->leases.pins.used)
        return false;
    for (unsigned b = 0; b < run->blocks; b++)
        if (!(run->idle[b / 64] >> b % 64 & 1) &&
            (table_find(&s->leases.held, off + b * size) || pin_held(s, off + b * size)))
            return true;
    return false;
}

/* Move the items of a run. False: the time is over. *stuck: something could not be moved. */
static bool run_empty(struct store *s, uint64_t head, uint64_t end_ns, bool *stuck) {
    struct compact *c = &s->compact;
    struct heap *h = &s->heap;
    struct run *run = &h->run[h->ref[head]];
    uint64_t size = h->class[run->class].size;
    if (c->block == 0) {
        /* the scan may make room in windows that are done */
        if (c->done_n > 0 && !run_fits(s, run))
            windows_scan(s);
        /* a run that was made after the window was opened */
        if (is_run(h, head) && !run->fenced)
            run_fence(s, h->ref[head]);
        if (!is_run(h, head))
            return true;
        if (run_held(s, head, run) || !run_fits(s, run)) {
            *stuck = true;
            return true;
        }
    }
    for (unsigned looked = 0; c->block < run->blocks && !(*stuck && c->in_a_row); c->block++) {
        if (run->idle[c->block / 64] >> c->block % 64 & 1)
            continue;
        if (++looked % LOOK_ITEMS == 0 && clock_ns() > end_ns)
            return false;
        *stuck |= !item_move(s, page_off(s, head) + c->block * size);
    }
    c->block = 0;
    if (!*stuck)
        c->done_pages += h->class[run->class].pages;
    return true;
}

/* Go on to empty the window: true when it is done, and closed; false: the time is over. enough: how
 * many pages are wanted in all; *whole: everything in it could be moved. */
static bool window_empty(struct store *s, uint64_t enough, uint64_t end_ns, bool *whole) {
    struct compact *c = &s->compact;
    struct heap *h = &s->heap;
    uint64_t n;
    *whole = true;
    for (; c->at < stretch_end(s, c->window); c->at += n) {
        uint64_t head = head_at(h, c->at, &n);
        bool stuck = false, large = PAGEMAP_KIND(h->pagemap[head]) == PAGE_LARGE_HEAD;
        n -= c->at - head;
        if (is_run(h, head)) {
            if (!run_empty(s, head, end_ns, &stuck))
                return false;
        } else if (large && c->in_a_row) {
            if (clock_ns() > end_ns)
                return false;
            stuck = !item_move(s, page_off(s, head));
            if (stuck && c->done_n > 0 && windows_scan(s))
                stuck = PAGEMAP_KIND(h->pagemap[head]) == PAGE_LARGE_HEAD &&
                        !item_move(s, page_off(s, head));
        }
        if (!stuck)
            continue;
        *whole = false;
        if (!c->in_a_row)
            continue;
        regions_mark_tried(s, head, c->at + n); /* other windows may do without it */
        c->block = 0;
        window_close(s, false);
        return true;
    }
    regions_mark_tried(s, c->window.from, c->window.to);
    window_close(s, c->in_a_row || pages_available(s) + c->done_pages >= enough);
    return true;
}

/* --- which window --- */
/* Does it pay to empty the region's runs? *bytes: how much is free in them. */
static bool region_is_loose(const struct store *s, const struct region *r, uint64_t *bytes) {
    *bytes = (uint64_t)r->run_pages * ARENA_PAGE - r->small;
    return r->tried != s->compact.round && *bytes >= RUN_PAGES_MIN * ARENA_PAGE &&
           *bytes * WORTH >= r->small;
}

static bool region_is_better(const struct region *a, const struct region *b) {
    uint64_t of_a = (uint64_t)a->run_pages * ARENA_PAGE - a->small,
             of_b = (uint64_t)b->run_pages * ARENA_PAGE - b->small;
    return (of_a >> 4) * (b->small + ARENA_PAGE) > (of_b >> 4) * (a->small + ARENA_PAGE);
}

/* One look at all regions serves many windows. */
static void look_for_pages(struct store *s) {
    struct heap *h = &s->heap;
    struct compact *c = &s->compact;
    uint64_t used = (zone_top(memory_of(s)) + (1u << h->region_shift) - 1) >> h->region_shift,
             bytes;
    c->best_n = 0;
    for (uint64_t i = 0; i < used; i++) {
        const struct region *r = &h->region[i];
        unsigned at = 0;
        if (!region_is_loose(s, r, &bytes) ||
            (c->best_n == COMPACT_BEST && !region_is_better(r, &h->region[c->best[0]])))
            continue;
        if (c->best_n < COMPACT_BEST) { /* the best one last */
            for (at = c->best_n++; at > 0 && !region_is_better(r, &h->region[c->best[at - 1]]);
                 at--)
                c->best[at] = c->best[at - 1];
        } else
            for (; at + 1 < COMPACT_BEST && region_is_better(r, &h->region[c->best[at + 1]]); at++)
                c->best[at] = c->best[at + 1];
        c->best[at] = (uint32_t)i;
    }
}

static bool window_for_pages(struct store *s) {
    struct heap *h = &s->heap;
    struct compact *c = &s->compact;
    uint64_t bytes;
    for (bool looked = false;; looked = true) {
        while (c->best_n > 0) {
            uint64_t i = c->best[--c->best_n];
            if (!region_is_loose(s, &h->region[i], &bytes))
                continue; /* it was, at the last look */
            c->window = (struct stretch){i << h->region_shift, (i + 1) << h->region_shift};
            c->spend = (uint32_t)(bytes / ARENA_PAGE / 2);
            return true;
        }
        if (looked)
            return false;
        look_for_pages(s);
    }
}

static bool window_in_a_row(struct store *s, uint64_t n) {
    struct heap *h = &s->heap;
    uint64_t used = (zone_top(memory_of(s)) + (1u << h->region_shift) - 1) >> h->region_shift,
             wide = (n + (1u << h->region_shift) - 1) >> h->region_shift;
    uint64_t sum = 0, least = pages_available(s) * ARENA_PAGE + heap_scattered(s),
             best = h->regions, good = 0;
    if (n > ROW_PAGES_MAX)
        return false;
    for (uint64_t i = 0; i < used; i++) {
        const struct region *r = &h->region[i];
        if (good == wide) {
            sum -= h->region[i - wide].small + h->region[i - wide].large;
            good--;
        }
        if (r->tried == s->compact.round || r->held == s->compact.round ||
            r->large >= REGION_FIXED) {
            sum = good = 0;
            continue;
        }
        sum += r->small + r->large;
        good++;
        if (good < wide || !sum || sum >= least)
            continue;
        least = sum;
        best = i + 1 - wide;
    }
    if (best == h->regions)
        return false;
    s->compact.window = (struct stretch){best << h->region_shift, (best + wide) << h->region_shift};
    s->compact.spend = UINT32_MAX;
    return true;
}

static bool window_open(struct store *s, uint64_t n, bool in_a_row) {
    struct compact *c = &s->compact;
    if (!(in_a_row ? window_in_a_row(s, n) : window_for_pages(s)))
        return false;
    c->in_a_row = in_a_row;
    c->at = c->window.from;
    c->block = 0;
    c->open = true;
    stretch_fence(s, c->window, run_fence);
    return true;
}

/* --- how long --- */
/* n pages, and those that may be taken with them: of the page map, and since a row begins with a
 * region. */
static uint64_t pages_with_map(uint64_t n) {
    return n + 2 + n / (ARENA_PAGE / sizeof(uint64_t));
}

void compact_leased(struct store *s, uint64_t block) {
    uint64_t page = (block - s->header->heap_off) >> DD_PAGE_SHIFT;
    if (page < memory_of(s)->end)
        region_of(&s->heap, page)->held = s->compact.round;
}

bool compact_gave_up(const struct store *s, uint64_t n) {
    const struct compact *c = &s->compact;
    return n >= c->gave_up_pages && s->heap.freed - c->gave_up_freed < n * ARENA_PAGE &&
           clock_ns() < c->gave_up_end;
}

static int round_give_up(struct store *s, uint64_t n, uint64_t now) {
    struct compact *c = &s->compact;
    uint64_t again = DD_COMPACT_AGAIN_MS * 1000000ull,
             rest = (now - c->round_began) * DD_COMPACT_REST,
             late = DD_COMPACT_LATE_MS * 1000000ull;
    c->gave_up_end = now + (rest < again ? again : rest < late ? rest : late);
    c->gave_up_freed = s->heap.freed;
    c->gave_up_pages = n;
    c->stuck_bytes = heap_scattered(s);
    c->stuck_end = now + late;
    c->over = true;
    return DDICT_EFULL;
}

/* A round ends when no window is left, however long that takes. */
static void round_begin(struct store *s, uint64_t now) {
    struct compact *c = &s->compact;
    c->round++;
    c->round_began = now;
    c->gained = c->over = false;
    c->round_freed = s->heap.freed - c->moved_blocks;
    c->looking = !scan_over(s, &c->look, true); /* for what is read (I20) */
}

/* Bytes that were freed since the round began, but not by moves. */
static int64_t others_freed(const struct store *s) {
    return (int64_t)(s->heap.freed - s->compact.moved_blocks - s->compact.round_freed);
}

/* Work on n pages. 0: they may be there now; -EINPROGRESS: the time is over; DDICT_EFULL: no window
 * is left. */
static int compact_some(struct store *s, uint64_t n, uint64_t *left_ns) {
    struct compact *c = &s->compact;
    uint64_t began = clock_ns(), end = began + *left_ns, now = began,
             again = DD_COMPACT_AGAIN_MS * 1000000ull;
    int rc = -EINPROGRESS;
    if (c->over || began > c->round_seen + again)
        round_begin(s, began);
    do {
        if (c->closing) {
            if (windows_scan(s))
                rc = 0;
            break;
        }
        if (c->looking && (c->looking = !scan_over(s, &c->look, true)))
            break;
        bool in_a_row = pages_available(s) >= pages_with_map(n) || !pages_may_punch(s),
             whole = false;
        if (!c->open && !window_open(s, n, in_a_row) && !(in_a_row && window_open(s, n, false))) {
            if (c->done_n > 0) {
                if (windows_scan(s) && pages_available(s) >= pages_with_map(n))
                    rc = 0;
            } else if (now > c->round_began + again &&
                       (c->gained || others_freed(s) >= (int64_t)(n * ARENA_PAGE)))
                round_begin(s, now);
            else
                rc = round_give_up(s, n, now);
            continue;
        }
        if (window_empty(s, pages_with_map(n), end, &whole) && !c->closing &&
            (c->in_a_row ? whole : pages_available(s) >= pages_with_map(n)))
            rc = 0;
    } while (rc == -EINPROGRESS && (now = clock_ns()) < end);
    now = clock_ns();
    c->round_seen = now;
    *left_ns -= now - began < *left_ns ? now - began : *left_ns;
    return rc;
}

static bool compact_is_useless(struct store *s, uint64_t n) {
    return compact_gave_up(s, n) || pages_available(s) + heap_scattered(s) / ARENA_PAGE < n;
}

int compact_for(struct store *s, uint64_t n) {
    struct compact *c = &s->compact;
    if (s->index.sweeps)
        return -EINPROGRESS;
    if (compact_is_useless(s, n))
        return DDICT_EFULL;
    c->wanted = n;
    return c->left_ns ? compact_some(s, n, &c->left_ns) : -EINPROGRESS;
}

void store_reserve_late(struct store *s) {
    round_give_up(s, s->compact.wanted, clock_ns());
    s->compact.gave_up_end += DD_COMPACT_LATE_MS * 1000000ull;
}

int compact_for_index(struct store *s, uint64_t n) {
    uint64_t left = DD_COMPACT_NS;
    if (compact_is_useless(s, n))
        return DDICT_EFULL;
    int rc = compact_some(s, n, &left);
    return rc == -EINPROGRESS ? DDICT_EFULL : rc;
}

bool compact_later(struct store *s, uint64_t n) {
    return !s->compact.left_ns && (s->index.sweeps || !compact_is_useless(s, n));
}

void compact_turn(struct store *s) {
    struct compact *c = &s->compact;
    /* the request that wanted it is gone */
    if ((c->open || c->done_n > 0) && c->left_ns == DD_COMPACT_NS && !c->idle) {
        if (c->open)
            window_close(s, true);
        else
            windows_scan(s);
    }
    c->left_ns = DD_COMPACT_NS;
    c->idle = false;
}

bool store_idle(struct store *s) {
    if (s->settled && s->index.idle > 1 && segments_give_back(s))
        return true;
    s->compact.idle = true;
    uint64_t part = s->header->budget / ARENA_PAGE / DD_COMPACT_IDLE_PART,
             left = DD_COMPACT_IDLE_NS;
    if (!s->settled || pages_available(s) >= part || heap_scattered(s) < part * ARENA_PAGE ||
        compact_gave_up(s, part))
        return false;
    return compact_some(s, part, &left) != DDICT_EFULL;
}
