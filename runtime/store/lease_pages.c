/* SPDX-License-Identifier: Apache-2.0 */
/* lease_pages.c - the lease pages of the clients. */
#include "lease_pages.h"

#include "heap.h"
#include "state.h"
#include <base/error.h>
#include <base/page.h>
#include <base/vec.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * A second mapping of the first pages of all lease pages, one after the other: a scan of many
 * clients finds eight of their page table entries in a cache line, and each client costs it one
 * line more. The lease pages themselves are 32 MiB apart, each with a page table of its own.
 */
#define FRONT_NONE UINT32_MAX

/* The first 4096 bytes are of interest. */
static uint64_t front_size(void) {
    return page_size();
}

static uint8_t *front_place(const struct leases *l, uint32_t n) {
    return l->fronts[n / FRONTS] + n % FRONTS * front_size();
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
    void *at = mmap(NULL, FRONTS * front_size(), PROT_NONE,
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
    void *at = mremap((void *)(uintptr_t)map, 0, front_size(), MREMAP_MAYMOVE | MREMAP_FIXED,
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
    mmap(front_place(l, n), front_size(), PROT_NONE,
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

uint64_t chunks_all(const struct leases *l) {
    uint64_t n = 0;
    for (size_t p = 0; p < l->pages; p++)
        n += page_chunks(l, p);
    return n;
}

size_t leases_most(const struct leases *l) {
    size_t lines = 0;
    unsigned looks = 0;
    for (size_t p = 0; p < l->pages && looks < DD_SCAN_LINES; p++) {
        page_ahead(l, p);
        for (uint32_t k = 0; k < page_chunks(l, p) && looks < DD_SCAN_LINES; k++, looks++)
            lines += chunk_lines(page_chunk(l, p, k));
    }
    return lines * LEASE_LINE;
}

void lease_pages_close(struct leases *l) {
    for (size_t i = 0; i < l->pages; i++)
        free(l->page[i].hinted);
    for (size_t i = 0; i < l->fronts_n; i++)
        munmap(l->fronts[i], FRONTS * front_size());
    free(l->fronts);
    free(l->front_idle);
    free(l->front);
    free(l->page);
}
