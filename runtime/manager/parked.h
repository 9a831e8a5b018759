/* SPDX-License-Identifier: Apache-2.0 */
/* parked.h - what lanes ask of managers that do not move (PROTOCOL 2). */
#ifndef DDICT_MANAGER_PARKED_H
#define DDICT_MANAGER_PARKED_H

#include "manager.h"

/* something of a is: what comes for it too goes behind */
bool parked_before(const struct requester *a, uint32_t to);
/* TAKE_DONE or negative */
int parked_add(struct requester *a, const struct msg *m, const uint8_t *payload, uint32_t to);
/* the record of this request, and its pieces; true: also the last */
bool parked_drop(struct requester *a, uint64_t id);
bool parked_cancel(struct requester *a, uint64_t id, int status);
void parked_end(struct requester *a);
bool parked_turn(struct manager *m); /* send on what there is room for */
void parked_late(struct manager *m); /* end those whose time is over */

#endif
