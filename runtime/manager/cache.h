/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h - the node cache's share of the arena. */
#ifndef DDICT_MANAGER_CACHE_H
#define DDICT_MANAGER_CACHE_H

#include "manager.h"

int cache_init(struct manager *m);
void cache_free(struct manager *m);
/* Reserve a block for the value of reply r to a request of this epoch. True: end it by
 * cache_publish() or store_abort(). False: the value is not cached. */
bool cache_reserve(struct manager *m, uint64_t epoch, const uint8_t *key, uint32_t key_len,
                   const struct msg *r, struct store_ref *ref);
/* Publish the item, or retire it if the epoch is over. Unless it is pinned, ref must not be used
 * any more. */
void cache_publish(struct manager *m, uint64_t epoch, struct store_ref *ref);
/* Answer a GET from the cache. False: the cache does not have the key. */
bool cache_look(struct requester *a, const struct msg *req, const uint8_t *key);

#endif
