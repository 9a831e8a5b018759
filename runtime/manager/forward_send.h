/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward_send.h - a forward is sent to the owner: with an id of ours, which stays its own until
 * forward_free() or forward_delist().
 */
#ifndef DDICT_MANAGER_FORWARD_SEND_H
#define DDICT_MANAGER_FORWARD_SEND_H

#include "manager.h"

struct forward;
struct peer;

/* The value of this request comes in pieces, after it. */
static inline bool put_streams(const struct msg *req) {
    return req->type == MSG_PUT && req->flags & MSGF_STREAM;
}
/* NEW to PUTS or ASKED: send the request, whose requester is there. 0, or a negative code, and the
 * caller frees f: it has an id if the forward was listed and could not be sent, else no id and no
 * peer, as before. Answers nobody. */
int forward_send(struct forward *f, struct peer *p, const uint8_t *payload);

#endif
