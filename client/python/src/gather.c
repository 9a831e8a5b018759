/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather.c - collect the arrays of many values in columns, the form of a batch in torch, with one
 * copy from the dictionary's memory.
 *
 * A value with arrays consists of a head (an array's type and shape, or the pickle that refers to
 * the arrays) and parts (the elements). If all values of a batch have the same number of parts with
 * the same lengths, part j of all values makes column j.
 */
#include "pyddict.h"

#include <endian.h>
#include <string.h>

#define GATHER_KEYS  4096u /* most keys of one batch; all their values are held at once */
#define GATHER_PARTS 64u   /* most arrays in a value; a batch with more is loaded value by value */
#define ARRAY_DIMS   32u

struct cut {
    const char *head;
    size_t head_len;
    unsigned parts;
    struct {
        const char *p;
        size_t len;
    } part[GATHER_PARTS];
};

static bool cut_array(const struct ddict_view *v, struct cut *c) {
    const unsigned char *p = v->data;
    size_t at;

    if (v->len < 16 || p[0] != 1 || p[2] > ARRAY_DIMS)
        return false;
    c->head = v->data;
    c->head_len = 16 + 8 * (size_t)p[2];
    at = (c->head_len + OOB_ALIGN - 1) & ~(size_t)(OOB_ALIGN - 1);
    if (at > v->len)
        return false;
    c->parts = 1;
    c->part[0].p = c->head + at;
    c->part[0].len = v->len - at;
    return true;
}

static bool cut_buffers(const struct ddict_view *v, struct cut *c) {
    const struct oob_head *h = v->data;
    size_t table;

    if (v->len < sizeof *h || le32toh(h->version) != 1)
        return false;
    c->parts = le32toh(h->count);
    c->head_len = le64toh(h->stream_len);
    table = sizeof *h + c->parts * sizeof h->buf[0];
    if (c->parts == 0 || c->parts > GATHER_PARTS || table > v->len || c->head_len > v->len - table)
        return false;
    c->head = (const char *)v->data + table;
    for (unsigned i = 0; i < c->parts; i++) {
        uint64_t off = le64toh(h->buf[i].off), len = le64toh(h->buf[i].len);
        if (off > v->len || len > v->len - off)
            return false;
        c->part[i].p = (const char *)v->data + off;
        c->part[i].len = len;
    }
    return true;
}

/* False: the value has no parts, or is malformed; loading it alone then reports the error. */
static bool cut(const struct ddict_view *v, struct cut *c) {
    return v->tag == TAG_ARRAY ? cut_array(v, c) : v->tag == TAG_BUFFERS && cut_buffers(v, c);
}

/* Whether all values were found and make columns; *first is the cut of the first. */
static bool wants_match(const struct ddict_want *w, Py_ssize_t n, struct cut *first) {
    struct cut c;

    for (Py_ssize_t i = 0; i < n; i++) {
        if (w[i].status != 0 || !cut(&w[i].view, i ? &c : first))
            return false;
        if (i == 0)
            continue;
        if (c.parts != first->parts)
            return false;
        for (unsigned j = 0; j < c.parts; j++)
            if (c.part[j].len != first->part[j].len)
                return false;
    }
    return true;
}

/* For each value its tag as a byte and its head; equal neighbours share one object. */
static PyObject *heads_list(const struct ddict_want *w, Py_ssize_t n) {
    PyObject *list = PyList_New(n), *last = NULL;
    struct cut c;

    for (Py_ssize_t i = 0; list && i < n; i++) {
        cut(&w[i].view, &c);
        if (last && PyBytes_GET_SIZE(last) == (Py_ssize_t)c.head_len + 1 &&
            PyBytes_AS_STRING(last)[0] == (char)w[i].view.tag &&
            memcmp(PyBytes_AS_STRING(last) + 1, c.head, c.head_len) == 0) {
            Py_INCREF(last);
        } else {
            last = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)c.head_len + 1);
            if (!last) {
                Py_CLEAR(list);
                break;
            }
            PyBytes_AS_STRING(last)[0] = (char)w[i].view.tag;
            memcpy(PyBytes_AS_STRING(last) + 1, c.head, c.head_len);
        }
        PyList_SET_ITEM(list, i, last);
    }
    return list;
}

