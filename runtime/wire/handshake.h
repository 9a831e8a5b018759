/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handshake.h - both ends of a TCP connection prove that they know the key of their two nodes.
 * PROTOCOL 6. Reads exactly its own bytes: what follows stays in the socket until the peer has
 * proved itself. Who waits and for how long is the owner's matter.
 */
#ifndef DDICT_WIRE_HANDSHAKE_H
#define DDICT_WIRE_HANDSHAKE_H

#include "auth.h"

struct handshake {
    const struct conn_identity *me; /* borrowed until it is over */
    bool opener;
    /* opener's: set by the owner; acceptor's: of the peer, once it is over */
    enum conn_role role;
    uint32_t peer; /* likewise: its manager or node id */
    struct auth_hello hello;
    struct auth_challenge challenge;
    struct auth_answer answer;
    uint8_t *in; /* where the message that comes next goes */
    uint32_t need, got;
    const uint8_t *out;
    uint32_t out_len;
};

/* role and peer are set */
void handshake_open(struct handshake *h, const struct conn_identity *me);
void handshake_accept(struct handshake *h, const struct conn_identity *me);
/* Go on, without waiting: 1 both ends know each other, 0 more has to come or go, or a negative code
 * (DDICT_EAUTH, DDICT_EVERSION, DDICT_EPROTO, -ECONNRESET, ...). */
int handshake_run(struct handshake *h, int fd);
/* the socket was full */
static inline bool handshake_writes(const struct handshake *h) {
    return h->out_len > 0;
}

#endif
