/* SPDX-License-Identifier: Apache-2.0 */
/*
 * value.c - convert a Python object to the pieces that ddict_putv() gathers.
 *
 * bytes, bytearray, memoryview, View, str, int, float, bool and arrays are stored directly, all other
 * objects by pickle protocol 5. Buffers that pickle passes out of band (numpy arrays, torch tensors
 * by ddict._torch) become separate pieces and are copied once, by libddict. ddict._cloud pickles what
 * pickle cannot, and what it would store as a name of __main__.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* memmem() */
#endif
#include "pyddict.h"

#include <endian.h>
#include <string.h>
#include <sys/uio.h>

static PyObject *dumps; /* pickle.dumps */
/* ddict._torch.dumps; NULL until this process has imported torch */
static PyObject *torch_dumps;
static PyObject *cloud_dumps; /* ddict._cloud.dumps; NULL until a value needs it */
static PyObject *pickling_error;
static PyObject *str_torch, *dumps_kwnames;
static const unsigned char zeros[OOB_ALIGN];

int value_init(void) {
    PyObject *pickle = PyImport_ImportModule("pickle");

    if (!pickle)
        return -1;
    dumps = PyObject_GetAttrString(pickle, "dumps");
    pickling_error = PyObject_GetAttrString(pickle, "PicklingError");
    Py_DECREF(pickle);
    str_torch = PyUnicode_InternFromString("torch");
    dumps_kwnames = Py_BuildValue("(s)", "buffer_callback");
    return dumps && pickling_error && str_torch && dumps_kwnames ? 0 : -1;
}

/* Pickler's buffer_callback; `list` is its self. Returning True keeps the buffer in the stream. */
static PyObject *oob_collect(PyObject *list, PyObject *pb) {
    const Py_buffer *b = PyPickleBuffer_GetBuffer(pb);

    if (!b)
        return NULL;
    if (b->len < (Py_ssize_t)OOB_MIN || PyList_GET_SIZE(list) >= (Py_ssize_t)OOB_MAX ||
        !PyBuffer_IsContiguous(b, 'A'))
        Py_RETURN_TRUE;
    if (PyList_Append(list, pb) < 0)
        return NULL;
    Py_RETURN_FALSE;
}

static PyMethodDef oob_collect_def = {"collect", oob_collect, METH_O, NULL};

/* The function that pickles: torch's tensors need help, but torch is not imported for programs that
 * do not use it. */
static PyObject *torch_dumps_get(void) {
    PyObject *mod;

    if (torch_dumps)
        return torch_dumps;
    /* borrowed; None: the import of the module is blocked */
    mod = PyDict_GetItemWithError(PyImport_GetModuleDict(), str_torch);
    if (!mod || mod == Py_None)
        return NULL;
    mod = PyImport_ImportModule("ddict._torch");
    if (!mod)
        return NULL;
    torch_dumps = PyObject_GetAttrString(mod, "dumps");
    Py_DECREF(mod);
    return torch_dumps;
}

static void stream_clear(struct value *v) {
    if (v->buf.obj)
        PyBuffer_Release(&v->buf);
    Py_CLEAR(v->hold);
}

static int stream_set(struct value *v, PyObject *stream) /* takes the reference */
{
    if (PyBytes_CheckExact(stream)) {
        v->hold = stream;
        v->one.iov_base = PyBytes_AS_STRING(stream);
        v->one.iov_len = (size_t)PyBytes_GET_SIZE(stream);
        return 0;
    }
    int rc = PyObject_GetBuffer(stream, &v->buf, PyBUF_SIMPLE);
    Py_DECREF(stream);
    if (rc < 0)
        return -1;
    v->one.iov_base = v->buf.buf;
    v->one.iov_len = (size_t)v->buf.len;
    return 0;
}

/* head and table | stream | padding | buffer | padding | buffer ... */
static int pieces_lay(struct value *v) {
    Py_ssize_t n = PyList_GET_SIZE(v->oob);
    size_t head = sizeof(struct oob_head) + (size_t)n * sizeof(((struct oob_head *)0)->buf[0]), at;
    struct oob_head *h;
    struct iovec *io;

    v->heap = PyMem_Malloc(head + (2 + 2 * (size_t)n) * sizeof *io);
    if (!v->heap) {
        PyErr_NoMemory();
        return -1;
    }
    h = v->heap; /* 16 + 16 n bytes, so that the following struct iovec is aligned */
    io = v->iov = (struct iovec *)((char *)v->heap + head);
    h->count = htole32((uint32_t)n);
    h->version = htole32(1);
    h->stream_len = htole64(v->one.iov_len);
    *io++ = (struct iovec){h, head};
    *io++ = v->one;
    at = head + v->one.iov_len;
    for (Py_ssize_t i = 0; i < n; i++) {
        const Py_buffer *b = PyPickleBuffer_GetBuffer(PyList_GET_ITEM(v->oob, i));
        size_t pad = -at & (OOB_ALIGN - 1);
        if (!b)
            return -1;
        if (pad)
            *io++ = (struct iovec){(void *)zeros, pad};
        at += pad;
        h->buf[i].off = htole64(at);
        h->buf[i].len = htole64((uint64_t)b->len);
        *io++ = (struct iovec){b->buf, (size_t)b->len};
        at += (size_t)b->len;
    }
    v->n = (int)(io - v->iov);
    v->len = at;
    v->tag = TAG_BUFFERS;
    return 0;
}

