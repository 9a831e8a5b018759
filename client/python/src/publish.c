/* SPDX-License-Identifier: Apache-2.0 */
/* publish.c - one value on every node: publish, and ddict._ddict.Follow, which keeps the handle
 * attached. ../ddict/_publish.py makes the iterator. */
#include "pyddict.h"

#include <errno.h>

#define SLICE_MS 500 /* interval between checks for Ctrl-C */

struct follow {
    PyObject_HEAD struct handle *h; /* owned; NULL when closed */
    ddict_follow_t *f;
    PyObject *name;
    bool busy;    /* a thread waits */
    bool closing; /* that thread has to end it */
};

static PyTypeObject *follow_type;

PyObject *publish_publish(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct handle *h = (struct handle *)self;
    uint64_t version = 0;
    struct value v;
    struct key k;
    int rc = 1;

    if (args_count("publish", n, 2, 2) < 0 || key_encode(&k, args[0]) < 0)
        return NULL;
    if (value_encode(&v, args[1]) == 0) {
        if (handle_begin(h) == 0) {
            Py_BEGIN_ALLOW_THREADS rc = ddict_publish(h->d, k.data, k.len, v.iov, v.n,
                                                      DDICT_TAG(v.tag), &version, h->timeout_ms);
            Py_END_ALLOW_THREADS handle_end(h);
        }
        value_clear(&v);
    }
    key_clear(&k);
    if (rc < 0)
        error_raise(rc, args[0]);
    return rc ? NULL : PyLong_FromUnsignedLongLong(version);
}

PyObject *publish_unpublish(PyObject *self, PyObject *name) {
    struct handle *h = (struct handle *)self;
    struct key k;
    int rc = 1;

    if (key_encode(&k, name) < 0)
        return NULL;
    if (handle_begin(h) == 0) {
        Py_BEGIN_ALLOW_THREADS rc = ddict_unpublish(h->d, k.data, k.len, h->timeout_ms);
        Py_END_ALLOW_THREADS handle_end(h);
    }
    key_clear(&k);
    if (rc < 0)
        error_raise(rc, name);
    return rc ? NULL : Py_NewRef(Py_None);
}

/* name, seconds, wait -> a View of the newest version; KeyError */
PyObject *publish_view(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct handle *h = (struct handle *)self;
    struct ddict_view v;
    struct waiting w;
    struct key k;
    double until;
    int rc;

    if (args_count("_bview", n, 3, 3) < 0 ||
        waiting_parse(h->timeout_ms, args[1], args[2], &w) < 0 || key_encode(&k, args[0]) < 0)
        return NULL;
    until = now_s() + (w.wait ? w.seconds : 0);
    if (handle_begin(h) < 0) {
        key_clear(&k);
        return NULL;
    }
    for (;;) {
        double left = 1000 * (until - now_s());
        int ms = !w.wait ? w.ms : left < 1 ? 1 : left < SLICE_MS ? (int)left : SLICE_MS;
        Py_BEGIN_ALLOW_THREADS rc =
            ddict_bget(h->d, k.data, k.len, &v, w.wait ? DDICT_WAIT : 0, ms);
        Py_END_ALLOW_THREADS if (!key_is_absent(rc) || !w.wait || now_s() >= until) break;
        if (PyErr_CheckSignals() < 0) {
            rc = 1;
            break;
        }
    }
    handle_end(h);
    key_clear(&k);
    if (rc < 0)
        error_raise(rc == DDICT_ENOKEY && w.wait ? -ETIMEDOUT : rc, args[0]);
    return rc ? NULL : view_new(&v);
}

