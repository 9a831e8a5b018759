/* SPDX-License-Identifier: Apache-2.0 */
/* freeze.c - make the dictionary read-only, and prefetch values meanwhile. */
#include "pyddict.h"

#include <string.h>

static PyObject *call(PyObject *self, int (*fn)(ddict_t *, int)) {
    struct handle *h = (struct handle *)self;
    int rc;

    if (handle_begin(h) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = fn(h->d, h->timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    if (rc < 0)
        return error_raise(rc, NULL);
    Py_RETURN_NONE;
}

PyObject *freeze_freeze(PyObject *self, PyObject *unused) {
    return call(self, ddict_freeze);
}
PyObject *freeze_unfreeze(PyObject *self, PyObject *unused) {
    return call(self, ddict_unfreeze);
}

PyObject *freeze_is(PyObject *self, void *unused) {
    struct handle *h = (struct handle *)self;
    int rc = handle_check(h);

    if (rc < 0)
        return NULL;
    rc = ddict_is_frozen(h->d);
    return rc < 0 ? error_raise(rc, NULL) : PyBool_FromLong(rc);
}

struct ahead { /* encoded keys, one after another */
    struct iovec *key;
    char *buf;
    size_t len, cap;
};

static int ahead_add(struct ahead *a, PyObject *obj, Py_ssize_t i) {
    struct key k;
    int rc = 0;

    if (key_encode(&k, obj) < 0)
        return -1;
    if (a->len + k.len > a->cap) {
        size_t cap = 2 * (a->len + k.len) + 1024;
        char *p = PyMem_Realloc(a->buf, cap);
        if (p) {
            a->buf = p;
            a->cap = cap;
        } else {
            PyErr_NoMemory();
            rc = -1;
        }
    }
    if (rc == 0) {
        if (k.len > 0)
            memcpy(a->buf + a->len, k.data, k.len);
        a->len += k.len;
        a->key[i].iov_len = k.len;
    }
    key_clear(&k);
    return rc;
}

PyObject *freeze_prefetch(PyObject *self, PyObject *keys) {
    struct handle *h = (struct handle *)self;
    struct ahead a = {NULL, NULL, 0, 0};
    /* a copy, because encoding may run code that changes the list */
    PyObject *seq = PySequence_List(keys), *result = NULL;
    Py_ssize_t n = seq ? PyList_GET_SIZE(seq) : -1;
    ssize_t rc;

    a.key = n >= 0 ? PyMem_Calloc((size_t)n + 1, sizeof *a.key) : NULL;
    if (n >= 0 && !a.key)
        PyErr_NoMemory();
    if (!a.key)
        goto out;
    for (Py_ssize_t i = 0; i < n; i++)
        if (ahead_add(&a, PyList_GET_ITEM(seq, i), i) < 0)
            goto out;
    for (size_t i = 0, at = 0; i < (size_t)n; at += a.key[i++].iov_len)
        a.key[i].iov_base = a.buf + at;
    if (handle_begin(h) < 0)
        goto out;
    Py_BEGIN_ALLOW_THREADS rc = ddict_prefetch(h->d, a.key, (size_t)n, h->timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    result = rc < 0 ? error_raise((int)rc, NULL) : PyLong_FromSsize_t(rc);
out:
    PyMem_Free(a.key);
    PyMem_Free(a.buf);
    Py_XDECREF(seq);
    return result;
}
