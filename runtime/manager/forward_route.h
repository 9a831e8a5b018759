/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward_route.h - which connection to a peer a forward uses. All messages of one request use the
 * same. Requests of one key must stay in order, so a request uses the connection of an unanswered
 * write of its key. Otherwise large values use a further connection, and all else the first. Of a put
 * in pieces that is sent again the pieces come later: it ends where another write of its key has been
 * sent behind it.
 */
#ifndef DDICT_MANAGER_FORWARD_ROUTE_H
#define DDICT_MANAGER_FORWARD_ROUTE_H

#include "manager.h"

struct forward;

unsigned forward_route(struct manager *m, struct peer *p, const struct msg *req, uint64_t hash);
/* if it writes: remember its connection */
void forward_route_keep(struct manager *m, struct forward *f);
void forward_route_end(struct manager *m, struct forward *f); /* it was answered, or is lost */

#endif
