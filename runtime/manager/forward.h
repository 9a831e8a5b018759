/* SPDX-License-Identifier: Apache-2.0 */
/* forward.h - requests for keys of other managers. */
#ifndef DDICT_MANAGER_FORWARD_H
#define DDICT_MANAGER_FORWARD_H

#include "manager.h"

/* Pass a request on to manager `to`. key: of the payload, or a copy if the payload may change;
 * hash: of the key. TAKE_DONE; TAKE_STALL: no room now, the lanes are tried again soon; or
 * negative. */
int forward_begin(struct requester *a, const struct msg *req, const uint8_t *payload,
                  const uint8_t *key, uint64_t hash, uint32_t to);
bool forward_cancel(struct requester *a, uint64_t id);      /* answers it with -ECANCELED */
bool forward_knows(const struct requester *a, uint64_t id); /* it is on its way to its owner */
/* Called once in DD_LATE_MS: answer forwards whose time is over. False: none waits with a time. */
bool forwards_late(struct manager *m);
/* An owner has not answered a change that this client, which is gone, has asked for. */
bool forwards_of_gone(const struct manager *m, uint64_t client);
void forwards_end(struct requester *a); /* the requester ends: drop its answers */
/* for peers_init(): what to do with messages of owners */
extern const struct peer_ops forward_peer_ops;

#endif
