/* SPDX-License-Identifier: Apache-2.0 */
/* typed_array.c - arrays as values: FORMAT, section 4. */
#include "typed.h"
#include <base/error.h>
#include <ddict_values.h>

#include <endian.h>
#include <errno.h>
#include <string.h>

#define ALIGN    64u /* of the elements, from the start of the value */
#define NAME_MAX 12u /* bytes of a type's name */

struct array_head { /* little-endian */
    uint8_t version, torch, dims, zero;
    char type[NAME_MAX];
    uint64_t dim[];
};
_Static_assert(sizeof(struct array_head) == 16, "part of the stored form");
#define HEAD_SIZE(dims) \
    ((sizeof(struct array_head) + 8 * (size_t)(dims) + ALIGN - 1) & ~(ALIGN - 1ul))
_Static_assert(sizeof((struct ddict_value *)0)->head_ == HEAD_SIZE(DDICT_DIMS_MAX),
               "any head fits");

/* --- element types --- */

/* The unit of a time, such as the "[25s]" of "<M8[25s]". */
static bool unit_is(const char *p, size_t len) {
    if (len < 3 || p[0] != '[' || p[len - 1] != ']')
        return false;
    for (size_t i = 1; i + 1 < len; i++)
        if (!(p[i] >= '0' && p[i] <= '9') && !(p[i] >= 'a' && p[i] <= 'z') && !strchr("YMWD", p[i]))
            return false;
    return true;
}

/* name may end without a 0. -1: no such type. */
static ssize_t type_size(const char *name, size_t len) {
    size_t at = 2, size = 0;
    if (len == 4 && memcmp(name, "<bf2", 4) == 0)
        return 2;
    if (len < 3 || len > NAME_MAX || !strchr("<>|", name[0]) || !strchr("biufcmMSUV", name[1]))
        return -1;
    for (; at < len && name[at] >= '0' && name[at] <= '9'; at++)
        size = 10 * size + (size_t)(name[at] - '0');
    if (at == 2)
        return -1;
    if (at < len && !((name[1] == 'm' || name[1] == 'M') && unit_is(name + at, len - at)))
        return -1;
    return (ssize_t)(name[1] == 'U' ? 4 * size : size);
}

ssize_t ddict_type_size(const char *type) {
    ssize_t size = type_size(type, strnlen(type, NAME_MAX + 1));
    return size < 0 ? dd_error(-EINVAL, "%.20s is no type of an element", type) : size;
}

/* Bytes that an element of the type wants to be aligned to. */
static size_t type_align(const char *type, size_t item) {
    size_t align = type[1] == 'c' ? item / 2 : type[1] == 'U' ? 4 : item;
    if (type[1] == 'S' || type[1] == 'V' || align == 0 || (align & (align - 1)) != 0)
        return 1;
    return align < 16 ? align : 16;
}

/* False: too many for this machine. *count: 0 where a dimension is. */
static bool shape_count(const size_t *shape, unsigned dims, size_t item, size_t *count) {
    size_t room = item > 0 ? item : 1;
    *count = 1;
    for (unsigned i = 0; i < dims; i++) {
        if (shape[i] > 0 && __builtin_mul_overflow(room, shape[i], &room))
            return false;
        *count *= shape[i];
    }
    return room <= SIZE_MAX / 2;
}

/* --- put --- */

int ddict_value_array(struct ddict_value *v, const char *type, unsigned dims, const size_t *shape,
                      const void *data) {
    struct array_head *h = (struct array_head *)(void *)v->head_;
    ssize_t item = ddict_type_size(type);
    size_t count;
    if (item < 0)
        return (int)item;
    if (dims > DDICT_DIMS_MAX)
        return dd_error(-EINVAL, "an array of %u dimensions: at most %d", dims, DDICT_DIMS_MAX);
    if (!shape_count(shape, dims, (size_t)item, &count))
        return dd_error(DDICT_EVALSIZE, "an array of more bytes than a machine has");
    memset(v->head_, 0, HEAD_SIZE(dims));
    *h = (struct array_head){.version = 1, .dims = (uint8_t)dims};
    memcpy(h->type, type, strlen(type));
    for (unsigned i = 0; i < dims; i++)
        h->dim[i] = htole64(shape[i]);
    v->iov[0] = (struct iovec){.iov_base = h, .iov_len = HEAD_SIZE(dims)};
    v->iov[1] =
        (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = count * (size_t)item};
    v->n = 2;
    v->flags = DDICT_TAG(DDICT_VALUE_ARRAY);
    return 0;
}

