/* SPDX-License-Identifier: Apache-2.0 */
/* parked.h - what lanes ask of managers that do not move (PROTOCOL 2). */
#ifndef DDICT_MANAGER_PARKED_H
#define DDICT_MANAGER_PARKED_H

#include "manager.h"

/* As forward_begin() for a request of a lane; it is parked where manager `to` does not move. */
int parked_begin(struct requester *a, const struct msg *req, const uint8_t *payload,
                 const uint8_t *key, uint64_t hash, uint32_t to);
/* DATA of a put that goes on to a manager that does not move. true: it was parked, *e is what
 * request_take() gives. */
bool parked_data(struct requester *a, const struct msg *m, const uint8_t *payload, int *e);
/* the record of this request, and its pieces; true: also the last */
bool parked_drop(struct requester *a, uint64_t id);
bool parked_cancel(struct requester *a, uint64_t id, int status);
void parked_end(struct requester *a);
bool parked_turn(struct manager *m); /* send on what there is room for */
void parked_late(struct manager *m); /* end those whose time is over */

#endif
