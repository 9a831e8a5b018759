/* SPDX-License-Identifier: Apache-2.0 */
/* typed_key.c - keys in the form that all languages share: FORMAT, section 1. */
#include "typed.h"
#include <base/error.h>
#include <ddict_values.h>

#include <errno.h>
#include <string.h>

#define PART_HEAD 4   /* bytes of a part's length */
#define DEPTH_MAX 100 /* of tuples within tuples */

/* A key that grows in the caller's memory. */
struct writer {
    unsigned char *to;
    size_t len, cap;
};

static int write_bytes(struct writer *w, const void *data, size_t len) {
    if (len > DDICT_KEY_MAX - w->len)
        return dd_error(DDICT_EKEYSIZE, "a key of more than %u bytes", DDICT_KEY_MAX);
    if (len > w->cap - w->len)
        return dd_error(DDICT_ESMALL, "a key that does not fit in %zu bytes", w->cap);
    if (len > 0)
        memcpy(w->to + w->len, data, len);
    w->len += len;
    return 0;
}

static int write_typed(struct writer *w, char type, const void *text, size_t len) {
    int rc = write_bytes(w, &type, 1);
    return rc < 0 ? rc : write_bytes(w, text, len);
}

static ssize_t key_typed(void *buf, size_t cap, char type, const void *text, size_t len) {
    struct writer w = {.to = buf, .cap = cap};
    int rc = write_typed(&w, type, text, len);
    return rc < 0 ? rc : (ssize_t)w.len;
}

ssize_t ddict_key_str(void *buf, size_t cap, const char *text, size_t len) {
    return key_typed(buf, cap, 's', text, len);
}

ssize_t ddict_key_bytes(void *buf, size_t cap, const void *data, size_t len) {
    return key_typed(buf, cap, 'b', data, len);
}

ssize_t ddict_key_int(void *buf, size_t cap, int64_t number) {
    char text[DECIMAL_MAX];
    return key_typed(buf, cap, 'i', text, decimal_write_int(text, number));
}

ssize_t ddict_key_uint(void *buf, size_t cap, uint64_t number) {
    char text[DECIMAL_MAX];
    return key_typed(buf, cap, 'i', text, decimal_write(text, false, number));
}

/* --- tuples --- */

static void length_write(unsigned char *to, size_t n) {
    for (int i = 0; i < PART_HEAD; i++)
        to[i] = (unsigned char)(n >> 8 * i);
}

static size_t length_read(const unsigned char *p) {
    return p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
}

static bool parts_are(const unsigned char *p, size_t len, unsigned depth);

static bool key_is(const unsigned char *p, size_t len, unsigned depth) {
    if (len == 0)
        return false;
    switch (p[0]) {
    case 's':
    case 'b':
        return true;
    case 'i':
        return decimal_is(p + 1, len - 1);
    case 't':
        return parts_are(p + 1, len - 1, depth + 1);
    }
    return false;
}

static bool parts_are(const unsigned char *p, size_t len, unsigned depth) {
    if (depth > DEPTH_MAX)
        return false;
    while (len > 0) {
        if (len < PART_HEAD)
            return false;
        size_t n = length_read(p);
        if (n > len - PART_HEAD || !key_is(p + PART_HEAD, n, depth))
            return false;
        p += PART_HEAD + n;
        len -= PART_HEAD + n;
    }
    return true;
}

static int write_part(struct writer *w, const struct ddict_key_part *part) {
    char text[DECIMAL_MAX];
    switch (part->kind) {
    case DDICT_KEY_STR:
    case DDICT_KEY_BYTES:
        return write_typed(w, (char)part->kind, part->data, part->len);
    case DDICT_KEY_INT:
        return write_typed(w, 'i', text, decimal_write_int(text, part->number));
    case DDICT_KEY_BIG:
        if (!decimal_is(part->data, part->len))
            return dd_error(-EINVAL, "a part of a key is no number as Python writes it");
        return write_typed(w, 'i', part->data, part->len);
    case DDICT_KEY_TUPLE:
        if (!parts_are(part->data, part->len, 1))
            return dd_error(-EINVAL, "a tuple within a key is malformed");
        return write_typed(w, 't', part->data, part->len);
    }
    return dd_error(-EINVAL, "a part of a key is of kind %d, which there is not", part->kind);
}

ssize_t ddict_key_tuple(void *buf, size_t cap, const struct ddict_key_part *parts, size_t n) {
    struct writer w = {.to = buf, .cap = cap};
    int rc = write_bytes(&w, "t", 1);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        size_t head = w.len;
        if ((rc = write_bytes(&w, "\0\0\0", PART_HEAD)) == 0 &&
            (rc = write_part(&w, &parts[i])) == 0)
            length_write(w.to + head, w.len - head - PART_HEAD);
    }
    return rc < 0 ? rc : (ssize_t)w.len;
}

/* --- from bytes --- */

/* Of a key that key_is(). */
static void part_read(struct ddict_key_part *part, const unsigned char *p, size_t len) {
    *part = (struct ddict_key_part){.kind = p[0], .data = p + 1, .len = len - 1};
    if (p[0] == 'i' && !decimal_read_int(p + 1, len - 1, &part->number))
        part->kind = DDICT_KEY_BIG;
}

int ddict_key_parse(const void *key, size_t klen, struct ddict_key_part *part) {
    if (!key_is(key, klen, 0))
        return dd_error(-EBADMSG, "no key of Python has this form");
    part_read(part, key, klen);
    return 0;
}

ssize_t ddict_key_parts(const struct ddict_key_part *tuple, struct ddict_key_part *parts,
                        size_t most) {
    const unsigned char *p = tuple->data;
    size_t count = 0, n;
    if (tuple->kind != DDICT_KEY_TUPLE)
        return dd_error(-EINVAL, "parts of a key that is no tuple");
    if (!parts_are(p, tuple->len, 1))
        return dd_error(-EBADMSG, "the tuple is malformed");
    for (size_t at = 0; at < tuple->len; at += PART_HEAD + n, count++) {
        n = length_read(p + at);
        if (count < most)
            part_read(&parts[count], p + at + PART_HEAD, n);
    }
    return (ssize_t)count;
}
