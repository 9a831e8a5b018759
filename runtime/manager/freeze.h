/* SPDX-License-Identifier: Apache-2.0 */
/* freeze.h - the states OPEN, CLOSED, FROZEN, RESTORING of a manager (PROTOCOL 9). */
#ifndef DDICT_MANAGER_FREEZE_H
#define DDICT_MANAGER_FREEZE_H

#include "manager.h"

struct sup_msg;
int freeze_init(struct manager *m);
void freeze_free(struct manager *m);
void freeze_ask(struct requester *a, const struct msg *req); /* FREEZE of a client */
bool freeze_cancel(struct requester *a, uint64_t id);
bool freeze_knows(const struct requester *a, uint64_t id);
void freeze_asks_end(struct requester *a);
/* SUP_FREEZE or SUP_FREEZE_SAID of ddictd */
void freeze_take(struct manager *m, const struct sup_msg *s);
/* Do some of the work of CLOSED; true: there was some. */
bool freeze_turn(struct manager *m);
void freeze_refuse(struct requester *a, const struct msg *req);
/* Whether a streamed put that ends now is refused. */
bool freeze_refuses_end(const struct manager *m);
/* Whether even a PUT of a refill is to wait: CLOSED is reached when no change is in flight. */
bool freeze_keeps_out(const struct manager *m);

#endif
