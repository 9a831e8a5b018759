/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handshake.h - runs the handshake of a TCP connection (PROTOCOL 6). Reads exactly its own bytes:
 * those that follow stay in the socket until the peer has proved itself. Timeouts are the caller's
 * matter.
 */
#ifndef DDICT_WIRE_HANDSHAKE_H
#define DDICT_WIRE_HANDSHAKE_H

#include "auth.h"

struct handshake {
    const struct conn_identity *me; /* borrowed until it is over */
    bool opener;
    /* opener: set by the owner; acceptor: the peer's, once the handshake is done */
    enum conn_role role;
    uint32_t peer; /* likewise: manager or node id of the peer */
    struct auth_hello hello;
    struct auth_challenge challenge;
    struct auth_answer answer;
    uint8_t *in; /* where the next message is received */
    uint32_t need, got;
    const uint8_t *out;
    uint32_t out_len;
};

/* role and peer must be set */
void handshake_open(struct handshake *h, const struct conn_identity *me);
void handshake_accept(struct handshake *h, const struct conn_identity *me);
/* Go on, without waiting. 1: done; 0: bytes must come or go first; or a negative code (DDICT_EAUTH,
 * DDICT_EVERSION, DDICT_EPROTO, -ECONNRESET, ...). */
int handshake_run(struct handshake *h, int fd);
/* it waits for room in the socket */
static inline bool handshake_writes(const struct handshake *h) {
    return h->out_len > 0;
}

#endif
