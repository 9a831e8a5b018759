/* SPDX-License-Identifier: Apache-2.0 */
/* key.c - convert Python keys to bytes: a type letter, then the text. */
#include "pyddict.h"

#include <string.h>

static PyObject *raw_key_type; /* ddict.RawKey */
static PyObject *str_fspath;

int key_init(PyObject *module) {
    raw_key_type = PyObject_CallFunction(
        (PyObject *)&PyType_Type, "s(O){s(),ss,ss}", "RawKey", (PyObject *)&PyBytes_Type,
        "__slots__", "__module__", "ddict", "__doc__",
        "RawKey(bytes)\n--\n\nA key as its bytes in the dictionary, without the type letter that "
        "Python's keys begin with.\n\n"
        "Iteration gives it for keys that other programs stored and that no Python key stands "
        "for.");
    str_fspath = PyUnicode_InternFromString("__fspath__");
    return raw_key_type && str_fspath ? PyModule_AddObjectRef(module, "RawKey", raw_key_type) : -1;
}

static unsigned char *key_append(struct key *k, size_t n) {
    unsigned char *p;

    if (n > DDICT_KEY_MAX || k->len + n > DDICT_KEY_MAX) {
        error_raise_text(DDICT_EKEYSIZE, ddict_strerror(DDICT_EKEYSIZE));
        return NULL;
    }
    if (k->len + n > k->cap) {
        size_t cap = k->len + n < DDICT_KEY_MAX / 2 ? 2 * (k->len + n) : DDICT_KEY_MAX;
        p = PyMem_Realloc(k->data == k->inl ? NULL : k->data, cap);
        if (!p) {
            PyErr_NoMemory();
            return NULL;
        }
        if (k->data == k->inl)
            memcpy(p, k->inl, k->len);
        k->data = p;
        k->cap = cap;
    }
    p = k->data + k->len;
    k->len += n;
    return p;
}

static int append_typed(struct key *k, char type, const void *text, size_t n) {
    unsigned char *p = key_append(k, n + 1);

    if (!p)
        return -1;
    p[0] = (unsigned char)type;
    memcpy(p + 1, text, n);
    return 0;
}

size_t decimal_format(long long v, char *buf) {
    char tmp[24], *p = tmp + sizeof tmp;
    unsigned long long u = v < 0 ? 0ull - (unsigned long long)v : (unsigned long long)v;

    do
        *--p = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0)
        *--p = '-';
    memcpy(buf, p, (size_t)(tmp + sizeof tmp - p));
    return (size_t)(tmp + sizeof tmp - p);
}

static int append_int(struct key *k, PyObject *num) {
    int overflow, rc = -1;
    long long v = PyLong_AsLongLongAndOverflow(num, &overflow);
    char buf[24];
    PyObject *s;
    const char *text;
    Py_ssize_t n;

    if (v == -1 && !overflow && PyErr_Occurred())
        return -1;
    if (!overflow)
        return append_typed(k, 'i', buf, decimal_format(v, buf));
    s = PyLong_Type.tp_repr(num);
    if (s && (text = PyUnicode_AsUTF8AndSize(s, &n)))
        rc = append_typed(k, 'i', text, (size_t)n);
    Py_XDECREF(s);
    return rc;
}

static int append_str(struct key *k, PyObject *s) {
    PyObject *b;
    int rc;

    if (PyUnicode_IS_COMPACT_ASCII(s))
        return append_typed(k, 's', PyUnicode_1BYTE_DATA(s), (size_t)PyUnicode_GET_LENGTH(s));
    b = PyUnicode_AsEncodedString(s, "utf-8", "surrogateescape");
    if (!b)
        return -1;
    rc = append_typed(k, 's', PyBytes_AS_STRING(b), (size_t)PyBytes_GET_SIZE(b));
    Py_DECREF(b);
    return rc;
}

/* The position of a part in a key that is a tuple. */
struct part {
    const struct part *up; /* NULL: tuple is the whole key */
    PyObject *tuple;
    Py_ssize_t i;
};

static int append_key(struct key *k, PyObject *obj, const struct part *at);

