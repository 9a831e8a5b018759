/* SPDX-License-Identifier: Apache-2.0 */
/* waiters.h - requests that wait until their key exists. */
#ifndef DDICT_MANAGER_WAITERS_H
#define DDICT_MANAGER_WAITERS_H

#include "manager.h"

int waiters_init(struct manager *m);
void waiters_free(struct manager *m);
int waiter_add(struct requester *a, const struct msg *req, const void *key, uint64_t hash);
void waiters_wake(struct manager *m, const void *key, uint32_t key_len, uint64_t hash);
/* answer some of the woken requests; true: there were some */
bool waiters_turn(struct manager *m);

#endif
