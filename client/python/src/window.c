/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - the checkpoint of the handle, in a dictionary with a working set. */
#include "pyddict.h"

PyObject *window_checkpoint(PyObject *self, PyObject *unused) {
    struct handle *h = (struct handle *)self;
    int rc;

    if (handle_check(h) < 0)
        return NULL;
    rc = ddict_checkpoint(h->d);
    return rc < 0 ? error_raise(rc, NULL) : Py_NewRef(Py_None);
}

PyObject *window_rollback(PyObject *self, PyObject *unused) {
    struct handle *h = (struct handle *)self;
    int rc;

    if (handle_check(h) < 0)
        return NULL;
    rc = ddict_rollback(h->d);
    return rc < 0 ? error_raise(rc, NULL) : Py_NewRef(Py_None);
}

PyObject *window_sync(PyObject *self, PyObject *unused) {
    struct handle *h = (struct handle *)self;
    int64_t id;

    if (handle_begin(h) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS id = ddict_sync_to_newest_checkpoint(h->d, h->timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    return id < 0 ? error_raise((int)id, NULL) : PyLong_FromLongLong(id);
}

PyObject *window_get_id(PyObject *self, void *unused) {
    struct handle *h = (struct handle *)self;
    int64_t id;

    if (handle_check(h) < 0)
        return NULL;
    id = ddict_checkpoint_id(h->d);
    return id < 0 ? error_raise((int)id, NULL) : PyLong_FromLongLong(id);
}

int window_set_id(PyObject *self, PyObject *value, void *unused) {
    struct handle *h = (struct handle *)self;
    PyObject *number;
    long long id;
    int rc;

    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "checkpoint_id cannot be deleted");
        return -1;
    }
    number = PyNumber_Index(value);
    if (!number)
        return -1;
    id = PyLong_AsLongLong(number);
    Py_DECREF(number);
    if (id == -1 && PyErr_Occurred())
        return -1;
    if (id < 0) {
        PyErr_SetString(PyExc_ValueError, "the first checkpoint is 0");
        return -1;
    }
    if (handle_check(h) < 0)
        return -1;
    rc = ddict_set_checkpoint_id(h->d, (uint64_t)id);
    if (rc < 0)
        error_raise(rc, NULL);
    return rc < 0 ? -1 : 0;
}

PyObject *window_get_size(PyObject *self, void *unused) {
    struct handle *h = (struct handle *)self;

    return handle_check(h) < 0 ? NULL : PyLong_FromLong(ddict_working_set(h->d, NULL));
}
