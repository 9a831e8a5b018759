/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.c - blocks that nothing names any more wait here until no lease and no pin holds them (I6).
 *
 *   writer: replace the word   | F: seq_cst fence | load the slots, begun after F
 *   reader: store the lease    | G: seq_cst fence | load the word again
 *
 * F and G are ordered one way or the other: F first, and the reader sees the changed word; G first, and the scan sees the lease.
 *
 * Reads are many and scans are few. Where the kernel has it, F is a membarrier, which makes every core that runs a registered reader pass a fence: G
 * is then wherever that finds the reader, and costs nothing otherwise.
 */
#include <base/error.h>
#include <store/state.h>

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int store_leases_add(struct store *s, uint64_t id, const void *map, uint32_t pid) {
    struct leases *l = &s->leases;
    if (l->pages == l->pages_cap) {
        size_t cap = l->pages_cap ? l->pages_cap * 2 : 16;
        struct lease_page *p = realloc(l->page, cap * sizeof *p);
        if (!p)
            return dd_error(-ENOMEM, "no memory for another lease page");
        l->page = p;
        l->pages_cap = cap;
    }
    l->page[l->pages++] = (struct lease_page){.id = id, .map = map, .pid = pid};
    return 0;
}

void store_leases_remove(struct store *s, uint64_t id) {
    struct leases *l = &s->leases;
    for (size_t i = 0; i < l->pages; i++)
        if (l->page[i].id == id) {
            free(l->page[i].hinted);
            memmove(&l->page[i], &l->page[i + 1],
                    (--l->pages - i) *
                        sizeof *l->page); /* in their order (I23): a scan may be among them */
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
    free(l->page);
    free(l->retired);
    table_free(&l->held);
    table_free(&l->scan.held);
    table_free(&l->pins);
    table_free(&l->transit);
}

int retire_reserve(struct store *s, size_t n) {
    struct leases *l = &s->leases;
    if (l->retired_n + n <= l->retired_cap)
        return 0;
    size_t cap = l->retired_cap ? l->retired_cap : 1024;
    while (cap < l->retired_n + n)
        cap *= 2;
    uint64_t *r = realloc(l->retired, cap * sizeof *r);
    if (!r)
        return dd_error(-ENOMEM, "no memory to note a replaced value");
    l->retired = r;
    l->retired_cap = cap;
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
    settled(s);
    /* Without memory to note it the block stays in use: it is lost, nothing is damaged. */
    if (retire_reserve(s, 1) == 0)
        retire(s, off);
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

/* Put what was kept and what came since together: the scan is over, or given up. */
static void scan_end(struct leases *l) {
    struct scan *c = &l->scan;
    memmove(l->retired + c->kept, l->retired + c->at, (l->retired_n - c->at) * sizeof *l->retired);
    l->retired_n -= c->at - c->kept;
    table_free(&c->held);
    *c = (struct scan){0};
}

bool scan_wanted(const struct store *s) {
    const struct leases *l = &s->leases;
    /* Blocks that stay held make every scan longer: more must come together before the next one. */
    uint64_t spare = s->header->budget / DD_RECLAIM_SPARE,
             enough = DD_RECLAIM_BYTES + 64 * (uint64_t)l->kept +
                      (l->looked < spare ? l->looked : spare);
    return l->retired_n && (l->again || l->fresh_bytes >= enough);
}

int store_pin(struct store *s, uint64_t off) {
    uint32_t *n = table_add(&s->leases.pins, off);
    if (!n)
        return dd_error(-ENOMEM, "no memory to pin a value");
    ++*n;
    return 0;
}

void store_unpin(struct store *s, uint64_t off) {
    settled(s);
    uint32_t *n = table_find(&s->leases.pins, off);
    if (!n || --*n)
        return;
    table_remove(&s->leases.pins, off);
    if (s->leases.scan.on &&
        !table_add(&s->leases.scan.held, off)) { /* its lease may have come behind the scan */
        scan_end(&s->leases);
        s->leases.again = true;
    }
    if (s->leases.retired_n)
        s->leases.fresh_bytes += block_bytes(s, off); /* it may be a retired one */
}

bool pin_held(const struct store *s, uint64_t block) {
    return table_find(&s->leases.pins, block) != NULL;
}

#define LINE  8u /* slots of a cache line */
#define AHEAD 8u /* pages whose lines are asked for ahead of the scan */

/* Any lease in these? Acquire pairs with reader_release(): what the reader read lies before the reuse. */
static inline bool line_any(const uint64_t *slot) {
    uint64_t any = 0;
    for (unsigned i = 0; i < LINE; i++)
        any |= __atomic_load_n(&slot[i], __ATOMIC_ACQUIRE);
    return any != 0;
}

/* Lines of a chunk that ever had a lease. Before the slots; pairs with the release in chunk_open() of the client. */
static inline unsigned chunk_lines(const struct lease_chunk *c) {
    uint64_t idle = __atomic_load_n(&c->idle, __ATOMIC_ACQUIRE);
    return (unsigned)(DD_LEASE_CHUNK_SLOTS - (idle < DD_LEASE_CHUNK_SLOTS ? idle : 0) + LINE - 1) /
           LINE;
}

/* Call fn for each block named by a lease on this arena; page: number of the lease page. Stops when fn is negative. */
int leases_each(struct store *s, int (*fn)(struct store *s, uint64_t block, uint32_t page)) {
    struct leases *l = &s->leases;
    uint64_t looked = 0;
    int rc = 0;
    for (size_t p = 0; p < l->pages && rc >= 0; p++) {
        const struct lease_chunk *c = l->page[p].map;
        if (p + AHEAD < l->pages) {
            const struct lease_chunk *next = l->page[p + AHEAD].map;
            __builtin_prefetch(&next->chunks);
            __builtin_prefetch(&next->slot[0]);
        }
        const uint64_t *chunks = &c->chunks;
        /* Read again for each: the order of a scan. */
        for (uint64_t k = 0;
             k < DD_LEASE_CHUNKS && k < __atomic_load_n(chunks, __ATOMIC_ACQUIRE) && rc >= 0;
             k++, c++) {
            unsigned lines = chunk_lines(c);
            looked += DD_RECLAIM_CHUNK + lines * DD_RECLAIM_LINE;
            for (unsigned i = 0; i < lines * LINE && rc >= 0; i += LINE) {
                if (!line_any(&c->slot[i]))
                    continue;
                for (unsigned n = i; n < i + LINE && rc >= 0; n++) {
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

void leases_hints(struct store *s, void (*fn)(struct store *s, uint64_t off)) {
    for (struct lease_page *p = s->leases.page; p < s->leases.page + s->leases.pages; p++) {
        const struct lease_chunk *c = p->map;
        uint64_t chunks = __atomic_load_n(&c->chunks, __ATOMIC_ACQUIRE);
        if (chunks > DD_LEASE_CHUNKS)
            chunks = DD_LEASE_CHUNKS;
        uint64_t *hinted = page_hinted(p, chunks);
        for (uint64_t i = 0; hinted && i < chunks; i++, c++) {
            uint64_t n = __atomic_load_n(&c->hints, __ATOMIC_ACQUIRE),
                     fresh = n - hinted[i]; /* pairs with cache_hint() of the client */
            if (fresh > LEASE_HINTS)
                fresh = LEASE_HINTS;
            hinted[i] = n;
            while (fresh-- > 0) {
                uint64_t word = __atomic_load_n(&c->hint[--n % LEASE_HINTS],
                                                __ATOMIC_RELAXED); /* untrusted: only compared */
                if (word && LEASE_ARENA(word) == s->local_index)
                    fn(s, LEASE_OFFSET(word));
            }
        }
    }
}

static int note_held(struct store *s, uint64_t block, uint32_t page) {
    uint32_t *v = table_add(&s->leases.held, block);
    if (!v)
        return -ENOMEM;
    *v = page + 1;
    return 0;
}

void leases_look(struct store *s) {
    table_clear(&s->leases.held);
    leases_each(s, note_held); /* without memory fewer: they are moved in vain */
}

static int barrier_everywhere(void) {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0 ? 0 : -errno;
}

int barriers_open(struct store *s) {
    int rc = barrier_everywhere();
    if (rc == 0)
        __atomic_store_n(&s->header->barriers, 1,
                         __ATOMIC_RELEASE); /* pairs with the acquire in reader_unfence() */
    else if (s->header->barriers)
        return dd_error(rc, "no membarrier any more, on which readers of this arena rely: %s",
                        dd_strerror(rc));
    return 0;
}

/* F, whose partner G is find_fence(). */
static int scan_fence(struct store *s) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return s->header->barriers ? barrier_everywhere()
                               : 0; /* the other half of G for readers without a fence */
}

/* True when it is free; else its holder is noted. */
static bool retired_try(struct store *s, const struct table *held, uint64_t off,
                        uint64_t *leased_bytes) {
    struct leases *l = &s->leases;
    uint64_t bytes = block_bytes(s, off);
    const uint32_t *holder = table_find(held, off);
    if (holder) {
        if (*holder && *holder <= l->pages)
            l->page[*holder - 1].held += bytes; /* for display: one may have gone */
        *leased_bytes += bytes;
    }
    if (holder || pin_held(s, off))
        return false;
    retired_free(s, off);
    l->retired_bytes -= bytes;
    return true;
}

static uint64_t page_chunks(const struct lease_page *p) {
    uint64_t n = __atomic_load_n(&((const struct lease_chunk *)p->map)->chunks, __ATOMIC_ACQUIRE);
    return n > DD_LEASE_CHUNKS ? DD_LEASE_CHUNKS : n;
}

static uint64_t chunks_all(const struct leases *l) {
    uint64_t n = 0;
    for (size_t p = 0; p < l->pages; p++)
        n += page_chunks(&l->page[p]);
    return n;
}

uint64_t store_reclaim(struct store *s) {
    struct leases *l = &s->leases;
    settled(s);
    if (l->scan.on)
        scan_end(l);
    if (!l->retired_n)
        return 0;
    if (scan_fence(s) < 0)
        return 0;
    l->later = false;
    table_clear(&l->held);
    for (size_t p = 0; p < l->pages; p++)
        l->page[p].held = 0;
    if (!MUTANT(MUTANT_NO_SCAN) && leases_each(s, note_held) < 0)
        return 0;
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
    return before - l->retired_bytes;
}

/* --- a scan in parts: its fence comes first, and it frees what was retired before that (I6) --- */
bool scan_small(const struct store *s) {
    const struct leases *l = &s->leases;
    return !l->scan.on && l->retired_n <= DD_SCAN_SMALL && l->held.used <= DD_SCAN_LEASES &&
           chunks_all(l) <= DD_SCAN_CHUNKS;
}

static uint64_t slots_all(const struct leases *l) { /* that ever had a lease */
    uint64_t n = 0;
    for (size_t p = 0; p < l->pages; p++) {
        const struct lease_chunk *c = l->page[p].map;
        for (uint64_t k = page_chunks(&l->page[p]); k-- > 0; c++)
            n += chunk_lines(c) * LINE;
    }
    return n;
}

#define SLOTS_MOST \
    (1u << 20) /* chunks are untrusted: for more the table grows as leases are found */
static bool scan_begin(struct store *s) {
    struct leases *l = &s->leases;
    uint64_t slots = slots_all(l);
    if (slots > SLOTS_MOST)
        slots = SLOTS_MOST;
    l->later = false;
    if (scan_fence(s) < 0)
        return false;
    if (l->held.cap > 0 && l->held.cap >= 2 * slots &&
        l->held.cap <=
            16 *
                slots) { /* memory that is there already: the first touch of new pages is dearer than all of the rest */
        l->scan.held = l->held;
        l->held = (struct table){0};
        memset(l->scan.held.key, 0, l->scan.held.cap * sizeof *l->scan.held.key);
        l->scan.held.used = 0;
    } else if (table_make(&l->scan.held, slots) < 0)
        return false;
    for (size_t p = 0; p < l->pages; p++)
        l->page[p].held = 0;
    l->scan.on = true;
    l->looked = 0;
    l->scan.n = l->retired_n;
    l->fresh_bytes = 0; /* what comes from here on is the next scan's */
    l->again = false;
    return true;
}

/* Lease pages that come meanwhile stand behind the others, and are looked at as they are. -1: without memory. */
static int scan_look(struct store *s) {
    struct leases *l = &s->leases;
    struct scan *c = &l->scan;
    size_t full = c->held.used + DD_SCAN_LEASES;
    for (unsigned n = 0; n < DD_SCAN_CHUNKS && c->page < l->pages && c->held.used < full; n++) {
        const struct lease_chunk *at = (const struct lease_chunk *)l->page[c->page].map + c->chunk;
        if (c->chunk >= page_chunks(&l->page[c->page])) {
            c->page++;
            c->chunk = 0;
            continue;
        }
        unsigned lines = chunk_lines(at);
        l->looked += DD_RECLAIM_CHUNK + lines * DD_RECLAIM_LINE;
        for (unsigned i = 0; i < lines * LINE; i++) {
            if (i % LINE == 0 && !line_any(&at->slot[i])) {
                i += LINE - 1;
                continue;
            }
            uint64_t word = __atomic_load_n(&at->slot[i], __ATOMIC_ACQUIRE),
                     block; /* as in leases_each() */
            if (!word || LEASE_ARENA(word) != s->local_index ||
                !(block = block_of(s, LEASE_OFFSET(word))))
                continue;
            uint32_t *v = table_add(&c->held, block);
            if (!v)
                return -1;
            *v = (uint32_t)c->page + 1;
        }
        c->chunk++;
    }
    return 0;
}

bool store_reclaim_some(struct store *s) {
    struct leases *l = &s->leases;
    struct scan *c = &l->scan;
    settled(s);
    if (!l->retired_n)
        return false;
    if (scan_small(s)) {
        store_reclaim(s);
        return false;
    }
    if (!c->on && !scan_begin(s))
        return false;
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
    l->leased_bytes = c->leased_bytes;
    l->kept = c->kept;
    table_free(&l->held);
    l->held = c->held;
    c->held = (struct table){0};
    scan_end(l);
    return false;
}
