/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact.c - items are moved in memory so that what is free comes together (LAYOUT 13), a little at a time. A window of the heap is chosen, its runs are
 * fenced off, what lives there moves elsewhere, and a scan makes the window free (I6). Readers take no notice but by a word that has changed under
 * their hands (I5).
 *
 * Two things can be missing. Pages: then windows whose runs have many free blocks are emptied into other runs. Or pages in a row, where none can be had at the top
 * of the heap: then the window that has least in it is emptied as a whole.
 */
#include <base/clock.h>
#include <base/error.h>
#include <store/state.h>

#include <errno.h>
#include <string.h>

#define WORTH 16u /* to gain a byte no more than so many are moved */
#define ROW_PAGES_MAX \
    16384u /* 64 MiB in a row; larger values have the top of the heap, where the memory of other free pages goes */
#define LOOK_ITEMS 16u /* items between looks at the clock, of 32 KiB at most */
#define LOOK_RUNS  64u /* runs of a class that are looked at for free blocks */

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
    struct place p;
    uint64_t to;
    if (!item->key_len || item->check != item_check(item) || pin_held(s, off) ||
        table_find(&s->leases.held, off))
        return false;
    index_find(s, item->hash, item->key, item->key_len, &p);
    if (!p.slot || WORD_OFFSET(p.word) != off)
        return false; /* nobody's yet, or nobody's any more */
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
    memcpy(arena_at(s, to), item, bytes); /* both begin alike in their 64 bytes */
    STRESS_POINT(STRESS_W_CARRIED);
    if (MUTANT(MUTANT_FRESH_MOVE)) {
        block_free(s, off);
        memset(arena_at(s, off), 0, bytes);
    }
    word_store(p.slot, WORD_MOVE(p.word, to)); /* I3 */
    STRESS_POINT(STRESS_W_SWUNG);
    c->moved_bytes += bytes;
    if (!MUTANT(MUTANT_FRESH_MOVE))
        retire(s, off);
    return true;
}

/* --- the window --- */
static void fence(struct store *s, uint32_t r) {
    struct run *run = &s->heap.run[r];
    if (run->fenced)
        return;
    if (run->listed)
        run_unlist(&s->heap, r);
    run->fenced = true;
    if (run->free == run->blocks)
        run_release(s, r);
}

static void unfence(struct store *s, uint32_t r) {
    struct run *run = &s->heap.run[r];
    if (!run->fenced)
        return;
    run->fenced = false;
    if (run->free)
        run_list(s, r);
}

/* The first page of what lies at page p, a run, an extent, or a free page; *pages receives its length. */
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

static uint64_t window_end(struct store *s) {
    uint64_t top = zone_top(memory_of(s));
    return s->compact.window.to < top ? s->compact.window.to : top;
}

static void window_fence(struct store *s, void (*fn)(struct store *s, uint32_t r)) {
    struct heap *h = &s->heap;
    for (uint64_t p = s->compact.window.from, end = window_end(s), head, n; p < end; p = head + n) {
        head = head_at(h, p, &n);
        if (is_run(h, head))
            fn(s, h->ref[head]);
    }
}

static void tried(struct store *s, uint64_t from, uint64_t to) {
    struct heap *h = &s->heap;
    for (uint64_t p = from; p < to && p < memory_of(s)->end;
         p = ((p >> h->region_shift) + 1) << h->region_shift)
        region_of(h, p)->tried = s->compact.round;
}

static void window_close(struct store *s) {
    struct compact *c = &s->compact;
    store_reclaim(s); /* what has moved away is free, where nobody reads it */
    window_fence(s, unfence);
    c->open = false;
}

/* Is there room for all that lives in the run, elsewhere? */
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

