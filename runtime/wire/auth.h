/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.h - the three messages by which both ends of a TCP connection prove that they know the key
 * of their two nodes. PROTOCOL 6. Bytes in, bytes out; no socket here. A mac covers the role letter
 * of who made it, both nonces, both ids, the dictionary's id and how what follows is protected, so
 * none can be played back to its maker, to another peer, or on another connection, and nobody
 * between the two ends can talk them into less protection.
 */
#ifndef DDICT_WIRE_AUTH_H
#define DDICT_WIRE_AUTH_H

#include "identity.h"

#include <stddef.h>
#include <stdint.h>

#define AUTH_MAGIC 0x5059444948444444ull
#define AUTH_NONCE 32
#define AUTH_MAC   32
#define AUTH_AES   0x100u /* of `wire`: AES-256-GCM in hardware */
#define AUTH_MODE  0xffu  /* of it: the mode */

struct auth_hello { /* opener, first */
    uint64_t magic;
    uint32_t protocol, role;
    uint8_t dict_id[16];
    uint32_t from, to;
    /* of the opener's connections to this acceptor; 0 where there is one only */
    uint64_t group;
    /* the least that the opener wants of what follows (enum seal_mode), and AUTH_AES */
    uint32_t wire, room;
    uint8_t nonce[AUTH_NONCE];
};
struct auth_challenge { /* acceptor */
    uint64_t magic;
    uint32_t protocol, wire; /* wire: what follows is, of what both ends want and have */
    uint8_t nonce[AUTH_NONCE];
    uint8_t mac[AUTH_MAC];
};
struct auth_answer { /* opener, second */
    uint8_t mac[AUTH_MAC];
};
_Static_assert(sizeof(struct auth_hello) == 88 && sizeof(struct auth_challenge) == 80 &&
                   sizeof(struct auth_answer) == 32,
               "sizes are part of the protocol");

int auth_init(void); /* once before the others, may be called again: 0, -EIO */
/*
 * The keys of a node. auth_pair(): a secret one, and the public one that the others are told.
 * auth_key(): what the secret one of this node and the public one of another make together, the
 * same on both; who has heard all public ones cannot make it (X25519, then BLAKE2b with the
 * dictionary's id). DDICT_EAUTH: `theirs` is no key.
 */
void auth_pair(uint8_t secret[KEY_SIZE], uint8_t public[KEY_SIZE]);
int auth_key(uint8_t key[KEY_SIZE], const uint8_t secret[KEY_SIZE], const uint8_t public[KEY_SIZE],
             const uint8_t theirs[KEY_SIZE], const uint8_t dict_id[16]);
void auth_hello_make(struct auth_hello *h, const struct conn_identity *me, enum conn_role role,
                     uint32_t to);
/* Acceptor: 0 and the challenge, DDICT_EVERSION, or DDICT_EAUTH (another dictionary, not for us,
 * unknown role). */
int auth_hello_check(const struct auth_hello *h, const struct conn_identity *me,
                     struct auth_challenge *reply);
/* Opener: 0 and the answer, DDICT_EVERSION, or DDICT_EAUTH (no proof, or less protection than we
 * want). */
int auth_challenge_check(const struct auth_challenge *c, const struct auth_hello *mine,
                         const struct conn_identity *me, struct auth_answer *reply);
/* Acceptor: 0 or DDICT_EAUTH. */
int auth_answer_check(const struct auth_answer *a, const struct auth_hello *h,
                      const struct auth_challenge *mine, const struct conn_identity *me);
/* A secret of both ends of an authenticated connection, fresh for each: letter tells several apart
 * ('A' and 'B' are the handshake's). */
void auth_secret(uint8_t secret[AUTH_MAC], char letter, const struct auth_hello *h,
                 const struct auth_challenge *c, const struct conn_identity *me);
void auth_forget(void *secret, size_t len);

#endif
