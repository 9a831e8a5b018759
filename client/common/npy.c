/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c - arrays of the Python binding as numpy files. */
#include "npy.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEAD     16u /* bytes before the dimensions */
#define DIMS_MAX 32u
#define ALIGN    64u /* alignment of the elements, in a value and in a file */
#define MAGIC    "\x93NUMPY\1\0"

struct array {
    unsigned dims;
    char type[13];
    const uint8_t *dim; /* one u64 each */
    size_t head;        /* bytes before the elements */
};

static uint64_t dim_at(const struct array *a, unsigned i) {
    uint64_t n;
    memcpy(&n, a->dim + 8 * i, 8);
    return le64toh(n);
}

static int array_read(struct array *a, const void *value, size_t len) {
    const uint8_t *p = value;
    if (len < HEAD || p[0] != 1 || p[1] > 1 || p[2] > DIMS_MAX || p[3] != 0)
        return -EINVAL;
    *a = (struct array){
        .dims = p[2], .dim = p + HEAD, .head = (HEAD + 8u * p[2] + ALIGN - 1) / ALIGN * ALIGN};
    memcpy(a->type, p + 4, 12);
    size_t n = strlen(a->type);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)a->type[i]) && !strchr("<>|[]", a->type[i]))
            return -EINVAL;
    return n < 3 || a->head > len ? -EINVAL : 0;
}

/* Add the shape as Python writes a tuple. */
static int shape_add(struct bytes *out, const struct array *a) {
    char text[24];
    int rc = bytes_add(out, "(", 1);
    for (unsigned i = 0; rc == 0 && i < a->dims; i++) {
        int n = snprintf(text, sizeof text, "%s%" PRIu64 "%s", i > 0 ? " " : "", dim_at(a, i),
                         i + 1 < a->dims || a->dims == 1 ? "," : "");
        rc = bytes_add(out, text, (size_t)n);
    }
    return rc < 0 ? rc : bytes_add(out, ")", 1);
}

int npy_head(struct bytes *out, const void *value, size_t len, size_t *elements) {
    struct array a;
    char text[64];
    int rc = array_read(&a, value, len);
    if (rc < 0)
        return rc;
    out->len = 0;
    int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': ",
                     strcmp(a.type, "<bf2") == 0 ? "|V2" : a.type);
    if ((rc = bytes_add(out, MAGIC "\0\0", 10)) < 0 || (rc = bytes_add(out, text, (size_t)n)) < 0 ||
        (rc = shape_add(out, &a)) < 0 || (rc = bytes_add(out, ", }", 3)) < 0)
        return rc;
    while (rc == 0 && (out->len + 1) % ALIGN != 0)
        rc = bytes_add(out, " ", 1);
    if (rc < 0 || (rc = bytes_add(out, "\n", 1)) < 0)
        return rc;
    out->data[8] = (uint8_t)(out->len - 10);
    out->data[9] = (uint8_t)((out->len - 10) >> 8);
    *elements = len - a.head;
    return 0;
}

int npy_show(struct bytes *out, const void *value, size_t len) {
    struct array a;
    int rc = array_read(&a, value, len);
    if (rc < 0)
        return rc;
    out->len = 0;
    if ((rc = bytes_add(out, "array ", 6)) < 0 ||
        (rc = bytes_add(out, a.type, strlen(a.type))) < 0 || (rc = bytes_add(out, " ", 1)) < 0 ||
        (rc = shape_add(out, &a)) < 0)
        return rc;
    return bytes_add(out, "", 1);
}
