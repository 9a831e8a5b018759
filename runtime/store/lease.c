/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.c - retired blocks, which no word names, wait here until no lease and no pin holds them
 * (I6).
 *
 *     writer                                     reader
 *     replaces the word                          stores the lease
 *     F: seq_cst fence                           G: seq_cst fence
 *     loads the slots, in a scan begun after F   loads the word again
 *
 * F and G are ordered one way or the other: F first, and the reader sees the changed word; G first,
 * and the scan sees the lease.
 *
 * Reads are many and scans are few. If the kernel has membarriers, F is one: it makes every core
 * that runs a registered reader pass a fence. Then G is wherever the membarrier finds the reader,
 * and a read without a scan beside it costs no fence.
 */
#include "lease.h"

#include "compact.h"
#include "heap.h"
#include "rebuild.h"
#include "spill_away.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <base/vec.h>

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * A second mapping of the first pages of all lease pages, one after the other: a scan of many
 * clients finds eight of their page table entries in a cache line, and each client costs it one
 * line more. The lease pages themselves are 32 MiB apart, each with a page table of its own.
 */
#define FRONT_SIZE 4096u
#define FRONT_NONE UINT32_MAX

static uint8_t *front_place(const struct leases *l, uint32_t n) {
    return l->fronts[n / FRONTS] + (uint64_t)(n % FRONTS) * FRONT_SIZE;
}

