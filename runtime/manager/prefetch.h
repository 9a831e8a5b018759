/* SPDX-License-Identifier: Apache-2.0 */
/* prefetch.h - keys that clients will want are fetched into the node cache ahead of them, some at a
 * time. */
#ifndef DDICT_MANAGER_PREFETCH_H
#define DDICT_MANAGER_PREFETCH_H

#include "manager.h"

int prefetch_init(struct manager *m);
void prefetch_free(struct manager *m);
int prefetch_take(struct requester *a, const struct msg *req, const uint8_t *payload);
bool prefetch_turn(struct manager *m);
/* the epoch is over: what was not asked for yet is dropped */
void prefetch_end(struct manager *m);

#endif
