/* SPDX-License-Identifier: Apache-2.0 */
/* typed_value.c - text and numbers as values: FORMAT, section 2. */
#include "typed.h"
#include <base/error.h>
#include <ddict_values.h>

#include <endian.h>
#include <errno.h>
#include <string.h>

static void value_set(struct ddict_value *v, unsigned kind, const void *data, size_t len) {
    v->iov[0] = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    v->n = 1;
    v->flags = DDICT_TAG(kind);
}

void ddict_value_int(struct ddict_value *v, int64_t number) {
    value_set(v, DDICT_VALUE_INT, v->head_, decimal_write_int((char *)v->head_, number));
}

void ddict_value_float(struct ddict_value *v, double number) {
    uint64_t u;
    memcpy(&u, &number, sizeof u);
    u = htole64(u);
    memcpy(v->head_, &u, sizeof u);
    value_set(v, DDICT_VALUE_FLOAT, v->head_, sizeof u);
}

void ddict_value_bool(struct ddict_value *v, int truth) {
    v->head_[0] = truth != 0;
    value_set(v, DDICT_VALUE_BOOL, v->head_, 1);
}

void ddict_value_str(struct ddict_value *v, const char *text, size_t len) {
    value_set(v, DDICT_VALUE_STR, text, len);
}

void ddict_value_bytes(struct ddict_value *v, const void *data, size_t len) {
    value_set(v, DDICT_VALUE_BYTES, data, len);
}

/* --- what a view shows --- */

static const char *value_kind_name(unsigned tag) {
    static const char *const names[] = {
        "bytes",
        "a bytearray",
        "a pickle of Python",
        "a pickle of Python",
        "a str",
        "an int",
        "a float",
        "an array",
        "a bool",
    };
    return tag < sizeof names / sizeof *names ? names[tag] : "of a kind of a program's own";
}

static int value_differs(const struct ddict_view *v, const char *wanted) {
    return dd_error(-EBADMSG, "the value is %s (tag %u), not %s", value_kind_name(v->tag), v->tag,
                    wanted);
}

int ddict_read_int(const struct ddict_view *v, int64_t *number) {
    if (v->tag == DDICT_VALUE_BOOL) {
        const unsigned char *p = v->data;
        if (v->len != 1 || *p > 1)
            return dd_error(-EBADMSG, "the value has the tag of a bool and is neither 0 nor 1");
        *number = *p;
        return 0;
    }
    if (v->tag != DDICT_VALUE_INT)
        return value_differs(v, "an int");
    if (!decimal_is(v->data, v->len) || !decimal_read_int(v->data, v->len, number))
        return dd_error(-EBADMSG, "the value has the tag of an int and is no number of 64 bits");
    return 0;
}

int ddict_read_float(const struct ddict_view *v, double *number) {
    uint64_t u;
    int64_t n;
    if (v->tag == DDICT_VALUE_INT || v->tag == DDICT_VALUE_BOOL) {
        int rc = ddict_read_int(v, &n);
        if (rc == 0)
            *number = (double)n;
        return rc;
    }
    if (v->tag != DDICT_VALUE_FLOAT)
        return value_differs(v, "a float");
    if (v->len != sizeof u)
        return dd_error(-EBADMSG, "the value has the tag of a float and %zu bytes", v->len);
    memcpy(&u, v->data, sizeof u);
    u = le64toh(u);
    memcpy(number, &u, sizeof u);
    return 0;
}

int ddict_read_bool(const struct ddict_view *v, int *truth) {
    int64_t n;
    if (v->tag != DDICT_VALUE_BOOL && v->tag != DDICT_VALUE_INT)
        return value_differs(v, "a bool");
    int rc = ddict_read_int(v, &n);
    if (rc == 0 && n != 0 && n != 1)
        return value_differs(v, "a bool");
    if (rc == 0)
        *truth = (int)n;
    return rc;
}

int ddict_read_str(const struct ddict_view *v, const char **text, size_t *len) {
    if (v->tag != DDICT_VALUE_STR)
        return value_differs(v, "a str");
    *text = v->data;
    *len = v->len;
    return 0;
}

int ddict_read_bytes(const struct ddict_view *v, const void **data, size_t *len) {
    if (v->tag != DDICT_VALUE_BYTES && v->tag != DDICT_VALUE_BYTEARRAY)
        return value_differs(v, "bytes");
    *data = v->data;
    *len = v->len;
    return 0;
}