static void columns_fill(const struct ddict_want *w, Py_ssize_t n, const Py_buffer *to) {
    struct cut c;

    for (Py_ssize_t i = 0; i < n; i++) {
        cut(&w[i].view, &c);
        for (unsigned j = 0; j < c.parts; j++)
            memcpy((char *)to[j].buf + (size_t)i * c.part[j].len, c.part[j].p, c.part[j].len);
    }
}

/* Allocate each column by alloc(bytes) and fill it. */
static PyObject *columns_make(const struct ddict_want *w, Py_ssize_t n, const struct cut *first,
                              PyObject *alloc) {
    PyObject *list = PyList_New(0);
    Py_buffer to[GATHER_PARTS];
    unsigned held = 0;
    size_t total = 0;

    while (list && held < first->parts) {
        size_t len = first->part[held].len * (size_t)n;
        PyObject *obj = PyObject_CallFunction(alloc, "n", (Py_ssize_t)len);
        int rc = obj ? PyObject_GetBuffer(obj, &to[held], PyBUF_WRITABLE) : -1;
        if (rc == 0) {
            held++;
            if (to[held - 1].len < (Py_ssize_t)len) {
                PyErr_Format(PyExc_ValueError, "%zd bytes for a column of %zu", to[held - 1].len,
                             len);
                rc = -1;
            }
        }
        if (rc < 0 || PyList_Append(list, obj) < 0)
            Py_CLEAR(list);
        Py_XDECREF(obj);
        total += len;
    }
    if (list && total < COPY_NOGIL_MIN) {
        columns_fill(w, n, to);
    } else if (list) {
        Py_BEGIN_ALLOW_THREADS columns_fill(w, n, to);
        Py_END_ALLOW_THREADS
    }
    while (held > 0)
        PyBuffer_Release(&to[--held]);
    return list;
}

/* Load value by value; releases the views of w. */
static PyObject *loaded_list(struct handle *h, struct ddict_want *w, PyObject *const *keys,
                             Py_ssize_t n) {
    PyObject *list = PyList_New(n);

    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *obj = NULL;
        if (!list) {
            if (w[i].status == 0)
                ddict_release(&w[i].view);
            continue;
        }
        if (w[i].status == DDICT_ENOKEY)
            PyErr_SetObject(PyExc_KeyError, keys[i]);
        else
            obj = want_take(h, &w[i], keys[i], NULL, false);
        if (obj)
            PyList_SET_ITEM(list, i, obj);
        else
            Py_CLEAR(list);
    }
    return list;
}

PyObject *many_gather(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    struct handle *h = (struct handle *)self;
    PyObject *keys, *result = NULL, *heads, *columns;
    struct ddict_want *w = NULL;
    struct cut first;
    Py_ssize_t n;

    if (args_count("_gather", nargs, 2, 2) < 0 || !(keys = PySequence_Tuple(args[0])))
        return NULL;
    n = PyTuple_GET_SIZE(keys);
    if (n == 0 || n > (Py_ssize_t)GATHER_KEYS) {
        PyErr_Format(PyExc_ValueError, "_gather() takes 1 to %u keys, not %zd", GATHER_KEYS, n);
        goto out;
    }
    w = PyMem_Malloc((size_t)n * sizeof *w);
    if (!w) {
        PyErr_NoMemory();
        goto out;
    }
    if (wants_ask(h, ((PyTupleObject *)keys)->ob_item, n, w) < 0)
        goto out;
    if (!wants_match(w, n, &first)) {
        result = loaded_list(h, w, ((PyTupleObject *)keys)->ob_item, n);
        goto out;
    }
    heads = heads_list(w, n);
    columns = heads ? columns_make(w, n, &first, args[1]) : NULL;
    if (columns)
        result = PyTuple_Pack(2, heads, columns);
    Py_XDECREF(heads);
    Py_XDECREF(columns);
    for (Py_ssize_t i = 0; i < n; i++)
        ddict_release(&w[i].view);
out:
    PyMem_Free(w);
    Py_DECREF(keys);
    return result;
}