/* False: the time is over. *stuck: something does not let itself be moved. */
static bool run_empty(struct store *s, uint64_t head, uint64_t end_ns, bool *stuck) {
    struct compact *c = &s->compact;
    struct heap *h = &s->heap;
    struct run *run = &h->run[h->ref[head]];
    uint64_t size = h->class[run->class].size;
    if (c->block == 0) {
        if (!run->fenced)
            fence(s, h->ref[head]); /* it was made when the window was there already */
        if (!is_run(h, head))
            return true;
        if (!run_fits(s, run)) {
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
    return true;
}

/* Empty the window on until it is done (true) or the time is over. Then it is closed; *whole: all of it is free, but for what waits for its readers. */
static bool window_empty(struct store *s, uint64_t end_ns, bool *whole) {
    struct compact *c = &s->compact;
    struct heap *h = &s->heap;
    uint64_t n;
    *whole = true;
    for (; c->at < window_end(s); c->at += n) {
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
        }
        if (!stuck)
            continue;
        *whole = false;
        if (!c->in_a_row)
            continue;
        tried(s, head, c->at + n); /* other windows may do without it */
        c->block = 0;
        window_close(s);
        return true;
    }
    tried(s, c->window.from, c->window.to);
    window_close(s);
    return true;
}

/* --- which window --- */
static bool window_for_pages(struct store *s) {
    struct heap *h = &s->heap;
    uint64_t used = (zone_top(memory_of(s)) + (1u << h->region_shift) - 1) >> h->region_shift,
             best = h->regions, best_loose = 0, best_small = 0;
    for (uint64_t i = 0; i < used; i++) {
        const struct region *r = &h->region[i];
        uint64_t loose = (uint64_t)r->run_pages * ARENA_PAGE - r->small;
        if (r->tried == s->compact.round || loose < RUN_PAGES_MIN * ARENA_PAGE ||
            loose * WORTH < r->small)
            continue;
        if (best < h->regions &&
            (loose >> 4) * (best_small + ARENA_PAGE) <= (best_loose >> 4) * (r->small + ARENA_PAGE))
            continue;
        best = i;
        best_loose = loose;
        best_small = r->small;
    }
    if (best == h->regions)
        return false;
    s->compact.window = (struct stretch){best << h->region_shift, (best + 1) << h->region_shift};
    s->compact.spend = (uint32_t)(best_loose / ARENA_PAGE / 2);
    return true;
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
        if (r->tried == s->compact.round || r->large >= REGION_FIXED) {
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
    window_fence(s, fence);
    return true;
}

/* --- how long --- */
/* What else may be taken with n pages: of the page map, and of a row that begins at a region. */
static uint64_t with_map(uint64_t n) {
    return n + 2 + n / (ARENA_PAGE / sizeof(uint64_t));
}

bool compact_vain(const struct store *s, uint64_t n) {
    const struct compact *c = &s->compact;
    return n >= c->vain_pages && s->heap.freed - c->vain_freed < n * ARENA_PAGE &&
           clock_ns() < c->vain_end;
}

static int vain(struct store *s, uint64_t n, uint64_t now) {
    s->compact.vain_end = now + DD_COMPACT_AGAIN_MS * 1000000ull;
    s->compact.vain_freed = s->heap.freed;
    s->compact.vain_pages = n;
    return DDICT_EFULL;
}

/* 0: it may be there now; -EINPROGRESS: the time is over; DDICT_EFULL: no window is left. */
static int compact_some(struct store *s, uint64_t n, uint64_t *left_ns) {
    struct compact *c = &s->compact;
    uint64_t began = clock_ns(), end = began + *left_ns, now = began;
    int rc = -EINPROGRESS;
    if (began > c->round_end) {
        c->round++;
        c->round_end = began + DD_COMPACT_AGAIN_MS * 1000000ull;
        leases_look(s);
    }
    do {
        bool in_a_row = pages_available(s) >= with_map(n) || !pages_may_punch(s), whole = false;
        if (!c->open && !window_open(s, n, in_a_row) && !(in_a_row && window_open(s, n, false))) {
            rc = vain(s, n, now);
            break;
        }
        if (window_empty(s, end, &whole) &&
            (c->in_a_row ? whole : pages_available(s) >= with_map(n)))
            rc = 0;
    } while (rc == -EINPROGRESS && (now = clock_ns()) < end);
    now = clock_ns() - began;
    *left_ns -= now < *left_ns ? now : *left_ns;
    return rc;
}

static bool hopeless(struct store *s, uint64_t n) {
    return compact_vain(s, n) || pages_available(s) + heap_scattered(s) / ARENA_PAGE < n;
}

int compact_for(struct store *s, uint64_t n) {
    struct compact *c = &s->compact;
    if (s->index.sweeps)
        return -EINPROGRESS;
    if (hopeless(s, n))
        return DDICT_EFULL;
    c->wanted = n;
    return c->left_ns ? compact_some(s, n, &c->left_ns) : -EINPROGRESS;
}

void store_reserve_late(struct store *s) {
    vain(s, s->compact.wanted, clock_ns());
    s->compact.vain_end += DD_COMPACT_LATE_MS * 1000000ull;
}

int compact_for_index(struct store *s, uint64_t n) {
    uint64_t left = DD_COMPACT_NS;
    if (hopeless(s, n))
        return DDICT_EFULL;
    int rc = compact_some(s, n, &left);
    return rc == -EINPROGRESS ? DDICT_EFULL : rc;
}

bool compact_later(struct store *s, uint64_t n) {
    return !s->compact.left_ns && (s->index.sweeps || !hopeless(s, n));
}

void compact_turn(struct store *s) {
    if (s->compact.open && s->compact.left_ns == DD_COMPACT_NS)
        window_close(s); /* who wanted it is gone */
    s->compact.left_ns = DD_COMPACT_NS;
}

bool store_idle(struct store *s) {
    uint64_t part = s->header->budget / ARENA_PAGE / DD_COMPACT_IDLE_PART,
             left = DD_COMPACT_IDLE_NS;
    if (!s->settled || pages_available(s) >= part || heap_scattered(s) < part * ARENA_PAGE ||
        compact_vain(s, part))
        return false;
    return compact_some(s, part, &left) != DDICT_EFULL;
}