/* Start the list of buffers anew. A function that appends to it, for a pickler. */
static PyObject *collect_new(struct value *v) {
    Py_XSETREF(v->oob, PyList_New(0));
    return v->oob ? PyCFunction_New(&oob_collect_def, v->oob) : NULL;
}

static PyObject *stream_make(struct value *v, PyObject *obj) {
    PyObject *helper = torch_dumps_get(), *collect, *stream;

    if ((!helper && PyErr_Occurred()) || !(collect = collect_new(v)))
        return NULL;
    if (helper) {
        stream = PyObject_CallFunctionObjArgs(helper, obj, collect, NULL);
    } else {
        PyObject *five = PyLong_FromLong(5), *args[] = {obj, five, collect};
        stream = five ? PyObject_Vectorcall(dumps, args, 2, dumps_kwnames) : NULL;
        Py_XDECREF(five);
    }
    Py_DECREF(collect);
    return stream;
}

/* The length of the object or frame that begins here, which has head bytes before it; 0: a stream
 * goes on otherwise. Long strings and bytes stand between frames. */
static size_t frame_length(const unsigned char *p, size_t left, size_t *head) {
    uint64_t n = 0;

    *head = *p == 'B' || *p == 'X'                                 ? 5
            : *p == 0x95 || *p == 0x8d || *p == 0x8e || *p == 0x96 ? 9
                                                                   : 0;
    if (*head == 0 || left < *head)
        return 0;
    memcpy(&n, p + 1, *head - 1);
    n = le64toh(n);
    return n <= left - *head ? *head + (size_t)n : 0;
}

/* Whether a stream may name something of __main__ (or __mp_main__). Names are in frames; where that
 * is not clear, all that follows is looked at. */
static bool stream_names_main(const unsigned char *p, size_t len) {
    static const char name[] = "_main__";
    const unsigned char *end = p + len;
    size_t head, n;

    if (len < 2)
        return false;
    for (p += 2; p < end && (n = frame_length(p, (size_t)(end - p), &head)) > 0; p += n)
        if (*p == 0x95 && memmem(p + head, n - head, name, sizeof name - 1))
            return true;
    return p < end && memmem(p, (size_t)(end - p), name, sizeof name - 1);
}

/* The stream that ddict._cloud makes, or None if it has nothing better. failure: pickle's own. */
static PyObject *stream_make_cloud(struct value *v, PyObject *obj, PyObject *failure) {
    PyObject *collect, *stream, *plain, *mod;

    if (!cloud_dumps) {
        mod = PyImport_ImportModule("ddict._cloud");
        cloud_dumps = mod ? PyObject_GetAttrString(mod, "dumps") : NULL;
        Py_XDECREF(mod);
        if (!cloud_dumps)
            return NULL;
    }
    plain = Py_XNewRef(v->oob);
    collect = collect_new(v);
    stream =
        collect ? PyObject_CallFunctionObjArgs(cloud_dumps, obj, collect, failure, NULL) : NULL;
    Py_XDECREF(collect);
    if (stream == Py_None)
        Py_XSETREF(v->oob, Py_XNewRef(plain));
    Py_XDECREF(plain);
    return stream;
}

/* After pickle failed: a stream all the same. */
static PyObject *stream_after_failure(struct value *v, PyObject *obj) {
    PyObject *type, *failure, *trace, *stream;

    if (!PyErr_ExceptionMatches(pickling_error) && !PyErr_ExceptionMatches(PyExc_AttributeError) &&
        !PyErr_ExceptionMatches(PyExc_TypeError))
        return NULL;
    PyErr_Fetch(&type, &failure, &trace);
    PyErr_NormalizeException(&type, &failure, &trace);
    if (trace)
        PyException_SetTraceback(failure, trace);
    stream = stream_make_cloud(v, obj, failure);
    if (stream && PyExceptionInstance_Check(stream)) {
        PyErr_SetObject((PyObject *)Py_TYPE(stream), stream);
        Py_CLEAR(stream);
    }
    Py_XDECREF(type);
    Py_XDECREF(failure);
    Py_XDECREF(trace);
    return stream;
}

