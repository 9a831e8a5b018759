/* SPDX-License-Identifier: Apache-2.0 */
/* transit.h - room for views of values of other nodes. */
#ifndef DDICT_MANAGER_TRANSIT_H
#define DDICT_MANAGER_TRANSIT_H

#include "manager.h"

/* Bytes that values of other nodes may take for views. */
uint64_t transit_limit(const struct manager *m);
int transit_init(struct manager *m);
void transit_free(struct manager *m);
bool transit_reserve(struct manager *m, uint64_t val_len, uint8_t tag, uint64_t version,
                     struct store_ref *ref);
void transit_abort(struct manager *m, struct store_ref *ref);

#endif
