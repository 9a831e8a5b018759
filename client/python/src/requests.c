/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requests.c - ddict._ddict.Requests: requests under way, from which ddict._future makes its
 * futures: libddict's asynchronous requests, each with the objects that Python has to keep until it
 * is over.
 */
#include "pyddict.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#define POLL_MAX 64 /* results taken in one call */

struct pending { /* a request under way, in a list of its set */
    struct pending *next, **prev;
    /* token: the caller's; key: for KeyError; obj: the value of a put, whose bytes v names */
    PyObject *token, *key, *obj;
    Py_ssize_t index;
    bool view;
    struct value v;
};

struct requests {
    PyObject_HEAD ddict_async_t *q; /* NULL: closed */
    struct pending *pending;
    int timeout_ms; /* timeout of the handle */
    unsigned busy;  /* threads in ddict_async_poll() */
};

static void pending_free(struct pending *p) {
    if (p->next)
        p->next->prev = p->prev;
    *p->prev = p->next;
    if (p->obj)
        value_clear(&p->v);
    Py_XDECREF(p->obj);
    Py_DECREF(p->key);
    Py_DECREF(p->token);
    PyMem_Free(p);
}

/* Return the exception for a failure without raising it. NULL: no memory, and that is raised. */
static PyObject *exception_new(int code, PyObject *key, const char *text) {
    PyObject *type, *value, *trace;

    if (code == DDICT_ENOKEY || !text)
        error_raise(code, key);
    else
        error_raise_text(code, text);
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

/* (ok, value or exception) of a finished request. */
static PyObject *op_result(struct ddict_op *op, PyObject *key, bool view) {
    PyObject *value = NULL, *type, *trace;
    bool good = op->status == 0;

    if (good && op->what == DDICT_OP_VIEW) {
        if (view) {
            value = view_new(&op->view);
        } else {
            value = load_copy(op->view.data, op->view.len, op->view.tag);
            ddict_release(&op->view);
            if (!value)
                error_name_key(key);
        }
        if (!value) { /* it cannot be unpickled */
            good = false;
            PyErr_Fetch(&type, &value, &trace);
            PyErr_NormalizeException(&type, &value, &trace);
            Py_XDECREF(type);
            Py_XDECREF(trace);
        }
    } else {
        value = good ? Py_NewRef(Py_None) : exception_new(op->status, key, op->text);
    }
    free(op->text);
    op->text = NULL;
    return value ? Py_BuildValue("(NN)", PyBool_FromLong(good), value) : NULL;
}

static int requests_check(struct requests *s) {
    if (s->q)
        return 0;
    PyErr_SetString(PyExc_ValueError, "closed");
    return -1;
}

static PyObject *requests_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    struct handle *h;
    struct requests *s;
    int rc;

    if (!PyArg_ParseTuple(args, "O!:Requests", handle_type, &h) || handle_check(h) < 0)
        return NULL;
    s = (struct requests *)type->tp_alloc(type, 0);
    if (!s)
        return NULL;
    s->timeout_ms = h->timeout_ms;
    rc = ddict_async_open(h->d, &s->q);
    if (rc == 0)
        return (PyObject *)s;
    Py_DECREF(s);
    return error_raise(rc, NULL);
}

static int requests_traverse(PyObject *self, visitproc visit, void *arg) {
    struct requests *s = (struct requests *)self;

    Py_VISIT(Py_TYPE(self));
    for (struct pending *p = s->pending; p; p = p->next) {
        Py_VISIT(p->token);
        Py_VISIT(p->key);
        Py_VISIT(p->obj);
    }
    return 0;
}

static int requests_clear(PyObject *self) {
    struct requests *s = (struct requests *)self;
    ddict_async_t *q = s->q;

    if (s->busy)
        return 0;
    s->q = NULL;
    ddict_async_close(q); /* from here on the set does not use our memory */
    while (s->pending)
        pending_free(s->pending);
    return 0;
}

static void requests_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    requests_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *requests_fileno(PyObject *self, PyObject *unused) {
    return requests_check((struct requests *)self) < 0
               ? NULL
               : PyLong_FromLong(ddict_async_fd(((struct requests *)self)->q));
}

static Py_ssize_t requests_length(PyObject *self) {
    struct requests *s = (struct requests *)self;

    return s->q ? (Py_ssize_t)ddict_async_len(s->q) : 0;
}

static struct pending *pending_new(struct requests *s, PyObject *token, PyObject *key,
                                   Py_ssize_t index) {
    struct pending *p = PyMem_Calloc(1, sizeof *p);

    if (!p) {
        PyErr_NoMemory();
        return NULL;
    }
    p->token = Py_NewRef(token);
    p->key = Py_NewRef(key);
    p->index = index;
    p->prev = &s->pending;
    p->next = s->pending;
    if (p->next)
        p->next->prev = &p->next;
    s->pending = p;
    return p;
}

/* The request's ticket, or (ok, value) if it finished at once. */
static PyObject *op_submit(struct requests *s, struct ddict_op *op, struct pending *p) {
    PyObject *out;
    ssize_t rc;

    op->user = p;
    /* another thread may hold a lock of libddict while it waits for the GIL */
    Py_BEGIN_ALLOW_THREADS rc = ddict_async_submit(s->q, op, 1);
    Py_END_ALLOW_THREADS if (rc == 1) return PyLong_FromUnsignedLongLong(
        op->ticket); /* p may be freed already */
    if (rc < 0) {
        error_raise((int)rc, NULL);
        out = NULL;
    } else {
        out = op_result(op, p->key, p->view);
    }
    pending_free(p);
    return out;
}

