/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - what leases and pins hold: retired blocks, scans. */
#ifndef DDICT_STORE_LEASE_H
#define DDICT_STORE_LEASE_H

#include "state.h"

/* Find out whether this process can do membarriers. It does a first one: words that were replaced
 * before it are replaced for all readers. */
int barriers_open(struct store *s);
int retire_reserve(struct store *s, size_t n); /* room for n more; -ENOMEM */
void retire(struct store *s, uint64_t off);    /* cannot fail after retire_reserve() */
bool scan_wanted(const struct store *s);
/* True: a scan takes a millisecond or two, if there are about as many leases as last time. */
bool scan_small(const struct store *s);
/* make a scan if it is small; a large one only for a request that cannot wait */
bool scan_at_once(struct store *s);
/*
 * For a caller that wants retired blocks to be free, or to know which blocks are leased (look), and
 * that can call again in later turns: true when a scan that began after the first call is over.
 * *number: 0 at the first call, and 0 again when the scan is over. A small scan is made at once.
 */
bool scan_over(struct store *s, uint64_t *number, bool look);
/* The same for the request at hand: 0, or -EINPROGRESS. A request that cannot wait goes on without
 * a large scan, which is made soon. */
int scan_for_room(struct store *s);
void leases_close(struct store *s);
/* call fn for each new hint in n chunks, from *page and *chunk on; true: there are more chunks */
bool leases_hints(struct store *s, void (*fn)(struct store *s, uint64_t off), size_t *page,
                  size_t *chunk, unsigned n);
/* block_free(), also of its value in the spill, and out of the transit count */
void retired_free(struct store *s, uint64_t off);
int leases_each(struct store *s, int (*fn)(struct store *s, uint64_t block, uint32_t page));
bool pin_held(const struct store *s, uint64_t block);

#endif
