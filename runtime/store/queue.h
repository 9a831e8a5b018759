/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h - keys with several values (LAYOUT 12). */
#ifndef DDICT_STORE_QUEUE_H
#define DDICT_STORE_QUEUE_H

#include "index.h"

/* Make the second value of the key at `first` its first one. False: there is none, and nothing was
 * done. */
bool queue_swing(struct store *s, const struct index_place *first, const void *key,
                 uint32_t key_len, struct store_ref *next);
/* before the key's word is EMPTY; -ENOMEM */
int queue_delete_begin(struct store *s, uint64_t hash, const void *key, uint32_t key_len);
/* after the key's word is EMPTY; the caller has made room for one retired block */
void queue_emptied(struct store *s, uint64_t hash, const void *key, uint32_t key_len, bool deleted);
/* take out n values of deleted queues; true while there are more */
bool queue_sweep(struct store *s, unsigned n);
void queues_cleared(struct store *s);
int queues_recover(struct store *s);
void queues_close(struct store *s);

#endif
