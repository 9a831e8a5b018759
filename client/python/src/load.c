/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c - convert stored bytes to a Python object.
 *
 * There are two ways: a copy, in which every buffer becomes a new bytearray, filled by one memcpy;
 * and an alias, in which the buffers stay in the dictionary's memory, read-only, and keep their
 * View.
 */
#include "pyddict.h"

#include <endian.h>
#include <string.h>

static PyObject *loads, *loads_kwnames; /* pickle.loads */

int load_init(void) {
    PyObject *pickle = PyImport_ImportModule("pickle");

    if (!pickle)
        return -1;
    loads = PyObject_GetAttrString(pickle, "loads");
    Py_DECREF(pickle);
    loads_kwnames = Py_BuildValue("(s)", "buffers");
    return loads && loads_kwnames ? 0 : -1;
}

void copy_bytes(void *dst, const void *src, size_t n) {
    if (n < COPY_NOGIL_MIN) {
        memcpy(dst, src, n);
        return;
    }
    Py_BEGIN_ALLOW_THREADS memcpy(dst, src, n);
    Py_END_ALLOW_THREADS
}

static PyObject *load_bytes(const void *data, size_t len) {
    PyObject *b = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)len);

    if (b)
        copy_bytes(PyBytes_AS_STRING(b), data, len);
    return b;
}

static PyObject *load_bytearray(const void *data, size_t len) {
    PyObject *b = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)len);

    if (b)
        copy_bytes(PyByteArray_AS_STRING(b), data, len);
    return b;
}

static PyObject *broken(const char *what) {
    PyErr_Format(error_base, "the stored value is not what its tag says: %s", what);
    return NULL;
}

/* unpickle reads the stream in place, and copies what it keeps. */
static PyObject *load_stream(const char *p, size_t len, PyObject *buffers) {
    PyObject *mv = PyMemoryView_FromMemory((char *)p, (Py_ssize_t)len, PyBUF_READ),
             *args[2] = {mv, buffers}, *obj;

    if (!mv)
        return NULL;
    obj = buffers ? PyObject_Vectorcall(loads, args, 1, loads_kwnames)
                  : PyObject_Vectorcall(loads, args, 1, NULL);
    Py_DECREF(mv);
    return obj;
}

/* view: NULL for a copy. */
static PyObject *load_buffers(const char *data, size_t len, PyObject *view, bool alias_tensors) {
    const struct oob_head *h = (const void *)data;
    size_t head, count, stream_len;
    PyObject *buffers, *obj;

    if (len < sizeof *h || le32toh(h->version) != 1)
        return broken("no header");
    count = le32toh(h->count);
    stream_len = le64toh(h->stream_len);
    head = sizeof *h + count * sizeof h->buf[0];
    if (count > OOB_MAX || head > len || stream_len > len - head)
        return broken("bad lengths");
    buffers = PyList_New((Py_ssize_t)count);
    if (!buffers)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        uint64_t off = le64toh(h->buf[i].off), n = le64toh(h->buf[i].len);
        PyObject *b;
        if (off > len || n > len - off) {
            Py_DECREF(buffers);
            return broken("bad buffer");
        }
        b = view ? memory_new(view, true, (void *)(data + off), n, true, alias_tensors)
                 : load_bytearray(data + off, n);
        if (!b) {
            Py_DECREF(buffers);
            return NULL;
        }
        PyList_SET_ITEM(buffers, (Py_ssize_t)i, b);
    }
    obj = load_stream(data + head, stream_len, buffers);
    Py_DECREF(buffers);
    return obj;
}

static PyObject *load(const void *data, size_t len, unsigned tag, PyObject *view,
                      bool alias_tensors) {
    PyObject *obj;
    uint64_t u;
    double x;

    switch (tag) {
    case TAG_BYTES:
        return load_bytes(data, len);
    case TAG_BYTEARRAY:
        return load_bytearray(data, len);
    case TAG_STR:
        return PyUnicode_DecodeUTF8(data, (Py_ssize_t)len, NULL);
    case TAG_INT:
        obj = decimal_parse(data, len);
        return obj || PyErr_Occurred() ? obj : broken("no number");
    case TAG_FLOAT:
        if (len != 8)
            return broken("no float");
        memcpy(&u, data, 8);
        u = le64toh(u);
        memcpy(&x, &u, 8);
        return PyFloat_FromDouble(x);
    case TAG_BOOL:
        if (len != 1 || *(const unsigned char *)data > 1)
            return broken("no bool");
        return PyBool_FromLong(*(const unsigned char *)data);
    case TAG_PICKLE:
        return load_stream(data, len, NULL);
    case TAG_BUFFERS:
        return load_buffers(data, len, view, alias_tensors);
    case TAG_ARRAY:
        return array_load(data, len, view, alias_tensors);
    }
    PyErr_Format(error_base, "a value with tag %u was not stored by Python; view() gives its bytes",
                 tag);
    return NULL;
}

PyObject *load_copy(const void *data, size_t len, unsigned tag) {
    return load(data, len, tag, NULL, false);
}

PyObject *load_alias(PyObject *view, const struct ddict_view *v, bool alias_tensors) {
    return load(v->data, v->len, v->tag, view, alias_tensors);
}
