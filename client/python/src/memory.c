/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - a buffer over memory of another object: a part of a View for unpickled arrays, or a
 * tensor's elements on their way into the dictionary. Not part of the public interface.
 */
#include "pyddict.h"

struct memory {
    PyObject_HEAD PyObject *owner; /* reference owned */
    /* a buffer of owner, so that owner knows that it is in use; held.obj is NULL if owner exports
     * none */
    Py_buffer held;
    void *p;
    Py_ssize_t len;
    char readonly;
    char alias; /* a tensor may be made over it even if it is read-only */
};

static PyTypeObject *memory_type;

PyObject *memory_new(PyObject *owner, bool export, void *p, size_t len, bool readonly, bool alias) {
    struct memory *m = PyObject_New(struct memory, memory_type);

    if (!m)
        return NULL;
    m->owner = Py_NewRef(owner);
    m->held.obj = NULL;
    m->p = p;
    m->len = (Py_ssize_t)len;
    m->readonly = readonly;
    m->alias = alias;
    if (export && PyObject_GetBuffer(owner, &m->held, PyBUF_SIMPLE) < 0) {
        Py_DECREF(m);
        return NULL;
    }
    return (PyObject *)m;
}

static void memory_dealloc(PyObject *self) {
    struct memory *m = (struct memory *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (m->held.obj)
        PyBuffer_Release(&m->held);
    Py_XDECREF(m->owner);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int memory_getbuffer(PyObject *self, Py_buffer *b, int flags) {
    struct memory *m = (struct memory *)self;

    return PyBuffer_FillInfo(b, self, m->p, m->len, m->readonly, flags);
}

static PyObject *memory_alias(PyObject *self, void *unused) {
    return PyBool_FromLong(((struct memory *)self)->alias);
}

static PyObject *memory_address(PyObject *self, void *unused) {
    return PyLong_FromVoidPtr(((struct memory *)self)->p);
}

static Py_ssize_t memory_length(PyObject *self) {
    return ((struct memory *)self)->len;
}

static PyGetSetDef memory_getset[] = {
    {"address", memory_address, NULL, "where it stands", NULL},
    {"alias", memory_alias, NULL, "whether a tensor may be made over this read-only memory", NULL},
    {NULL},
};

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, "A buffer over memory that another object owns."},
    {Py_tp_dealloc, memory_dealloc},
    {Py_tp_getset, memory_getset},
    {Py_sq_length, memory_length},
    {Py_bf_getbuffer, memory_getbuffer},
    {0, NULL},
};

static PyType_Spec memory_spec = {"ddict._ddict.Memory", sizeof(struct memory), 0,
                                  Py_TPFLAGS_DEFAULT, memory_slots};

/* borrow(owner, address, nbytes): for ddict._torch, which knows that owner's elements are at
 * address */
static PyObject *memory_borrow(PyObject *module, PyObject *args) {
    PyObject *owner;
    unsigned long long address;
    Py_ssize_t len;

    if (!PyArg_ParseTuple(args, "OKn:borrow", &owner, &address, &len))
        return NULL;
    return memory_new(owner, false, (void *)(uintptr_t)address, (size_t)len, false, false);
}

static PyMethodDef memory_functions[] = {
    {"borrow", memory_borrow, METH_VARARGS,
     "borrow(owner, address, nbytes, /)\n--\n\nA writable buffer over memory of owner, which it "
     "keeps."},
    {NULL},
};

int memory_init(PyObject *module) {
    memory_type = (PyTypeObject *)PyType_FromSpec(&memory_spec);
    if (!memory_type)
        return -1;
    memory_type->tp_new = NULL; /* instances only come from memory_new() */
    return PyModule_AddFunctions(module, memory_functions);
}
