/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c - ddict.Place: a value built in place. It exports its memory for writing; the memory
 * stays as long as a buffer of it is in use, even after the value was stored or given up.
 */
#include "pyddict.h"

#include <stddef.h>
#include <string.h>

struct place {
    /* counts as busy because of us until the memory is given back */
    PyObject_HEAD struct handle *h;
    PyObject *key;
    struct ddict_place p;
    Py_ssize_t start; /* offset of the exported memory: behind the head of an array */
    Py_ssize_t exports;
    bool over, working; /* over: no new use is allowed; working: a commit is under way */
    PyObject *memory;   /* the memoryview of `with`; released at its end unless it is in use */
    PyObject *made;     /* makes the object that `with` gives, called with the memory; or NULL */
};

/* Give the memory back once no buffer of it is in use. */
static void place_settle(struct place *w) {
    if (!w->over || w->exports || w->working || !w->h)
        return;
    struct handle *h = w->h;
    w->h = NULL;
    ddict_abort(&w->p);
    handle_end(h);
    Py_DECREF(h);
}

static int place_traverse(PyObject *self, visitproc visit, void *arg) {
    struct place *w = (struct place *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(w->h);
    Py_VISIT(w->key);
    Py_VISIT(w->memory);
    Py_VISIT(w->made);
    return 0;
}

/* h is kept: place_settle() still needs it, and it has no reference to its places. */
static int place_clear(PyObject *self) {
    struct place *w = (struct place *)self;

    w->over = true;
    Py_CLEAR(w->made);
    Py_CLEAR(w->memory); /* it has a buffer of ours, which made the cycle */
    place_settle(w);
    return 0;
}

static void place_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    place_clear(self);
    Py_XDECREF(((struct place *)self)->key);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static int place_live(struct place *w) {
    if (!w->over)
        return 0;
    PyErr_SetString(PyExc_ValueError, "the place is stored or given up");
    return -1;
}

static int place_getbuffer(PyObject *self, Py_buffer *b, int flags) {
    struct place *w = (struct place *)self;

    if (place_live(w) < 0 || PyBuffer_FillInfo(b, self, (char *)w->p.data + w->start,
                                               (Py_ssize_t)w->p.len - w->start, 0, flags) < 0)
        return -1;
    w->exports++;
    return 0;
}

static void place_releasebuffer(PyObject *self, Py_buffer *b) {
    struct place *w = (struct place *)self;

    w->exports--;
    place_settle(w);
}

static PyObject *place_commit(PyObject *self, PyObject *unused) {
    struct place *w = (struct place *)self;
    int rc;

    if (place_live(w) < 0)
        return NULL;
    w->over = w->working = true;
    Py_BEGIN_ALLOW_THREADS rc = ddict_commit_keep(&w->p, w->h->timeout_ms);
    Py_END_ALLOW_THREADS w->working = false;
    if (rc < 0)
        error_raise(rc, w->key);
    place_settle(w);
    if (rc < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *place_abort(PyObject *self, PyObject *unused) {
    struct place *w = (struct place *)self;

    w->over = true;
    place_settle(w);
    Py_RETURN_NONE;
}

static PyObject *place_enter(PyObject *self, PyObject *unused) {
    struct place *w = (struct place *)self;

    if (place_live(w) < 0)
        return NULL;
    if (!w->memory && !(w->memory = PyMemoryView_FromObject(self)))
        return NULL;
    if (w->made) { /* call it with the memory */
        PyObject *array = PyObject_CallFunctionObjArgs(w->made, w->memory, NULL);
        if (!array)
            place_abort(self, NULL);
        return array;
    }
    return Py_NewRef(w->memory);
}

/* Release the memoryview. If an object was made over it, that fails: the object keeps the memory,
 * which then belongs to this process, not to the dictionary any more. */
static void memory_drop(struct place *w) {
    PyObject *type, *value, *trace, *m = w->memory, *rc;

    w->memory = NULL;
    if (!m)
        return;
    PyErr_Fetch(&type, &value, &trace);
    rc = PyObject_CallMethod(m, "release", NULL);
    if (!rc)
        PyErr_Clear();
    Py_XDECREF(rc);
    Py_DECREF(m);
    PyErr_Restore(type, value, trace);
}

static PyObject *place_exit(PyObject *self, PyObject *args) {
    struct place *w = (struct place *)self;
    PyObject *type, *value, *trace, *out;

    if (!PyArg_UnpackTuple(args, "__exit__", 3, 3, &type, &value, &trace))
        return NULL;
    if (w->over) /* the block itself has stored it or given it up */
        out = Py_NewRef(Py_None);
    else
        out = type == Py_None ? place_commit(self, NULL) : place_abort(self, NULL);
    memory_drop(w);
    return out;
}

static Py_ssize_t place_length(PyObject *self) {
    struct place *w = (struct place *)self;

    return w->over ? 0 : (Py_ssize_t)w->p.len - w->start;
}

static PyMethodDef methods[] = {
    {"commit", place_commit, METH_NOARGS,
     "commit($self, /)\n--\n\nStore what stands there, as d[key] = value would."},
    {"abort", place_abort, METH_NOARGS,
     "abort($self, /)\n--\n\nGive it up. Nothing when it is over."},
    {"__enter__", place_enter, METH_NOARGS, "The memory to write."},
    {"__exit__", place_exit, METH_VARARGS, "commit(), or after an exception abort()."},
    {NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A value that is built in place: what DDict.reserve() returns. It exports a "
                "writable buffer; with gives that as a memoryview, or the array."},
    {Py_tp_dealloc, place_dealloc},
    {Py_tp_traverse, place_traverse},
    {Py_tp_clear, place_clear},
    {Py_tp_methods, methods},
    {Py_sq_length, place_length},
    {Py_bf_getbuffer, place_getbuffer},
    {Py_bf_releasebuffer, place_releasebuffer},
    {0, NULL},
};

static PyType_Spec spec = {"ddict.Place", sizeof(struct place), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
static PyTypeObject *place_type;

/* _reserve(key, nbytes, tag, head, made): head: bytes in front of the exported memory; made: see
 * struct place, or None */
PyObject *place_new(PyObject *self, PyObject *args) {
    struct handle *h = (struct handle *)self;
    PyObject *obj, *made;
    Py_ssize_t nbytes, head_len;
    const char *head;
    struct place *w;
    struct key k;
    unsigned tag;
    int rc;

    if (!PyArg_ParseTuple(args, "OnIy#O:_reserve", &obj, &nbytes, &tag, &head, &head_len, &made) ||
        key_encode(&k, obj) < 0)
        return NULL;
    w = nbytes >= 0 ? PyObject_GC_New(struct place, place_type) : NULL;
    if (nbytes < 0)
        PyErr_SetString(PyExc_ValueError, "a value has 0 bytes or more");
    if (!w || handle_begin(h) < 0) {
        if (w) {
            memset((char *)w + sizeof(PyObject), 0, sizeof *w - sizeof(PyObject));
            Py_DECREF(w);
        }
        key_clear(&k);
        return NULL;
    }
    memset((char *)w + sizeof(PyObject), 0, sizeof *w - sizeof(PyObject));
    rc = ddict_reserve(h->d, k.data, k.len, (size_t)(nbytes + head_len), DDICT_TAG(tag), &w->p);
    key_clear(&k);
    if (rc < 0) {
        error_raise(rc, obj);
        handle_end(h);
        Py_DECREF(w);
        return NULL;
    }
    w->h = (struct handle *)Py_NewRef(self);
    w->key = Py_NewRef(obj);
    w->start = head_len;
    w->made = made == Py_None ? NULL : Py_NewRef(made);
    if (head_len)
        memcpy(w->p.data, head, (size_t)head_len);
    PyObject_GC_Track(w);
    return (PyObject *)w;
}

int place_init(PyObject *module) {
    place_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!place_type)
        return -1;
    place_type->tp_new = NULL; /* instances only come from place_new() */
    return PyModule_AddObjectRef(module, "Place", (PyObject *)place_type);
}