static int append_tuple(struct key *k, PyObject *t, const struct part *up) {
    unsigned char *p = key_append(k, 1);
    struct part at = {up, t, 0};
    int rc = 0;

    if (!p || Py_EnterRecursiveCall(" in a key"))
        return -1;
    *p = 't';
    for (Py_ssize_t i = 0; rc == 0 && i < PyTuple_GET_SIZE(t); i++) {
        size_t from = k->len, n;
        at.i = i;
        if (!key_append(k, 4) || append_key(k, PyTuple_GET_ITEM(t, i), &at) < 0) {
            rc = -1;
            break;
        }
        n = k->len - from - 4;
        for (int b = 0; b < 4; b++)
            k->data[from + (size_t)b] = (unsigned char)(n >> 8 * b);
    }
    Py_LeaveRecursiveCall();
    return rc;
}

/* A hint which part or form of an object would be a key. */
static const char *key_advice(PyObject *obj) {
    if (obj == Py_None)
        return "";
    if (PyList_Check(obj))
        return "; tuple() of it may be one";
    if (PyObject_HasAttrString((PyObject *)Py_TYPE(obj), "__members__")) /* a member of an Enum */
        return "; its .value may be one";
    if (!Py_TYPE(obj)->tp_hash || Py_TYPE(obj)->tp_hash == PyObject_HashNotImplemented)
        return "";
    return PyFloat_Check(obj) ? "; int() or str() of it is one" : "; str() of it is one";
}

static void not_a_key(PyObject *obj, const struct part *at) {
    const char *advice = key_advice(obj), *type = Py_TYPE(obj)->tp_name;
    PyObject *where = NULL, *key = NULL;

    for (; at; at = at->up) { /* from the innermost tuple outwards: [1][0] */
        PyObject *more = where ? PyUnicode_FromFormat("[%zd]%U", at->i, where)
                               : PyUnicode_FromFormat("[%zd]", at->i);
        Py_XDECREF(where);
        if (!(where = more))
            return;
        key = at->tuple;
    }
    if (where)
        PyErr_Format(PyExc_TypeError,
                     "a key is a str, bytes, int or a tuple of these, not %.200s, which is key%U "
                     "of the key %R%s",
                     type, where, key, advice);
    else
        PyErr_Format(PyExc_TypeError,
                     "a key is a str, bytes, int or a tuple of these, not %.200s%s", type, advice);
    Py_XDECREF(where);
}

/* pathlib's paths and the like, which open() takes for their text */
static bool is_path(PyObject *obj) {
    return PyObject_HasAttr((PyObject *)Py_TYPE(obj), str_fspath);
}

static int append_key(struct key *k, PyObject *obj, const struct part *at) {
    if (PyLong_Check(obj))
        return append_int(k, obj);
    if (PyUnicode_Check(obj))
        return append_str(k, obj);
    if (PyBytes_Check(obj)) {
        if (!PyObject_TypeCheck(obj, (PyTypeObject *)raw_key_type))
            return append_typed(k, 'b', PyBytes_AS_STRING(obj), (size_t)PyBytes_GET_SIZE(obj));
        if (!at) {
            size_t n = (size_t)PyBytes_GET_SIZE(obj);
            unsigned char *p = key_append(k, n);
            if (p)
                memcpy(p, PyBytes_AS_STRING(obj), n);
            return p ? 0 : -1;
        }
    } else if (PyTuple_Check(obj)) {
        return append_tuple(k, obj, at);
    } else if (PyIndex_Check(
                   obj)) { /* numpy.int64 and the like: equal to an int, so the same key */
        PyObject *num = PyNumber_Index(obj);
        int rc = num ? append_int(k, num) : -1;
        Py_XDECREF(num);
        return rc;
    } else if (is_path(obj)) {
        PyObject *text = PyOS_FSPath(obj);
        int rc = text ? append_key(k, text, at) : -1;
        Py_XDECREF(text);
        return rc;
    }
    not_a_key(obj, at);
    return -1;
}

int key_encode(struct key *k, PyObject *obj) {
    k->data = k->inl;
    k->cap = sizeof k->inl;
    k->len = 0;
    if (append_key(k, obj, NULL) == 0)
        return 0;
    key_clear(k);
    return -1;
}

