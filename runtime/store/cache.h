/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h - the clock of the node cache (LAYOUT 9). */
#ifndef DDICT_STORE_CACHE_H
#define DDICT_STORE_CACHE_H

#include "state.h"

void cache_open(struct store *s);
void cache_close(struct store *s);
int cache_forget(struct store *s); /* after a crash, before the heap is rebuilt */
/* Note that the item is in another block now; -ENOMEM: nothing was done. */
int cache_moved(struct store *s, uint64_t from, uint64_t to);
void cache_touch(struct store *s, uint64_t off);

#endif
