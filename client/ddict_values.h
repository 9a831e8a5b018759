/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddict_values.h - keys and values that programs of every language read alike.
 *
 * To ddict.h a key and a value are bytes. This header gives them the form that Python uses
 * (doc/FORMAT.md), so that d["w"], d[7] and d[(1, "x")] of Python, C, C++ and Fortran are the same
 * keys, and an array that one language stores is an array in the others.
 *
 *     char key[DDICT_KEY_ROOM(1)];
 *     ssize_t n = ddict_key_str(key, sizeof key, "w", 1);              d["w"]
 *
 *     size_t shape[2] = {rows, columns};
 *     ddict_put_array(d, key, (size_t)n, DDICT_FLOAT64, 2, shape, w, 0, -1);
 *
 *     struct ddict_view v;
 *     struct ddict_array a;
 *     ddict_view_array(d, key, (size_t)n, DDICT_FLOAT64, &a, &v, DDICT_WAIT, 5000);
 *     const double *w = a.data;                                        in place, read only
 *     ddict_release(&v);                                               a.data is gone with it
 *
 * Elements of arrays are never copied within the process: put hands them to the manager from where
 * they are, and view shows them where they lie in the dictionary.
 *
 * Returns, timeouts and ddict_errmsg() are as in ddict.h. Functions without a ddict_t ask nobody and
 * never wait. Any number of threads may use them at once.
 */
#ifndef DDICT_VALUES_H
#define DDICT_VALUES_H

#include <ddict.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * --- keys ---
 *
 * A key of Python is a str, bytes, an int or a tuple of these. Each function writes one, as d[...]
 * has it, to buf, which has room for cap bytes, and returns its length. Errors: DDICT_ESMALL (cap
 * is too small), DDICT_EKEYSIZE (a key is at most DDICT_KEY_MAX bytes); buf then holds nothing of
 * use. A negative result that is passed on as a length, cast to size_t, is refused as a key, too.
 */
#define DDICT_KEY_ROOM(len) ((len) + 1) /* bytes of the key of a str or bytes */
#define DDICT_KEY_INT_ROOM  21          /* bytes of the key of any 64-bit number, at most */

/* d["..."] of len bytes of UTF-8. Bytes that are no UTF-8 are those of os.fsdecode(). */
DDICT_API ssize_t ddict_key_str(void *buf, size_t cap, const char *text, size_t len);
/* d[b"..."] */
DDICT_API ssize_t ddict_key_bytes(void *buf, size_t cap, const void *data, size_t len);
/* d[7], d[-7] */
DDICT_API ssize_t ddict_key_int(void *buf, size_t cap, int64_t number);
/* The same of a number that may be above INT64_MAX. */
DDICT_API ssize_t ddict_key_uint(void *buf, size_t cap, uint64_t number);

/* What a key, or a part of a tuple, is. */
enum {
    DDICT_KEY_STR = 's',
    DDICT_KEY_BYTES = 'b',
    DDICT_KEY_INT = 'i',
    DDICT_KEY_TUPLE = 't',
    DDICT_KEY_BIG = 'I' /* an int of more than 64 bits */
};
/* One of these; data is the caller's, or lies in the key that was parsed. */
struct ddict_key_part {
    int kind;         /* DDICT_KEY_* */
    const void *data; /* STR, BYTES: the text. BIG: decimal digits, '-' before them if it is
                       * negative. TUPLE: the parts, as a key has them behind its first byte */
    size_t len;       /* of data, in bytes */
    int64_t number;   /* INT */
};
/*
 * d[(1, "x")]: a tuple of n parts, which may be 0.
 *
 *     struct ddict_key_part p[2] = {{.kind = DDICT_KEY_INT, .number = 1},
 *                                   {.kind = DDICT_KEY_STR, .data = "x", .len = 1}};
 *     n = ddict_key_tuple(key, sizeof key, p, 2);
 *
 * A tuple within a tuple is written first: its key from the second byte on is the data of the part.
 * -EINVAL: a part is of no kind, a BIG is not written as Python writes it, or a TUPLE is malformed.
 */
DDICT_API ssize_t ddict_key_tuple(void *buf, size_t cap, const struct ddict_key_part *parts,
                                  size_t n);
/* What the klen bytes of a key stand for, such as one of ddict_iter_next(); *part points into it.
 * -EBADMSG: no key of Python has this form (d has it as ddict.RawKey). */
DDICT_API int ddict_key_parse(const void *key, size_t klen, struct ddict_key_part *part);
/* The parts of a tuple, which ddict_key_parse() or this function gave: their number, of which the
 * first most are written to parts. Errors: -EBADMSG, -EINVAL (tuple is none). */
DDICT_API ssize_t ddict_key_parts(const struct ddict_key_part *tuple, struct ddict_key_part *parts,
                                  size_t most);

/*
 * --- values ---
 *
 * The tag of a value says what it is. Values of other kinds, of C or of pickle, are bytes here.
 */
enum {
    DDICT_VALUE_BYTES,     /* bytes */
    DDICT_VALUE_BYTEARRAY, /* a bytearray: bytes, too */
    DDICT_VALUE_PICKLE,    /* any other object of Python: only Python reads it */
    DDICT_VALUE_BUFFERS,   /* the same, with arrays in it */
    DDICT_VALUE_STR,       /* str, in UTF-8 */
    DDICT_VALUE_INT,       /* int of 64 bits */
    DDICT_VALUE_FLOAT,     /* float: a double */
    DDICT_VALUE_ARRAY,     /* an array of numpy or torch */
    DDICT_VALUE_BOOL       /* bool */
};

