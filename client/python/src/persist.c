/* SPDX-License-Identifier: Apache-2.0 */
/* persist.c - states on disk, by number; ../ddict/_persist.py is the rest. */
#include "pyddict.h"

#include <errno.h>
#include <stdlib.h>

#define STATE "ddict.state" /* name of the capsules */

/* _persistence() -- (folder, freq, count, read_only) */
PyObject *persist_get(PyObject *self, PyObject *unused) {
    struct handle *h = (struct handle *)self;
    struct ddict_persistence p;
    int rc;

    if (handle_begin(h) < 0)
        return NULL;
    rc = ddict_get_persistence(h->d, &p);
    handle_end(h);
    if (rc < 0)
        return error_raise(rc, NULL);
    return Py_BuildValue("NKKO", PyUnicode_DecodeFSDefault(p.dir), (unsigned long long)p.freq,
                         (unsigned long long)p.count, p.read_only ? Py_True : Py_False);
}

PyObject *persist_ids(PyObject *self, PyObject *unused) {
    struct handle *h = (struct handle *)self;
    uint64_t *ids;
    PyObject *list;
    ssize_t n;

    if (handle_begin(h) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS n = ddict_persisted_ids(h->d, &ids, h->timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    if (n < 0)
        return error_raise((int)n, NULL);
    list = PyList_New(n);
    for (ssize_t i = 0; list && i < n; i++) {
        PyObject *id = PyLong_FromUnsignedLongLong(ids[i]);
        if (!id)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, id);
    }
    free(ids);
    return list;
}

static PyObject *begun(struct handle *h, int rc, ddict_state_t *s) {
    PyObject *capsule;

    handle_end(h);
    if (rc < 0)
        return error_raise(rc, NULL);
    capsule = PyCapsule_New(s, STATE, NULL);
    if (!capsule) {
        Py_BEGIN_ALLOW_THREADS ddict_state_cancel(s);
        Py_END_ALLOW_THREADS
    }
    return capsule;
}

static PyObject *begin_id(PyObject *self, PyObject *id,
                          int (*fn)(ddict_t *, uint64_t, ddict_state_t **)) {
    struct handle *h = (struct handle *)self;
    unsigned long long number = PyLong_AsUnsignedLongLong(id);
    ddict_state_t *s;
    int rc;

    if ((number == (unsigned long long)-1 && PyErr_Occurred()) || handle_begin(h) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = fn(h->d, number, &s);
    Py_END_ALLOW_THREADS return begun(h, rc, s);
}

PyObject *persist_save(PyObject *self, PyObject *id) {
    return begin_id(self, id, ddict_persist_begin);
}
PyObject *persist_restore(PyObject *self, PyObject *id) {
    return begin_id(self, id, ddict_restore_begin);
}

/* The number that persist() means: the handle's checkpoint, or 0 */
PyObject *persist_number(PyObject *self, PyObject *unused) {
    struct handle *h = (struct handle *)self;
    int64_t id;

    if (handle_begin(h) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS id = ddict_working_set(h->d, NULL);
    id = id > 0 ? ddict_checkpoint_id(h->d) : id;
    Py_END_ALLOW_THREADS handle_end(h);
    return id < 0 ? error_raise((int)id, NULL) : PyLong_FromLongLong(id);
}

/* _restored(number): the handle's checkpoint is this one, if there are checkpoints */
PyObject *persist_moved(PyObject *self, PyObject *id) {
    struct handle *h = (struct handle *)self;
    unsigned long long number = PyLong_AsUnsignedLongLong(id);
    int rc;

    if ((number == (unsigned long long)-1 && PyErr_Occurred()) || handle_begin(h) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = ddict_working_set(h->d, NULL);
    rc = rc > 0 ? ddict_set_checkpoint_id(h->d, number) : rc;
    Py_END_ALLOW_THREADS handle_end(h);
    if (rc < 0)
        return error_raise(rc, NULL);
    Py_RETURN_NONE;
}

/* _advance(): the number of the state, and what _state_wait() takes */
PyObject *persist_advance(PyObject *self, PyObject *unused) {
    struct handle *h = (struct handle *)self;
    PyObject *state;
    ddict_state_t *s;
    uint64_t id;
    int rc;

    if (handle_begin(h) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = ddict_advance_begin(h->d, &id, &s);
    Py_END_ALLOW_THREADS state = begun(h, rc, s);
    return state ? Py_BuildValue("KN", (unsigned long long)id, state) : NULL;
}

/* _state_wait(state, milliseconds): True, and the state is gone, or False; an exception, and it is
 * gone. A capsule whose state is gone has another name. */
static PyObject *state_wait(PyObject *module, PyObject *args) {
    PyObject *capsule;
    ddict_state_t *s;
    int ms, rc;

    if (!PyArg_ParseTuple(args, "Oi", &capsule, &ms) || !(s = PyCapsule_GetPointer(capsule, STATE)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = ddict_state_wait(s, ms);
    Py_END_ALLOW_THREADS if (rc == -ETIMEDOUT) Py_RETURN_FALSE;
    if (PyCapsule_SetName(capsule, NULL) < 0)
        return NULL;
    if (rc < 0)
        return error_raise(rc, NULL);
    Py_RETURN_TRUE;
}

static PyObject *state_cancel(PyObject *module, PyObject *capsule) {
    ddict_state_t *s = PyCapsule_GetPointer(capsule, STATE);

    if (!s || PyCapsule_SetName(capsule, NULL) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS ddict_state_cancel(s);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_state_wait", state_wait, METH_VARARGS, NULL},
    {"_state_cancel", state_cancel, METH_O, NULL},
    {NULL},
};

int persist_init(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
