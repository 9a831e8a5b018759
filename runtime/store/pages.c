/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.c - stretches of heap pages. Free stretches (spans) lie in bins, by their length: exact up
 * to 63 pages, then 16 bins for each doubling. A stretch that becomes free joins its free
 * neighbours. Pages that were never handed out begin at heap_top. A free page may be a hole: its
 * memory was given back to make room elsewhere in the budget, for the index or for a stretch that
 * the free pages were too scattered for.
 */
#include "pages.h"

#include "budget.h"
#include "pool.h"
#include "rebuild.h"
#include "spill_error.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/page.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* spans that are looked at for an item that moves out of a window; most of the window's own spans
 * are in few bins */
#define BESIDE_LOOKS 256
#define BIN_LOOK     8 /* spans of the request's own bin that are tried before a larger bin */

int pages_open(struct store *s) {
    struct heap *h = &s->heap;
    h->pagemap = arena_at(s, s->header->pagemap_off);
    uint64_t *out[ZONES] = {&s->header->heap_top, &s->header->spill_top},
             *used[ZONES] = {&s->header->used_bytes, &s->header->spill_used};
    const uint64_t len[ZONES] = {s->header->heap_len, s->header->spill_len};
    h->pages = 0;
    for (int i = 0; i < ZONES; i++) {
        h->zone[i].first = h->pages;
        h->pages += (uint32_t)(len[i] / ARENA_PAGE);
        h->zone[i].end = h->pages;
        h->zone[i].out = out[i];
        h->zone[i].used = used[i];
    }
    size_t ref = round_up(h->pages * sizeof *h->ref, ARENA_PAGE);
    size_t span = round_up((h->pages / 2 + 2) * sizeof *h->span, ARENA_PAGE);
    /* a run has 4 pages or more */
    size_t run = round_up((h->pages / 4 + 2) * sizeof *h->run, ARENA_PAGE);
    uint32_t memory = h->zone[ZONE_MEMORY].end;
    for (h->region_shift = (unsigned)__builtin_ctz(REGION_PAGES_MIN);
         memory >> h->region_shift >= REGIONS_MAX; h->region_shift++) {
    }
    h->regions = (memory >> h->region_shift) + 1;
    size_t region = round_up(h->regions * sizeof *h->region, ARENA_PAGE);
    h->tables_len = ref + span + run + region;
    h->tables = mmap(NULL, h->tables_len, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (h->tables == MAP_FAILED) {
        h->tables = NULL;
        return dd_error(-errno, "no memory for the tables of an arena");
    }
    h->ref = h->tables;
    h->span = (void *)((uint8_t *)h->tables + ref);
    h->run = (void *)((uint8_t *)h->tables + ref + span);
    h->region = (void *)((uint8_t *)h->tables + ref + span + run);
    return 0;
}

void pages_close(struct store *s) {
    if (s->heap.tables)
        munmap(s->heap.tables, s->heap.tables_len);
    s->heap.tables = NULL;
}

static unsigned bin_of(uint32_t pages) {
    if (pages < BINS_EXACT)
        return pages;
    unsigned e = 31u - (unsigned)__builtin_clz(pages);
    return BINS_EXACT + (e - 6) * 16 + (pages >> (e - 4) & 15);
}

static unsigned log2_of(uint64_t pages) {
    return 63u - (unsigned)__builtin_clzll(pages * ARENA_PAGE);
}

static void span_insert(struct heap *h, uint32_t first, uint32_t pages, uint32_t holes) {
    struct zone *z = zone_of(h, first);
    uint32_t i = h->spans_idle;
    if (i)
        h->spans_idle = h->span[i].next;
    else
        i = ++h->spans_made;
    unsigned b = bin_of(pages);
    h->span[i] = (struct span){.first = first, .pages = pages, .holes = holes, .next = z->bin[b]};
    if (z->bin[b])
        h->span[z->bin[b]].prev = i;
    z->bin[b] = i;
    z->bin_map[b / 64] |= 1ull << b % 64;
    if (!z->first) {
        h->free_pages += pages;
        h->spans_by[log2_of(pages)]++;
    }
    h->ref[first] = h->ref[first + pages - 1] = i;
}

static struct span span_remove(struct heap *h, uint32_t i) {
    struct span gone = h->span[i];
    struct zone *z = zone_of(h, gone.first);
    unsigned b = bin_of(gone.pages);
    if (!z->first) {
        h->free_pages -= gone.pages;
        h->spans_by[log2_of(gone.pages)]--;
    }
    if (gone.next)
        h->span[gone.next].prev = gone.prev;
    if (gone.prev)
        h->span[gone.prev].next = gone.next;
    else if (!(z->bin[b] = gone.next))
        z->bin_map[b / 64] &= ~(1ull << b % 64);
    h->span[i].next = h->spans_idle;
    h->spans_idle = i;
    return gone;
}

/* The first bin from b on that has a span; BINS: none has. */
static unsigned bin_next(const struct zone *z, unsigned b) {
    if (b >= BINS)
        return BINS;
    uint64_t word = z->bin_map[b / 64] & ~0ull << b % 64;
    for (unsigned w = b / 64;;) {
        if (word)
            return w * 64 + (unsigned)__builtin_ctzll(word);
        if (++w == sizeof z->bin_map / sizeof *z->bin_map)
            return BINS;
        word = z->bin_map[w];
    }
}

static uint32_t span_for(const struct heap *h, const struct zone *z, uint32_t n) {
    unsigned b = bin_of(n);
    if (n >= BINS_EXACT) {
        uint32_t best = NONE, i = z->bin[b];
        for (int look = 0; i && look < BIN_LOOK; i = h->span[i].next, look++)
            if (h->span[i].pages >= n && (!best || h->span[i].pages < h->span[best].pages))
                best = i;
        if (best)
            return best;
        b++;
    }
    b = bin_next(z, b);
    return b < BINS ? z->bin[b] : NONE;
}

static uint32_t holes_in(const struct heap *h, uint64_t first, uint64_t n) {
    uint32_t holes = 0;
    for (uint64_t p = first; p < first + n; p++)
        holes += h->pagemap[p] == PAGEMAP_HOLE;
    return holes;
}

/* Of our pages in one of the machine's, of which a hole has all or none: it has memory or none. */
static uint64_t hole_unit(void) {
    return page_size() > ARENA_PAGE ? page_size() / ARENA_PAGE : 1;
}

/* Where the memory ends that n pages at the start of a free stretch get. */
static uint64_t memory_end(const struct span *p, uint64_t n) {
    uint64_t end = round_up(p->first + n, hole_unit()), stop = p->first + (uint64_t)p->pages;
    return end < stop ? end : stop;
}

static uint32_t holes_filled(const struct heap *h, const struct span *p, uint64_t n) {
    return p->holes ? holes_in(h, p->first, memory_end(p, n) - p->first) : 0;
}

/* Bytes above heap_top, up to page `end`, that do not count as taken yet. */
static uint64_t fresh_above(struct store *s, uint64_t end) {
    uint64_t top = s->header->heap_top * ARENA_PAGE;
    uint64_t claimed = figure_get(&s->populate.claimed), from = claimed > top ? claimed : top;
    end *= ARENA_PAGE;
    return end > from ? end - from : 0;
}

/* Take n pages at the top of the heap, together with a free span that ends there. */
static int take_top(struct store *s, uint32_t n, bool punch, uint32_t *first) {
    struct heap *h = &s->heap;
    uint64_t top = s->header->heap_top;
    uint32_t i = NONE, below = 0, holes = 0;
    if (top && PAGEMAP_KIND(h->pagemap[top - 1]) == PAGE_FREE) {
        i = h->ref[top - 1];
        below = h->span[i].pages;
        holes = h->span[i].holes;
    }
    uint64_t end = top - below + n;
    if (end > h->zone[ZONE_MEMORY].end)
        return dd_error(DDICT_EFULL, "manager %u is full: no %u free pages in a row",
                        s->header->manager_id, n);
    uint64_t map =
        round_up(end * sizeof(uint64_t), ARENA_PAGE) - round_up(top * sizeof(uint64_t), ARENA_PAGE);
    int rc = budget_take(s, holes * (uint64_t)ARENA_PAGE + fresh_above(s, end) + map,
                         s->spill.moving ? FOR_MOVES : FOR_VALUES, punch,
                         (struct stretch){top - below, end});
    if (rc < 0 || (rc = pool_heap(s, end)) < 0)
        return rc;
    if (i)
        span_remove(h, i);
    h->holes -= holes;
    s->header->used_bytes += map;
    __atomic_store_n(&s->header->heap_top, end, __ATOMIC_RELEASE);
    budget_publish(s);
    *first = (uint32_t)(top - below);
    return 0;
}

bool pages_lower(struct store *s) {
    struct heap *h = &s->heap;
    uint64_t top = s->header->heap_top;
    if (!s->settled || !top || PAGEMAP_KIND(h->pagemap[top - 1]) != PAGE_FREE)
        return false;
    struct span last = span_remove(h, h->ref[top - 1]);
    h->holes -= last.holes;
    s->header->used_bytes -= round_up(top * sizeof(uint64_t), ARENA_PAGE) -
                             round_up(last.first * sizeof(uint64_t), ARENA_PAGE);
    __atomic_store_n(&s->header->heap_top, last.first, __ATOMIC_RELEASE);
    budget_publish(s);
    return true;
}

/* The same for the spill, whose page map costs memory. */
static int take_spill_top(struct store *s, struct zone *z, uint32_t n, uint32_t *first) {
    struct heap *h = &s->heap;
    uint64_t top = zone_top(z), end = top + n;
    uint32_t i = NONE;
    if (*z->out && PAGEMAP_KIND(h->pagemap[top - 1]) == PAGE_FREE) {
        i = h->ref[top - 1];
        end -= h->span[i].pages;
    }
    if (end > z->end)
        return spill_full(s, n * (uint64_t)ARENA_PAGE);
    uint64_t map = budget_spill_map(s, end - z->first) - budget_spill_map(s, *z->out);
    int rc =
        budget_take(s, map, s->spill.moving ? FOR_MOVES : FOR_INDEX, true, (struct stretch){0, 0});
    if (rc < 0) {
        s->spill.short_of_memory = true;
        return rc;
    }
    if (i)
        span_remove(h, i);
    s->header->used_bytes += map;
    __atomic_store_n(&s->header->spill_top, end - z->first, __ATOMIC_RELEASE);
    budget_publish(s);
    *first = (uint32_t)(end - n);
    return 0;
}

static void span_cut(struct heap *h, uint32_t i, uint32_t n, uint32_t holes, uint32_t *first) {
    struct span was = span_remove(h, i);
    h->holes -= holes;
    for (uint64_t p = was.first + (uint64_t)n; holes && p < memory_end(&was, n); p++)
        if (h->pagemap[p] == PAGEMAP_HOLE)
            word_store(&h->pagemap[p], PAGEMAP_ENTRY(PAGE_FREE, 0, 0));
    if (was.pages > n)
        span_insert(h, was.first + n, was.pages - n, was.holes - holes);
    *first = was.first;
}

int pages_take(struct store *s, struct zone *z, uint64_t n, bool punch, uint32_t *first) {
    struct heap *h = &s->heap;
    if (n > z->end - z->first)
        return dd_error(DDICT_EFULL, "manager %u has no %llu pages", s->header->manager_id,
                        (unsigned long long)n);
    uint32_t i = span_for(h, z, (uint32_t)n);
    if (!i)
        return z->first ? take_spill_top(s, z, (uint32_t)n, first)
                        : take_top(s, (uint32_t)n, punch, first);
    struct span *p = &h->span[i];
    uint32_t holes = holes_filled(h, p, n);
    int rc = budget_take(s, holes * (uint64_t)ARENA_PAGE, s->spill.moving ? FOR_MOVES : FOR_VALUES,
                         punch, (struct stretch){p->first, p->first + n});
    if (rc == 0)
        span_cut(h, i, (uint32_t)n, holes, first);
    return rc;
}

int pages_take_idle(struct store *s, struct zone *z, uint64_t n, uint32_t *first) {
    struct heap *h = &s->heap;
    uint32_t i = n > z->end - z->first ? NONE : span_for(h, z, (uint32_t)n);
    if (!i || (h->span[i].holes && holes_in(h, h->span[i].first, n)))
        return DDICT_EFULL;
    span_cut(h, i, (uint32_t)n, 0, first);
    return 0;
}

static bool stretch_meets(uint64_t from, uint64_t to, struct stretch s) {
    return from < s.to && s.from < to;
}

uint64_t pages_available(struct store *s) {
    const struct heap *h = &s->heap;
    uint64_t have = h->free_pages - h->holes, taken = budget_resident(s),
             budget = s->header->budget - budget_spare(s);
    uint64_t top = s->header->heap_top * ARENA_PAGE;
    if (huge_page(s->header))
        return have + (s->header->heap_limit - top) / ARENA_PAGE;
    uint64_t claimed = figure_get(&s->populate.claimed);
    if (claimed > top)
        have += (claimed - top) / ARENA_PAGE;
    if (budget > taken)
        have += (budget - taken) / ARENA_PAGE;
    return have;
}

uint64_t pages_row(struct store *s) {
    const struct heap *h = &s->heap;
    const struct zone *z = &h->zone[ZONE_MEMORY];
    uint64_t top = s->header->heap_top,
             above = (huge_page(s->header) ? s->header->heap_limit / ARENA_PAGE : z->end) - top,
             most = 0;
    for (unsigned w = sizeof z->bin_map / sizeof *z->bin_map; w-- > 0 && !most;)
        if (z->bin_map[w])
            most = h->span[z->bin[w * 64 + 63u - (unsigned)__builtin_clzll(z->bin_map[w])]].pages;
    if (top && PAGEMAP_KIND(h->pagemap[top - 1]) == PAGE_FREE)
        above += h->span[h->ref[top - 1]].pages;
    return most > above ? most : above;
}

int pages_take_beside(struct store *s, uint64_t n, struct stretch not, uint32_t *first) {
    struct heap *h = &s->heap;
    struct zone *z = &h->zone[ZONE_MEMORY];
    unsigned looks = 0;
    for (unsigned b = bin_next(z, bin_of((uint32_t)n)); b < BINS; b = bin_next(z, b + 1))
        for (uint32_t i = z->bin[b]; i && looks < BESIDE_LOOKS; i = h->span[i].next, looks++) {
            const struct span *p = &h->span[i];
            if (p->pages < n || stretch_meets(p->first, p->first + (uint64_t)p->pages, not ))
                continue;
            uint32_t holes = holes_filled(h, p, n);
            int rc = budget_take(s, holes * (uint64_t)ARENA_PAGE, FOR_VALUES, true,
                                 (struct stretch){p->first, p->first + n});
            if (rc == 0)
                span_cut(h, i, (uint32_t)n, holes, first);
            return rc;
        }
    uint64_t top = s->header->heap_top, below = 0;
    if (top && PAGEMAP_KIND(h->pagemap[top - 1]) == PAGE_FREE)
        below = h->span[h->ref[top - 1]].pages;
    return stretch_meets(top - below, top - below + n, not )
               ? DDICT_EFULL
               : take_top(s, (uint32_t)n, true, first);
}

/* The head is written last: entries without a head before them count as free. */
void pages_mark(struct store *s, uint32_t first, uint64_t n, enum page_kind head, unsigned cls) {
    uint64_t *map = s->heap.pagemap + first;
    for (uint64_t i = 1; i < n; i++) {
        if (i == n / 2)
            STRESS_POINT(STRESS_W_PAGES);
        word_store(&map[i], PAGEMAP_ENTRY(head + 1, cls, i));
    }
    word_store(map, PAGEMAP_ENTRY(head, cls, n));
}

void pages_unmark(struct store *s, uint32_t first, uint64_t n) {
    uint64_t *map = s->heap.pagemap + first;
    for (uint64_t i = 0; i < n; i++)
        word_store(&map[i], PAGEMAP_ENTRY(PAGE_FREE, 0, 0));
}

void pages_give(struct store *s, uint32_t first, uint64_t n) {
    struct heap *h = &s->heap;
    const struct zone *z = zone_of(h, first);
    uint32_t pages = (uint32_t)n, holes = 0;
    if (!z->first)
        s->spill.freed += n * ARENA_PAGE;
    if (first + n < zone_top(z) && PAGEMAP_KIND(h->pagemap[first + n]) == PAGE_FREE) {
        struct span up = span_remove(h, h->ref[first + n]);
        pages += up.pages;
        holes += up.holes;
    }
    if (first > z->first && PAGEMAP_KIND(h->pagemap[first - 1]) == PAGE_FREE) {
        struct span down = span_remove(h, h->ref[first - 1]);
        first = down.first;
        pages += down.pages;
        holes += down.holes;
    }
    span_insert(h, first, pages, holes);
}

void store_watch_memory(struct store *s, bool (*may)(void *arg, uint64_t off, uint64_t len),
                        void *arg) {
    s->may_give_back = may;
    s->may_arg = arg;
}

static bool may_punch(struct store *s, uint64_t heap_off, uint64_t len) {
    return !s->may_give_back || s->may_give_back(s->may_arg, s->header->heap_off + heap_off, len);
}

/* Can any memory of free pages be given back now? */
bool pages_may_punch(struct store *s) {
    return may_punch(s, 0, 0);
}

/* `keep` keeps its memory. True: page *a was in it, and is the page behind it now. Else, if `keep`
 * begins behind *a, *stop is not beyond that. */
static bool stretch_skip(struct stretch keep, uint64_t *a, uint64_t *stop) {
    if (*a < keep.from && keep.from < *stop)
        *stop = keep.from;
    if (*a < keep.from || *a >= keep.to)
        return false;
    *a = keep.to;
    return true;
}

/* Give back memory of free pages of a span. Pages are marked as holes first: after a crash a page
 * is at worst taken for a hole that it is not. */
static uint64_t punch_span(struct store *s, uint32_t i, uint64_t bytes, struct stretch keep,
                           struct stretch step) {
    struct heap *h = &s->heap;
    struct span *p = &h->span[i];
    uint64_t done = 0, unit = hole_unit(), end = p->first + (uint64_t)p->pages;
    for (uint64_t a = round_up(p->first, unit); a + unit <= end && done < bytes;) {
        uint64_t b = a, stop = end;
        if (stretch_skip(keep, &a, &stop) || stretch_skip(step, &a, &stop)) {
            a = round_up(a, unit);
            continue;
        }
        stop &= ~(unit - 1);
        if (stop <= a || h->pagemap[a] == PAGEMAP_HOLE) {
            a += unit;
            continue;
        }
        if (!may_punch(s, a * ARENA_PAGE, (stop - a) * ARENA_PAGE))
            break;
        while (b < stop && h->pagemap[b] != PAGEMAP_HOLE && done < bytes) {
            for (uint64_t to = b + unit; b < to; b++)
                word_store(&h->pagemap[b], PAGEMAP_HOLE);
            done += unit * ARENA_PAGE;
        }
        if (madvise(s->map + s->header->heap_off + a * ARENA_PAGE, (b - a) * ARENA_PAGE,
                    MADV_REMOVE) < 0) {
            for (uint64_t q = a; q < b; q++)
                word_store(&h->pagemap[q], PAGEMAP_ENTRY(PAGE_FREE, 0, 0));
            done -= (b - a) * ARENA_PAGE;
            break;
        }
        p->holes += (uint32_t)(b - a);
        h->holes += b - a;
        a = b;
    }
    return done;
}

/* Give back memory that is populated above heap_top, which nothing uses yet. */
static uint64_t punch_above(struct store *s, uint64_t bytes, uint64_t keep_to) {
    struct populate *p = &s->populate;
    uint64_t page = hole_unit() * ARENA_PAGE,
             top = s->header->heap_top > keep_to ? s->header->heap_top : keep_to,
             from = round_up(top * ARENA_PAGE, page), claimed = figure_get(&p->claimed);
    if (claimed <= from)
        return 0;
    uint64_t rest = claimed - from < bytes ? from : (claimed - bytes) & ~(page - 1),
             done = claimed - rest;
    if (!may_punch(s, rest, done))
        return 0;
    p->stuck = true;
    __atomic_store_n(&s->header->populated, rest, __ATOMIC_RELEASE);
    if (madvise(s->map + s->header->heap_off + rest, done, MADV_REMOVE) < 0)
        return 0;
    figure_set(&p->claimed, rest);
    return done;
}

static uint64_t punch_below(struct store *s, uint64_t bytes, struct stretch keep,
                            struct stretch step) {
    struct heap *h = &s->heap;
    uint64_t done = 0;
    for (unsigned b = BINS; done < bytes && b-- > 0;)
        for (uint32_t i = h->zone[ZONE_MEMORY].bin[b]; i && done < bytes; i = h->span[i].next)
            if (h->span[i].holes < h->span[i].pages)
                done += punch_span(s, i, bytes - done, keep, step);
    return done;
}

/* The pages that the thread that populates works on now. */
static struct stretch populate_step(const struct populate *p) {
    return (struct stretch){figure_get(&p->at) / ARENA_PAGE,
                            round_up(figure_get(&p->to), ARENA_PAGE) / ARENA_PAGE};
}

/* For a request that can wait: give back memory in the time that is left of this turn. It stays
 * given back until the request comes again. */
static uint64_t punch_some(struct store *s, uint64_t bytes, struct stretch keep) {
    struct compact *c = &s->compact;
    uint64_t began = clock_ns(), took = 0, done = 0, got = 1;
    bool alone = pthread_mutex_trylock(&s->populate.busy) == 0;
    for (; done < bytes && got && took < c->left_ns; took = clock_ns() - began) {
        uint64_t some = bytes - done < DD_PUNCH_STEP ? bytes - done : DD_PUNCH_STEP;
        got = alone ? punch_above(s, some, keep.to) : 0;
        if (!got)
            got = punch_below(s, some, keep,
                              alone ? (struct stretch){0, 0} : populate_step(&s->populate));
        done += got;
    }
    if (alone)
        pthread_mutex_unlock(&s->populate.busy);
    c->left_ns -= took < c->left_ns ? took : c->left_ns;
    c->punching = got != 0 || !alone;
    c->punched += done;
    return done;
}

uint64_t pages_punch(struct store *s, uint64_t bytes, struct stretch keep) {
    struct populate *p = &s->populate;
    uint64_t done = 0;
    if (s->leases.wait)
        return punch_some(s, bytes, keep);
    /* The thread may be in the middle of a step, which does not end while others have all the
     * processors. Then do without the pages of that step, if the others are enough. */
    if (pthread_mutex_trylock(&p->busy) != 0) {
        done = punch_below(s, bytes, keep, populate_step(p));
        if (done >= bytes)
            return done;
        pthread_mutex_lock(&p->busy);
    }
    if (done < bytes)
        done += punch_above(s, bytes - done, keep.to);
    if (done < bytes)
        done += punch_below(s, bytes - done, keep, (struct stretch){0, 0});
    pthread_mutex_unlock(&p->busy);
    return done;
}

/* A crash may have left a part of the machine's page a hole, which then has memory. */
static void holes_whole(struct heap *h, uint64_t first, uint64_t end) {
    uint64_t unit = hole_unit();
    for (uint64_t a = first & ~(unit - 1); unit > 1 && a < end; a += unit) {
        uint64_t from = a > first ? a : first, to = a + unit < end ? a + unit : end;
        if (holes_in(h, from, to - from) == unit)
            continue;
        for (uint64_t p = from; p < to; p++)
            word_store(&h->pagemap[p], PAGEMAP_ENTRY(PAGE_FREE, 0, 0));
    }
}

static void rebuild_zone(struct heap *h, const struct zone *z) {
    uint64_t top = zone_top(z);
    for (uint64_t p = z->first; p < top;) {
        if (PAGEMAP_KIND(h->pagemap[p]) != PAGE_FREE) {
            p += PAGEMAP_VALUE(h->pagemap[p]);
            continue;
        }
        uint64_t first = p;
        while (p < top && PAGEMAP_KIND(h->pagemap[p]) == PAGE_FREE)
            p++;
        holes_whole(h, first, p);
        uint32_t holes = holes_in(h, first, p - first);
        span_insert(h, (uint32_t)first, (uint32_t)(p - first), holes);
        h->holes += holes;
    }
}

void pages_rebuild_spans(struct store *s) {
    s->heap.holes = 0;
    for (int i = 0; i < ZONES; i++)
        rebuild_zone(&s->heap, &s->heap.zone[i]);
}

void pages_histogram(struct store *s, uint64_t *out) {
    const struct heap *h = &s->heap;
    const struct zone *z = &h->zone[ZONE_MEMORY];
    for (unsigned i = 0; i < sizeof h->spans_by / sizeof *h->spans_by; i++)
        out[i] += h->spans_by[i];
    /* Pages that were never handed out count as one block, as far as the budget goes. */
    if (huge_page(s->header)) {
        uint64_t idle = s->header->heap_limit - s->header->heap_top * ARENA_PAGE;
        if (idle >= ARENA_PAGE)
            out[63 - __builtin_clzll(idle)]++;
        return;
    }
    uint64_t taken = budget_resident(s), above = z->end - s->header->heap_top;
    uint64_t room = above * ARENA_PAGE - fresh_above(s, z->end); /* claimed already */
    if (s->header->budget > taken)
        room += s->header->budget - taken;
    if (room > above * ARENA_PAGE)
        room = above * ARENA_PAGE;
    if (room >= ARENA_PAGE)
        out[63 - __builtin_clzll(room)]++;
}
