/* SPDX-License-Identifier: Apache-2.0 */
/* queues.h - keys with several values. */
#ifndef DDICT_MANAGER_QUEUES_H
#define DDICT_MANAGER_QUEUES_H

#include "manager.h"

int queues_init(struct manager *m);
void queues_free(struct manager *m);
/* A complete put with APPEND; takes over ref, as request_commit() does. False: nothing was done; it
 * is the first value of its key, to be put like any other. */
bool queue_append(struct requester *a, const struct msg *req, struct store_ref *ref,
                  uint64_t began);
/* A put that waited in the life before waits again, with the block that it has. False: no memory. */
bool queue_resume(struct requester *a, const struct msg *req, const struct store_ref *ref);
void queues_go_on(struct manager *m); /* when all of them wait again: let in what finds room */
/* Values of the key were removed: let waiting ones in. */
void queue_next(struct manager *m, const void *key, uint32_t key_len, uint64_t hash);
/* HEAD with APPEND */
void queue_open(struct requester *a, const struct msg *req, const void *key, uint64_t hash);
void queues_clear(struct manager *m);

#endif
