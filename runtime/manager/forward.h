/* SPDX-License-Identifier: Apache-2.0 */
/* forward.h - requests of others' keys. */
#ifndef DDICT_MANAGER_FORWARD_H
#define DDICT_MANAGER_FORWARD_H

#include "manager.h"

/* Pass a request on to manager `to`. key: the payload's, copied from where it may change; hash: of
 * it. TAKE_DONE; TAKE_STALL: there is no room now, the lanes are looked at again soon; or negative.
 */
int forward_begin(struct requester *a, const struct msg *req, const uint8_t *payload,
                  const uint8_t *key, uint64_t hash, uint32_t to);
bool forward_cancel(struct requester *a, uint64_t id); /* answers it */
/* a second is over: end those whose time is; false: there are none */
bool forwards_late(struct manager *m);
void forwards_end(struct requester *a); /* the requester is gone: what comes back is dropped */
/* what peers_init() wants: what comes from the owner */
extern const struct peer_ops forward_peer_ops;
/* The requester has taken pieces of a reply that we pass on: ask the owner for more. */
void forwards_took(struct requester *a);

#endif
