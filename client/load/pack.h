/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - values of the load in the dictionary: little endian numbers, and texts with their
 * length. Reading is checked: a wrong length gives zeros and sets `bad`. */
#ifndef DDICT_LOAD_PACK_H
#define DDICT_LOAD_PACK_H

#include <base/vec.h>

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct pack {
    uint8_t *data; /* ours: pack_free() */
    size_t len, cap;
    bool bad; /* no memory: it is not complete */
};

static inline void pack_bytes(struct pack *p, const void *bytes, size_t n) {
    if (n > p->cap - p->len &&
        (p->bad || n > SIZE_MAX - p->len || VEC_ROOM(&p->data, &p->cap, p->len + n, 64) < 0)) {
        p->bad = true;
        return;
    }
    if (n > 0)
        memcpy(p->data + p->len, bytes, n);
    p->len += n;
}

static inline void pack_u64(struct pack *p, uint64_t v) {
    v = htole64(v);
    pack_bytes(p, &v, sizeof v);
}

static inline void pack_u32(struct pack *p, uint32_t v) {
    v = htole32(v);
    pack_bytes(p, &v, sizeof v);
}

static inline void pack_text(struct pack *p, const void *text, size_t n) {
    pack_u32(p, (uint32_t)n);
    pack_bytes(p, text, n);
}

static inline void pack_free(struct pack *p) {
    free(p->data);
    memset(p, 0, sizeof *p);
}

struct unpack {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static inline const uint8_t *unpack_bytes(struct unpack *u, size_t n) {
    const uint8_t *at = u->at;
    if (u->bad || n > u->left) {
        u->bad = true;
        return NULL;
    }
    u->at += n;
    u->left -= n;
    return at;
}

static inline uint64_t unpack_u64(struct unpack *u) {
    uint64_t v = 0;
    const uint8_t *at = unpack_bytes(u, sizeof v);
    if (at)
        memcpy(&v, at, sizeof v);
    return le64toh(v);
}

static inline uint32_t unpack_u32(struct unpack *u) {
    uint32_t v = 0;
    const uint8_t *at = unpack_bytes(u, sizeof v);
    if (at)
        memcpy(&v, at, sizeof v);
    return le32toh(v);
}

/* *n bytes, not 0-terminated; "" of 0 bytes if the length is wrong. */
static inline const char *unpack_text(struct unpack *u, size_t *n) {
    const uint8_t *at;
    *n = unpack_u32(u);
    at = unpack_bytes(u, *n);
    if (!at)
        *n = 0;
    return at ? (const char *)at : "";
}

#endif
