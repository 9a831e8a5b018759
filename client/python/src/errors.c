/* SPDX-License-Identifier: Apache-2.0 */
/* errors.c - one exception class for each kind of failure, with libddict's sentence as its text. */
#include "pyddict.h"

#include <errno.h>

PyObject *error_base;

static struct {
    int code;
    const char *name, *doc;
    PyObject **also; /* a builtin exception that is a base class, too, or NULL */
    PyObject *type;
} kinds[] = {
    {DDICT_EFULL, "ddict.FullError",
     "The manager of this key has no room. Nothing that is stored was touched.", NULL, NULL},
    {DDICT_ELOST, "ddict.LostError", "A manager or its node was lost.", NULL, NULL},
    {DDICT_EKEYLOST, "ddict.KeyLostError",
     "There is no such key, and it may have been lost with a node.", &PyExc_KeyError, NULL},
    {DDICT_ESEALED, "ddict.SealedError",
     "The value is of a data set that can be read again: only the set can be replaced or removed.",
     NULL, NULL},
    {DDICT_ERETIRED, "ddict.RetiredError",
     "The checkpoint of the handle is older than those that the dictionary keeps.", NULL, NULL},
    {DDICT_EGONE, "ddict.GoneError", "The dictionary has ended.", NULL, NULL},
    {DDICT_EFROZEN, "ddict.FrozenError",
     "The dictionary is frozen: nothing can be written until unfreeze().", NULL, NULL},
    {DDICT_EBUSY, "ddict.BusyError", "As many requests of this process wait as may.", NULL, NULL},
    {DDICT_ENODICT, "ddict.NoDictError",
     "There is no dictionary of this name on this node, or $DDICT_NAME is not set.", NULL, NULL},
    {-ETIMEDOUT, "ddict.TimeoutError",
     "No answer within the timeout, or a key that was waited for did not come.",
     &PyExc_TimeoutError, NULL},
    {DDICT_EVERSION, "ddict.VersionError",
     "The managers speak another version of the protocol than this library.", NULL, NULL},
    {DDICT_ECRED, "ddict.CredError", "The dictionary's name is held by a process of another user.",
     &PyExc_PermissionError, NULL},
    {DDICT_EVIEWS, "ddict.ViewsError", "Too many views are held by this process.", NULL, NULL},
    {DDICT_EPROTO, "ddict.ProtocolError", "A malformed message.", NULL, NULL},
    {DDICT_EAUTH, "ddict.AuthError", "A peer did not prove that it belongs to this job.", NULL,
     NULL},
    {DDICT_EKEYSIZE, "ddict.KeySizeError", "The key takes more than 65,536 bytes.",
     &PyExc_ValueError, NULL},
    {DDICT_ENOTINT, "ddict.NotIntError", "add() of a value that is no int of 64 bits.",
     &PyExc_TypeError, NULL},
    {DDICT_EVALSIZE, "ddict.ValueSizeError",
     "The value is larger than a whole manager: it can never be stored.", &PyExc_ValueError, NULL},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

int errors_init(PyObject *module) {
    PyObject *attrs = Py_BuildValue("{sO}", "code", Py_None);

    if (!attrs)
        return -1;
    error_base = PyErr_NewExceptionWithDoc(
        "ddict.Error",
        "Anything that went wrong in the dictionary. code is libddict's number for it.", NULL,
        attrs);
    Py_DECREF(attrs);
    if (!error_base || PyModule_AddObjectRef(module, "Error", error_base) < 0)
        return -1;
    for (size_t i = 0; i < KINDS; i++) {
        PyObject *bases = kinds[i].also ? PyTuple_Pack(2, error_base, *kinds[i].also)
                                        : PyTuple_Pack(1, error_base);
        if (!bases)
            return -1;
        kinds[i].type = PyErr_NewExceptionWithDoc(kinds[i].name, kinds[i].doc, bases, NULL);
        Py_DECREF(bases);
        if (!kinds[i].type || PyModule_AddObjectRef(module, kinds[i].name + 6, kinds[i].type) < 0)
            return -1;
    }
    return 0;
}

PyObject *error_raise_text(int code, const char *text) {
    PyObject *type = error_base, *exc, *num;

    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].code == code)
            type = kinds[i].type;
    exc = PyObject_CallFunction(type, "s", text);
    num = PyLong_FromLong(code);
    if (exc && num && PyObject_SetAttrString(exc, "code", num) == 0)
        PyErr_SetObject(type, exc);
    Py_XDECREF(num);
    Py_XDECREF(exc);
    return NULL;
}

