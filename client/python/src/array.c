/* SPDX-License-Identifier: Apache-2.0 */
/*
 * array.c - arrays in their stored form (FORMAT, section 4), without pickle: a head with type and
 * shape, then the elements.
 *
 * numpy and torch are not needed to build this, and are not imported for programs that do not use
 * them: a program that puts an array has imported its module, and reading one imports it. numpy is
 * used through its array interface, torch by ddict._torch.
 */
#include "pyddict.h"

#include <endian.h>
#include <string.h>
#include <sys/uio.h>

#define TORCH_MIN OOB_MIN /* bytes of elements from which on a tensor is stored in this form */
#define ALIAS_MIN OOB_MIN /* bytes of elements from which on they are read in place */
#define DIMS_MAX  32
#define HEAD_SIZE(dims) \
    (((sizeof(struct array_head) + 8 * (size_t)(dims)) + OOB_ALIGN - 1) & ~(size_t)(OOB_ALIGN - 1))
/* element types that are cached: a look-up costs less than asking numpy */
#define TYPES_MAX 32

enum { KIND_NUMPY, KIND_TORCH };

struct array_head { /* little endian */
    uint8_t version, kind, dims, zero;
    char type[12];
    uint64_t dim[];
};
_Static_assert(sizeof(struct array_head) == 16, "part of the stored form");
_Static_assert(sizeof((struct value *)0)->head == HEAD_SIZE(6),
               "up to six dimensions need no memory");

struct interface { /* the struct behind __array_struct__: numpy's array interface, version 3 */
    int two, dims;
    char kind;
    int itemsize, flags;
    Py_intptr_t *shape, *strides;
    void *data;
};
enum { INTERFACE_C = 1, INTERFACE_F = 2 };

struct type { /* an element type */
    /* numpy's dtype object, compared by address; the reference keeps the address valid */
    PyObject *dtype;
    char name[12]; /* numpy's name of the type; empty: none that can be stored */
    size_t size;
};

static struct {
    PyObject *ndarray, *empty, *dtype, *contiguous; /* NULL until numpy was imported */
    struct type put[TYPES_MAX], get[TYPES_MAX];
    unsigned puts, gets;
} np;
static PyObject *torch_plain, *torch_make, *torch_rebuild;
static PyObject *str_dtype, *str_interface, *str_torch;

int array_init(void) {
    str_dtype = PyUnicode_InternFromString("dtype");
    str_interface = PyUnicode_InternFromString("__array_struct__");
    str_torch = PyUnicode_InternFromString("torch");
    return str_dtype && str_interface && str_torch ? 0 : -1;
}

static PyObject *broken(const char *what) {
    PyErr_Clear();
    PyErr_Format(error_base, "the stored value is no array: %s", what);
    return NULL;
}

static int numpy_load(void) {
    PyObject *m;

    if (np.ndarray)
        return 0;
    m = PyImport_ImportModule("numpy");
    if (!m)
        return -1;
    np.empty = PyObject_GetAttrString(m, "empty");
    np.dtype = PyObject_GetAttrString(m, "dtype");
    np.contiguous = PyObject_GetAttrString(m, "ascontiguousarray");
    np.ndarray = PyObject_GetAttrString(m, "ndarray");
    Py_DECREF(m);
    return np.empty && np.dtype && np.contiguous && np.ndarray ? 0 : -1;
}

static int torch_load(void) {
    PyObject *m;

    if (torch_rebuild)
        return 0;
    m = PyImport_ImportModule("ddict._torch");
    if (!m)
        return -1;
    torch_plain = PyObject_GetAttrString(m, "plain");
    torch_make = PyObject_GetAttrString(m, "make");
    torch_rebuild = PyObject_GetAttrString(m, "rebuild_named");
    Py_DECREF(m);
    return torch_plain && torch_make && torch_rebuild ? 0 : -1;
}

/* --- element types --- */

/*
 * Size of an element of type `name`, or SIZE_MAX if that is no plain type. The check is strict
 * because the text comes from the dictionary: numpy would accept "<f4,O", a type with objects in
 * it.
 */
