/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.c - ddict.View: a value in place. It owns the lease, and ends it when it is collected or by
 * release(). A buffer of it (memoryview, numpy, torch) keeps it alive; after release() the lease
 * ends with the last buffer.
 */
#include "pyddict.h"

#include <stddef.h>
#include <structmember.h>

struct view {
    PyObject_HEAD struct ddict_view v;
    Py_ssize_t exports; /* buffers that are in use */
    bool released;      /* no new use is allowed; the lease ends when exports is 0 */
    PyObject *weak;
};

static PyTypeObject *view_type;

bool view_check(PyObject *obj) {
    return Py_IS_TYPE(obj, view_type);
}

unsigned view_tag(PyObject *view) {
    return ((struct view *)view)->v.tag;
}

PyObject *view_new(const struct ddict_view *v) {
    struct view *w = PyObject_New(struct view, view_type);

    if (!w) {
        struct ddict_view mine = *v;
        ddict_release(&mine);
        return NULL;
    }
    w->v = *v;
    w->exports = 0;
    w->released = false;
    w->weak = NULL;
    return (PyObject *)w;
}

static void view_dealloc(PyObject *self) {
    struct view *w = (struct view *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (w->weak)
        PyObject_ClearWeakRefs(self);
    if (!w->released)
        ddict_release(&w->v);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int view_live(struct view *w) {
    if (!w->released)
        return 0;
    PyErr_SetString(PyExc_ValueError, "the view is released");
    return -1;
}

static int view_getbuffer(PyObject *self, Py_buffer *b, int flags) {
    struct view *w = (struct view *)self;

    if (view_live(w) < 0 ||
        PyBuffer_FillInfo(b, self, (void *)w->v.data, (Py_ssize_t)w->v.len, 1, flags) < 0)
        return -1;
    w->exports++;
    return 0;
}

static void view_releasebuffer(PyObject *self, Py_buffer *b) {
    struct view *w = (struct view *)self;

    if (--w->exports == 0 && w->released)
        ddict_release(&w->v);
}

static PyObject *view_release(PyObject *self, PyObject *unused) {
    struct view *w = (struct view *)self;

    if (!w->released) {
        w->released = true;
        if (w->exports == 0)
            ddict_release(&w->v);
    }
    Py_RETURN_NONE;
}

static PyObject *view_enter(PyObject *self, PyObject *unused) {
    return view_live((struct view *)self) < 0 ? NULL : Py_NewRef(self);
}

static PyObject *view_exit(PyObject *self, PyObject *args) {
    return view_release(self, NULL);
}

static PyObject *view_load(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw) {
    Py_ssize_t named = kw ? PyTuple_GET_SIZE(kw) : 0;
    struct view *w = (struct view *)self;
    PyObject *obj;
    int alias = 0;

    if (n > 0 || named > 1 ||
        (named &&
         PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kw, 0), "alias_tensors") != 0)) {
        PyErr_SetString(PyExc_TypeError, "load() takes nothing but alias_tensors=");
        return NULL;
    }
    if (named && (alias = PyObject_IsTrue(args[0])) < 0)
        return NULL;
    if (view_live(w) < 0)
        return NULL;
    w->exports++; /* code that runs while unpickling may release the view */
    obj = load_alias(self, &w->v, alias);
    view_releasebuffer(self, NULL);
    return obj;
}

static PyObject *view_copy(PyObject *self, PyObject *unused) {
    struct view *w = (struct view *)self;
    PyObject *obj;

    if (view_live(w) < 0)
        return NULL;
    w->exports++;
    obj = load_copy(w->v.data, w->v.len, w->v.tag);
    view_releasebuffer(self, NULL);
    return obj;
}

static Py_ssize_t view_length(PyObject *self) {
    return (Py_ssize_t)((struct view *)self)->v.len;
}

static PyObject *view_get_tag(PyObject *self, void *unused) {
    return PyLong_FromUnsignedLong(((struct view *)self)->v.tag);
}

static PyObject *view_get_version(PyObject *self, void *unused) {
    return PyLong_FromUnsignedLongLong(((struct view *)self)->v.version);
}

static PyObject *view_get_nbytes(PyObject *self, void *unused) {
    return PyLong_FromSize_t(((struct view *)self)->v.len);
}

static PyObject *view_get_released(PyObject *self, void *unused) {
    return PyBool_FromLong(((struct view *)self)->released);
}

static PyObject *view_repr(PyObject *self) {
    struct view *w = (struct view *)self;

    return PyUnicode_FromFormat("<ddict.View of %zu bytes, tag %u, version %llu%s>", w->v.len,
                                w->v.tag, (unsigned long long)w->v.version,
                                w->released ? ", released" : "");
}

static PyMethodDef view_methods[] = {
    {"release", view_release, METH_NOARGS,
     "release($self, /)\n--\n\nGive the value's lease back. Buffers taken from the view stay "
     "valid; the lease goes with the last of them."},
    {"load", METHOD(view_load), METH_FASTCALL | METH_KEYWORDS,
     "load($self, /, *, alias_tensors=False)\n--\n\nThe stored object, its arrays in place.\n\n"
     "Arrays of 256 bytes and more are read-only and keep the view; smaller ones and all else are "
     "copies.\n"
     "torch has no read-only tensors, so tensors are copies too, unless alias_tensors is true: "
     "then writing to\n"
     "one ends the process with SIGSEGV."},
    {"copy", view_copy, METH_NOARGS,
     "copy($self, /)\n--\n\nThe stored object, as d[key] gives it: it shares nothing with the "
     "dictionary."},
    {"__enter__", view_enter, METH_NOARGS, NULL},
    {"__exit__", view_exit, METH_VARARGS, NULL},
    {NULL},
};

static PyGetSetDef view_getset[] = {
    {"tag", view_get_tag, NULL, "how the value was stored (0: as bytes)", NULL},
    {"version", view_get_version, NULL, "grows with every change on the key's manager", NULL},
    {"nbytes", view_get_nbytes, NULL, "length in bytes", NULL},
    {"released", view_get_released, NULL, "whether release() was called", NULL},
    {NULL},
};

static PyMemberDef view_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct view, weak), READONLY, NULL},
    {NULL},
};

static PyType_Slot view_slots[] = {
    {Py_tp_doc, "A value in place, read-only and unchanged for as long as this object or a buffer "
                "taken from it lives."},
    {Py_tp_dealloc, view_dealloc},
    {Py_tp_repr, view_repr},
    {Py_tp_methods, view_methods},
    {Py_tp_getset, view_getset},
    {Py_tp_members, view_members},
    {Py_sq_length, view_length},
    {Py_bf_getbuffer, view_getbuffer},
    {Py_bf_releasebuffer, view_releasebuffer},
    {0, NULL},
};

static PyType_Spec view_spec = {"ddict.View", sizeof(struct view), 0, Py_TPFLAGS_DEFAULT,
                                view_slots};

int view_init(PyObject *module) {
    view_type = (PyTypeObject *)PyType_FromSpec(&view_spec);
    if (!view_type)
        return -1;
    view_type->tp_new = NULL; /* instances only come from view_new() */
    return PyModule_AddObjectRef(module, "View", (PyObject *)view_type);
}