/*
 * A value to be stored. ddict_value_*() fills it, without a copy of text or elements, which stay the
 * caller's and must be there until it is stored. Then
 *
 *     ddict_putv(d, key, klen, v.iov, v.n, v.flags, timeout_ms);
 *
 * or ddict_pushv(), or DDICT_OP_PUTV of ddict_async_submit(); with more flags: v.flags | DDICT_NEW.
 * Where n is 1, v.iov[0] is also a value of ddict_put_many(). It must not be copied: iov points into it.
 */
struct ddict_value {
    struct iovec iov[2];
    int n;                    /* of iov */
    unsigned flags;           /* DDICT_TAG of its kind */
    unsigned char head_[320]; /* the library's */
};
DDICT_API void ddict_value_int(struct ddict_value *v, int64_t number);
DDICT_API void ddict_value_float(struct ddict_value *v, double number);
DDICT_API void ddict_value_bool(struct ddict_value *v, int truth); /* not 0: True */
/* text: len bytes of UTF-8. What is no UTF-8 is stored, and Python refuses to read it. */
DDICT_API void ddict_value_str(struct ddict_value *v, const char *text, size_t len);
DDICT_API void ddict_value_bytes(struct ddict_value *v, const void *data, size_t len);

/* Element types, by numpy's names: byte order, kind, bytes. */
#define DDICT_BOOL       "|b1"
#define DDICT_INT8       "|i1"
#define DDICT_INT16      "<i2"
#define DDICT_INT32      "<i4"
#define DDICT_INT64      "<i8"
#define DDICT_UINT8      "|u1"
#define DDICT_UINT16     "<u2"
#define DDICT_UINT32     "<u4"
#define DDICT_UINT64     "<u8"
#define DDICT_FLOAT16    "<f2"
#define DDICT_BFLOAT16   "<bf2" /* torch.bfloat16 */
#define DDICT_FLOAT32    "<f4"
#define DDICT_FLOAT64    "<f8"
#define DDICT_COMPLEX64  "<c8" /* two floats */
#define DDICT_COMPLEX128 "<c16"
#define DDICT_DIMS_MAX   32

/* Bytes of an element of this type, one of the names above or another of doc/FORMAT.md, section 4
 * ("<M8[ns]", "|S12"); 0 is possible. -EINVAL: no such type. */
DDICT_API ssize_t ddict_type_size(const char *type);
/*
 * An array of `dims` dimensions: shape[0] x shape[1] x ... elements at data in C order, the last
 * index fastest. Python reads it as numpy.ndarray of that shape. dims 0: one element. Errors:
 * -EINVAL (type, dims), DDICT_EVALSIZE (too many elements).
 */
DDICT_API int ddict_value_array(struct ddict_value *v, const char *type, unsigned dims,
                                const size_t *shape, const void *data);
/* The same, stored. flags as in ddict_put(), without a tag; errors as there. */
DDICT_API int ddict_put_array(ddict_t *d, const void *key, size_t klen, const char *type,
                              unsigned dims, const size_t *shape, const void *data, unsigned flags,
                              int timeout_ms);

/*
 * --- what a view shows ---
 *
 * Each call reads a view that is held, of ddict_view(), ddict_pop(), ddict_get_many() or an
 * asynchronous operation. It trusts none of the bytes. -EBADMSG: the value is of another kind, or
 * is not what its tag says; ddict_errmsg() tells which. Of a value that was copied (ddict_get(), an
 * event) a struct ddict_view with data, len and tag is enough.
 */
/* An int, or a bool: 0 or 1. */
DDICT_API int ddict_read_int(const struct ddict_view *v, int64_t *number);
/* A float, or what ddict_read_int() reads, of which digits beyond a double's are lost. */
DDICT_API int ddict_read_float(const struct ddict_view *v, double *number);
/* *truth: 0 or 1, of a bool or of an int that is one of these. */
DDICT_API int ddict_read_bool(const struct ddict_view *v, int *truth);
/* *text: *len bytes in the view, without a 0 behind them. That it is UTF-8 is not looked at. */
DDICT_API int ddict_read_str(const struct ddict_view *v, const char **text, size_t *len);
/* The same of bytes and bytearray. */
DDICT_API int ddict_read_bytes(const struct ddict_view *v, const void **data, size_t *len);

struct ddict_array {
    const void *data;             /* the elements in C order; in the view, and gone with it */
    size_t bytes, count;          /* of all of them; their number */
    size_t item;                  /* bytes of one */
    size_t shape[DDICT_DIMS_MAX]; /* 0 behind the last dimension */
    unsigned dims;
    char type[16]; /* its name, such as DDICT_FLOAT32 */
    int torch;     /* 1: Python reads it as torch.Tensor, 0: as numpy.ndarray */
};
/* type: what the elements must be, or NULL for any. The length is that of the shape, and data is
 * aligned for the elements (up to 16 bytes); other values are -EBADMSG. */
DDICT_API int ddict_read_array(const struct ddict_view *v, const char *type, struct ddict_array *a);
/* ddict_view() and ddict_read_array(). *v is to be released where it returns 0, and only there. */
DDICT_API int ddict_view_array(ddict_t *d, const void *key, size_t klen, const char *type,
                               struct ddict_array *a, struct ddict_view *v, unsigned flags,
                               int timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