static int encode_pickle(struct value *v, PyObject *obj) {
    PyObject *stream = stream_make(v, obj);
    bool plain = stream != NULL;

    if (!plain)
        stream = stream_after_failure(v, obj);
    if (!stream || stream_set(v, stream) < 0)
        return -1;
    if (plain && stream_names_main(v->one.iov_base, v->one.iov_len)) {
        stream = stream_make_cloud(v, obj, Py_None);
        if (!stream)
            return -1;
        if (stream == Py_None) {
            Py_DECREF(stream);
        } else {
            stream_clear(v);
            if (stream_set(v, stream) < 0)
                return -1;
        }
    }
    v->tag = TAG_PICKLE;
    return PyList_GET_SIZE(v->oob) ? pieces_lay(v) : 0;
}

/* 1: stored as text. 0: not UTF-8 (a lone surrogate), so pickle stores it. */
static int encode_str(struct value *v, PyObject *s) {
    v->tag = TAG_STR;
    if (PyUnicode_IS_COMPACT_ASCII(s)) {
        v->one = (struct iovec){PyUnicode_1BYTE_DATA(s), (size_t)PyUnicode_GET_LENGTH(s)};
        return 1;
    }
    v->hold = PyUnicode_AsUTF8String(s);
    if (!v->hold) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    v->one = (struct iovec){PyBytes_AS_STRING(v->hold), (size_t)PyBytes_GET_SIZE(v->hold)};
    return 1;
}

static int encode_buffer(struct value *v, PyObject *obj) {
    if (PyObject_GetBuffer(obj, &v->buf, PyBUF_FULL_RO) < 0)
        return -1;
    if (!PyBuffer_IsContiguous(&v->buf, 'C')) {
        v->heap = PyMem_Malloc((size_t)v->buf.len + 1);
        if (!v->heap) {
            PyErr_NoMemory();
            return -1;
        }
        if (PyBuffer_ToContiguous(v->heap, &v->buf, v->buf.len, 'C') < 0)
            return -1;
        v->one = (struct iovec){v->heap, (size_t)v->buf.len};
    } else {
        v->one = (struct iovec){v->buf.buf, (size_t)v->buf.len};
    }
    return 0;
}

static int encode(struct value *v, PyObject *obj) {
    int array;

    if (PyBytes_CheckExact(obj)) {
        v->one = (struct iovec){PyBytes_AS_STRING(obj), (size_t)PyBytes_GET_SIZE(obj)};
        v->tag = TAG_BYTES;
        return 0;
    }
    if (PyUnicode_CheckExact(obj)) {
        int rc = encode_str(v, obj);
        return rc ? rc : encode_pickle(v, obj);
    }
    if (PyLong_CheckExact(obj)) {
        int overflow;
        long long n = PyLong_AsLongLongAndOverflow(obj, &overflow);
        if (overflow)
            return encode_pickle(v, obj);
        v->one = (struct iovec){v->text, decimal_format(n, v->text)};
        v->tag = TAG_INT;
        return 0;
    }
    if (PyFloat_CheckExact(obj)) {
        double x = PyFloat_AS_DOUBLE(obj);
        uint64_t u;
        memcpy(&u, &x, 8);
        u = htole64(u);
        memcpy(v->text, &u, 8);
        v->one = (struct iovec){v->text, 8};
        v->tag = TAG_FLOAT;
        return 0;
    }
    if (PyBool_Check(obj)) {
        v->text[0] = obj == Py_True;
        v->one = (struct iovec){v->text, 1};
        v->tag = TAG_BOOL;
        return 0;
    }
    if (PyByteArray_CheckExact(obj) || PyMemoryView_Check(obj)) {
        v->tag = PyMemoryView_Check(obj) ? TAG_BYTES : TAG_BYTEARRAY;
        return encode_buffer(v, obj);
    }
    if (view_check(obj)) { /* a stored value, copied whatever its type */
        v->tag = view_tag(obj);
        return encode_buffer(v, obj);
    }
    array = array_encode(v, obj);
    return array < 0 ? -1 : array ? 0 : encode_pickle(v, obj);
}

int value_encode(struct value *v, PyObject *obj) {
    v->hold = v->oob = NULL;
    v->buf.obj = NULL;
    v->heap = NULL;
    v->iov = NULL;
    if (encode(v, obj) < 0) {
        value_clear(v);
        return -1;
    }
    if (!v->iov) {
        v->iov = &v->one;
        v->n = 1;
        v->len = v->one.iov_len;
    }
    return 0;
}

int value_join(struct value *v) {
    char *p, *to;

    if (v->n == 1)
        return 0;
    p = to = PyMem_Malloc(v->len + 1);
    if (!p) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < v->n; i++) {
        memcpy(to, v->iov[i].iov_base, v->iov[i].iov_len);
        to += v->iov[i].iov_len;
    }
    PyMem_Free(v->heap); /* also frees the pieces, which are in it */
    v->heap = p;
    v->one = (struct iovec){p, v->len};
    v->iov = &v->one;
    v->n = 1;
    return 0;
}

void value_clear(struct value *v) {
    stream_clear(v);
    Py_CLEAR(v->oob);
    PyMem_Free(v->heap);
    v->heap = NULL;
}