PyObject *publish_follow(PyObject *self, PyObject *name) {
    struct handle *h = (struct handle *)self;
    ddict_follow_t *f = NULL;
    struct follow *w;
    struct key k;
    int rc;

    if (key_encode(&k, name) < 0)
        return NULL;
    if (handle_begin(h) < 0) {
        key_clear(&k);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS rc = ddict_follow_open(h->d, k.data, k.len, &f, h->timeout_ms);
    Py_END_ALLOW_THREADS key_clear(&k);
    w = rc == 0 ? PyObject_New(struct follow, follow_type) : NULL;
    if (!w) {
        ddict_follow_close(f);
        handle_end(h);
        return rc < 0 ? error_raise(rc, name) : NULL;
    }
    w->h = (struct handle *)Py_NewRef(self);
    w->f = f;
    w->name = Py_NewRef(name);
    w->busy = w->closing = false;
    return (PyObject *)w;
}

static void follow_end(struct follow *w) {
    struct handle *h = w->h;

    if (!h)
        return;
    w->h = NULL;
    ddict_follow_close(w->f);
    w->f = NULL;
    handle_end(h);
    Py_DECREF(h);
}

static PyObject *follow_close(PyObject *self, PyObject *unused) {
    struct follow *w = (struct follow *)self;

    if (w->busy) /* the waiting thread ends it at its next check */
        w->closing = true;
    else
        follow_end(w);
    Py_RETURN_NONE;
}

static void follow_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);

    follow_end((struct follow *)self);
    Py_XDECREF(((struct follow *)self)->name);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* As ddict_follow_next(), with checks for Ctrl-C; 2 with an exception. */
static int wait_next(struct follow *w, struct ddict_view *v, double until, uint64_t *version) {
    int rc, ms;

    do {
        double left = 1000 * (until - now_s());
        ms = left <= 0 ? 1 : left < SLICE_MS ? (int)left + 1 : SLICE_MS;
        Py_BEGIN_ALLOW_THREADS rc = ddict_follow_next(w->f, v, version, ms);
        Py_END_ALLOW_THREADS if (rc == 0 && PyErr_CheckSignals() < 0) rc = 2;
    } while (rc == 0 && now_s() < until && !w->closing);
    return rc;
}

static PyObject *follow_next(PyObject *self, PyObject *seconds) {
    struct follow *w = (struct follow *)self;
    PyObject *view, *out = NULL;
    uint64_t version = 0;
    struct ddict_view v;
    bool closing;
    int rc, ms;

    if (timeout_parse(seconds, &ms) < 0)
        return NULL;
    if (!w->h)
        Py_RETURN_FALSE;
    if (w->busy) {
        PyErr_SetString(PyExc_ValueError, "another thread waits for a version of this follower");
        return NULL;
    }
    w->busy = true;
    rc = wait_next(w, &v, ms < 0 ? 1e18 : now_s() + ms / 1000.0, &version);
    w->busy = false;
    if (rc == 1) {
        view = view_new(&v);
        out = view ? Py_BuildValue("KN", (unsigned long long)version, view) : NULL;
    } else if (rc < 0) {
        error_raise(rc, w->name);
    }
    closing = w->closing;
    if (closing) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        follow_end(w);
        PyErr_Restore(type, value, trace);
    }
    if (rc == 0 && closing)
        Py_RETURN_FALSE;
    if (rc == 0)
        Py_RETURN_NONE;
    return out;
}

static PyMethodDef follow_methods[] = {
    {"next", follow_next, METH_O,
     "next($self, seconds, /)\n--\n\n(version, View), None when none came, False when it is "
     "closed."},
    {"close", follow_close, METH_NOARGS, NULL},
    {NULL},
};

static PyType_Slot follow_slots[] = {
    {Py_tp_doc, "The C part of a follower."},
    {Py_tp_dealloc, follow_dealloc},
    {Py_tp_methods, follow_methods},
    {0, NULL},
};

static PyType_Spec follow_spec = {"ddict._ddict.Follow", sizeof(struct follow), 0,
                                  Py_TPFLAGS_DEFAULT, follow_slots};

int publish_init(void) {
    follow_type = (PyTypeObject *)PyType_FromSpec(&follow_spec);
    if (follow_type)
        follow_type->tp_new = NULL;
    return follow_type ? 0 : -1;
}
