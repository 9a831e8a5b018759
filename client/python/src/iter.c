/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iter.c - the iterator over the keys. It takes keys from libddict in batches, so that the GIL is
 * released once for each batch, not for each key. An open iterator keeps the handle attached.
 * Threads may share an iterator: while one takes a batch the others wait.
 */
#include "pyddict.h"

#include <errno.h>
#include <string.h>

#define FIRST_BATCH 8   /* keys; popitem() and next(iter(d)) need one */
#define BATCH       512 /* keys */

struct iter {
    PyObject_HEAD struct handle *h; /* owned; NULL after the last key */
    ddict_iter_t *it;
    char *buf; /* the batch: {size_t length, bytes} for each key, not aligned */
    size_t at, len, cap;
    size_t batch;
    int rc;                  /* result of the last batch: 1 more follow, 0 the end, or a code */
    PyThread_type_lock turn; /* held without the GIL by the thread that takes a batch */
    bool filling;            /* a thread takes a batch */
};

/* bytes; the copy of a longer key is on the heap */
#define KEY_SMALL 512

static PyTypeObject *iter_type;

static PyObject *iter_make(PyObject *handle, const struct key *prefix, int manager,
                           unsigned flags) {
    struct handle *h = (struct handle *)handle;
    struct iter *i;
    int rc;

    if (handle_begin(h) < 0)
        return NULL;
    i = PyObject_New(struct iter, iter_type);
    if (!i) {
        handle_end(h);
        return NULL;
    }
    i->h = h;
    Py_INCREF(h);
    i->it = NULL;
    i->buf = NULL;
    i->at = i->len = i->cap = 0;
    i->batch = FIRST_BATCH;
    i->rc = 1;
    i->filling = false;
    i->turn = PyThread_allocate_lock();
    if (!i->turn) {
        Py_DECREF(i);
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS rc =
        ddict_iter_open_flags(h->d, manager, prefix ? prefix->data : NULL, prefix ? prefix->len : 0,
                              flags, &i->it, h->timeout_ms);
    Py_END_ALLOW_THREADS if (rc == 0) return (PyObject *)i;
    i->it = NULL;
    Py_DECREF(i);
    return error_raise(rc, NULL);
}

PyObject *iter_new(PyObject *handle) {
    return iter_make(handle, NULL, -1, 0);
}

/* prefix (None: none), whether hidden keys, too, and manager as of ddict_iter_open() */
PyObject *iter_keys(PyObject *handle, PyObject *const *args, Py_ssize_t n) {
    PyObject *i;
    struct key k;
    long manager;
    int hidden;

    if (n != 3) {
        PyErr_SetString(PyExc_TypeError, "_keys() takes a prefix, hidden and a manager");
        return NULL;
    }
    hidden = PyObject_IsTrue(args[1]);
    manager = hidden < 0 ? -1 : PyLong_AsLong(args[2]);
    if (PyErr_Occurred())
        return NULL;
    if (args[0] == Py_None)
        return iter_make(handle, NULL, (int)manager, hidden ? DDICT_ITER_HIDDEN : 0);
    if (prefix_encode(&k, args[0]) < 0)
        return NULL;
    i = iter_make(handle, &k, (int)manager, hidden ? DDICT_ITER_HIDDEN : 0);
    key_clear(&k);
    return i;
}

static void iter_close(struct iter *i) {
    struct handle *h = i->h;

    if (!h)
        return;
    i->h = NULL;
    ddict_iter_close(i->it);
    i->it = NULL;
    handle_end(h);
    Py_DECREF(h);
}

static void iter_dealloc(PyObject *self) {
    struct iter *i = (struct iter *)self;
    PyTypeObject *type = Py_TYPE(self);

    iter_close(i);
    if (i->turn)
        PyThread_free_lock(i->turn);
    PyMem_RawFree(i->buf);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Called without the GIL. */
static int iter_push(struct iter *i, const void *key, size_t klen) {
    size_t need = i->len + sizeof klen + klen;

    if (need > i->cap) {
        char *p = PyMem_RawRealloc(i->buf, 2 * need);
        if (!p)
            return -ENOMEM;
        i->buf = p;
        i->cap = 2 * need;
    }
    memcpy(i->buf + i->len, &klen, sizeof klen);
    memcpy(i->buf + i->len + sizeof klen, key, klen);
    i->len = need;
    return 0;
}

static void iter_fill(struct iter *i) {
    const void *key;
    size_t klen;

    i->at = i->len = 0;
    i->filling = true;
    Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(i->turn, WAIT_LOCK);
    for (size_t n = 0; n < i->batch && (i->rc = ddict_iter_next(i->it, &key, &klen)) == 1; n++)
        if ((i->rc = iter_push(i, key, klen)) < 0)
            break;
        else
            i->rc = 1;
    PyThread_release_lock(i->turn);
    Py_END_ALLOW_THREADS i->filling = false;
    i->batch = BATCH;
}

/* Wait until no other thread takes a batch. */
static void iter_wait(struct iter *i) {
    while (i->filling) {
        Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(i->turn, WAIT_LOCK);
        PyThread_release_lock(i->turn);
        Py_END_ALLOW_THREADS
    }
}

/* Take the next key of the batch. Decoding may run other code that uses this iterator, so the key
 * is copied first. */
static PyObject *iter_take(struct iter *i) {
    char small[KEY_SMALL], *p = small;
    PyObject *key;
    size_t klen;

    memcpy(&klen, i->buf + i->at, sizeof klen);
    if (klen > sizeof small && !(p = PyMem_RawMalloc(klen)))
        return PyErr_NoMemory();
    memcpy(p, i->buf + i->at + sizeof klen, klen);
    i->at += sizeof klen + klen;
    key = key_decode(p, klen);
    if (p != small)
        PyMem_RawFree(p);
    return key;
}

static PyObject *iter_next(PyObject *self) {
    struct iter *i = (struct iter *)self;

    iter_wait(i);
    if (!i->h)
        return NULL;
    if (i->at == i->len && i->rc == 1) {
        if (handle_check(i->h) < 0)
            return NULL;
        iter_fill(i);
    }
    if (i->at == i->len) {
        int rc = i->rc;
        iter_close(i);
        return rc < 0 ? error_raise(rc, NULL) : NULL;
    }
    return iter_take(i);
}

static PyType_Slot iter_slots[] = {
    {Py_tp_doc, "An iterator over the keys of a dictionary: live and weakly consistent."},
    {Py_tp_dealloc, iter_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, iter_next},
    {0, NULL},
};

static PyType_Spec iter_spec = {"ddict._ddict.KeyIterator", sizeof(struct iter), 0,
                                Py_TPFLAGS_DEFAULT, iter_slots};

int iter_init(void) {
    iter_type = (PyTypeObject *)PyType_FromSpec(&iter_spec);
    if (iter_type)
        iter_type->tp_new = NULL;
    return iter_type ? 0 : -1;
}
