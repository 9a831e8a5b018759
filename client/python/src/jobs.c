/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobs.c - ddict._ddict.Jobs: requests under way, on which ddict._future builds its futures. A set of jobs of libddict, and for each job what Python has
 * to keep until it is over.
 */
#include "pyddict.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#define POLL_MAX 64 /* results taken at a time */

struct pending { /* a job under way, in a list of its set */
    struct pending *next, **prev;
    PyObject *token, *key,
        *obj; /* the caller's; for KeyError; of a put: what is stored, whose bytes v names */
    Py_ssize_t index;
    bool view;
    struct value v;
};

struct jobs {
    PyObject_HEAD ddict_jobs_t *q; /* NULL: closed */
    struct pending *pending;
    int timeout_ms;
    unsigned busy; /* threads in ddict_poll() */
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

/* The exception for a failure, not raised. NULL with one raised: no memory. */
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

/* (ok, value or exception) of a job that is over. */
static PyObject *job_result(struct ddict_job *j, PyObject *key, bool view) {
    PyObject *value = NULL, *type, *trace;
    bool good = j->status == 0;

    if (good && j->what == DDICT_DO_VIEW) {
        if (view) {
            value = view_new(&j->view);
        } else {
            value = load_copy(j->view.data, j->view.len, j->view.tag);
            ddict_release(&j->view);
            if (!value)
                error_name_key(key);
        }
        if (!value) { /* it does not unpickle */
            good = false;
            PyErr_Fetch(&type, &value, &trace);
            PyErr_NormalizeException(&type, &value, &trace);
            Py_XDECREF(type);
            Py_XDECREF(trace);
        }
    } else {
        value = good ? Py_NewRef(Py_None) : exception_new(j->status, key, j->text);
    }
    free(j->text);
    j->text = NULL;
    return value ? Py_BuildValue("(NN)", PyBool_FromLong(good), value) : NULL;
}

static int jobs_check(struct jobs *s) {
    if (s->q)
        return 0;
    PyErr_SetString(PyExc_ValueError, "closed");
    return -1;
}

static PyObject *jobs_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    struct handle *h;
    struct jobs *s;
    int rc;

    if (!PyArg_ParseTuple(args, "O!:Jobs", handle_type, &h) || handle_check(h) < 0)
        return NULL;
    s = (struct jobs *)type->tp_alloc(type, 0);
    if (!s)
        return NULL;
    s->timeout_ms = h->timeout_ms;
    rc = ddict_jobs_open(h->d, &s->q);
    if (rc == 0)
        return (PyObject *)s;
    Py_DECREF(s);
    return error_raise(rc, NULL);
}

static int jobs_traverse(PyObject *self, visitproc visit, void *arg) {
    struct jobs *s = (struct jobs *)self;

    Py_VISIT(Py_TYPE(self));
    for (struct pending *p = s->pending; p; p = p->next) {
        Py_VISIT(p->token);
        Py_VISIT(p->key);
        Py_VISIT(p->obj);
    }
    return 0;
}

static int jobs_clear(PyObject *self) {
    struct jobs *s = (struct jobs *)self;
    ddict_jobs_t *q = s->q;

    if (s->busy)
        return 0;
    s->q = NULL;
    ddict_jobs_close(q); /* nothing of ours is used by it from here on */
    while (s->pending)
        pending_free(s->pending);
    return 0;
}

static void jobs_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    jobs_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *jobs_fileno(PyObject *self, PyObject *unused) {
    return jobs_check((struct jobs *)self) < 0
               ? NULL
               : PyLong_FromLong(ddict_jobs_fd(((struct jobs *)self)->q));
}

static Py_ssize_t jobs_length(PyObject *self) {
    struct jobs *s = (struct jobs *)self;

    return s->q ? (Py_ssize_t)ddict_jobs_len(s->q) : 0;
}

