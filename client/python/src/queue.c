/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.c - keys with several values, for ddict.Queue. A wait is cut into slices, and Ctrl-C is
 * checked between them. The manager decides how a slice ended, so no value is popped for a slice
 * that is over.
 */
#include "pyddict.h"

#include <errno.h>
#include <time.h>

/* how long a value that is put back waits for room: another process has to take one */
#define UNDO_MS  5000
#define SLICE_MS 500 /* interval between checks for Ctrl-C; each slice is a request */
#define NEVER    1e18

/* Seconds; None: for ever; 0: do not wait. */
static int wait_until(PyObject *seconds, double *until) {
    int ms;

    if (timeout_parse(seconds, &ms) < 0)
        return -1;
    *until = ms < 0 ? NEVER : now_s() + PyFloat_AsDouble(seconds);
    return 0;
}

static int slice_ms(double until) {
    double left = 1000 * (until - now_s());

    return left <= 0 ? 0 : left < SLICE_MS ? (int)left + 1 : SLICE_MS;
}

/* -EINVAL: the caller's maxsize differs from the queue's. */
static PyObject *queue_error(int rc, PyObject *key) {
    if (rc != -EINVAL)
        return error_raise(rc, key);
    PyErr_SetString(PyExc_ValueError, ddict_errmsg());
    return NULL;
}

PyObject *queue_push(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct handle *h = (struct handle *)self;
    unsigned long long most;
    struct value v;
    struct key k;
    double until;
    int rc;

    if (args_count("_push", n, 4, 4) < 0 || wait_until(args[3], &until) < 0)
        return NULL;
    most = PyLong_AsUnsignedLongLong(args[2]);
    if ((most == (unsigned long long)-1 && PyErr_Occurred()) || key_encode(&k, args[0]) < 0)
        return NULL;
    if (value_encode(&v, args[1]) < 0) {
        key_clear(&k);
        return NULL;
    }
    if (handle_begin(h) < 0) {
        value_clear(&v);
        key_clear(&k);
        return NULL;
    }
    /* without a limit of the caller's the queue is rarely full, so try first */
    for (bool waits = most != 0;; waits = true) {
        int ms = waits ? slice_ms(until) : 0;
        Py_BEGIN_ALLOW_THREADS rc = ddict_pushv(
            h->d, k.data, k.len, v.iov, v.n, DDICT_TAG(v.tag) | (ms ? DDICT_WAIT | DDICT_SURE : 0),
            most, ms ? ms : h->timeout_ms);
        Py_END_ALLOW_THREADS if (rc != -EAGAIN || slice_ms(until) == 0) break;
        if (PyErr_CheckSignals() < 0) {
            rc = 1;
            break;
        }
    }
    handle_end(h);
    value_clear(&v);
    key_clear(&k);
    if (rc == 0 || rc == -EAGAIN)
        return PyBool_FromLong(rc == 0);
    return rc < 0 ? queue_error(rc, args[0]) : NULL;
}

PyObject *queue_open(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct handle *h = (struct handle *)self;
    unsigned long long most;
    struct key k;
    uint64_t own;
    int rc;

    if (args_count("_queue", n, 2, 2) < 0)
        return NULL;
    most = PyLong_AsUnsignedLongLong(args[1]);
    if ((most == (unsigned long long)-1 && PyErr_Occurred()) || key_encode(&k, args[0]) < 0)
        return NULL;
    if (handle_begin(h) < 0) {
        key_clear(&k);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS rc = ddict_queue_open(h->d, k.data, k.len, most, &own, h->timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    key_clear(&k);
    return rc < 0 ? queue_error(rc, args[0]) : PyLong_FromUnsignedLongLong(own);
}

/*
 * Put a value that cannot be unpickled here back, behind the others, for a process that can. If
 * that fails (also because another value took its room and none was taken in time), the exception,
 * which is set, gets the bytes.
 */
static void take_undo(struct handle *h, PyObject *key, const struct ddict_view *view) {
    struct iovec iov = {(void *)view->data, view->len};
    PyObject *type, *value, *trace, *bytes;
    struct key k;
    int rc = -EINVAL;

    error_name_key(key);
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (key_encode(&k, key) == 0) {
        if (handle_begin(h) == 0) {
            Py_BEGIN_ALLOW_THREADS rc =
                ddict_pushv(h->d, k.data, k.len, &iov, 1,
                            DDICT_TAG(view->tag) | DDICT_WAIT | DDICT_SURE, 0, UNDO_MS);
            Py_END_ALLOW_THREADS handle_end(h);
        }
        key_clear(&k);
    }
    PyErr_Clear();
    if (rc < 0) {
        bytes = PyBytes_FromStringAndSize(view->data, (Py_ssize_t)view->len);
        if (!bytes || PyObject_SetAttrString(value, "value", bytes) < 0)
            PyErr_Clear();
        Py_XDECREF(bytes);
    }
    PyErr_Restore(type, value, trace);
}

/* A call without a time of its own waits for a queue whose values may be lost as long as any other. */
static bool is_given_up(const struct handle *h, int rc, double until, double *lost_until) {
    if (rc != DDICT_EKEYLOST || until < NEVER)
        *lost_until = 0;
    else if (*lost_until == 0)
        *lost_until = now_s() + timeout_seconds(h->timeout_ms);
    return *lost_until > 0 && now_s() >= *lost_until;
}

PyObject *queue_take(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct handle *h = (struct handle *)self;
    struct ddict_view view;
    PyObject *obj;
    struct key k;
    double until, lost_until = 0;
    int rc;

    if (args_count("_take", n, 2, 2) < 0 || wait_until(args[1], &until) < 0 ||
        key_encode(&k, args[0]) < 0)
        return NULL;
    if (handle_begin(h) < 0) {
        key_clear(&k);
        return NULL;
    }
    for (;;) {
        int ms = slice_ms(until);
        if (ms == 0 && refill_wait(h, &k) < 0) {
            rc = 1;
            break;
        }
        Py_BEGIN_ALLOW_THREADS rc = ddict_pop(
            h->d, k.data, k.len, &view, ms ? DDICT_WAIT | DDICT_SURE : 0, ms ? ms : h->timeout_ms);
        Py_END_ALLOW_THREADS if (!key_is_absent(rc) || slice_ms(until) == 0 ||
                                 is_given_up(h, rc, until, &lost_until)) break;
        if (PyErr_CheckSignals() < 0) {
            rc = 1;
            break;
        }
    }
    handle_end(h);
    key_clear(&k);
    if (rc)
        return rc < 0 ? error_raise(rc, args[0]) : NULL;
    obj = load_copy(view.data, view.len, view.tag);
    if (!obj)
        take_undo(h, args[0], &view);
    ddict_release(&view);
    return obj;
}

PyObject *queue_size(PyObject *self, PyObject *key) {
    struct handle *h = (struct handle *)self;
    struct key k;
    int64_t n;

    if (key_encode(&k, key) < 0)
        return NULL;
    if (handle_begin(h) < 0) {
        key_clear(&k);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS n = ddict_queued(h->d, k.data, k.len, h->timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    key_clear(&k);
    return n < 0 ? error_raise((int)n, key) : PyLong_FromLongLong(n);
}
