/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - parse the arguments of methods that are called too often for PyArg_Parse. */
#include "pyddict.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#define DEFAULT_S 60.0 /* libddict's default */

int args_parse(const char *func, PyObject *const *args, Py_ssize_t n, PyObject *kw,
               const char *const *names, PyObject **out, int positional, int count) {
    Py_ssize_t nkw = kw ? PyTuple_GET_SIZE(kw) : 0;

    if (n > positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional arguments (%zd given)",
                     func, positional, n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        out[i] = args[i];
    for (Py_ssize_t i = 0; i < nkw; i++) {
        PyObject *name = PyTuple_GET_ITEM(kw, i);
        int at = 0;
        while (at < count && PyUnicode_CompareWithASCIIString(name, names[at]) != 0)
            at++;
        if (at == count || out[at]) {
            PyErr_Format(PyExc_TypeError, "%s() got %s argument %R", func,
                         at == count ? "an unexpected" : "twice the", name);
            return -1;
        }
        out[at] = args[n + i];
    }
    if (!out[0])
        PyErr_Format(PyExc_TypeError, "%s() needs a key", func);
    return out[0] ? 0 : -1;
}

int args_count(const char *func, Py_ssize_t n, int min, int max) {
    if (n >= min && n <= max)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s() takes %d to %d arguments (%zd given)", func, min, max, n);
    return -1;
}

double timeout_seconds(int handle_ms) {
    const char *env = getenv("DDICT_TIMEOUT");
    double s = env ? atof(env) : 0;

    return handle_ms >= 0 ? 1e-3 * handle_ms : s > 0 && s < 1e6 ? s : DEFAULT_S;
}

int waiting_parse(int handle_ms, PyObject *wait, PyObject *timeout, struct waiting *w) {
    int ms = -1;

    if (wait && !PyBool_Check(wait)) {
        PyErr_Format(PyExc_TypeError,
                     "wait=%R: wait is True or False, timeout=SECONDS says how long", wait);
        return -1;
    }
    if (timeout && timeout_parse(timeout, &ms) < 0)
        return -1;
    w->wait = wait == Py_True;
    w->seconds = ms >= 0 ? PyFloat_AsDouble(timeout) : timeout_seconds(handle_ms);
    w->wait_ms = ms >= 0 ? ms : (int)ceil(1000 * w->seconds);
    w->ms = ms >= 0 && !w->wait ? ms : handle_ms;
    return 0;
}

int timeout_parse(PyObject *seconds, int *ms) {
    double s;

    *ms = -1;
    if (seconds == Py_None)
        return 0;
    s = PyFloat_AsDouble(seconds);
    if (s == -1.0 && PyErr_Occurred())
        return -1;
    if (!(s >= 0)) {
        PyErr_SetString(PyExc_ValueError, "a timeout is a number of seconds, 0 or more");
        return -1;
    }
    *ms = s * 1000 >= INT_MAX ? INT_MAX : (int)ceil(s * 1000);
    return 0;
}
