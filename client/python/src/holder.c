/* SPDX-License-Identifier: Apache-2.0 */
/* holder.c - who this process is, and who lives: for what processes hold by keys of the dictionary
 * (ddict.Lock and others). */
#include "pyddict.h"

/* seconds, at least a millisecond: 0 would not ask */
static int seconds_parse(PyObject *o, int *ms) {
    double s = PyFloat_AsDouble(o);

    if (s == -1 && PyErr_Occurred())
        return -1;
    *ms = s < 0.001 ? 1 : s > 1e6 ? 1000000000 : (int)(1000 * s);
    return 0;
}

static int number_parse(PyObject *o, uint64_t *number) {
    *number = PyLong_AsUnsignedLongLong(o);
    return *number == (uint64_t)-1 && PyErr_Occurred() ? -1 : 0;
}

PyObject *holder_self(PyObject *self, PyObject *unused) {
    struct handle *h = (struct handle *)self;
    struct ddict_client me;
    int rc;

    if (handle_begin(h) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = ddict_self(h->d, &me, h->timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    if (rc < 0)
        return error_raise(rc, NULL);
    return Py_BuildValue("KK", (unsigned long long)me.node, (unsigned long long)me.id);
}

PyObject *holder_alive(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct handle *h = (struct handle *)self;
    struct ddict_client who;
    int rc, ms;

    if (args_count("_alive", n, 3, 3) < 0 || number_parse(args[0], &who.node) < 0 ||
        number_parse(args[1], &who.id) < 0 || seconds_parse(args[2], &ms) < 0)
        return NULL;
    if (handle_begin(h) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = ddict_alive(h->d, who, ms);
    Py_END_ALLOW_THREADS handle_end(h);
    return rc < 0 ? error_raise(rc, NULL) : PyBool_FromLong(rc);
}