static struct pending *pending_new(struct jobs *s, PyObject *token, PyObject *key,
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

/* Its ticket, or (ok, value) when it was over at once. */
static PyObject *job_begin(struct jobs *s, struct ddict_job *j, struct pending *p) {
    PyObject *out;
    ssize_t rc;

    j->user = p;
    Py_BEGIN_ALLOW_THREADS /* another thread may hold what it needs a moment, and wait for the GIL */
        rc = ddict_submit(s->q, j, 1);
    Py_END_ALLOW_THREADS if (rc == 1) return PyLong_FromUnsignedLongLong(
        j->ticket); /* p may be gone already */
    if (rc < 0) {
        error_raise((int)rc, NULL);
        out = NULL;
    } else {
        out = job_result(j, p->key, p->view);
    }
    pending_free(p);
    return out;
}

/* get(token, index, key, wait, view) */
static PyObject *jobs_get(PyObject *self, PyObject *args) {
    struct jobs *s = (struct jobs *)self;
    PyObject *token, *obj, *wait, *out = NULL;
    struct pending *p;
    Py_ssize_t index;
    struct key k;
    int view, ms;

    if (!PyArg_ParseTuple(args, "OnOOp:get", &token, &index, &obj, &wait, &view) ||
        timeout_parse(wait, &ms) < 0 || key_encode(&k, obj) < 0)
        return NULL;
    if (jobs_check(s) == 0 && (p = pending_new(s, token, obj, index))) {
        struct ddict_job j = {
            .what = DDICT_DO_VIEW, .key = k.data, .klen = k.len, .timeout_ms = s->timeout_ms};
        p->view = view;
        if (wait != Py_None && ms > 0) {
            j.flags = DDICT_WAIT;
            j.timeout_ms = ms;
        }
        out = job_begin(s, &j, p);
    }
    key_clear(&k);
    return out;
}

/* put(token, key, value) */
static PyObject *jobs_put(PyObject *self, PyObject *args) {
    struct jobs *s = (struct jobs *)self;
    PyObject *token, *obj, *value, *out = NULL;
    struct pending *p;
    struct key k;

    if (!PyArg_ParseTuple(args, "OOO:put", &token, &obj, &value) || key_encode(&k, obj) < 0)
        return NULL;
    if (jobs_check(s) == 0 && (p = pending_new(s, token, obj, 0))) {
        if (value_encode(&p->v, value) < 0) {
            pending_free(p);
        } else {
            p->obj = Py_NewRef(value);
            struct ddict_job j = {.what = DDICT_DO_PUTV,
                                  .flags = DDICT_TAG(p->v.tag),
                                  .key = k.data,
                                  .klen = k.len,
                                  .buf = p->v.iov,
                                  .len = (size_t)p->v.n,
                                  .timeout_ms = s->timeout_ms};
            out = jobs_check(s) < 0 ? (pending_free(p), NULL)
                                    : job_begin(s, &j, p); /* encoding may have run anything */
        }
    }
    key_clear(&k);
    return out;
}

static int result_append(PyObject *list, struct ddict_job *j) {
    struct pending *p = j->user;
    PyObject *r = job_result(j, p->key, p->view), *item = NULL;
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
static PyObject *jobs_poll(PyObject *self, PyObject *seconds) {
    struct jobs *s = (struct jobs *)self;
    struct ddict_job done[POLL_MAX];
    PyObject *list;
    ssize_t n;
    int ms, rc = 0;

    if (timeout_parse(seconds, &ms) < 0 || jobs_check(s) < 0 || !(list = PyList_New(0)))
        return NULL;
    s->busy++;
    if (ms == 0) {
        n = ddict_poll(s->q, done, POLL_MAX, 0);
    } else {
        Py_BEGIN_ALLOW_THREADS n = ddict_poll(s->q, done, POLL_MAX, ms);
        Py_END_ALLOW_THREADS
    }
    s->busy--;
    if (n < 0)
        error_raise((int)n, NULL);
    for (ssize_t i = 0; i < n; i++)
        rc |= result_append(list, &done[i]);
    if (n >= 0 && rc == 0 && PyErr_CheckSignals() == 0)
        return list;
    if (n > 0 && rc == 0) { /* a signal handler raised: nothing may be lost */
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

static PyObject *jobs_cancel(PyObject *self, PyObject *ticket) {
    struct jobs *s = (struct jobs *)self;
    unsigned long long t = PyLong_AsUnsignedLongLong(ticket);
    int rc;

    if (t == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    if (jobs_check(s) < 0)
        return NULL;
    s->busy++;
    Py_BEGIN_ALLOW_THREADS rc = ddict_cancel(s->q, t);
    Py_END_ALLOW_THREADS s->busy--;
    return PyBool_FromLong(rc == 0);
}

static PyMethodDef methods[] = {
    {"fileno", jobs_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\nReadable when poll() has something to do."},
    {"get", jobs_get, METH_VARARGS,
     "get($self, token, index, key, wait, view, /)\n--\n\nA ticket, or (ok, value or exception) "
     "when it is over."},
    {"put", jobs_put, METH_VARARGS, "put($self, token, key, value, /)\n--\n\nAs get()."},
    {"poll", jobs_poll, METH_O,
     "poll($self, seconds, /)\n--\n\n[(token, index, ok, value or exception), ...] of what is "
     "over; with an exception of a signal handler: (that list, it)."},
    {"cancel", jobs_cancel, METH_O, "cancel($self, ticket, /)\n--\n\nWhether it was under way."},
    {NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Requests under way."}, {Py_tp_new, jobs_new},
    {Py_tp_dealloc, jobs_dealloc},      {Py_tp_traverse, jobs_traverse},
    {Py_tp_clear, jobs_clear},          {Py_tp_methods, methods},
    {Py_sq_length, jobs_length},        {0, NULL},
};

static PyType_Spec spec = {"ddict._ddict.Jobs", sizeof(struct jobs), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

int jobs_init(PyObject *module) {
    PyObject *type = PyType_FromSpec(&spec);

    return type ? PyModule_AddObjectRef(module, "Jobs", type) : -1;
}
