/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_idx.c - IDX, the format of MNIST's files: two zeros, the type of an element, the number of
 * dimensions, the dimensions (big endian), the elements. If one source has one dimension and
 * another one has more, the former holds the labels of the latter.
 */
#include "array.h"
#include "input.h"
#include "sources.h"
#include <base/error.h>

#include <errno.h>
#include <load/load.h>
#include <load/plan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct type {
    uint8_t code;
    const char *dtype;
    size_t item;
} types[] = {
    {0x08, "|u1", 1}, {0x09, "|i1", 1}, {0x0b, "<i2", 2},
    {0x0c, "<i4", 4}, {0x0d, "<f4", 4}, {0x0e, "<f8", 8},
};

static const struct type *type_of(uint8_t code) {
    for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].code == code)
            return &types[i];
    return NULL;
}

static bool is_idx(const char *text, bool folder, const unsigned char *head, size_t n) {
    return n >= 8 && head[0] == 0 && head[1] == 0 && type_of(head[2]) && head[3] >= 1 &&
           head[3] <= ARRAY_DIMS;
}

/* Read the header; its size in bytes, or negative. */
static int header_read(struct input *in, struct array *a) {
    uint8_t h[4 + 4 * ARRAY_DIMS];
    const struct type *t;
    memset(a, 0, sizeof *a);
    int rc = input_read_all(in, h, 4);
    if (rc < 0)
        return rc;
    t = type_of(h[2]);
    if (h[0] != 0 || h[1] != 0 || !t || h[3] < 1 || h[3] > ARRAY_DIMS)
        return dd_error(-EBADMSG, "%s: this is no IDX file (it begins with %02x %02x %02x %02x)",
                        in->path, h[0], h[1], h[2], h[3]);
    a->ndim = h[3];
    a->item = t->item;
    a->swap = true;
    strcpy(a->dtype, t->dtype);
    rc = input_read_all(in, h + 4, 4u * a->ndim);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < a->ndim; i++)
        a->shape[i] = (uint64_t)h[4 + 4 * i] << 24 | (uint64_t)h[5 + 4 * i] << 16 |
                      (uint64_t)h[6 + 4 * i] << 8 | h[7 + 4 * i];
    if (!array_measure(a))
        return dd_error(-EBADMSG, "%s: its dimensions are too large to be true", in->path);
    uint64_t want = 4 + 4u * a->ndim + a->bytes;
    if (!in->compressed && in->size != want)
        return dd_error(-EBADMSG, "%s: %llu bytes, and its header says %llu%s", in->path,
                        (unsigned long long)in->size, (unsigned long long)want,
                        in->size < want ? ": was it cut?" : "");
    return 4 + (int)(4u * a->ndim);
}

/* --- plan --- */

static int labels_read(struct load_plan *p, struct input *in, const struct array *a) {
    if (a->records > (1u << 30))
        return dd_error(-EBADMSG, "%s: its header says %llu labels", in->path,
                        (unsigned long long)a->records);
    uint8_t *bytes = malloc(a->bytes + 1);
    int64_t *labels = malloc((a->records + 1) * sizeof *labels);
    int rc = !bytes || !labels ? dd_error(-ENOMEM, "out of memory")
                               : input_read_all(in, bytes, a->bytes);
    if (rc == 0 && a->dtype[1] == 'f')
        rc = dd_error(-EINVAL, "%s: labels have to be whole numbers", in->path);
    for (uint64_t i = 0; rc == 0 && i < a->records; i++) {
        int64_t v = a->dtype[1] == 'i' ? (int8_t)bytes[i * a->item] : bytes[i * a->item];
        for (size_t k = 1; k < a->item; k++)
            v = v * 256 + bytes[i * a->item + k];
        labels[i] = v;
    }
    free(bytes);
    if (rc == 0)
        return load_plan_labels(p, labels, a->records);
    free(labels);
    return rc;
}

/* Whether another source has several dimensions. */
static bool has_images(const char *text) {
    bool found = false;
    for (unsigned i = 0; i < the_load.o->nsources && !found; i++) {
        struct input in;
        struct array a;
        if (strcmp(the_load.origins[i].text, text) == 0)
            continue;
        found = input_open(&in, the_load.origins[i].text, 0, UINT64_MAX) == 0 &&
                header_read(&in, &a) > 0 && a.ndim > 1;
        input_close(&in);
    }
    return found;
}

static int idx_plan(struct load_plan *p, const char *text) {
    struct input in;
    struct array a;
    int rc = input_open(&in, text, 0, UINT64_MAX);
    if (rc == 0)
        rc = header_read(&in, &a);
    if (rc > 0 && a.ndim == 1 && the_load.o->nsources > 1 && has_images(text)) {
        rc = labels_read(p, &in, &a);
    } else if (rc > 0) {
        rc = array_units(p, &in, &a);
    }
    input_close(&in);
    return rc;
}

static int idx_read(struct sink *s, const char *text, const void *work, size_t len) {
    return array_unit_read(s, text, work, len, header_read);
}

const struct source_kind source_idx = {
    .name = "idx", .numbered = true, .match = is_idx, .plan = idx_plan, .read = idx_read};
