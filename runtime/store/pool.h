/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - an arena whose memory comes from a pool of huge pages (LAYOUT 10). */
#ifndef DDICT_STORE_POOL_H
#define DDICT_STORE_POOL_H

#include "state.h"

/* does the index, as it is now, have any of the huge page at `at`? */
bool pool_owned(const struct arena_header *h, uint64_t at);
/* Take pages for the heap up to its page `end`; for the index, [at, at + len): 0 or DDICT_EFULL.
 * Without a pool they do nothing. */
int pool_heap(struct store *s, uint64_t end);
int pool_index(struct store *s, uint64_t at, uint64_t len);

#endif
