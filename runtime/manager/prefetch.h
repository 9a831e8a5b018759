/* SPDX-License-Identifier: Apache-2.0 */
/* prefetch.h - fetches keys into the node cache before clients ask for them. */
#ifndef DDICT_MANAGER_PREFETCH_H
#define DDICT_MANAGER_PREFETCH_H

#include "manager.h"

int prefetch_init(struct manager *m);
void prefetch_free(struct manager *m);
int prefetch_take(struct requester *a, const struct msg *req, const uint8_t *payload);
bool prefetch_turn(struct manager *m);
/* The epoch is over: drop the keys that still wait. */
void prefetch_end(struct manager *m);

#endif
