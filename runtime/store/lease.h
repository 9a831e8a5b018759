/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - what leases and pins hold: retired blocks, scans. */
#ifndef DDICT_STORE_LEASE_H
#define DDICT_STORE_LEASE_H

#include "state.h"

/* can this process do membarriers? Also a first one: what was replaced before is replaced for all
 * readers */
int barriers_open(struct store *s);
int retire_reserve(struct store *s, size_t n); /* room for n more; -ENOMEM */
void retire(struct store *s, uint64_t off);    /* cannot fail after retire_reserve() */
bool scan_wanted(const struct store *s);
/* all of it takes a millisecond or two, if there are about as many leases as there were last time
 * */
bool scan_small(const struct store *s);
/* make one, if it is small; a large one only for who can not wait */
bool scan_at_once(struct store *s);
/*
 * For who wants what was retired to be free, or to know what is leased, and can come again in later
 * turns: true when a scan that began after the first call is over. *number: 0 at first, and again
 * when it is over. Small ones are made at once.
 */
bool scan_over(struct store *s, uint64_t *number, bool look);
/* the same for the request at hand: 0, or -EINPROGRESS; who can not wait goes on without a large
 * one, which is made soon */
int scan_for_room(struct store *s);
void leases_close(struct store *s);
/* those that are new, of n chunks from there on; true: there are more chunks */
bool leases_hints(struct store *s, void (*fn)(struct store *s, uint64_t off), size_t *page,
                  size_t *chunk, unsigned n);
/* block_free(), and out of the transit count */
void retired_free(struct store *s, uint64_t off);
int leases_each(struct store *s, int (*fn)(struct store *s, uint64_t block, uint32_t page));
bool pin_held(const struct store *s, uint64_t block);

#endif