/* Add text to the message of an exception if that is a single str; else add a note, if Python has
 * notes. */
static int text_add(PyObject *exc, PyObject *add) {
    PyObject *args = PyObject_GetAttrString(exc, "args"), *text = NULL, *made = NULL, *note = NULL;
    int rc = args ? 0 : -1;

    if (args && PyTuple_Check(args) && PyTuple_GET_SIZE(args) == 1 &&
        PyUnicode_Check(PyTuple_GET_ITEM(args, 0))) {
        text = PyUnicode_Concat(PyTuple_GET_ITEM(args, 0), add);
        made = text ? PyTuple_Pack(1, text) : NULL;
        rc = made ? PyObject_SetAttrString(exc, "args", made) : -1;
        if (rc == 0 && PyObject_TypeCheck(exc, (PyTypeObject *)PyExc_ImportError))
            rc = PyObject_SetAttrString(exc, "msg", text);
    } else if (args && PyObject_HasAttrString(exc, "add_note")) {
        note = PyObject_CallMethod(exc, "add_note", "O", add);
        rc = note ? 0 : -1;
    }
    Py_XDECREF(note);
    Py_XDECREF(made);
    Py_XDECREF(text);
    Py_XDECREF(args);
    return rc;
}

PyObject *error_named(PyObject *exc, PyObject *key) {
    PyObject *add, *other;

    if (!PyExceptionInstance_Check(exc) ||
        !PyObject_TypeCheck(exc, (PyTypeObject *)PyExc_Exception) ||
        PyErr_GivenExceptionMatches(exc, PyExc_MemoryError))
        return Py_NewRef(exc);
    if (!PyErr_GivenExceptionMatches(exc, PyExc_KeyError) &&
        !PyErr_GivenExceptionMatches(exc, PyExc_StopIteration)) {
        add = PyUnicode_FromFormat(" (in the value of key %R)", key);
        if (!add || text_add(exc, add) < 0)
            PyErr_Clear();
        Py_XDECREF(add);
        return Py_NewRef(exc);
    }
    add = PyUnicode_FromFormat("the value of key %R raises %R", key, exc);
    other = add ? PyObject_CallFunctionObjArgs(error_base, add, NULL) : NULL;
    Py_XDECREF(add);
    if (!other) {
        PyErr_Clear();
        return Py_NewRef(exc);
    }
    PyException_SetCause(other, Py_NewRef(exc));
    return other;
}

void error_name_key(PyObject *key) {
    PyObject *type, *value, *trace, *named;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (!value)
        return;
    if (trace)
        PyException_SetTraceback(value, trace);
    named = error_named(value, key);
    PyErr_SetObject((PyObject *)Py_TYPE(named), named);
    Py_DECREF(named);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

PyObject *error_raise(int code, PyObject *key) {
    const char *text;

    if (code == DDICT_ENOKEY && key) {
        /* without the tuple, a key that is a tuple would become several arguments */
        PyObject *args = PyTuple_Pack(1, key);
        if (args)
            PyErr_SetObject(PyExc_KeyError, args);
        Py_XDECREF(args);
        return NULL;
    }
    text = ddict_errmsg();
    if (code == -ENOMEM) {
        PyErr_SetString(PyExc_MemoryError, text && *text ? text : ddict_strerror(code));
        return NULL;
    }
    return error_raise_text(code, text && *text ? text : ddict_strerror(code));
}
