/* SPDX-License-Identifier: Apache-2.0 */
/* freeze.h - OPEN, CLOSED, FROZEN (PROTOCOL 9). */
#ifndef DDICT_MANAGER_FREEZE_H
#define DDICT_MANAGER_FREEZE_H

#include "manager.h"

struct sup_msg;
int freeze_init(struct manager *m);
void freeze_free(struct manager *m);
void freeze_ask(struct requester *a, const struct msg *req); /* a client's FREEZE */
bool freeze_cancel(struct requester *a, uint64_t id);
void freeze_asks_end(struct requester *a);
void freeze_take(struct manager *m, const struct sup_msg *s); /* SUP_FREEZE, SUP_FREEZE_SAID */
/* some of what CLOSED has to do; true when there was something */
bool freeze_turn(struct manager *m);
void freeze_refuse(struct requester *a, const struct msg *req);
/* A streamed put that ends now is refused. */
bool freeze_refuses_end(const struct manager *m);

#endif
