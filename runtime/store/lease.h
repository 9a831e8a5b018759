/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.h - what leases and pins hold: a retired block, which no word names any more, stays in the
 * list of the store until a scan finds that nobody holds it. The store's own thread calls all of it.
 */
#ifndef DDICT_STORE_LEASE_H
#define DDICT_STORE_LEASE_H

#include "state.h"

/* Find out whether this process can do membarriers. It does a first one: words that were replaced
 * before it are replaced for all readers. */
int barriers_open(struct store *s);
int retire_reserve(struct store *s, size_t n); /* room for n more; -ENOMEM */
void retire(struct store *s, uint64_t off);    /* cannot fail after retire_reserve() */
void leases_close(struct store *s);
/* block_free(), also of its value in the spill, and out of the transit count */
void retired_free(struct store *s, uint64_t off);
bool pin_held(const struct store *s, uint64_t block);

/* --- for scan.c --- */
/* F, whose partner G is find_fence(). */
int scan_fence(struct store *s);
/* A whole scan: free what nobody holds. 0; -E2BIG: leases.few is set, and there are many leases; or
 * a negative code. */
int reclaim(struct store *s, uint64_t *freed);
/* Nothing is lost: the next scan frees the blocks. But until then memory only fills. */
uint64_t reclaim_failed(struct store *s, int rc);
/* Note which blocks are leased now: a hint, without a fence. */
int leases_look(struct store *s);
/* Free the block if no lease and no pin holds it: true. Else note its holder. */
bool retired_try(struct store *s, const struct table *held, uint64_t off, uint64_t *leased_bytes);
void holders_clear(struct leases *l);
static inline bool scan_wiped(const struct scan *c) {
    return c->wiped == SIZE_MAX;
}
/* The scan is over, or given up: joins the blocks that it kept and those retired since. */
void scan_end(struct leases *l);

#endif
