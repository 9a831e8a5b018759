/* SPDX-License-Identifier: Apache-2.0 */
/* atomic.c - changes that depend on what their key has, and the wait for another version. */
#include "pyddict.h"

#include <errno.h>
#include <string.h>

#define SLICE_MS 500 /* interval between checks for Ctrl-C; each slice is a request */

PyObject *atomic_add(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw) {
    static const char *const names[] = {"key", "delta"};
    struct handle *h = (struct handle *)self;
    PyObject *a[2] = {NULL, NULL};
    struct key k;
    int64_t sum = 0;
    long long delta;
    int rc;

    if (args_parse("add", args, n, kw, names, a, 2, 2) < 0)
        return NULL;
    delta = a[1] ? PyLong_AsLongLong(a[1]) : 1;
    if ((delta == -1 && PyErr_Occurred()) || key_encode(&k, a[0]) < 0)
        return NULL;
    if (handle_begin(h) < 0) {
        key_clear(&k);
        return NULL;
    }
    rc = refill_wait(h, &k) < 0 ? 1 : 0;
    if (rc == 0) {
        Py_BEGIN_ALLOW_THREADS rc = ddict_add(h->d, k.data, k.len, delta, &sum, h->timeout_ms);
        Py_END_ALLOW_THREADS
    }
    handle_end(h);
    key_clear(&k);
    if (rc == -ERANGE)
        PyErr_SetString(PyExc_OverflowError, ddict_errmsg());
    else if (rc < 0)
        error_raise(rc, a[0]);
    return rc ? NULL : PyLong_FromLongLong(sum);
}

PyObject *atomic_version(PyObject *self, PyObject *key) {
    struct handle *h = (struct handle *)self;
    struct key k;
    uint64_t version = 0;
    int rc;

    if (key_encode(&k, key) < 0)
        return NULL;
    if (handle_begin(h) < 0) {
        key_clear(&k);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS rc = ddict_key_version(h->d, k.data, k.len, &version, h->timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    key_clear(&k);
    return rc < 0 ? error_raise(rc, key) : PyLong_FromUnsignedLongLong(version);
}

static int version_parse(PyObject *obj, uint64_t *version) {
    *version = PyLong_AsUnsignedLongLong(obj);
    return *version == (uint64_t)-1 && PyErr_Occurred() ? -1 : 0;
}

/* key, version, and the value, or none to remove it -> False: it had another version; or the new one,
 * or True */
PyObject *atomic_put_if(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct handle *h = (struct handle *)self;
    bool removes = n == 2;
    uint64_t version, now = 0;
    struct value v;
    struct key k;
    int rc = 1;

    if (args_count("_put_if", n, 2, 3) < 0 || version_parse(args[1], &version) < 0 ||
        key_encode(&k, args[0]) < 0)
        return NULL;
    if (removes || value_encode(&v, args[2]) == 0) {
        if ((removes || value_join(&v) == 0) && handle_begin(h) == 0) {
            if (refill_wait(h, &k) == 0) {
                Py_BEGIN_ALLOW_THREADS rc =
                    removes ? ddict_del_if(h->d, k.data, k.len, version, h->timeout_ms)
                            : ddict_put_if(h->d, k.data, k.len, v.iov[0].iov_base, v.iov[0].iov_len,
                                           DDICT_TAG(v.tag), version, &now, h->timeout_ms);
                Py_END_ALLOW_THREADS
            }
            handle_end(h);
        }
        if (!removes)
            value_clear(&v);
    }
    key_clear(&k);
    if (rc == 0 && !removes)
        return PyLong_FromUnsignedLongLong(now);
    if (rc == 0 || rc == DDICT_ECHANGED)
        return PyBool_FromLong(rc == 0);
    return rc < 0 ? error_raise(rc, args[0]) : NULL;
}

PyObject *atomic_append(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct handle *h = (struct handle *)self;
    struct value v;
    struct key k;
    size_t total = 0;
    int rc = 1;

    if (args_count("append", n, 2, 2) < 0 || key_encode(&k, args[0]) < 0)
        return NULL;
    if (value_encode(&v, args[1]) == 0) {
        if (v.tag != TAG_BYTES && v.tag != TAG_BYTEARRAY && v.tag != TAG_STR) {
            PyErr_Format(PyExc_TypeError, "append() takes bytes or str, not %s",
                         Py_TYPE(args[1])->tp_name);
        } else if (value_join(&v) == 0 && handle_begin(h) == 0) {
            if (refill_wait(h, &k) == 0) {
                Py_BEGIN_ALLOW_THREADS rc =
                    ddict_append(h->d, k.data, k.len, v.iov[0].iov_base, v.iov[0].iov_len,
                                 DDICT_TAG(v.tag), &total, h->timeout_ms);
                Py_END_ALLOW_THREADS
            }
            handle_end(h);
        }
        value_clear(&v);
    }
    key_clear(&k);
    if (rc == -EINVAL)
        PyErr_SetString(PyExc_TypeError, ddict_errmsg());
    else if (rc < 0)
        error_raise(rc, args[0]);
    return rc ? NULL : PyLong_FromSize_t(total);
}

/* Whether the view has what would be stored for the value. */
PyObject *atomic_is(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct value v;
    Py_buffer b;
    bool same = false;

    if (args_count("_is", n, 2, 2) < 0)
        return NULL;
    if (!view_check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "_is() takes a ddict.View");
        return NULL;
    }
    if (value_encode(&v, args[1]) < 0)
        return NULL;
    if (value_join(&v) < 0 || PyObject_GetBuffer(args[0], &b, PyBUF_SIMPLE) < 0) {
        value_clear(&v);
        return NULL;
    }
    if (v.tag == view_tag(args[0]) && v.iov[0].iov_len == (size_t)b.len)
        same = b.len == 0 || memcmp(v.iov[0].iov_base, b.buf, (size_t)b.len) == 0;
    PyBuffer_Release(&b);
    value_clear(&v);
    return PyBool_FromLong(same);
}

/* key, version, seconds -> the other version, or None when there was none in time */
PyObject *atomic_wait(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct handle *h = (struct handle *)self;
    uint64_t version, now = 0;
    struct key k;
    double until;
    int rc;

    if (args_count("_wait_change", n, 3, 3) < 0 || version_parse(args[1], &version) < 0)
        return NULL;
    until = now_s() + PyFloat_AsDouble(args[2]);
    if (PyErr_Occurred() || key_encode(&k, args[0]) < 0)
        return NULL;
    if (handle_begin(h) < 0) {
        key_clear(&k);
        return NULL;
    }
    for (;;) {
        double left = 1000 * (until - now_s());
        int ms = left < 1 ? 1 : left < SLICE_MS ? (int)left : SLICE_MS;
        Py_BEGIN_ALLOW_THREADS rc = ddict_wait_change(h->d, k.data, k.len, version, &now, ms);
        Py_END_ALLOW_THREADS if ((rc != -ETIMEDOUT && !(rc == DDICT_EKEYLOST && version == 0)) ||
                                 now_s() >= until) break;
        if (PyErr_CheckSignals() < 0) {
            rc = 1;
            break;
        }
    }
    handle_end(h);
    key_clear(&k);
    if (rc == -ETIMEDOUT)
        Py_RETURN_NONE;
    if (rc < 0)
        error_raise(rc, args[0]);
    return rc ? NULL : PyLong_FromUnsignedLongLong(now);
}
