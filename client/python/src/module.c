/* SPDX-License-Identifier: Apache-2.0 */
/* module.c - the extension module ddict._ddict: each file adds its own types and functions. The
 * package in ../ddict derives DDict from it. */
#include "pyddict.h"

static PyObject *module_down(PyObject *module, PyObject *args, PyObject *kw) {
    static char *names[] = {"name", "timeout", NULL};
    PyObject *timeout = Py_None;
    const char *name = NULL;
    int ms, rc;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "|zO:down", names, &name, &timeout) ||
        timeout_parse(timeout, &ms) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = ddict_down(name, ms);
    Py_END_ALLOW_THREADS if (rc < 0) return error_raise(rc, NULL);
    Py_RETURN_NONE;
}

static PyObject *module_key_bytes(PyObject *module, PyObject *key) {
    PyObject *b;
    struct key k;

    if (key_encode(&k, key) < 0)
        return NULL;
    b = PyBytes_FromStringAndSize((const char *)k.data, (Py_ssize_t)k.len);
    key_clear(&k);
    return b;
}

static PyObject *module_bytes_key(PyObject *module, PyObject *bytes) {
    if (!PyBytes_Check(bytes)) {
        PyErr_SetString(PyExc_TypeError, "bytes_key() takes bytes");
        return NULL;
    }
    return key_decode(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
}

/* _named(exception, key): the exception to raise instead of one that the value of key raised */
static PyObject *module_named(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    return args_count("_named", n, 2, 2) < 0 ? NULL : error_named(args[0], args[1]);
}

static PyMethodDef functions[] = {
    {"_named", METHOD(module_named), METH_FASTCALL, NULL},
    {"down", METHOD(module_down), METH_VARARGS | METH_KEYWORDS,
     "down(name=None, timeout=None)\n--\n\nAsk the managers of a dictionary to drain and end; "
     "returns when they took the order."},
    {"key_bytes", module_key_bytes, METH_O,
     "key_bytes(key, /)\n--\n\nThe bytes under which key is stored, for other programs."},
    {"bytes_key", module_bytes_key, METH_O,
     "bytes_key(stored, /)\n--\n\nThe key that is stored under these bytes."},
    {NULL},
};

static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "ddict._ddict",
                                 "The C part of the package ddict.", -1, functions};

PyMODINIT_FUNC PyInit__ddict(void);
PyMODINIT_FUNC PyInit__ddict(void) {
    PyObject *m = PyModule_Create(&def);

    if (!m)
        return NULL;
    if (errors_init(m) < 0 || key_init(m) < 0 || value_init() < 0 || load_init() < 0 ||
        array_init() < 0 || memory_init(m) < 0 || view_init(m) < 0 || iter_init() < 0 ||
        sub_init() < 0 || handle_init(m) < 0 || requests_init(m) < 0 || place_init(m) < 0 ||
        publish_init() < 0 || up_init(m) < 0 || persist_init(m) < 0 ||
        PyModule_AddStringConstant(m, "__version__", ddict_version()) < 0) {
        Py_DECREF(m);
        return NULL;
    }
    return m;
}