/* get(token, index, key, wait, timeout, view) */
static PyObject *requests_get(PyObject *self, PyObject *args) {
    struct requests *s = (struct requests *)self;
    PyObject *token, *obj, *wait, *timeout, *out = NULL;
    struct pending *p;
    Py_ssize_t index;
    struct waiting w;
    struct key k;
    int view;

    if (!PyArg_ParseTuple(args, "OnOOOp:get", &token, &index, &obj, &wait, &timeout, &view) ||
        waiting_parse(s->timeout_ms, wait, timeout, &w) < 0 || key_encode(&k, obj) < 0)
        return NULL;
    if (requests_check(s) == 0 && (p = pending_new(s, token, obj, index))) {
        struct ddict_op op = {.what = DDICT_OP_VIEW,
                              .flags = w.wait ? DDICT_WAIT : 0,
                              .key = k.data,
                              .klen = k.len,
                              .timeout_ms = w.wait ? w.wait_ms : w.ms};
        p->view = view;
        out = op_submit(s, &op, p);
    }
    key_clear(&k);
    return out;
}

/* put(token, key, value) */
static PyObject *requests_put(PyObject *self, PyObject *args) {
    struct requests *s = (struct requests *)self;
    PyObject *token, *obj, *value, *out = NULL;
    struct pending *p;
    struct key k;

    if (!PyArg_ParseTuple(args, "OOO:put", &token, &obj, &value) || key_encode(&k, obj) < 0)
        return NULL;
    if (requests_check(s) == 0 && (p = pending_new(s, token, obj, 0))) {
        if (value_encode(&p->v, value) < 0) {
            pending_free(p);
        } else {
            p->obj = Py_NewRef(value);
            struct ddict_op op = {.what = DDICT_OP_PUTV,
                                  .flags = DDICT_TAG(p->v.tag),
                                  .key = k.data,
                                  .klen = k.len,
                                  .buf = p->v.iov,
                                  .len = (size_t)p->v.n,
                                  .timeout_ms = s->timeout_ms};
            /* encoding may have run code that closed the set */
            out = requests_check(s) < 0 ? (pending_free(p), NULL) : op_submit(s, &op, p);
        }
    }
    key_clear(&k);
    return out;
}

static int result_append(PyObject *list, struct ddict_op *op) {
    struct pending *p = op->user;
    PyObject *r = op_result(op, p->key, p->view), *item = NULL;
    int rc = -1;

    if (r) {
        item = Py_BuildValue("(OnOO)", p->token, p->index, PyTuple_GET_ITEM(r, 0),
                             PyTuple_GET_ITEM(r, 1));
        rc = item ? PyList_Append(list, item) : -1;
    }
    Py_XDECREF(item);
    Py_XDECREF(r);
    pending_free(p);
    return rc;
}

/* poll(seconds) */
static PyObject *requests_poll(PyObject *self, PyObject *seconds) {
    struct requests *s = (struct requests *)self;
    struct ddict_op done[POLL_MAX];
    PyObject *list;
    ssize_t n;
    int ms, rc = 0;

    if (timeout_parse(seconds, &ms) < 0 || requests_check(s) < 0 || !(list = PyList_New(0)))
        return NULL;
    s->busy++;
    if (ms == 0) {
        n = ddict_async_poll(s->q, done, POLL_MAX, 0);
    } else {
        Py_BEGIN_ALLOW_THREADS n = ddict_async_poll(s->q, done, POLL_MAX, ms);
        Py_END_ALLOW_THREADS
    }
    s->busy--;
    if (n < 0)
        error_raise((int)n, NULL);
    for (ssize_t i = 0; i < n; i++)
        rc |= result_append(list, &done[i]);
    if (n >= 0 && rc == 0 && PyErr_CheckSignals() == 0)
        return list;
    if (n > 0 && rc == 0) { /* a signal handler raised: return the results, too */
        PyObject *type, *value, *trace, *both;
        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        both = Py_BuildValue("(OO)", list, value);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        Py_DECREF(list);
        return both;
    }
    Py_DECREF(list);
    return NULL;
}

static PyObject *requests_cancel(PyObject *self, PyObject *ticket) {
    struct requests *s = (struct requests *)self;
    unsigned long long t = PyLong_AsUnsignedLongLong(ticket);
    int rc;

    if (t == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    if (requests_check(s) < 0)
        return NULL;
    s->busy++;
    Py_BEGIN_ALLOW_THREADS rc = ddict_async_cancel(s->q, t);
    Py_END_ALLOW_THREADS s->busy--;
    return PyBool_FromLong(rc == 0);
}

static PyMethodDef methods[] = {
    {"fileno", requests_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\nReadable when poll() has something to do."},
    {"get", requests_get, METH_VARARGS,
     "get($self, token, index, key, wait, timeout, view, /)\n--\n\nA ticket, or (ok, value or "
     "exception) when it is over."},
    {"put", requests_put, METH_VARARGS, "put($self, token, key, value, /)\n--\n\nAs get()."},
    {"poll", requests_poll, METH_O,
     "poll($self, seconds, /)\n--\n\n[(token, index, ok, value or exception), ...] of what is "
     "over; with an exception of a signal handler: (that list, it)."},
    {"cancel", requests_cancel, METH_O,
     "cancel($self, ticket, /)\n--\n\nWhether it was under way."},
    {NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Requests under way."}, {Py_tp_new, requests_new},
    {Py_tp_dealloc, requests_dealloc},  {Py_tp_traverse, requests_traverse},
    {Py_tp_clear, requests_clear},      {Py_tp_methods, methods},
    {Py_sq_length, requests_length},    {0, NULL},
};

static PyType_Spec spec = {"ddict._ddict.Requests", sizeof(struct requests), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

int requests_init(PyObject *module) {
    PyObject *type = PyType_FromSpec(&spec);

    return type ? PyModule_AddObjectRef(module, "Requests", type) : -1;
}
