/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward_lost.h - what a lost connection does to the forwards on it: they end, and their requesters
 * and followers are answered with DDICT_ELOST. A get or head in ASKED becomes NEW and is sent once
 * more, over a new connection: it changes nothing, and its key was kept. With --restarts so are all
 * that were sent as a whole, and those whose value was on its way, up to DD_PEER_TRIES times in a
 * row: the owner makes no change twice, and a value goes on behind what the requester has of it, or
 * the owner of a put. What a life before had asked is asked in the same way.
 */
#ifndef DDICT_MANAGER_FORWARD_LOST_H
#define DDICT_MANAGER_FORWARD_LOST_H

#include "manager.h"

struct peer;

/* lost, again and give_up of struct peer_ops. */
void forwards_lost(struct manager *m, struct peer *p, const char *text, bool again);
int forwards_again(struct manager *m, struct peer *p, unsigned values);
void forwards_give_up(struct manager *m, struct peer *p, const char *text);
/* A later life: ask what forward_resumed() has, before anything else. */
void forwards_resume(struct manager *m);

#endif
