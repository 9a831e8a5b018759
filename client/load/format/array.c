/* SPDX-License-Identifier: Apache-2.0 */
/* array.c - arrays of numbers as values. Stored elements are little endian and in C order. */
#include "array.h"

#include <base/error.h>

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <load/load.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX ((uint64_t)1 << 62)

static bool size_multiply(uint64_t *n, uint64_t by) {
    if (by != 0 && *n > BYTES_MAX / by)
        return false;
    *n *= by;
    return true;
}

bool array_measure(struct array *a) {
    a->records = a->ndim > 0 ? a->shape[0] : 1;
    a->record_bytes = a->item;
    for (unsigned i = 1; i < a->ndim; i++)
        if (!size_multiply(&a->record_bytes, a->shape[i]))
            return false;
    a->bytes = a->record_bytes;
    return size_multiply(&a->bytes, a->records);
}

static size_t head_bytes(unsigned ndim) {
    return (16 + 8 * (size_t)ndim + 63) / 64 * 64;
}

/* Whether an element becomes an int or a float. */
static bool is_plain(const struct array *a) {
    return a->ndim <= 1 && strchr("biuf", a->dtype[1]) && a->item <= 8;
}

uint64_t array_value_bytes(const struct array *a, bool whole) {
    if (whole)
        return head_bytes(a->ndim) + a->bytes;
    return is_plain(a) ? 0 : head_bytes(a->ndim > 0 ? a->ndim - 1 : 0) + a->record_bytes;
}

static void head_write(uint8_t *out, const struct array *a, unsigned first) {
    unsigned ndim = a->ndim > first ? a->ndim - first : 0;
    memset(out, 0, head_bytes(ndim));
    out[0] = 1;
    out[2] = (uint8_t)ndim;
    memcpy(out + 4, a->dtype, strlen(a->dtype));
    for (unsigned i = 0; i < ndim; i++) {
        uint64_t n = htole64(a->shape[first + i]);
        memcpy(out + 16 + 8 * i, &n, sizeof n);
    }
}

static void swap_all(uint8_t *p, uint64_t bytes, const struct array *a) {
    size_t item = a->dtype[1] == 'c' ? a->item / 2 : a->dtype[1] == 'U' ? 4 : a->item;
    if (!a->swap || item < 2)
        return;
    for (uint64_t at = 0; at + item <= bytes; at += item)
        for (size_t i = 0; i < item / 2; i++) {
            uint8_t c = p[at + i];
            p[at + i] = p[at + item - 1 - i];
            p[at + item - 1 - i] = c;
        }
}

static double half_read(uint16_t h) {
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 0    ? ldexp(m, -24)
               : e == 31 ? (m != 0 ? NAN : INFINITY)
                         : ldexp(1024 + m, e - 25);
    return h >> 15 ? -v : v;
}

/* Write an int (decimal) or a float (8 bytes) to out; returns the tag. */
static unsigned plain_write(const struct array *a, const uint8_t *p, char out[32], size_t *len) {
    uint64_t u = 0;
    memcpy(&u, p, a->item);
    u = le64toh(u);
    if (a->dtype[1] == 'f') {
        uint32_t u32 = (uint32_t)u;
        float f;
        double d;
        memcpy(&f, &u32, sizeof f);
        if (a->item == 8)
            memcpy(&d, &u, sizeof d);
        else
            d = a->item == 4 ? (double)f : half_read((uint16_t)u);
        memcpy(&u, &d, sizeof u);
        u = htole64(u);
        memcpy(out, &u, sizeof u);
        *len = sizeof u;
        return LOAD_TAG_FLOAT;
    }
    int64_t i = a->item == 8         ? (int64_t)u
                : a->dtype[1] == 'i' ? (int64_t)(u << (64 - 8 * a->item)) >> (64 - 8 * a->item)
                                     : (int64_t)u;
    *len = (size_t)snprintf(out, 32, "%" PRId64, i);
    return LOAD_TAG_INT;
}

int array_record(struct sink *s, const struct array *a, uint8_t *bytes) {
    char text[32];
    size_t len;
    int rc;
    swap_all(bytes, a->record_bytes, a);
    /* a u64 that does not fit into an int of 64 bits is stored as an array without dimensions */
    bool huge = a->dtype[1] == 'u' && a->item == 8 && (bytes[7] & 0x80) != 0;
    if (is_plain(a) && !huge) {
        unsigned tag = plain_write(a, bytes, text, &len);
        rc = sink_add(s, text, len);
        return rc == 0 ? sink_end(s, tag) : rc;
    }
    size_t head = head_bytes(a->ndim > 0 ? a->ndim - 1 : 0);
    uint8_t *room = sink_room(s, head + a->record_bytes, &rc);
    if (!room)
        return rc;
    head_write(room, a, 1);
    memcpy(room + head, bytes, a->record_bytes);
    return sink_end(s, LOAD_TAG_ARRAY);
}

/* Convert from Fortran order, in which the first index runs fastest, to C order, in which the last
 * one does. */
static void order_turn(uint8_t *out, const uint8_t *in, const struct array *a) {
    uint64_t index[ARRAY_DIMS] = {0}, stride[ARRAY_DIMS], n = a->bytes / a->item, at = 0;
    stride[0] = a->item;
    for (unsigned i = 1; i < a->ndim; i++)
        stride[i] = stride[i - 1] * a->shape[i - 1];
    for (uint64_t k = 0; k < n; k++) {
        memcpy(out + k * a->item, in + at, a->item);
        for (unsigned d = a->ndim; d-- > 0;) {
            at += stride[d];
            if (++index[d] < a->shape[d])
                break;
            at -= stride[d] * a->shape[d];
            index[d] = 0;
        }
    }
}

