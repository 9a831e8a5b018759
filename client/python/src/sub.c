/* SPDX-License-Identifier: Apache-2.0 */
/* sub.c - ddict._ddict.Subscription: the events of a key prefix. An open subscription keeps the
 * handle attached. ../ddict/_events.py turns the tuples into events. */
#include "pyddict.h"

#include <errno.h>
#include <time.h>

#define SLICE_MS 200 /* interval between checks for Ctrl-C */

struct sub {
    PyObject_HEAD struct handle *h; /* owned; NULL when closed */
    ddict_sub_t *sub;
    bool busy;    /* a thread waits for an event */
    bool closing; /* that thread has to end the subscription */
};

static PyTypeObject *sub_type;

PyObject *sub_new(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct handle *h = (struct handle *)self;
    ddict_sub_t *sub = NULL;
    struct sub *s;
    long flags;
    struct key k;
    int rc;

    if (args_count("_subscribe", n, 2, 2) < 0)
        return NULL;
    flags = PyLong_AsLong(args[1]);
    if ((flags == -1 && PyErr_Occurred()) || prefix_encode(&k, args[0]) < 0)
        return NULL;
    if (handle_begin(h) < 0) {
        key_clear(&k);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS rc =
        ddict_subscribe(h->d, k.data, k.len, (unsigned)flags, &sub, h->timeout_ms);
    Py_END_ALLOW_THREADS key_clear(&k);
    s = rc == 0 ? PyObject_New(struct sub, sub_type) : NULL;
    if (!s) {
        ddict_unsubscribe(sub);
        handle_end(h);
        return rc < 0 ? error_raise(rc, NULL) : NULL;
    }
    Py_INCREF(h);
    s->h = h;
    s->sub = sub;
    s->busy = s->closing = false;
    return (PyObject *)s;
}

static void sub_end(struct sub *s) {
    struct handle *h = s->h;
    ddict_sub_t *sub = s->sub;

    if (!h)
        return;
    s->h = NULL;
    s->sub = NULL;
    Py_BEGIN_ALLOW_THREADS ddict_unsubscribe(sub);
    Py_END_ALLOW_THREADS handle_end(h);
    Py_DECREF(h);
}

static PyObject *sub_close(PyObject *self, PyObject *unused) {
    struct sub *s = (struct sub *)self;

    if (s->busy) /* the waiting thread ends the subscription at its next check */
        s->closing = true;
    else
        sub_end(s);
    Py_RETURN_NONE;
}

static void sub_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);

    sub_end((struct sub *)self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *event_tuple(const struct ddict_event *e) {
    PyObject *key, *value, *t;

    if (e->kind == DDICT_EVENT_MISSED)
        return Py_BuildValue("(iOOKKK)", e->kind, Py_None, Py_None, 0ull, 0ull,
                             (unsigned long long)e->missed);
    key = e->key ? key_decode(e->key, e->klen) : Py_NewRef(Py_None);
    value = key && e->val ? load_copy(e->val, e->vlen, e->tag) : Py_NewRef(Py_None);
    if (key && !value) { /* not a value of the Python binding: show its bytes */
        PyErr_Clear();
        value = PyBytes_FromStringAndSize(e->val, (Py_ssize_t)e->vlen);
    }
    t = key && value
            ? Py_BuildValue("(iOOKKK)", e->kind, key, value, (unsigned long long)e->version,
                            (unsigned long long)e->vlen, e->val ? 1ull : 0ull)
            : NULL;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return t;
}

static PyObject *sub_next(PyObject *self, PyObject *seconds) {
    struct sub *s = (struct sub *)self;
    struct ddict_event e;
    PyObject *event = NULL;
    double until;
    int rc, ms;

    if (timeout_parse(seconds, &ms) < 0)
        return NULL;
    until = ms < 0 ? 1e18 : now_s() + ms / 1000.0;
    if (!s->h)
        Py_RETURN_FALSE;
    if (s->busy) {
        PyErr_SetString(PyExc_ValueError, "another thread waits for an event of this subscription");
        return NULL;
    }
    s->busy = true;
    for (;;) {
        double left = 1000 * (until - now_s());
        ms = left <= 0 ? 0 : left < SLICE_MS ? (int)left + 1 : SLICE_MS;
        Py_BEGIN_ALLOW_THREADS rc = ddict_next_event(s->sub, &e, ms);
        Py_END_ALLOW_THREADS if (rc != 0 || ms == 0 || s->closing) break;
        if (PyErr_CheckSignals() < 0) {
            s->busy = false;
            if (s->closing)
                sub_end(s);
            return NULL;
        }
    }
    if (rc == 1)
        event = event_tuple(&e);
    if (rc < 0)
        error_raise(rc, NULL);
    s->busy = false;
    if (s->closing) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        sub_end(s);
        PyErr_Restore(type, value, trace);
        if (rc == 0)
            Py_RETURN_FALSE;
    }
    if (rc == 0)
        Py_RETURN_NONE;
    return rc < 0 ? NULL : event;
}

static PyMethodDef sub_methods[] = {
    {"next", sub_next, METH_O,
     "next($self, seconds, /)\n--\n\n(kind, key, value, version, size, known or missed), None when "
     "nothing came, False when it is closed."},
    {"close", sub_close, METH_NOARGS, NULL},
    {NULL},
};

static PyType_Slot sub_slots[] = {
    {Py_tp_doc, "The C part of a subscription."},
    {Py_tp_dealloc, sub_dealloc},
    {Py_tp_methods, sub_methods},
    {0, NULL},
};

static PyType_Spec sub_spec = {"ddict._ddict.Subscription", sizeof(struct sub), 0,
                               Py_TPFLAGS_DEFAULT, sub_slots};

int sub_init(void) {
    sub_type = (PyTypeObject *)PyType_FromSpec(&sub_spec);
    if (sub_type)
        sub_type->tp_new = NULL;
    return sub_type ? 0 : -1;
}