int ddict_put_array(ddict_t *d, const void *key, size_t klen, const char *type, unsigned dims,
                    const size_t *shape, const void *data, unsigned flags, int timeout_ms) {
    struct ddict_value v;
    int rc = ddict_value_array(&v, type, dims, shape, data);
    if (rc == 0 && DDICT_TAG_OF(flags) != 0)
        rc = dd_error(-EINVAL, "an array has a tag of its own, not %u", DDICT_TAG_OF(flags));
    return rc < 0 ? rc : ddict_putv(d, key, klen, v.iov, v.n, flags | v.flags, timeout_ms);
}

/* --- get --- */

static int broken(const char *what) {
    return dd_error(-EBADMSG, "the stored value is no array: %s", what);
}

/* All of the head; the elements must be as many bytes as it says. */
static int head_read(struct ddict_array *a, const struct ddict_view *v) {
    struct array_head h;
    const char *p = v->data;
    ssize_t item;
    size_t len, head;
    if (v->len < sizeof h)
        return broken("it is shorter than a head");
    memcpy(&h, p, sizeof h);
    len = strnlen(h.type, sizeof h.type);
    for (size_t i = len; i < sizeof h.type; i++)
        if (h.type[i] != 0)
            return broken("its type has a 0 within");
    item = type_size(h.type, len);
    head = HEAD_SIZE(h.dims);
    if (h.version != 1 || h.torch > 1 || h.dims > DDICT_DIMS_MAX || h.zero != 0 || item < 0 ||
        head > v->len)
        return broken("its head is damaged");
    memset(a, 0, sizeof *a);
    a->dims = h.dims;
    a->torch = h.torch;
    a->item = (size_t)item;
    memcpy(a->type, h.type, len);
    for (unsigned i = 0; i < a->dims; i++) {
        uint64_t n;
        memcpy(&n, p + sizeof h + 8 * i, sizeof n);
        if ((n = le64toh(n)) > SIZE_MAX)
            return broken("a dimension is too long");
        a->shape[i] = (size_t)n;
    }
    if (!shape_count(a->shape, a->dims, a->item, &a->count))
        return broken("it has too many elements");
    a->bytes = a->count * a->item;
    if (a->bytes != v->len - head)
        return broken("its length is not that of its shape");
    a->data = p + head;
    return 0;
}

int ddict_read_array(const struct ddict_view *v, const char *type, struct ddict_array *a) {
    if (v->tag != DDICT_VALUE_ARRAY)
        return dd_error(-EBADMSG,
                        "the value has tag %u, so it is no array (a torch tensor under 256 "
                        "bytes and a numpy array in Fortran's order or of objects are pickles)",
                        v->tag);
    int rc = head_read(a, v);
    if (rc < 0)
        return rc;
    if (type && strcmp(a->type, type) != 0)
        return dd_error(-EBADMSG, "the array's elements are %s, not %.20s", a->type, type);
    if ((uintptr_t)a->data % type_align(a->type, a->item) != 0)
        return dd_error(-EBADMSG, "the array's elements are not aligned in memory");
    return 0;
}

int ddict_view_array(ddict_t *d, const void *key, size_t klen, const char *type,
                     struct ddict_array *a, struct ddict_view *v, unsigned flags, int timeout_ms) {
    int rc = ddict_view(d, key, klen, v, flags, timeout_ms);
    if (rc == 0 && (rc = ddict_read_array(v, type, a)) < 0)
        ddict_release(v);
    return rc;
}
