/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - an arena whose memory comes from a pool of huge pages (LAYOUT 10). */
#ifndef DDICT_STORE_POOL_H
#define DDICT_STORE_POOL_H

#include "state.h"

/* is any of the huge page at `at` the index's, as it is now? */
bool pool_owned(const struct arena_header *h, uint64_t at);
/* Memory for the heap up to page end, and for the index when it takes the bytes from at to at +
 * len: 0 or DDICT_EFULL. Without a pool nothing. */
int pool_heap(struct store *s, uint64_t end);
int pool_index(struct store *s, uint64_t at, uint64_t len);

#endif
