/* SPDX-License-Identifier: Apache-2.0 */
/* waiters.h - requests that wait until their key exists, or has another version. */
#ifndef DDICT_MANAGER_WAITERS_H
#define DDICT_MANAGER_WAITERS_H

#include "manager.h"

int waiters_init(struct manager *m);
void waiters_free(struct manager *m);
int waiter_add(struct requester *a, const struct msg *req, const void *key, uint64_t hash);
void waiters_wake(struct manager *m, const void *key, uint32_t key_len, uint64_t hash);
/* The key has another value, or none: those that wait for another version are answered. waiters_wake()
 * does that, too, where there is a value. */
void waiters_changed(struct manager *m, const void *key, uint32_t key_len, uint64_t hash);
void waiters_cleared(struct manager *m); /* the same of all keys */
/* answer some of the woken requests; true: there were some */
bool waiters_turn(struct manager *m);

#endif
