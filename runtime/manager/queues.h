/* SPDX-License-Identifier: Apache-2.0 */
/* queues.h - keys with more than one value. */
#ifndef DDICT_MANAGER_QUEUES_H
#define DDICT_MANAGER_QUEUES_H

#include "manager.h"

int queues_init(struct manager *m);
void queues_free(struct manager *m);
/* A put with APPEND that is complete: takes over ref, as request_commit() does. false: it is the
 * first value of its key, to be put as any other; nothing was done. */
bool queue_append(struct requester *a, const struct msg *req, struct store_ref *ref,
                  uint64_t began);
/* A value of key was taken, or all: there may be room for those that wait. */
void queue_next(struct manager *m, const void *key, uint32_t key_len, uint64_t hash);
/* HEAD with APPEND */
void queue_open(struct requester *a, const struct msg *req, const void *key, uint64_t hash);
void queues_clear(struct manager *m);

#endif
