/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal.h - one direction of a connection as records that nobody between its ends can change,
 * repeat, take out or put in another order unnoticed, and with encryption not read either. PROTOCOL
 * 6. Bytes in, bytes out; no socket here. AES-256-GCM where both ends have it in hardware, else
 * ChaCha20-Poly1305; a record's number is its nonce, so both ends must have the same key, used in
 * this direction of this connection and nowhere else.
 *
 *     record   u32 len | len bytes | tag of 16 bytes
 */
#ifndef DDICT_WIRE_SEAL_H
#define DDICT_WIRE_SEAL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SEAL_HEAD 4u
#define SEAL_TAG  16u
#define SEAL_OVER (SEAL_HEAD + SEAL_TAG)
/* of a record at most: the tag and its nonce cost nothing beside so many, and the other end begins
 * while more comes */
#define SEAL_BYTES (64u << 10)
/* records of one key: 1 TiB, far below where AES-GCM becomes weaker */
#define SEAL_RENEW (1ull << 24)

/* numbers are part of the protocol: more is more */
enum seal_mode { SEAL_PLAIN, SEAL_AUTH, SEAL_ENCRYPT };

struct seal {
    _Alignas(16) uint8_t state[512]; /* of AES, made of the key */
    uint8_t key[32];
    uint64_t count; /* records so far */
    enum seal_mode mode;
    bool aes;
};

bool seal_has_aes(void);
/* mode: not SEAL_PLAIN */
void seal_start(struct seal *s, enum seal_mode mode, bool aes, const uint8_t key[32]);
/* len bytes, 1 .. SEAL_BYTES, stand at record + SEAL_HEAD; makes the record of SEAL_OVER + len
 * bytes around them, in place. 0, or -EOVERFLOW: no number is left. */
int seal_close(struct seal *s, uint8_t *record, uint32_t len);
/* Of the first SEAL_HEAD bytes of a record: how many bytes it has; 0: that can be none. */
uint32_t seal_len(const uint8_t *head);
/* A whole record of len bytes: checks it and writes them to `to`. 0, or -EBADMSG: it is not the
 * next one that the other end made; `to` is as it was, or zeroed. */
int seal_open(struct seal *s, uint8_t *to, const uint8_t *record, uint32_t len);
void seal_end(struct seal *s); /* forgets the key */

/* --- its words; libc alone --- */
static inline const char *seal_name(enum seal_mode mode) {
    return mode == SEAL_PLAIN ? "plain" : mode == SEAL_AUTH ? "auth" : "encrypt";
}
static inline bool seal_parse(const char *text, enum seal_mode *mode) {
    for (int i = SEAL_PLAIN; i <= SEAL_ENCRYPT; i++)
        if (strcmp(text, seal_name((enum seal_mode)i)) == 0) {
            *mode = (enum seal_mode)i;
            return true;
        }
    return false;
}

#endif
