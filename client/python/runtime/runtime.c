/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime.c - the extension module ddict._runtime: the calls of libddict-runtime for
 * ddict/runtime.py. It is a separate module, so that the dictionary can be used without that
 * library.
 */
#define PY_SSIZE_T_CLEAN
#include <ddict.h>
#include <ddict_runtime.h>

#include <Python.h>
#include <errno.h>
#include <math.h>
#include <string.h>

/* The exceptions are imported from ddict._ddict. */
static const struct {
    int code;
    const char *name;
} kinds[] = {
    {DDICT_EFULL, "FullError"},   {DDICT_ELOST, "LostError"},
    {DDICT_EGONE, "GoneError"},   {DDICT_ENODICT, "NoDictError"},
    {-ETIMEDOUT, "TimeoutError"}, {DDICT_EVERSION, "VersionError"},
    {DDICT_ECRED, "CredError"},   {DDICT_EPROTO, "ProtocolError"},
    {DDICT_EAUTH, "AuthError"},   {DDICT_EVALSIZE, "ValueSizeError"},
};

static PyObject *raise_code(int code) {
    const char *name = "Error";
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].code == code)
            name = kinds[i].name;
    if (code == -ENOMEM)
        return PyErr_NoMemory();
    PyObject *module = PyImport_ImportModule("ddict._ddict");
    PyObject *type = module ? PyObject_GetAttrString(module, name) : NULL;
    PyObject *exc = type ? PyObject_CallFunction(type, "s", ddict_rt_errmsg()) : NULL;
    PyObject *num = exc ? PyLong_FromLong(code) : NULL;
    if (num && PyObject_SetAttrString(exc, "code", num) == 0)
        PyErr_SetObject(type, exc);
    Py_XDECREF(num);
    Py_XDECREF(exc);
    Py_XDECREF(type);
    Py_XDECREF(module);
    return NULL;
}

/* Convert seconds (None: the default) to milliseconds. */
static int timeout_of(PyObject *seconds, int *ms) {
    *ms = -1;
    if (seconds == Py_None)
        return 0;
    double s = PyFloat_AsDouble(seconds);
    if (s == -1.0 && PyErr_Occurred())
        return -1;
    if (!(s >= 0)) {
        PyErr_SetString(PyExc_ValueError, "timeout is a number of seconds, 0 or more, or None");
        return -1;
    }
    *ms = s > 2e6 ? 2000000000 : (int)ceil(s * 1000);
    return 0;
}

static PyObject *none_or_raise(int rc) {
    if (rc < 0)
        return raise_code(rc);
    Py_RETURN_NONE;
}

