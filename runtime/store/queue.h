/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h - keys with several values (LAYOUT 12). */
#ifndef DDICT_STORE_QUEUE_H
#define DDICT_STORE_QUEUE_H

#include "index.h"

/* The key at `first` has a value behind that: it is the first now. False: there is none, nothing
 * was done. */
bool queue_swing(struct store *s, const struct index_place *first, const void *key,
                 uint32_t key_len, struct store_ref *next);
/* before the key's word is EMPTY; -ENOMEM */
int queue_delete_begin(struct store *s, uint64_t hash, const void *key, uint32_t key_len);
/* it is; with room for one to retire */
void queue_emptied(struct store *s, uint64_t hash, const void *key, uint32_t key_len, bool deleted);
/* n values of deleted queues; true while there are more */
bool queue_sweep(struct store *s, unsigned n);
void queues_cleared(struct store *s);
int queues_recover(struct store *s);
void queues_close(struct store *s);

#endif
