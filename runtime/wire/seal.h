/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal.h - one direction of a connection as records that nobody between its ends can change,
 * repeat, drop or reorder unnoticed, nor read with SEAL_ENCRYPT. PROTOCOL 6. Bytes in, bytes out;
 * no socket here. AES-256-GCM if both ends have it in hardware, else ChaCha20-Poly1305. A record's
 * number is its nonce, so the key must be used for this direction of this connection alone.
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
/* of a record, at most: tag and nonce cost next to nothing for so many, and the other end can begin
 * before more comes */
#define SEAL_BYTES (64u << 10)
/* records for one key: 1 TiB, far below the limits of AES-GCM */
#define SEAL_RENEW (1ull << 24)

/* Part of the protocol; a higher number is more protection. */
enum seal_mode { SEAL_PLAIN, SEAL_AUTH, SEAL_ENCRYPT };

struct seal {
    _Alignas(16) uint8_t state[512]; /* AES, expanded from the key */
    uint8_t key[32];
    uint64_t count; /* records so far */
    enum seal_mode mode;
    bool aes;
};

bool seal_has_aes(void);
/* mode: not SEAL_PLAIN */
void seal_start(struct seal *s, enum seal_mode mode, bool aes, const uint8_t key[32]);
/* Seal len bytes (1 .. SEAL_BYTES) at record + SEAL_HEAD in place; the record has SEAL_OVER + len
 * bytes. 0, or -EOVERFLOW: no number is left. */
int seal_close(struct seal *s, uint8_t *record, uint32_t len);
/* The size of a record whose first SEAL_HEAD bytes are at head; 0: invalid. */
uint32_t seal_len(const uint8_t *head);
/* Check a whole record of len bytes, and write its bytes to `to`. 0, or -EBADMSG: it is not the
 * next record of the other end; `to` is unchanged or zeroed. */
int seal_open(struct seal *s, uint8_t *to, const uint8_t *record, uint32_t len);
void seal_end(struct seal *s); /* erases the key */

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
