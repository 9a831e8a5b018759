/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_memory.h - memory of this process that peers may read (RMA). Single-threaded, as
 * fabric.h. */
#ifndef DDICT_WIRE_FABRIC_FABRIC_MEMORY_H
#define DDICT_WIRE_FABRIC_FABRIC_MEMORY_H

#include "fabric_types.h"

#include <stdbool.h>
#include <stdint.h>

struct fabric;

/*
 * Peers with a key may read [base, base + len) from `from` on; nobody can write there. The range
 * must stay mapped. fabric_places() registers the memory that it is asked for, and its
 * surroundings, for good; the network may then keep all of that in memory. 0, or -EOPNOTSUPP with a
 * sentence.
 */
int fabric_share(struct fabric *f, uint8_t *base, uint64_t from, uint64_t len);
bool fabric_shares(const struct fabric *f);
/* Where a peer finds [off, off + len) of it; `top`: memory below is populated. Number of places; or
 * -E2BIG: more than n; or -EIO with a sentence. */
int fabric_places(struct fabric *f, uint64_t off, uint64_t len, uint64_t top,
                  struct fabric_place *place, unsigned n);
/* [off, off + len) is about to lose its memory: it is not registered any more. */
void fabric_forget(struct fabric *f, uint64_t off, uint64_t len);
/* Whether the provider's hardware reads without the peer's processor. */
bool fabric_has_hardware(const char *name);

#endif
