/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild.h - the heap of an arena that was in use, from what words name (LAYOUT 7). */
#ifndef DDICT_STORE_REBUILD_H
#define DDICT_STORE_REBUILD_H

#include "state.h"

int heap_rebuild(struct store *s); /* marks what words name */
void heap_settle(struct store *s); /* marks what leases and pins name, frees the rest */
/* All that changes the store calls it first: settles the heap of an arena that was in use, once. */
static inline void heap_ensure_settled(struct store *s) {
    if (__builtin_expect(!s->settled, 0))
        heap_settle(s);
}

#endif