static size_t type_size(const char name[12]) {
    size_t n = strnlen(name, 12), at = 2, size = 0;

    for (size_t i = n; i < 12; i++)
        if (name[i] != 0)
            return SIZE_MAX;
    if (n == 4 && memcmp(name, "<bf2", 4) == 0)
        return 2;
    if (n < 3 || !strchr("<>|", name[0]) || !strchr("biufcmMSUV", name[1]))
        return SIZE_MAX;
    while (at < n && name[at] >= '0' && name[at] <= '9')
        size = 10 * size + (size_t)(name[at++] - '0');
    if (at == 2)
        return SIZE_MAX;
    /* such as <M8[25s] */
    if (at < n && (name[1] == 'm' || name[1] == 'M') && name[at] == '[' && name[n - 1] == ']') {
        while (++at < n - 1)
            if (!(name[at] >= '0' && name[at] <= '9') && !(name[at] >= 'a' && name[at] <= 'z') &&
                !strchr("YMWD", name[at]))
                return SIZE_MAX;
        at = n;
    }
    return at < n ? SIZE_MAX : name[1] == 'U' ? 4 * size : size;
}

/* name stays empty if the type has none, or if the name does not tell all (fields, metadata, types
 * of other packages). */
static void type_spell(PyObject *dtype, struct type *t) {
    PyObject *name = PyObject_GetAttrString(dtype, "str"), *back = NULL, *metadata = NULL;
    const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
    char spelled[12] = "";

    if (text && strlen(text) <= sizeof spelled) {
        memcpy(spelled, text, strlen(text));
        t->size = type_size(spelled);
        metadata = t->size == SIZE_MAX ? NULL : PyObject_GetAttrString(dtype, "metadata");
        back = metadata == Py_None ? PyObject_CallOneArg(np.dtype, name) : NULL;
        if (back && PyObject_RichCompareBool(back, dtype, Py_EQ) == 1)
            memcpy(t->name, spelled, sizeof spelled);
    }
    PyErr_Clear(); /* the exception for a name that numpy itself cannot read */
    Py_XDECREF(metadata);
    Py_XDECREF(back);
    Py_XDECREF(name);
}

/* False: arrays of this type are not stored in this form. Takes the reference. */
static bool type_of(PyObject *dtype, struct type *t) {
    struct type *at;

    for (unsigned i = 0; i < TYPES_MAX && np.put[i].dtype; i++) {
        if (np.put[i].dtype == dtype) {
            Py_DECREF(dtype);
            *t = np.put[i];
            return t->name[0] != 0;
        }
    }
    *t = (struct type){.dtype = dtype};
    type_spell(dtype, t);
    at = &np.put[np.puts++ % TYPES_MAX];
    dtype = at->dtype;
    *at = *t;
    Py_XDECREF(dtype);
    return t->name[0] != 0;
}

/* The dtype of a name. */
static PyObject *type_find(const char name[12], size_t size) {
    PyObject *dtype, *itemsize, *old;
    struct type *at;

    for (unsigned i = 0; i < TYPES_MAX && np.get[i].dtype; i++)
        if (memcmp(np.get[i].name, name, 12) == 0)
            return Py_NewRef(np.get[i].dtype);
    dtype = PyObject_CallFunction(np.dtype, "s#", name, (Py_ssize_t)strnlen(name, 12));
    itemsize = dtype ? PyObject_GetAttrString(dtype, "itemsize") : NULL;
    if (!itemsize || PyLong_AsSize_t(itemsize) != size) {
        Py_XDECREF(itemsize);
        Py_XDECREF(dtype);
        return broken("an element type that numpy does not know");
    }
    Py_DECREF(itemsize);
    at = &np.get[np.gets++ % TYPES_MAX];
    old = at->dtype;
    *at = (struct type){.dtype = Py_NewRef(dtype)};
    memcpy(at->name, name, 12);
    Py_XDECREF(old);
    return dtype;
}

/* --- put --- */

