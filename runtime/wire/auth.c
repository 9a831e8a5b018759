/* SPDX-License-Identifier: Apache-2.0 */
/* auth.c - makes and checks the messages of the handshake with libsodium's crypto_auth. */
#include "auth.h"

#include <base/error.h>
#include <base/versions.h>

#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>

_Static_assert(crypto_auth_BYTES == AUTH_MAC && crypto_auth_KEYBYTES == KEY_SIZE,
               "sizes of crypto_auth");
_Static_assert(crypto_scalarmult_BYTES == KEY_SIZE && crypto_scalarmult_SCALARBYTES == KEY_SIZE &&
                   KEY_SIZE >= crypto_generichash_BYTES_MIN,
               "sizes of X25519");

struct mac_input { /* no padding */
    uint8_t letter[8];
    uint8_t hello[sizeof(struct auth_hello)];
    uint8_t nonce_b[AUTH_NONCE];
    uint32_t wire_b, room;
};
_Static_assert(sizeof(struct mac_input) == 8 + 88 + 32 + 8,
               "nothing uninitialised goes into a mac");

int auth_init(void) {
    return sodium_init() < 0 ? dd_error(-EIO, "libsodium does not work here") : 0;
}

void auth_pair(uint8_t secret[KEY_SIZE], uint8_t public[KEY_SIZE]) {
    randombytes_buf(secret, KEY_SIZE);
    crypto_scalarmult_base(public, secret);
}

int auth_key(uint8_t key[KEY_SIZE], const uint8_t secret[KEY_SIZE], const uint8_t public[KEY_SIZE],
             const uint8_t theirs[KEY_SIZE], const uint8_t dict_id[16]) {
    struct {
        uint8_t shared[KEY_SIZE], low[KEY_SIZE], high[KEY_SIZE], dict_id[16];
    } in;
    bool low = memcmp(public, theirs, KEY_SIZE) < 0;
    if (crypto_scalarmult(in.shared, secret, theirs) != 0)
        return DDICT_EAUTH;
    memcpy(in.low, low ? public : theirs, KEY_SIZE);
    memcpy(in.high, low ? theirs : public, KEY_SIZE);
    memcpy(in.dict_id, dict_id, sizeof in.dict_id);
    crypto_generichash(key, KEY_SIZE, (const uint8_t *)&in, sizeof in, NULL, 0);
    sodium_memzero(&in, sizeof in);
    return 0;
}

static bool between_nodes(uint32_t role) {
    return role == ROLE_CONTROL || role == ROLE_VOTE;
}

/* The key that this node shares with the peer's; NULL: there is no such node. */
static const uint8_t *key_of(const struct conn_identity *me, uint32_t role, uint32_t peer) {
    if (me->nodes == 0 || (between_nodes(role) && peer >= me->nodes))
        return NULL;
    return me->keys[between_nodes(role) ? peer : peer % me->nodes];
}

/* The other end, as seen from `me`, of the connection that hello opens. */
static uint32_t peer_of(const struct auth_hello *h, const struct conn_identity *me) {
    return h->from == me->self ? h->to : h->from;
}

static struct mac_input mac_input(char letter, const struct auth_hello *h,
                                  const struct auth_challenge *c) {
    struct mac_input in = {.letter = {(uint8_t)letter}, .wire_b = c->wire};
    memcpy(in.hello, h, sizeof in.hello);
    memcpy(in.nonce_b, c->nonce, sizeof in.nonce_b);
    return in;
}

static void mac_make(uint8_t *mac, char letter, const struct auth_hello *h,
                     const struct auth_challenge *c, const struct conn_identity *me) {
    struct mac_input in = mac_input(letter, h, c);
    const uint8_t *key = key_of(me, h->role, peer_of(h, me));
    if (!key) /* the peer was refused before */
        randombytes_buf(mac, AUTH_MAC);
    else
        crypto_auth(mac, (const uint8_t *)&in, sizeof in, key);
}

