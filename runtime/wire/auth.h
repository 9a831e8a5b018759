/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.h - the three messages by which both ends of a TCP connection prove that they know the key
 * of their two nodes. PROTOCOL 6. Bytes in, bytes out; no socket here. A MAC covers the letter of
 * its maker's role, both nonces, both ids, the dictionary's id, and the protection of the
 * connection. So no message can be replayed to its maker, to another peer, or on another
 * connection, and a man in the middle cannot make the ends agree on less protection.
 */
#ifndef DDICT_WIRE_AUTH_H
#define DDICT_WIRE_AUTH_H

#include "identity.h"

#include <stddef.h>
#include <stdint.h>

#define AUTH_MAGIC 0x5059444948444444ull
#define AUTH_NONCE 32
#define AUTH_MAC   32
#define AUTH_AES   0x100u /* flag in `wire`: has AES-256-GCM in hardware */
#define AUTH_MODE  0xffu  /* mask of `wire`: the mode */

struct auth_hello { /* from the opener, first */
    uint64_t magic;
    uint32_t protocol, role;
    uint8_t dict_id[16];
    uint32_t from, to;
    /* the same for all connections of one opener to one acceptor; 0: there is only one */
    uint64_t group;
    /* wire: the least protection that the opener accepts (enum seal_mode), and AUTH_AES; life: of a
     * manager, from 1 */
    uint32_t wire, life;
    uint8_t nonce[AUTH_NONCE];
};
struct auth_challenge { /* from the acceptor */
    uint64_t magic;
    uint32_t protocol, wire; /* wire: the protection of this connection */
    uint8_t nonce[AUTH_NONCE];
    uint8_t mac[AUTH_MAC];
};
struct auth_answer { /* from the opener, second */
    uint8_t mac[AUTH_MAC];
};
_Static_assert(sizeof(struct auth_hello) == 88 && sizeof(struct auth_challenge) == 80 &&
                   sizeof(struct auth_answer) == 32,
               "sizes are part of the protocol");

int auth_init(void); /* Call it before the others; again does no harm. 0 or -EIO. */
/*
 * The keys of a node. auth_pair() makes a secret key and its public key, which the other nodes are
 * told. auth_key() combines the secret key of this node and the public key of another; both nodes
 * get the same result, which cannot be made from public keys alone (X25519, then BLAKE2b with the
 * dictionary's id). DDICT_EAUTH: `theirs` is not a key.
 */
void auth_pair(uint8_t secret[KEY_SIZE], uint8_t public[KEY_SIZE]);
int auth_key(uint8_t key[KEY_SIZE], const uint8_t secret[KEY_SIZE], const uint8_t public[KEY_SIZE],
             const uint8_t theirs[KEY_SIZE], const uint8_t dict_id[16]);
void auth_hello_make(struct auth_hello *h, const struct conn_identity *me, enum conn_role role,
                     uint32_t to);
/* Acceptor: 0 and the challenge; DDICT_EVERSION; or DDICT_EAUTH: of another dictionary, for another
 * end, or of an unknown role. */
int auth_hello_check(const struct auth_hello *h, const struct conn_identity *me,
                     struct auth_challenge *reply);
/* Opener: 0 and the answer; DDICT_EVERSION; or DDICT_EAUTH: no proof, or too little protection. */
int auth_challenge_check(const struct auth_challenge *c, const struct auth_hello *mine,
                         const struct conn_identity *me, struct auth_answer *reply);
/* Acceptor: 0 or DDICT_EAUTH. */
int auth_answer_check(const struct auth_answer *a, const struct auth_hello *h,
                      const struct auth_challenge *mine, const struct conn_identity *me);
/* A secret that only both ends of this connection know. letter tells several apart; 'A' and 'B' are
 * taken by the handshake. */
void auth_secret(uint8_t secret[AUTH_MAC], char letter, const struct auth_hello *h,
                 const struct auth_challenge *c, const struct conn_identity *me);
void auth_forget(void *secret, size_t len);

#endif