/* Fill v with the pieces of an array: n dimensions dim, len bytes at data. */
static int pieces_lay(struct value *v, int kind, const char name[12], int n, const Py_intptr_t *dim,
                      void *data, size_t len) {
    struct array_head *h = (struct array_head *)v->head;
    size_t size = HEAD_SIZE(n);

    if (size > sizeof v->head && !(h = v->heap = PyMem_Malloc(size))) {
        PyErr_NoMemory();
        return -1;
    }
    memset(h, 0, size);
    h->version = 1;
    h->kind = (uint8_t)kind;
    h->dims = (uint8_t)n;
    memcpy(h->type, name, 12);
    for (int i = 0; i < n; i++)
        h->dim[i] = htole64((uint64_t)dim[i]);
    v->two[0] = (struct iovec){h, size};
    v->two[1] = (struct iovec){data, len};
    v->iov = v->two;
    v->n = 2;
    v->len = size + len;
    v->tag = TAG_ARRAY;
    return 1;
}

static const struct interface *interface_of(PyObject *capsule) {
    return capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
}

static int numpy_encode(struct value *v, PyObject *obj) {
    PyObject *dtype = PyObject_GetAttr(obj, str_dtype), *capsule, *copy;
    const struct interface *a;
    struct type t;
    size_t len;

    if (!dtype)
        return -1;
    if (!type_of(dtype, &t))
        return 0;
    v->hold = capsule = PyObject_GetAttr(obj, str_interface); /* this keeps obj alive */
    a = interface_of(capsule);
    if (!a)
        return -1;
    len = t.size;
    for (int i = 0; i < a->dims; i++)
        len *= (size_t)a->shape[i];
    if (a->dims <= DIMS_MAX && (a->flags & INTERFACE_C))
        return pieces_lay(v, KIND_NUMPY, t.name, a->dims, a->shape, a->data, len);
    /* pickle stores Fortran order without a copy */
    if (a->dims > DIMS_MAX || (a->flags & INTERFACE_F)) {
        Py_CLEAR(v->hold);
        return 0;
    }
    copy = PyObject_CallOneArg(np.contiguous, obj);
    Py_CLEAR(v->hold);
    v->hold = capsule = copy ? PyObject_GetAttr(copy, str_interface) : NULL;
    Py_XDECREF(copy);
    a = interface_of(capsule);
    return a ? pieces_lay(v, KIND_NUMPY, t.name, a->dims, a->shape, a->data, len) : -1;
}

