/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease_pages.h - the lease pages of the clients: which there are, and how their slots and hints are
 * read. The pages are shared memory that clients write while they are read here, so what stands in
 * them is not trusted, and the order of reads matters (I23). The caller owns the mappings; the list
 * is the store's own thread's.
 */
#ifndef DDICT_STORE_LEASE_PAGES_H
#define DDICT_STORE_LEASE_PAGES_H

#include "state.h"

#define LEASE_LINE 8u /* words of a cache line */
/* words of the first line that are no slots */
#define LEASE_BEFORE (LEASE_SLOT_WORDS - DD_LEASE_CHUNK_SLOTS)
#define LEASE_AHEAD  16u /* pages whose lines are asked for ahead of the scan */

/* Call fn for each block named by a lease on this arena; page: number of the lease page. Stops when
 * fn is negative. */
int leases_each(struct store *s, int (*fn)(struct store *s, uint64_t block, uint32_t page));
/* call fn for each new hint in n chunks, from *page and *chunk on; true: there are more chunks */
bool leases_hints(struct store *s, void (*fn)(struct store *s, uint64_t off), size_t *page,
                  size_t *chunk, unsigned n);
uint64_t chunks_all(const struct leases *l);
/* How many leases there can be; of thousands of clients, in the part that one turn can look at. */
size_t leases_most(const struct leases *l);
void lease_pages_close(struct leases *l);

/* --- the slots, for scans --- */
/* Any lease in the slots of line i, [*from, *to)? Acquire pairs with reader_release(): what the
 * reader read lies before the reuse. */
static inline bool line_any(const struct lease_chunk *c, unsigned i, unsigned *from, unsigned *to) {
    uint64_t any = 0;
    *from = i ? i * LEASE_LINE - LEASE_BEFORE : 0;
    *to = (i + 1) * LEASE_LINE - LEASE_BEFORE;
    for (unsigned n = *from; n < *to; n++)
        any |= __atomic_load_n(&c->slot[n], __ATOMIC_ACQUIRE);
    return any != 0;
}

/* How many lines of a chunk ever had a lease. Read before the slots; pairs with the release in
 * chunk_open() of the client. */
static inline unsigned chunk_lines(const struct lease_chunk *c) {
    uint32_t idle = __atomic_load_n(&c->idle, __ATOMIC_ACQUIRE);
    return (LEASE_SLOT_WORDS - (idle < DD_LEASE_CHUNK_SLOTS ? idle : 0) + LEASE_LINE - 1) /
           LEASE_LINE;
}

static inline uint32_t page_chunks(const struct leases *l, size_t p) {
    uint32_t n = __atomic_load_n(&l->front[p]->chunks, __ATOMIC_ACQUIRE);
    return n > DD_LEASE_CHUNKS ? DD_LEASE_CHUNKS : n;
}

static inline const struct lease_chunk *page_chunk(const struct leases *l, size_t p, size_t k) {
    return k ? (const struct lease_chunk *)l->page[p].map + k : l->front[p];
}

static inline void page_ahead(const struct leases *l, size_t p) {
    if (p + LEASE_AHEAD < l->pages)
        __builtin_prefetch(l->front[p + LEASE_AHEAD]);
}

#endif
