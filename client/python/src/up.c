/* SPDX-License-Identifier: Apache-2.0 */
/* up.c - start a dictionary, and end one that this process has started; ../ddict/_up.py is the rest. */
#include "pyddict.h"

#include <errno.h>
#include <stdlib.h>

#define SLICE_MS 100 /* between two looks at signals */

/* The words as C strings, which live as long as *bytes; NULL with an exception. */
static const char **words_make(PyObject *list, PyObject **bytes) {
    Py_ssize_t n = PyList_GET_SIZE(list);
    const char **words = PyMem_Calloc((size_t)n + 1, sizeof *words);

    *bytes = words ? PyList_New(n) : PyErr_NoMemory();
    for (Py_ssize_t i = 0; *bytes && i < n; i++) {
        PyObject *one = NULL;

        if (PyUnicode_FSConverter(PyList_GET_ITEM(list, i), &one) == 0) {
            Py_CLEAR(*bytes);
        } else {
            PyList_SET_ITEM(*bytes, i, one);
            words[i] = PyBytes_AS_STRING(one);
        }
    }
    if (!*bytes) {
        PyMem_Free(words);
        return NULL;
    }
    return words;
}

/* _up(words): start a dictionary; its name */
static PyObject *up_start(PyObject *module, PyObject *list) {
    struct ddict_info info;
    ddict_start_t *start;
    ddict_t *d = NULL;
    PyObject *bytes, *name = NULL;
    const char **words;
    int rc;

    if (!PyList_Check(list) || !(words = words_make(list, &bytes)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = ddict_up_begin(&start, words);
    Py_END_ALLOW_THREADS PyMem_Free(words);
    Py_DECREF(bytes);
    while (rc == 0) {
        Py_BEGIN_ALLOW_THREADS rc = ddict_up_wait(start, &d, SLICE_MS);
        Py_END_ALLOW_THREADS if (rc != -ETIMEDOUT) break;
        if ((rc = PyErr_CheckSignals()) < 0) {
            Py_BEGIN_ALLOW_THREADS ddict_up_cancel(start);
            Py_END_ALLOW_THREADS return NULL;
        }
    }
    if (rc == 0 && (rc = ddict_get_info(d, &info)) == 0)
        name = PyUnicode_DecodeFSDefault(info.name);
    if (rc < 0)
        error_raise(rc, NULL);
    Py_BEGIN_ALLOW_THREADS ddict_detach(d);
    Py_END_ALLOW_THREADS return name;
}

/* _end(name, seconds or None): end what _up() has started, and wait until it has ended */
static PyObject *up_end(PyObject *module, PyObject *args) {
    PyObject *timeout;
    const char *name;
    int ms, left, rc;

    if (!PyArg_ParseTuple(args, "sO", &name, &timeout) || timeout_parse(timeout, &ms) < 0)
        return NULL;
    for (left = ms;;) {
        int slice = ms >= 0 && left < SLICE_MS ? left : SLICE_MS;

        Py_BEGIN_ALLOW_THREADS rc = ddict_down(name, slice);
        Py_END_ALLOW_THREADS if (rc != -ETIMEDOUT || slice == left) break;
        if (PyErr_CheckSignals() < 0)
            return NULL;
        left -= ms >= 0 ? slice : 0;
    }
    if (rc < 0)
        return error_raise(rc, NULL);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_up", up_start, METH_O, NULL},
    {"_end", up_end, METH_VARARGS, NULL},
    {NULL},
};

int up_init(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