int array_whole(struct sink *s, const struct array *a, const uint8_t *bytes) {
    int rc;
    uint8_t *room = sink_room(s, head_bytes(a->ndim) + a->bytes, &rc);
    if (!room)
        return rc;
    head_write(room, a, 0);
    room += head_bytes(a->ndim);
    if (a->fortran && a->ndim > 1 && a->bytes > 0)
        order_turn(room, bytes, a);
    else if (a->bytes > 0)
        memcpy(room, bytes, a->bytes);
    swap_all(room, a->bytes, a);
    return sink_end(s, LOAD_TAG_ARRAY);
}

/* --- the header of .npy: a Python literal such as {'descr': '<f4', 'fortran_order': False,
 * 'shape': (3, 4), } --- */

static const char *value_of(const char *text, const char *name) {
    const char *at = strstr(text, name);
    if (!at)
        return NULL;
    at += strlen(name);
    at += strspn(at, "'\" \t");
    if (*at != ':')
        return NULL;
    return at + 1 + strspn(at + 1, " \t");
}

static int dtype_read(struct array *a, const char *text, char *why, size_t cap) {
    char order, kind, *end;
    if (*text != '\'' && *text != '"') {
        snprintf(why, cap, "records with named fields are not loaded");
        return -EINVAL;
    }
    order = text[1];
    kind = order != 0 ? text[2] : 0;
    unsigned long n =
        kind != 0 && isdigit((unsigned char)text[3]) ? strtoul(text + 3, &end, 10) : 0;
    if (kind == 0 || !strchr("<>|=", order) || !strchr("biufcSUmMV", kind) || n == 0 ||
        n > 1u << 20 || strcspn(end, "'\"") > 4) {
        snprintf(why, cap, "elements of type %.20s are not loaded%s", text,
                 kind == 'O' ? " (Python objects)" : "");
        return -EINVAL;
    }
    a->item = kind == 'U' ? 4 * n : n;
    bool power = (n & (n - 1)) == 0;
    if ((kind == 'b' && n != 1) || (strchr("iu", kind) && (n > 8 || !power)) ||
        (strchr("mM", kind) && n != 8) || (kind == 'f' && (n < 2 || n > 16 || !power)) ||
        (kind == 'c' && (n < 8 || n > 32 || !power))) {
        snprintf(why, cap, "elements of type %.20s are not loaded", text);
        return -EINVAL;
    }
    a->swap = order == '>';
    snprintf(a->dtype, sizeof a->dtype, "%c%.*s",
             kind == 'S' || kind == 'V' || a->item == 1 ? '|' : '<', (int)strcspn(text + 2, "'\""),
             text + 2);
    return 0;
}

static int shape_read(struct array *a, const char *text, char *why, size_t cap) {
    snprintf(why, cap, "its shape cannot be read");
    if (*text++ != '(')
        return -EINVAL;
    for (a->ndim = 0;;) {
        char *end;
        text += strspn(text, " \t");
        if (*text == ')')
            return 0;
        if (!isdigit((unsigned char)*text) || a->ndim == ARRAY_DIMS)
            return -EINVAL;
        errno = 0;
        a->shape[a->ndim++] = strtoull(text, &end, 10);
        if (errno != 0)
            return -EINVAL;
        text = end + (*end == 'L');
        text += strspn(text, " \t");
        if (*text == ',')
            text++;
        else if (*text != ')')
            return -EINVAL;
    }
}

int npy_header(struct array *a, const uint8_t *head, size_t n, char *why, size_t cap) {
    memset(a, 0, sizeof *a);
    if (n < 12)
        return 0;
    unsigned version = head[6];
    size_t len = version == 1 ? 10u + (head[8] | head[9] << 8)
                              : 12u + (head[8] | (size_t)head[9] << 8 | (size_t)head[10] << 16 |
                                       (size_t)head[11] << 24);
    if (memcmp(head, "\x93NUMPY", 6) != 0 || version < 1 || version > 3 || len > NPY_HEADER_MAX) {
        snprintf(why, cap, "this is no .npy file that can be read");
        return -EINVAL;
    }
    if (n < len)
        return 0;
    char *text =
        strndup((const char *)head + (version == 1 ? 10 : 12), len - (version == 1 ? 10 : 12));
    if (!text) {
        snprintf(why, cap, "out of memory");
        return -EINVAL;
    }
    const char *descr = value_of(text, "descr"), *order = value_of(text, "fortran_order"),
               *shape = value_of(text, "shape");
    int rc = 0;
    if (!descr || !order || !shape) {
        snprintf(why, cap, "its header cannot be read");
        rc = -EINVAL;
    } else if ((rc = dtype_read(a, descr, why, cap)) == 0 &&
               (rc = shape_read(a, shape, why, cap)) == 0) {
        a->fortran = strncmp(order, "True", 4) == 0;
        if (!array_measure(a)) {
            snprintf(why, cap, "its dimensions are too large to be true");
            rc = -EINVAL;
        }
    }
    free(text);
    return rc < 0 ? rc : (int)len;
}