static PyObject *rt_init(PyObject *self, PyObject *arg) {
    unsigned long flags = PyLong_AsUnsignedLong(arg);
    int rc;
    if (flags == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = ddict_rt_init((unsigned)flags);
    Py_END_ALLOW_THREADS return none_or_raise(rc);
}

static PyObject *rt_finalize(PyObject *self, PyObject *none) {
    int rc;
    Py_BEGIN_ALLOW_THREADS rc = ddict_rt_finalize();
    Py_END_ALLOW_THREADS return none_or_raise(rc);
}

static PyObject *rt_leave(PyObject *self, PyObject *none) {
    int rc;
    Py_BEGIN_ALLOW_THREADS rc = ddict_rt_leave();
    Py_END_ALLOW_THREADS return none_or_raise(rc);
}

static PyObject *number_or_none(int n) {
    if (n < 0)
        Py_RETURN_NONE;
    return PyLong_FromLong(n);
}

static PyObject *rt_info(PyObject *self, PyObject *none) {
    struct ddict_rt_info i;
    int rc = ddict_rt_get_info(&i);
    if (rc < 0)
        return raise_code(rc);
    return Py_BuildValue("{s:i,s:i,s:i,s:i,s:N,s:N,s:N,s:s,s:s,s:s,s:s,s:s}", "rank", i.rank,
                         "size", i.size, "local_rank", i.local_rank, "local_size", i.local_size,
                         "node_id", number_or_none(i.node_id), "nodes", number_or_none(i.nodes),
                         "map", PyBool_FromLong(i.map), "node", i.node, "group", i.group, "how",
                         i.how_name, "peers", i.peers_name, "trouble", ddict_rt_trouble());
}

static PyObject *rt_exchange(PyObject *self, PyObject *args) {
    struct ddict_rt_bytes *all;
    PyObject *seconds, *list;
    Py_buffer data;
    int ms, rc, size = ddict_rt_size();
    if (!PyArg_ParseTuple(args, "y*O:exchange", &data, &seconds))
        return NULL;
    if (timeout_of(seconds, &ms) < 0) {
        PyBuffer_Release(&data);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS rc = ddict_rt_exchange(data.buf, (size_t)data.len, &all, ms);
    Py_END_ALLOW_THREADS PyBuffer_Release(&data);
    if (rc < 0)
        return raise_code(rc);
    list = PyList_New(size);
    for (int r = 0; list && r < size; r++) {
        PyObject *b = PyBytes_FromStringAndSize(all[r].data, (Py_ssize_t)all[r].len);
        if (!b)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, r, b);
    }
    free(all);
    return list;
}

static PyObject *rt_barrier(PyObject *self, PyObject *seconds) {
    int ms, rc;
    if (timeout_of(seconds, &ms) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = ddict_rt_barrier(ms);
    Py_END_ALLOW_THREADS return none_or_raise(rc);
}

static int index_of(PyObject *arg, int *n) {
    long v = PyLong_AsLong(arg);
    if (v == -1 && PyErr_Occurred())
        return -1;
    *n = v < 0 || v > 0x7fffffff ? -1 : (int)v;
    return 0;
}

static PyObject *rt_node_of(PyObject *self, PyObject *arg) {
    int n, rc;
    if (index_of(arg, &n) < 0)
        return NULL;
    rc = ddict_rt_node_of(n);
    return rc < 0 ? raise_code(rc) : PyLong_FromLong(rc);
}

/* If a call returns NULL, its sentence says why. */
static PyObject *name_or_raise(const char *name) {
    return name ? PyUnicode_DecodeFSDefault(name) : raise_code(-ENODATA);
}

static PyObject *rt_node_name(PyObject *self, PyObject *arg) {
    int n;
    return index_of(arg, &n) < 0 ? NULL : name_or_raise(ddict_rt_node_name(n));
}

static PyObject *rt_host_of(PyObject *self, PyObject *arg) {
    int n;
    return index_of(arg, &n) < 0 ? NULL : name_or_raise(ddict_rt_host_of(n));
}

static PyObject *rt_ranks_of(PyObject *self, PyObject *arg) {
    int node, n;
    if (index_of(arg, &node) < 0)
        return NULL;
    n = ddict_rt_ranks_of(node, NULL, 0);
    if (n < 0)
        return raise_code(n);
    int *ranks = PyMem_Calloc((size_t)n + 1, sizeof *ranks);
    PyObject *list = ranks ? PyList_New(n) : PyErr_NoMemory();
    if (list) {
        ddict_rt_ranks_of(node, ranks, n);
        for (int i = 0; i < n; i++)
            PyList_SET_ITEM(list, i, PyLong_FromLong(ranks[i]));
    }
    PyMem_Free(ranks);
    return list;
}

static PyObject *rt_bind_gpu(PyObject *self, PyObject *arg) {
    struct ddict_rt_gpu g;
    const char *how = PyUnicode_Check(arg) ? PyUnicode_AsUTF8(arg) : "";
    int rc, way = -1;
    static const char *const ways[] = {"none", "closest", "rotate"};
    if (!how)
        return NULL;
    for (int i = 0; i < 3; i++)
        if (strcmp(how, ways[i]) == 0)
            way = i;
    if (way < 0)
        return PyErr_Format(PyExc_ValueError, "%R is no way to bind GPUs: closest, rotate or none",
                            arg);
    Py_BEGIN_ALLOW_THREADS rc = ddict_rt_bind_gpu(way, &g);
    Py_END_ALLOW_THREADS if (rc < 0) return raise_code(rc);
    if (rc == 0)
        return Py_BuildValue("(Os)", Py_None, ddict_rt_errmsg());
    return Py_BuildValue(
        "({s:s,s:s,s:i,s:i,s:i,s:N,s:N}N)", "variable", g.variable, "value", g.value, "device",
        g.device, "devices", g.devices, "shared", g.shared, "numa", number_or_none(g.numa), "pci",
        g.pci[0] ? PyUnicode_FromString(g.pci) : number_or_none(-1), PyBool_FromLong(g.pci_order));
}

static PyMethodDef methods[] = {
    {"init", rt_init, METH_O, NULL},
    {"finalize", rt_finalize, METH_NOARGS, NULL},
    {"leave", rt_leave, METH_NOARGS, NULL},
    {"info", rt_info, METH_NOARGS, NULL},
    {"exchange", rt_exchange, METH_VARARGS, NULL},
    {"barrier", rt_barrier, METH_O, NULL},
    {"node_of", rt_node_of, METH_O, NULL},
    {"node_name", rt_node_name, METH_O, NULL},
    {"host_of", rt_host_of, METH_O, NULL},
    {"ranks_of", rt_ranks_of, METH_O, NULL},
    {"bind_gpu", rt_bind_gpu, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "ddict._runtime", .m_size = -1,
                                    .m_methods = methods};

PyMODINIT_FUNC PyInit__runtime(void);
PyMODINIT_FUNC PyInit__runtime(void) {
    PyObject *m = PyModule_Create(&module);
    if (m && PyModule_AddIntConstant(m, "NO_PMIX", DDICT_RT_NO_PMIX) < 0)
        Py_CLEAR(m);
    return m;
}