static bool fronts_more(struct leases *l) {
    uint8_t **more = realloc(l->fronts, (l->fronts_n + 1) * sizeof *more);
    if (!more)
        return false;
    l->fronts = more;
    uint32_t *idle = realloc(l->front_idle, (l->fronts_n + 1) * FRONTS * sizeof *idle);
    if (!idle)
        return false;
    l->front_idle = idle;
    void *at = mmap(NULL, FRONTS * FRONT_SIZE, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return false;
    for (uint32_t n = FRONTS; n-- > 0;)
        l->front_idle[l->front_idle_n++] = (uint32_t)l->fronts_n * FRONTS + n;
    l->fronts[l->fronts_n++] = at;
    return true;
}

/* If there is no such place the page is looked at where it is. */
static const struct lease_chunk *front_make(struct leases *l, const void *map, uint32_t *n) {
    *n = FRONT_NONE;
    if (l->front_idle_n == 0 && !fronts_more(l))
        return map;
    uint32_t i = l->front_idle[l->front_idle_n - 1];
    /* of size 0: a second mapping of the same memory */
    void *at = mremap((void *)(uintptr_t)map, 0, FRONT_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
                      front_place(l, i));
    if (at == MAP_FAILED)
        return map;
    l->front_idle_n--;
    *n = i;
    return at;
}

static void front_drop(struct leases *l, uint32_t n) {
    if (n == FRONT_NONE)
        return;
    /* Without memory for that the old mapping stays, until the next one takes its place. */
    mmap(front_place(l, n), FRONT_SIZE, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    l->front_idle[l->front_idle_n++] = n;
}

static int pages_more(struct leases *l) {
    size_t pages = l->pages_cap, fronts = l->pages_cap;
    if (VEC_ROOM(&l->page, &pages, l->pages + 1, 16) < 0 ||
        VEC_ROOM(&l->front, &fronts, l->pages + 1, 16) < 0)
        return -ENOMEM;
    l->pages_cap = pages;
    return 0;
}

int store_leases_add(struct store *s, uint64_t id, const void *map, uint32_t pid) {
    struct leases *l = &s->leases;
    struct lease_page p = {.id = id, .map = map, .pid = pid};
    if (l->pages == l->pages_cap && pages_more(l) < 0)
        return dd_error(-ENOMEM, "no memory for another lease page");
    l->front[l->pages] = front_make(l, map, &p.front);
    l->page[l->pages++] = p;
    return 0;
}

void store_leases_remove(struct store *s, uint64_t id) {
    struct leases *l = &s->leases;
    for (size_t i = 0; i < l->pages; i++)
        if (l->page[i].id == id) {
            free(l->page[i].hinted);
            front_drop(l, l->page[i].front);
            l->pages--;
            /* the others keep their order (I23): a scan may stand between them */
            memmove(&l->page[i], &l->page[i + 1], (l->pages - i) * sizeof *l->page);
            memmove(&l->front[i], &l->front[i + 1], (l->pages - i) * sizeof *l->front);
            if (i < l->scan.page)
                l->scan.page--;
            else if (i == l->scan.page)
                l->scan.chunk = 0;
            l->again = true;
            return;
        }
}

void leases_close(struct store *s) {
    struct leases *l = &s->leases;
    for (size_t i = 0; i < l->pages; i++)
        free(l->page[i].hinted);
    for (size_t i = 0; i < l->fronts_n; i++)
        munmap(l->fronts[i], FRONTS * FRONT_SIZE);
    free(l->fronts);
    free(l->front_idle);
    free(l->front);
    free(l->page);
    free(l->retired);
    table_free(&l->held);
    table_free(&l->scan.held);
    table_free(&l->pins);
    table_free(&l->transit);
}

/* A pinned block, or one in transit, may be retired when the process has no memory left: there is
 * always room for all of them. */
static size_t retire_promised(const struct leases *l) {
    return l->pins.used + l->transit.used;
}

int retire_reserve(struct store *s, size_t n) {
    struct leases *l = &s->leases;
    n += retire_promised(l);
    if (VEC_ROOM(&l->retired, &l->retired_cap, l->retired_n + n, 1024) < 0)
        return dd_error(-ENOMEM, "no memory to note a replaced value");
    return 0;
}

void retire(struct store *s, uint64_t off) {
    struct leases *l = &s->leases;
    uint64_t bytes = block_bytes(s, off);
    l->retired[l->retired_n++] = off;
    l->retired_bytes += bytes;
    l->fresh_bytes += bytes;
}

void store_retire(struct store *s, uint64_t off) {
    heap_ensure_settled(s);
    /* The offset of a block that is neither pinned nor in transit was given to nobody. */
    if (s->leases.retired_n < s->leases.retired_cap || retire_reserve(s, 1) == 0)
        retire(s, off);
    else
        retired_free(s, off);
}

void retired_free(struct store *s, uint64_t off) {
    struct leases *l = &s->leases;
    if (table_find(&l->transit, off)) {
        table_remove(&l->transit, off);
        l->transit_bytes -= block_bytes(s, off);
    }
    if (s->spill.fd >= 0)
        away_free(s, off);
    block_free(s, off);
}

uint64_t store_transit_bytes(const struct store *s) {
    return s->leases.transit_bytes;
}

static bool scan_wiped(const struct scan *c) {
    return c->wiped == SIZE_MAX;
}

/* The scan is over, or given up: joins the blocks that it kept and those retired since. */
static void scan_end(struct leases *l) {
    struct scan *c = &l->scan;
    memmove(l->retired + c->kept, l->retired + c->at, (l->retired_n - c->at) * sizeof *l->retired);
    l->retired_n -= c->at - c->kept;
    table_free(&c->held);
    *c = (struct scan){0};
}

bool scan_wanted(const struct store *s) {
    const struct leases *l = &s->leases;
    /* Blocks that stay held make every scan longer: more must be retired before the next one. */
    uint64_t spare = s->header->budget / DD_RECLAIM_SPARE,
             enough = DD_RECLAIM_BYTES + 64 * (uint64_t)l->kept +
                      (l->looked < spare ? l->looked : spare);
    return (l->retired_n || l->look) && (l->again || (l->retired_n && l->fresh_bytes >= enough));
}

int store_pin(struct store *s, uint64_t off) {
    uint32_t *n = retire_reserve(s, 2) == 0 ? table_add(&s->leases.pins, off) : NULL;
    if (!n)
        return dd_error(-ENOMEM, "no memory to pin a value");
    ++*n;
    return 0;
}

void store_unpin(struct store *s, uint64_t off) {
    heap_ensure_settled(s);
    uint32_t *n = table_find(&s->leases.pins, off);
    if (!n || --*n)
        return;
    table_remove(&s->leases.pins, off);
    /* a lease may have taken its place in a slot that the scan has passed already */
    if (s->leases.scan.on && scan_wiped(&s->leases.scan) && !table_add(&s->leases.scan.held, off)) {
        scan_end(&s->leases);
        s->leases.again = true;
    }
    /* the block may be retired */
    if (s->leases.retired_n)
        s->leases.fresh_bytes += block_bytes(s, off);
}

bool pin_held(const struct store *s, uint64_t block) {
    return table_find(&s->leases.pins, block) != NULL;
}

#define SCAN_WIPE  32768u /* keys of its table that are set to 0 in a turn, */
#define SCAN_CLOSE 65536u /* and retired blocks that are moved: some 20 us */
#define LINE       8u     /* words of a cache line */
/* words of the first line that are no slots */
#define BEFORE (LEASE_SLOT_WORDS - DD_LEASE_CHUNK_SLOTS)
#define AHEAD  16u /* pages whose lines are asked for ahead of the scan */

/* Any lease in the slots of line i, [*from, *to)? Acquire pairs with reader_release(): what the
 * reader read lies before the reuse. */
static inline bool line_any(const struct lease_chunk *c, unsigned i, unsigned *from, unsigned *to) {
    uint64_t any = 0;
    *from = i ? i * LINE - BEFORE : 0;
    *to = (i + 1) * LINE - BEFORE;
    for (unsigned n = *from; n < *to; n++)
        any |= __atomic_load_n(&c->slot[n], __ATOMIC_ACQUIRE);
    return any != 0;
}

/* How many lines of a chunk ever had a lease. Read before the slots; pairs with the release in
 * chunk_open() of the client. */
static inline unsigned chunk_lines(const struct lease_chunk *c) {
    uint32_t idle = __atomic_load_n(&c->idle, __ATOMIC_ACQUIRE);
    return (LEASE_SLOT_WORDS - (idle < DD_LEASE_CHUNK_SLOTS ? idle : 0) + LINE - 1) / LINE;
}

static inline uint32_t page_chunks(const struct leases *l, size_t p) {
    uint32_t n = __atomic_load_n(&l->front[p]->chunks, __ATOMIC_ACQUIRE);
    return n > DD_LEASE_CHUNKS ? DD_LEASE_CHUNKS : n;
}

static inline const struct lease_chunk *page_chunk(const struct leases *l, size_t p, size_t k) {
    return k ? (const struct lease_chunk *)l->page[p].map + k : l->front[p];
}

static inline void page_ahead(const struct leases *l, size_t p) {
    if (p + AHEAD < l->pages)
        __builtin_prefetch(l->front[p + AHEAD]);
}

/* Call fn for each block named by a lease on this arena; page: number of the lease page. Stops when
 * fn is negative. */
int leases_each(struct store *s, int (*fn)(struct store *s, uint64_t block, uint32_t page)) {
    struct leases *l = &s->leases;
    uint64_t looked = 0;
    int rc = 0;
    for (size_t p = 0; p < l->pages && rc >= 0; p++) {
        page_ahead(l, p);
        /* The number of chunks is read again for each chunk: the order of a scan (I23). */
        for (uint32_t k = 0; k < page_chunks(l, p) && rc >= 0; k++) {
            const struct lease_chunk *c = page_chunk(l, p, k);
            unsigned lines = chunk_lines(c), from, to;
            looked += DD_RECLAIM_CHUNK + lines * DD_RECLAIM_LINE;
            for (unsigned i = 0; i < lines && rc >= 0; i++) {
                if (!line_any(c, i, &from, &to))
                    continue;
                for (unsigned n = from; n < to && rc >= 0; n++) {
                    uint64_t word = __atomic_load_n(&c->slot[n], __ATOMIC_ACQUIRE);
                    if (!word || LEASE_ARENA(word) != s->local_index)
                        continue;
                    uint64_t block = block_of(s, LEASE_OFFSET(word)); /* I15 */
                    if (block)
                        rc = fn(s, block, (uint32_t)p);
                }
            }
        }
    }
    l->looked = looked;
    return rc;
}

static uint64_t *page_hinted(struct lease_page *p, uint64_t chunks) {
    if (chunks > p->hinted_n) {
        uint64_t *more = realloc(p->hinted, chunks * sizeof *more);
        if (!more)
            return NULL;
        memset(more + p->hinted_n, 0, (chunks - p->hinted_n) * sizeof *more);
        p->hinted = more;
        p->hinted_n = chunks;
    }
    return p->hinted;
}

bool leases_hints(struct store *s, void (*fn)(struct store *s, uint64_t off), size_t *page,
                  size_t *chunk, unsigned n) {
    struct leases *l = &s->leases;
    for (; *page < l->pages && n > 0; ++*page, *chunk = 0) {
        const struct lease_chunk *c = (const struct lease_chunk *)l->page[*page].map + *chunk;
        uint32_t chunks = page_chunks(l, *page);
        uint64_t *hinted = page_hinted(&l->page[*page], chunks);
        for (; hinted && *chunk < chunks && n > 0; ++*chunk, c++, n--) {
            /* pairs with cache_hint() of the client */
            uint64_t at = __atomic_load_n(&c->hints, __ATOMIC_ACQUIRE), fresh = at - hinted[*chunk];
            if (fresh > LEASE_HINTS)
                fresh = LEASE_HINTS;
            hinted[*chunk] = at;
            while (fresh-- > 0) {
                /* untrusted: only compared */
                uint64_t word = __atomic_load_n(&c->hint[--at % LEASE_HINTS], __ATOMIC_RELAXED);
                if (word && LEASE_ARENA(word) == s->local_index)
                    fn(s, LEASE_OFFSET(word));
            }
        }
        if (hinted && *chunk < chunks)
            return true;
    }
    return *page < l->pages;
}

static int note_held(struct store *s, uint64_t block, uint32_t page) {
    struct leases *l = &s->leases;
    if (l->few && l->held.used > DD_SCAN_LEASES)
        return -E2BIG;
    uint32_t *v = table_add(&l->held, block);
    if (!v)
        return -ENOMEM;
    *v = page + 1;
    compact_leased(s, block);
    return 0;
}

/* Note which blocks are leased now: a hint, without a fence. */
static int leases_look(struct store *s) {
    table_clear(&s->leases.held);
    /* Without memory it notes fewer; then items are moved whose old blocks stay. */
    return leases_each(s, note_held);
}

static int barrier_everywhere(void) {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0 ? 0 : -errno;
}

int barriers_open(struct store *s) {
    int rc = barrier_everywhere();
    /* pairs with the acquire in reader_unfence() */
    if (rc == 0)
        __atomic_store_n(&s->header->barriers, 1, __ATOMIC_RELEASE);
    else if (s->header->barriers)
        return dd_error(rc, "no membarrier any more, on which readers of this arena rely: %s",
                        dd_strerror(rc));
    return 0;
}

/* Nothing is lost: the next scan frees the blocks. But until then memory only fills. */
static uint64_t reclaim_failed(struct store *s, int rc) {
    static uint64_t said;
    uint64_t now = clock_ns();
    if (!said || now - said > DD_NOTE_MS * 1000000ull)
        log_warn("manager %u can not use memory of replaced values again now: %s",
                 s->header->manager_id, dd_strerror(rc));
    said = !said || now - said > DD_NOTE_MS * 1000000ull ? now : said;
    return 0;
}

/* F, whose partner G is find_fence(). */
static int scan_fence(struct store *s) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    /* the other half of G for readers without a fence */
    return s->header->barriers ? barrier_everywhere() : 0;
}

/* Free the block if no lease and no pin holds it: true. Else note its holder. */
static bool retired_try(struct store *s, const struct table *held, uint64_t off,
                        uint64_t *leased_bytes) {
    struct leases *l = &s->leases;
    uint64_t bytes = block_bytes(s, off);
    const uint32_t *holder = table_find(held, off);
    if (holder) {
        /* for display: one may have gone */
        if (*holder && *holder <= l->pages)
            l->page[*holder - 1].held += bytes, l->holders = true;
        *leased_bytes += bytes;
    }
    if (holder || pin_held(s, off))
        return false;
    retired_free(s, off);
    l->retired_bytes -= bytes;
    return true;
}

/* Wipe a part of the table. False: there is more to be wiped. */
static bool scan_wipe(struct scan *c) {
    if (scan_wiped(c))
        return true;
    size_t n = c->held.cap - c->wiped < SCAN_WIPE ? c->held.cap - c->wiped : SCAN_WIPE;
    memset(c->held.key + c->wiped, 0, n * sizeof *c->held.key);
    memset(c->held.value + c->wiped, 0, n * sizeof *c->held.value);
    /* it may grow from now on */
    c->wiped = c->wiped + n < c->held.cap ? c->wiped + n : SIZE_MAX;
    return false;
}

/* Blocks retired since take the places of those that are free now; their order has no meaning.
 * False: there are more of them. */
static bool scan_close(struct leases *l) {
    struct scan *c = &l->scan;
    size_t gap = c->at - c->kept, rest = l->retired_n - c->at, n = gap < rest ? gap : rest;
    if (n > SCAN_CLOSE)
        n = SCAN_CLOSE;
    memcpy(l->retired + c->kept, l->retired + l->retired_n - n, n * sizeof *l->retired);
    c->kept += n;
    l->retired_n -= n;
    return c->kept == c->at || l->retired_n == c->at;
}

static uint64_t chunks_all(const struct leases *l) {
    uint64_t n = 0;
    for (size_t p = 0; p < l->pages; p++)
        n += page_chunks(l, p);
    return n;
}

static void holders_clear(struct leases *l) {
    for (size_t p = 0; l->holders && p < l->pages; p++)
        l->page[p].held = 0;
    l->holders = false;
}

static int reclaim(struct store *s, uint64_t *freed) {
    struct leases *l = &s->leases;
    uint64_t begun = l->begun, done = l->done;
    *freed = 0;
    heap_ensure_settled(s);
    if (l->scan.on)
        scan_end(l);
    if (!l->retired_n)
        return 0;
    l->done = ++l->begun;
    int rc = scan_fence(s);
    if (rc < 0)
        return rc;
    l->later = l->look = false;
    table_clear(&l->held);
    holders_clear(l);
    rc = MUTANT(MUTANT_NO_SCAN) ? 0 : leases_each(s, note_held);
    if (rc == -E2BIG) {
        l->begun = begun;
        l->done = done;
    }
    if (rc < 0)
        return rc;
    STRESS_POINT(STRESS_W_SCANNED);

    uint64_t before = l->retired_bytes;
    size_t kept = 0;
    l->leased_bytes = 0;
    for (size_t i = 0; i < l->retired_n; i++)
        if (!retired_try(s, &l->held, l->retired[i], &l->leased_bytes))
            l->retired[kept++] = l->retired[i];
    l->retired_n = l->kept = kept;
    l->fresh_bytes = 0;
    l->again = false;
    *freed = before - l->retired_bytes;
    return 0;
}

uint64_t store_reclaim(struct store *s) {
    uint64_t freed;
    int rc = reclaim(s, &freed);
    return rc < 0 ? reclaim_failed(s, rc) : freed;
}

/* --- a scan in parts: its fence comes first, and it frees what was retired before the fence (I6)
 * --- */
bool scan_small(const struct store *s) {
    const struct leases *l = &s->leases;
    return !l->scan.on && l->retired_n <= DD_SCAN_SMALL && l->held.used <= DD_SCAN_LEASES &&
           l->pages <= DD_SCAN_CHUNKS && chunks_all(l) <= DD_SCAN_CHUNKS;
}

/* How many leases there can be; of thousands of clients, in the part that one turn can look at. */
static size_t leases_most(const struct leases *l) {
    size_t lines = 0;
    unsigned looks = 0;
    for (size_t p = 0; p < l->pages && looks < DD_SCAN_LINES; p++) {
        page_ahead(l, p);
        for (uint32_t k = 0; k < page_chunks(l, p) && looks < DD_SCAN_LINES; k++, looks++)
            lines += chunk_lines(page_chunk(l, p, k));
    }
    return lines * LINE;
}

/*
 * Make a table for as many leases as there can be; the caller wipes it from *wiped on. The first
 * touch of its pages costs more than all the rest, so a new table is wiped, too, and it grows only
 * for leases that come while the scan goes on.
 */
static int held_make(struct leases *l, struct table *t, size_t *wiped) {
    size_t n = leases_most(l);
    if (n < DD_SCAN_LEASES)
        n = DD_SCAN_LEASES;
    *wiped = SIZE_MAX;
    if (l->held.old.cap || l->held.cap < 2 * n || l->held.cap > 16 * n) {
        if (table_make(t, n) < 0)
            return -1;
        if (t->cap > SCAN_WIPE)
            *wiped = 0;
        return 0;
    }
    *t = l->held;
    l->held = (struct table){0};
    t->used = *wiped = 0;
    return 0;
}

static bool scan_begin(struct store *s) {
    struct leases *l = &s->leases;
    l->later = l->look = false;
    l->begun++;
    int rc = scan_fence(s);
    if (rc < 0) {
        l->done = l->begun; /* it failed: no request waits for it */
        reclaim_failed(s, rc);
        return false;
    }
    if (held_make(l, &l->scan.held, &l->scan.wiped) < 0)
        return false;
    holders_clear(l);
    l->scan.on = true;
    l->looked = 0;
    l->scan.n = l->retired_n;
    l->fresh_bytes = 0; /* what is retired from here on is for the next scan */
    l->again = false;
    return true;
}

/* Look at the next leases. Lease pages that come meanwhile stand behind the others, and are looked
 * at, too. -1: no memory. */
static int scan_look(struct store *s) {
    struct leases *l = &s->leases;
    struct scan *c = &l->scan;
    size_t full = c->held.used + DD_SCAN_LEASES;
    for (unsigned n = 0; n < DD_SCAN_LINES && c->page < l->pages && c->held.used < full;) {
        if (c->chunk >= page_chunks(l, c->page)) {
            c->page++;
            c->chunk = 0;
            n++;
            continue;
        }
        if (c->chunk == 0)
            page_ahead(l, c->page);
        const struct lease_chunk *at = page_chunk(l, c->page, c->chunk);
        unsigned lines = chunk_lines(at), from, to;
        n += lines;
        l->looked += DD_RECLAIM_CHUNK + lines * DD_RECLAIM_LINE;
        for (unsigned i = 0; i < lines; i++) {
            if (!line_any(at, i, &from, &to))
                continue;
            for (unsigned k = from; k < to; k++) {
                /* as in leases_each() */
                uint64_t word = __atomic_load_n(&at->slot[k], __ATOMIC_ACQUIRE), block;
                if (!word || LEASE_ARENA(word) != s->local_index ||
                    !(block = block_of(s, LEASE_OFFSET(word))))
                    continue;
                uint32_t *v = table_add(&c->held, block);
                if (!v)
                    return -1;
                *v = (uint32_t)c->page + 1;
                compact_leased(s, block);
            }
        }
        c->chunk++;
    }
    return 0;
}

/* Make a scan in one go. False: it would be a large one, and nothing was done. */
bool scan_at_once(struct store *s) {
    struct leases *l = &s->leases;
    uint64_t freed;
    int rc;
    if (!l->whole && !scan_small(s))
        return false;
    /* The number of leases is only known after a look at them; `held` has that of the last scan. */
    l->few = !l->whole;
    if (l->retired_n)
        rc = reclaim(s, &freed);
    else if ((rc = leases_look(s)) != -E2BIG) {
        l->look = l->again = false;
        l->done = ++l->begun;
    }
    l->few = false;
    if (rc < 0 && rc != -E2BIG && l->retired_n)
        reclaim_failed(s, rc);
    return rc != -E2BIG;
}

bool scan_over(struct store *s, uint64_t *number, bool look) {
    struct leases *l = &s->leases;
    if (l->whole) {
        *number = 0;
        return scan_at_once(s);
    }
    if (!*number) {
        if (!look && !l->retired_n)
            return true;
        if (scan_at_once(s))
            return true;
        *number = l->begun + 1; /* not the scan under way: it has passed some leases already */
    }
    bool over = l->done >= *number || (!look && !l->retired_n && l->begun < *number);
    if (over)
        *number = 0;
    else if (l->begun < *number) {
        l->again = true;
        l->look |= look;
    }
    return over;
}

int scan_for_room(struct store *s) {
    struct leases *l = &s->leases;
    uint64_t number;
    if (!l->retired_n)
        return 0;
    if (l->wait && *l->wait && l->done >= *l->wait)
        return 0;
    number = l->wait ? *l->wait : 0;
    if (scan_over(s, &number, false))
        return 0;
    if (!l->wait)
        return 0;
    *l->wait = number;
    return -EINPROGRESS;
}

bool store_reclaim_soon(struct store *s) {
    uint64_t number = 0;
    return scan_over(s, &number, false);
}

bool store_reclaim_some(struct store *s) {
    struct leases *l = &s->leases;
    struct scan *c = &l->scan;
    heap_ensure_settled(s);
    if (!c->on && !l->retired_n && !l->look)
        return false;
    if (scan_at_once(s))
        return false;
    if (!c->on && !scan_begin(s))
        return false;
    if (!scan_wipe(c))
        return true;
    if (c->page < l->pages) {
        if (scan_look(s) == 0)
            return true;
        scan_end(l);
        l->again = true; /* from the start */
        return false;
    }
    STRESS_POINT(STRESS_W_SCANNED);
    for (unsigned n = 0; n < DD_SCAN_BLOCKS && c->at < c->n; n++, c->at++)
        if (!retired_try(s, &c->held, l->retired[c->at], &c->leased_bytes))
            l->retired[c->kept++] = l->retired[c->at];
    if (c->at < c->n)
        return true;
    if (!c->closing)
        l->kept = c->kept;
    c->closing = true;
    if (!scan_close(l))
        return true;
    l->leased_bytes = c->leased_bytes;
    l->done = l->begun;
    table_free(&l->held);
    l->held = c->held;
    c->held = (struct table){0};
    scan_end(l);
    return false;
}
