/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward_route.h - by which connection of a peer a forward goes. All of a request that comes in
 * pieces goes over one. Requests of one key stay in order, so they follow what is on its way to
 * write it. Else large values go aside, and all others by the first.
 */
#ifndef DDICT_MANAGER_FORWARD_ROUTE_H
#define DDICT_MANAGER_FORWARD_ROUTE_H

#include "manager.h"

struct forward;

unsigned forward_route(struct manager *m, struct peer *p, const struct msg *req, uint64_t hash);
void forward_route_keep(struct manager *m, struct forward *f); /* it was sent; if it writes */
void forward_route_end(struct manager *m, struct forward *f);  /* it was answered, or is lost */

#endif
