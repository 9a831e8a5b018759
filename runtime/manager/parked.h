/* SPDX-License-Identifier: Apache-2.0 */
/* parked.h - requests of lanes for managers that do not move (PROTOCOL 2). */
#ifndef DDICT_MANAGER_PARKED_H
#define DDICT_MANAGER_PARKED_H

#include "manager.h"

/* As forward_begin() for a request of a lane, but parks it if manager `to` does not move. */
int parked_begin(struct requester *a, const struct msg *req, const uint8_t *payload,
                 const uint8_t *key, uint64_t hash, uint32_t to);
/* DATA of a put. true: it goes on to a manager that does not move, and was parked; *e is the result
 * for request_take(). */
bool parked_data(struct requester *a, const struct msg *m, const uint8_t *payload, int *e);
/* Drop the parked request of this id and its pieces. True: the last piece was among them. */
bool parked_drop(struct requester *a, uint64_t id);
bool parked_cancel(struct requester *a, uint64_t id, int status);
bool parked_knows(const struct requester *a, uint64_t id);
void parked_end(struct requester *a);
bool parked_turn(struct manager *m); /* Pass on what there is room for. True: something was. */
void parked_late(struct manager *m); /* answer -ETIMEDOUT to those that are parked for too long */

#endif
