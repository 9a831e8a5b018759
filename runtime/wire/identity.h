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
    ROLE_MORE = 3 /* one more beside a ROLE_DATA one, of its group */
};

struct conn_identity { /* what both ends prove */
    uint8_t dict_id[16];
    /* [nodes]: what this node and that one know, and nobody else; borrowed while there are
     * connections */
    const uint8_t (*keys)[KEY_SIZE];
    uint32_t nodes;
    /* manager id (DATA, MORE; manager m is of node m mod nodes) or node id (CONTROL) */
    uint32_t self;
    /* opener's: tells which connections to one acceptor belong together */
    uint64_t group;
    /* the least protection of what follows the handshake; a connection has what the end wants that
     * wants more */
    enum seal_mode wire;
};

#endif
