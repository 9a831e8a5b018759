/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h - the room of values of other nodes. */
#ifndef DDICT_MANAGER_CACHE_H
#define DDICT_MANAGER_CACHE_H

#include "manager.h"

int cache_init(struct manager *m);
void cache_free(struct manager *m);
/* Room for the value of reply r, asked for in epoch; false: it is not cached. Then cache_publish()
 * or store_abort(). */
bool cache_reserve(struct manager *m, uint64_t epoch, const uint8_t *key, uint32_t key_len,
                   const struct msg *r, struct store_ref *ref);
/* or retire it, where the epoch is over: ref is pinned or of no use any more */
void cache_publish(struct manager *m, uint64_t epoch, struct store_ref *ref);
/* a GET, answered from the cache */
bool cache_look(struct requester *a, const struct msg *req, const uint8_t *key);

#endif