bool key_is_never_there(PyObject *obj) {
    PyObject *type, *value, *trace;

    if (!PyErr_ExceptionMatches(PyExc_TypeError))
        return false;
    PyErr_Fetch(&type, &value, &trace);
    if (PyObject_Hash(obj) == -1) {
        PyErr_Clear();
        PyErr_Restore(type, value, trace);
        return false;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return true;
}

int prefix_encode(struct key *k, PyObject *obj) {
    if (obj != Py_None && !PyUnicode_Check(obj) && !PyBytes_Check(obj) && !PyTuple_Check(obj) &&
        !is_path(obj)) {
        PyErr_Format(PyExc_TypeError,
                     "a prefix is a str, bytes or a tuple of first parts, not %.200s",
                     Py_TYPE(obj)->tp_name);
        return -1;
    }
    if (obj != Py_None)
        return key_encode(k, obj);
    k->data = k->inl;
    k->cap = sizeof k->inl;
    k->len = 0;
    return 0;
}

void key_clear(struct key *k) {
    if (k->data != k->inl)
        PyMem_Free(k->data);
    k->data = k->inl;
}

PyObject *decimal_parse(const char *s, size_t len) {
    bool neg = len && s[0] == '-';
    size_t digits = len - neg;
    long long v = 0;
    PyObject *b, *num;

    if (digits == 0 || (s[neg] == '0' && (digits > 1 || neg)))
        return NULL;
    for (size_t i = neg; i < len; i++)
        if (s[i] < '0' || s[i] > '9')
            return NULL;
    if (digits <= 18) {
        for (size_t i = neg; i < len; i++)
            v = 10 * v + (s[i] - '0');
        return PyLong_FromLongLong(neg ? -v : v);
    }
    /* PyLong_FromString wants a terminating 0 */
    b = PyBytes_FromStringAndSize(s, (Py_ssize_t)len);
    num = b ? PyLong_FromString(PyBytes_AS_STRING(b), NULL, 10) : NULL;
    Py_XDECREF(b);
    /* too long for sys.get_int_max_str_digits() */
    if (!num && PyErr_ExceptionMatches(PyExc_ValueError))
        PyErr_Clear();
    return num;
}

static PyObject *decode_key(const unsigned char *p, size_t len);

/* All decode_* return NULL without an exception if the bytes are not of key_encode(). */
static PyObject *decode_tuple(const unsigned char *p, size_t len) {
    Py_ssize_t parts = 0;
    size_t at = 0, n;
    PyObject *t;

    while (at < len) {
        if (len - at < 4)
            return NULL;
        n = p[at] | (size_t)p[at + 1] << 8 | (size_t)p[at + 2] << 16 | (size_t)p[at + 3] << 24;
        if (n > len - at - 4)
            return NULL;
        at += 4 + n;
        parts++;
    }
    t = PyTuple_New(parts);
    if (!t || Py_EnterRecursiveCall(" in a key")) {
        Py_XDECREF(t);
        return NULL;
    }
    at = 0;
    for (Py_ssize_t i = 0; i < parts; i++) {
        PyObject *part;
        n = p[at] | (size_t)p[at + 1] << 8 | (size_t)p[at + 2] << 16 | (size_t)p[at + 3] << 24;
        part = decode_key(p + at + 4, n);
        if (!part) {
            Py_CLEAR(t);
            break;
        }
        PyTuple_SET_ITEM(t, i, part);
        at += 4 + n;
    }
    Py_LeaveRecursiveCall();
    return t;
}

static PyObject *decode_key(const unsigned char *p, size_t len) {
    if (len == 0)
        return NULL;
    switch (p[0]) {
    case 's':
        return PyUnicode_DecodeUTF8((const char *)p + 1, (Py_ssize_t)len - 1, "surrogateescape");
    case 'b':
        return PyBytes_FromStringAndSize((const char *)p + 1, (Py_ssize_t)len - 1);
    case 'i':
        return decimal_parse((const char *)p + 1, len - 1);
    case 't':
        return decode_tuple(p + 1, len - 1);
    }
    return NULL;
}

PyObject *key_decode(const void *data, size_t len) {
    PyObject *key = decode_key(data, len);

    if (!key && !PyErr_Occurred())
        key = PyObject_CallFunction(raw_key_type, "y#", (const char *)data, (Py_ssize_t)len);
    return key;
}
