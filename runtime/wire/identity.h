/* SPDX-License-Identifier: Apache-2.0 */
/* identity.h - who an end of a connection is, and what it proves in the handshake. PROTOCOL 6. */
#ifndef DDICT_WIRE_IDENTITY_H
#define DDICT_WIRE_IDENTITY_H

#include "seal.h"

#include <stdint.h>

#define KEY_SIZE 32
enum conn_role {
    ROLE_DATA = 1,
    ROLE_CONTROL = 2,
    ROLE_MORE = 3,    /* a further connection beside one of ROLE_DATA, of the same group */
    ROLE_REPLICA = 4, /* from the primary of an owner to its backup */
    ROLE_VOTE = 5     /* from a ddictd that looks for who decides; ids as ROLE_CONTROL */
};

struct conn_identity { /* what both ends prove */
    uint8_t dict_id[16];
    /* [nodes]: the key that only this node and that one know; borrowed while there are
     * connections */
    const uint8_t (*keys)[KEY_SIZE];
    uint32_t nodes;
    /* number of a manager or shadow (base/shadow.h; n is of node n modulo nodes), or node id
     * (ROLE_CONTROL) */
    uint32_t self;
    /* of the opener: the same for its connections to one acceptor */
    uint64_t group;
    uint32_t life; /* of the opener, a manager: how often it was started; else 0 */
    /* the least protection after the handshake; a connection has the higher of both ends' */
    enum seal_mode wire;
};

#endif