static int mac_check(const uint8_t *mac, char letter, const struct auth_hello *h,
                     const struct auth_challenge *c, const struct conn_identity *me) {
    struct mac_input in = mac_input(letter, h, c);
    const uint8_t *key = key_of(me, h->role, peer_of(h, me));
    return key && crypto_auth_verify(mac, (const uint8_t *)&in, sizeof in, key) == 0 ? 0
                                                                                     : DDICT_EAUTH;
}

/* What this end wants, and what its hardware has. */
static uint32_t wire_of(const struct conn_identity *me) {
    return (uint32_t)me->wire | (seal_has_aes() ? AUTH_AES : 0);
}

static bool wire_known(uint32_t wire) {
    return (wire & ~(AUTH_MODE | AUTH_AES)) == 0 && (wire & AUTH_MODE) <= SEAL_ENCRYPT;
}

void auth_hello_make(struct auth_hello *h, const struct conn_identity *me, enum conn_role role,
                     uint32_t to) {
    *h = (struct auth_hello){.magic = AUTH_MAGIC,
                             .protocol = PROTOCOL_VERSION,
                             .role = role,
                             .from = me->self,
                             .to = to,
                             .group = me->group,
                             .wire = wire_of(me),
                             .life = me->life};
    memcpy(h->dict_id, me->dict_id, sizeof h->dict_id);
    randombytes_buf(h->nonce, sizeof h->nonce);
}

int auth_hello_check(const struct auth_hello *h, const struct conn_identity *me,
                     struct auth_challenge *reply) {
    if (h->magic != AUTH_MAGIC)
        return DDICT_EAUTH;
    if (h->protocol != PROTOCOL_VERSION)
        return DDICT_EVERSION;
    if (memcmp(h->dict_id, me->dict_id, sizeof h->dict_id) != 0 || h->to != me->self ||
        (h->role < ROLE_DATA || h->role > ROLE_VOTE) || (h->role == ROLE_MORE && h->group == 0) ||
        !wire_known(h->wire) || !key_of(me, h->role, h->from))
        return DDICT_EAUTH;
    uint32_t ours = wire_of(me), mode = (h->wire & AUTH_MODE) > (ours & AUTH_MODE)
                                            ? h->wire & AUTH_MODE
                                            : ours & AUTH_MODE;
    *reply = (struct auth_challenge){.magic = AUTH_MAGIC,
                                     .protocol = PROTOCOL_VERSION,
                                     .wire = mode | (h->wire & ours & AUTH_AES)};
    randombytes_buf(reply->nonce, sizeof reply->nonce);
    mac_make(reply->mac, 'B', h, reply, me);
    return 0;
}

int auth_challenge_check(const struct auth_challenge *c, const struct auth_hello *mine,
                         const struct conn_identity *me, struct auth_answer *reply) {
    if (c->magic != AUTH_MAGIC)
        return DDICT_EAUTH;
    if (c->protocol != PROTOCOL_VERSION)
        return DDICT_EVERSION;
    if (mac_check(c->mac, 'B', mine, c, me) != 0 || !wire_known(c->wire) ||
        (c->wire & AUTH_MODE) < (mine->wire & AUTH_MODE) || (c->wire & ~mine->wire & AUTH_AES))
        return DDICT_EAUTH;
    mac_make(reply->mac, 'A', mine, c, me);
    return 0;
}

int auth_answer_check(const struct auth_answer *a, const struct auth_hello *h,
                      const struct auth_challenge *mine, const struct conn_identity *me) {
    return mac_check(a->mac, 'A', h, mine, me);
}

void auth_secret(uint8_t secret[AUTH_MAC], char letter, const struct auth_hello *h,
                 const struct auth_challenge *c, const struct conn_identity *me) {
    mac_make(secret, letter, h, c, me);
}

void auth_forget(void *secret, size_t len) {
    sodium_memzero(secret, len);
}