/* plain() returns None or (tensor, address, bytes, type, shape). */
static int torch_encode(struct value *v, PyObject *obj) {
    PyObject *p, *shape;
    Py_intptr_t dim[DIMS_MAX];
    Py_ssize_t len, n;
    unsigned long long at;
    const char *type;
    char name[12] = "";

    if (torch_load() < 0 || !(p = PyObject_CallOneArg(torch_plain, obj)))
        return -1;
    v->hold = p;
    if (p == Py_None) {
        Py_CLEAR(v->hold);
        return 0;
    }
    if (!PyArg_ParseTuple(p, "OKnsO!", &obj, &at, &len, &type, &PyTuple_Type, &shape))
        return -1;
    n = PyTuple_GET_SIZE(shape);
    if (len < (Py_ssize_t)TORCH_MIN || n > DIMS_MAX) {
        Py_CLEAR(v->hold);
        return 0;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        dim[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
    if (PyErr_Occurred())
        return -1;
    memcpy(name, type, strnlen(type, sizeof name));
    return pieces_lay(v, KIND_TORCH, name, (int)n, dim, (void *)(uintptr_t)at, (size_t)len);
}

int array_encode(struct value *v, PyObject *obj) {
    const char *name = Py_TYPE(obj)->tp_name;

    if ((PyObject *)Py_TYPE(obj) == np.ndarray)
        return numpy_encode(v, obj);
    if (strcmp(name, "numpy.ndarray") == 0)
        return numpy_load() < 0                         ? -1
               : (PyObject *)Py_TYPE(obj) == np.ndarray ? numpy_encode(v, obj)
                                                        : 0;
    /* some class of this name; torch's only if torch is imported */
    if (strcmp(name, "Tensor") == 0) {
        /* borrowed reference */
        PyObject *m = PyDict_GetItemWithError(PyImport_GetModuleDict(), str_torch);
        return m && m != Py_None ? torch_encode(v, obj) : PyErr_Occurred() ? -1 : 0;
    }
    return 0;
}

/* --- get --- */

static PyObject *numpy_get(PyObject *shape, const struct array_head *h, const char *data,
                           size_t len, PyObject *view) {
    PyObject *dtype = numpy_load() < 0 ? NULL : type_find(h->type, type_size(h->type)),
             *args[3] = {shape, dtype, NULL}, *obj = NULL, *capsule;
    const struct interface *a;

    if (!dtype)
        return NULL;
    if (view) {
        args[2] = memory_new(view, true, (void *)data, len, true, false);
        /* the array keeps the memory, which keeps the view */
        obj = args[2] ? PyObject_Vectorcall(np.ndarray, args, 3, NULL) : NULL;
        Py_XDECREF(args[2]);
    } else if ((obj = PyObject_Vectorcall(np.empty, args, 2, NULL))) {
        capsule = PyObject_GetAttr(obj, str_interface);
        a = interface_of(capsule);
        if (a)
            copy_bytes(a->data, data, len);
        else
            Py_CLEAR(obj);
        Py_XDECREF(capsule);
    }
    Py_DECREF(dtype);
    return obj;
}

static PyObject *torch_copy(PyObject *shape, PyObject *type, const char *data, size_t len) {
    PyObject *made = PyObject_CallFunctionObjArgs(torch_make, type, shape, NULL), *obj;
    unsigned long long at;

    if (!made || made == Py_None || !PyArg_ParseTuple(made, "OK", &obj, &at)) {
        Py_XDECREF(made);
        return made == Py_None ? broken("an element type that torch does not know") : NULL;
    }
    if (len)
        copy_bytes((void *)(uintptr_t)at, data, len);
    Py_INCREF(obj);
    Py_DECREF(made);
    return obj;
}

static PyObject *torch_get(PyObject *shape, const struct array_head *h, const char *data,
                           size_t len, PyObject *view, bool alias) {
    PyObject *type = torch_load() < 0
                         ? NULL
                         : PyUnicode_FromStringAndSize(h->type, (Py_ssize_t)strnlen(h->type, 12)),
             *memory, *obj;

    if (!type)
        return NULL;
    if (view && alias && len) {
        memory = memory_new(view, true, (void *)data, len, true, true);
        obj =
            memory ? PyObject_CallFunctionObjArgs(torch_rebuild, memory, type, shape, NULL) : NULL;
        Py_XDECREF(memory);
        if (obj == Py_None) {
            Py_DECREF(obj);
            obj = broken("an element type that torch does not know");
        }
    } else {
        obj = torch_copy(shape, type, data, len);
    }
    Py_DECREF(type);
    return obj;
}

PyObject *array_load(const char *data, size_t len, PyObject *view, bool alias_tensors) {
    const struct array_head *h = (const void *)data;
    size_t head, size, room, want;
    PyObject *shape, *obj;
    bool none = false;

    if (len < sizeof *h || h->version != 1 || h->kind > KIND_TORCH || h->dims > DIMS_MAX ||
        h->zero != 0)
        return broken("no head");
    head = HEAD_SIZE(h->dims);
    size = want = type_size(h->type);
    if (head > len || size == SIZE_MAX)
        return broken("a bad head");
    room = size ? size : 1;
    for (int i = 0; i < h->dims; i++) {
        uint64_t n = le64toh(h->dim[i]);
        none |= n == 0;
        want *= n; /* if this wraps around, so does room, which is checked */
        if (n && __builtin_mul_overflow(room, n, &room))
            return broken("too many elements");
    }
    if (room > PY_SSIZE_T_MAX || (none ? 0 : want) != len - head)
        return broken("another length than its shape");
    if (len - head < ALIAS_MIN)
        view = NULL;
    shape = PyTuple_New(h->dims);
    for (int i = 0; shape && i < h->dims; i++) {
        PyObject *n = PyLong_FromUnsignedLongLong(le64toh(h->dim[i]));
        if (!n)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, i, n);
    }
    if (!shape)
        return NULL;
    obj = h->kind == KIND_TORCH ? torch_get(shape, h, data + head, len - head, view, alias_tensors)
                                : numpy_get(shape, h, data + head, len - head, view);
    Py_DECREF(shape);
    return obj;
}
