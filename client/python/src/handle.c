/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.c - the type that ddict.DDict derives from: attach, detach, and the table of its methods.
 *
 * Threads that use the handle without the GIL, and open iterators, are counted in `busy`. detach()
 * in the meantime closes the handle for new calls, and the last of them detaches.
 */
#include "pyddict.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <structmember.h>

/* time until the first check for Ctrl-C while attaching; doubled each time, so that a slow attach
 * succeeds, too */
#define ATTACH_SLICE_MS 250

PyTypeObject *handle_type;

int handle_check(struct handle *h) {
    if (h->d && !h->closing)
        return 0;
    PyErr_SetString(PyExc_ValueError,
                    h->name ? "the handle is detached" : "the handle is not attached");
    return -1;
}

static void handle_end_of_life(struct handle *h) {
    ddict_t *d = h->d;

    h->d = NULL;
    if (!d)
        return;
    Py_BEGIN_ALLOW_THREADS ddict_detach(d);
    Py_END_ALLOW_THREADS
}

int handle_begin(struct handle *h) {
    if (handle_check(h) < 0)
        return -1;
    h->busy++;
    return 0;
}

void handle_end(struct handle *h) {
    if (--h->busy == 0 && h->closing)
        handle_end_of_life(h);
}

static PyObject *handle_get_seconds(PyObject *self, void *unused) {
    return PyFloat_FromDouble(timeout_seconds(((struct handle *)self)->timeout_ms));
}

static int attach_interruptible(ddict_t **d, const char *name, int timeout_ms) {
    int left = timeout_ms >= 0 ? timeout_ms : (int)(1000 * timeout_seconds(-1)),
        slice = ATTACH_SLICE_MS, rc;

    for (;; left -= slice, slice *= 2) {
        if (slice > left)
            slice = left;
        Py_BEGIN_ALLOW_THREADS rc = ddict_attach(d, name, slice);
        Py_END_ALLOW_THREADS if (rc != -ETIMEDOUT) return rc;
        if (PyErr_CheckSignals() < 0)
            return 1;
        if (slice == left)
            return rc;
    }
}

static int handle_tp_init(PyObject *self, PyObject *args, PyObject *kw) {
    static char *names[] = {"name", "timeout", NULL};
    struct handle *h = (struct handle *)self;
    PyObject *timeout = Py_None;
    const char *name = NULL;
    struct ddict_info info;
    ddict_t *d = NULL;
    int ms, rc;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "|zO:DDict", names, &name, &timeout) ||
        timeout_parse(timeout, &ms) < 0)
        return -1;
    if (h->name) {
        PyErr_SetString(PyExc_RuntimeError, "a handle is attached once");
        return -1;
    }
    rc = attach_interruptible(&d, name, ms);
    if (rc == 0 && (rc = ddict_get_info(d, &info)) == 0) {
        h->name = PyUnicode_DecodeFSDefault(info.name);
        h->node = PyUnicode_DecodeFSDefault(info.node);
        h->nodes = info.nodes ? info.nodes : 1;
        h->node_id = info.node_id;
        h->refills = ddict_refills(d) == 1;
        h->timeout_ms = ms;
        h->timeout = Py_NewRef(timeout);
        if (h->name && h->node) {
            h->d = d;
            return 0;
        }
    }
    if (rc < 0)
        error_raise(rc, NULL);
    ddict_detach(d);
    return -1;
}

static PyObject *handle_detach(PyObject *self, PyObject *unused) {
    struct handle *h = (struct handle *)self;

    if (h->d && !h->closing) {
        h->closing = true;
        if (h->busy == 0)
            handle_end_of_life(h);
    }
    Py_RETURN_NONE;
}

static void handle_dealloc(PyObject *self) {
    struct handle *h = (struct handle *)self;
    PyTypeObject *type = Py_TYPE(self);

    handle_end_of_life(h);
    Py_XDECREF(h->name);
    Py_XDECREF(h->node);
    Py_XDECREF(h->timeout);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *handle_enter(PyObject *self, PyObject *unused) {
    return handle_check((struct handle *)self) < 0 ? NULL : Py_NewRef(self);
}

static PyObject *handle_exit(PyObject *self, PyObject *args) {
    return handle_detach(self, NULL);
}

static PyObject *handle_reduce(PyObject *self, PyObject *unused) {
    struct handle *h = (struct handle *)self;

    if (!h->name) {
        handle_check(h);
        return NULL;
    }
    return Py_BuildValue("O(OO)", (PyObject *)Py_TYPE(self), h->name, h->timeout);
}

static PyObject *handle_repr(PyObject *self) {
    struct handle *h = (struct handle *)self;
    const char *type = strrchr(Py_TYPE(self)->tp_name, '.');
    struct ddict_info info;

    type = type ? type + 1 : Py_TYPE(self)->tp_name;
    if (!h->d || h->closing || ddict_get_info(h->d, &info) < 0)
        return PyUnicode_FromFormat("<%s %R, detached>", type, h->name ? h->name : Py_None);
    return PyUnicode_FromFormat("<%s %R, %u managers on %u nodes>", type, h->name, info.managers,
                                info.nodes);
}

static PyObject *handle_attached(PyObject *self, void *unused) {
    struct handle *h = (struct handle *)self;

    return PyBool_FromLong(h->d && !h->closing);
}

static PyObject *handle_member(PyObject *self, void *offset) {
    PyObject *obj = *(PyObject **)((char *)self + (size_t)offset);

    return Py_NewRef(obj ? obj : Py_None);
}

#define FAST   METH_FASTCALL
#define FASTKW (METH_FASTCALL | METH_KEYWORDS)

static PyMethodDef handle_methods[] = {
    {"get", METHOD(mapping_get), FASTKW,
     "get($self, key, default=None, *, wait=False, timeout=None)\n--\n\nThe value of key, or "
     "default when it is absent.\n\n"
     "wait: whether to wait for the key, at most timeout seconds (None: the handle's). When it did "
     "not come: default, or ddict.TimeoutError when none was "
     "given. Without wait, timeout is how long the call may take."},
    {"view", METHOD(mapping_view), FASTKW,
     "view($self, key, *, wait=False, timeout=None)\n--\n\nThe value in place, as a ddict.View: "
     "read-only bytes that stay unchanged while it lives.\n\n"
     "KeyError when the key is absent; wait and timeout as in get(): ddict.TimeoutError when it "
     "did not come."},
    {"pop", METHOD(mapping_pop), FASTKW,
     "pop($self, key, default=..., /, *, wait=False, timeout=None)\n--\n\nRemove key and return "
     "its last value; exactly one of several callers gets it.\n\n"
     "When it is absent: default, or KeyError when none was given. wait and timeout as in get(): "
     "ddict.TimeoutError when none came for this caller; many "
     "callers that take values in turn are served better by ddict.Queue."},
    {"setdefault", METHOD(mapping_setdefault), FAST,
     "setdefault($self, key, default=None, /)\n--\n\nThe value of key; when it is absent, store "
     "default and return it."},
    {"put_new", METHOD(mapping_put_new), FAST,
     "put_new($self, key, value, /)\n--\n\nStore only when key is absent: True when stored. "
     "Exactly one of several callers gets True."},
    {"put_existing", METHOD(mapping_put_existing), FAST,
     "put_existing($self, key, value, /)\n--\n\nStore only when key is present: True when stored."},
    {"put", METHOD(mapping_put), FASTKW,
     "put($self, key, value, *, near=False)\n--\n\nStore as d[key] = value. near: the value lies "
     "on "
     "a manager of this node, and every process on every node gets it under its key."},
    {"pput", METHOD(mapping_pput), FAST,
     "pput($self, key, value, /)\n--\n\nStore as d[key] = value, persistently: with "
     "wait_for_keys, the value holds at later checkpoints, too, until another one is stored."},
    {"checkpoint", window_checkpoint, METH_NOARGS,
     "checkpoint($self, /)\n--\n\nGo on to the next checkpoint, with this handle. Nobody is "
     "asked: the first that stores something at it makes it."},
    {"rollback", window_rollback, METH_NOARGS,
     "rollback($self, /)\n--\n\nGo back to the checkpoint before, with this handle; from 0 to "
     "0."},
    {"sync_to_newest_checkpoint", window_sync, METH_NOARGS,
     "sync_to_newest_checkpoint($self, /)\n--\n\nGo to the newest checkpoint that the dictionary "
     "has, with this handle; its id."},
    {"add", METHOD(atomic_add), FASTKW,
     "add($self, key, delta=1)\n--\n\nAdd delta to the int of key and return the sum. An absent "
     "key counts as 0.\n\n"
     "Of several callers each gets a sum of its own. ddict.NotIntError when the value is no int of "
     "64 bits, OverflowError when the sum would be none."},
    {"append", METHOD(atomic_append), FAST,
     "append($self, key, value, /)\n--\n\nPut bytes, or the UTF-8 of a str, behind the value of "
     "key, which keeps its type; an absent key gets the value. Returns how many bytes it has "
     "then.\n\n"
     "The whole value goes to its manager again: for values that stay small."},
    {"version", atomic_version, METH_O,
     "version($self, key, /)\n--\n\nThe version of key, which every change makes another; 0 when "
     "it is absent."},
    {"_put_if", METHOD(atomic_put_if), FAST,
     NULL},                                 /* key, version, and the value, or none to remove */
    {"_is", METHOD(atomic_is), FAST, NULL}, /* view, value */
    {"_wait_change", METHOD(atomic_wait), FAST, NULL}, /* key, version, seconds */
    {"get_many", METHOD(many_get), FASTKW,
     "get_many($self, keys, default=None)\n--\n\nThe values of keys as a list in their order, "
     "default for those that are absent. All are "
     "asked for before the first answer is waited for."},
    {"_view_many", many_view, METH_O, NULL},
    {"_put_pairs", METHOD(many_put), FAST, NULL}, /* pairs, whether persistent */
    {"_reserve", place_new, METH_VARARGS, NULL},
    /* key, value, most, seconds or None -> whether there was room */
    {"_push", METHOD(queue_push), FAST, NULL},
    {"_queue", METHOD(queue_open), FAST, NULL}, /* key, most or 0 -> the queue's limit */
    {"_take", METHOD(queue_take), FAST, NULL},  /* key, seconds or None -> the value; or KeyError */
    {"_queued", queue_size, METH_O, NULL},
    {"_self", holder_self, METH_NOARGS, NULL}, /* node and number of this client */
    /* node, number, seconds -> whether that client lives */
    {"_alive", METHOD(holder_alive), FAST, NULL},
    {"_gather", METHOD(many_gather), FAST, NULL},
    {"_keys", METHOD(iter_keys), FAST, NULL},    /* prefix or None, hidden, manager */
    {"_subscribe", METHOD(sub_new), FAST, NULL}, /* prefix, flags */
    {"publish", METHOD(publish_publish), FAST,
     "publish($self, name, value, /)\n--\n\nGive value to all processes that follow name, on all "
     "nodes, in place of the version before; the number of this version, from 1 on.\n\n"
     "Versions of several publishers are in an order, and each is seen whole or not at all. Name "
     "is "
     "no key: d[name] is another thing."},
    {"unpublish", publish_unpublish, METH_O,
     "unpublish($self, name, /)\n--\n\nRemove what is published under name from all nodes; "
     "KeyError "
     "when nothing is. Loops over follow(name) end. Arrays that are in use stay until they are "
     "not."},
    {"_bview", METHOD(publish_view), FAST, NULL}, /* name, wait, timeout -> View */
    {"_follow", publish_follow, METH_O, NULL},
    {"local_len", mapping_local_len, METH_NOARGS,
     "local_len($self, /)\n--\n\nThe number of keys of this node's managers, without hidden ones."},
    {"clear", mapping_clear, METH_NOARGS,
     "clear($self, /)\n--\n\nRemove all keys, manager by manager; hidden ones, too."},
    {"freeze", freeze_freeze, METH_NOARGS,
     "freeze($self, /)\n--\n\nMake the whole dictionary read-only, for all its processes: writes "
     "raise ddict.FrozenError until unfreeze(). Values of other nodes that are read "
     "meanwhile stay on this node, and every later reader here has them in place. Freezing twice "
     "is freezing once."},
    {"unfreeze", freeze_unfreeze, METH_NOARGS,
     "unfreeze($self, /)\n--\n\nLet the dictionary be written again; when this returns it can be, "
     "on all nodes."},
    {"_persistence", persist_get, METH_NOARGS, NULL}, /* (folder, freq, count, read_only) */
    {"persisted_ids", persist_ids, METH_NOARGS,
     "persisted_ids($self, /)\n--\n\nThe numbers of the states that are on disk and complete, "
     "ascending."},
    {"_persist", persist_save, METH_O, NULL}, /* number -> state, for _state_wait() */
    {"_restore", persist_restore, METH_O, NULL},
    {"_persist_number", persist_number, METH_NOARGS, NULL},
    {"_restored", persist_moved, METH_O, NULL},
    {"_advance", persist_advance, METH_NOARGS, NULL},
    {"prefetch", freeze_prefetch, METH_O,
     "prefetch($self, keys, /)\n--\n\nHave those of keys that are on other nodes fetched to this "
     "one, and return at once: the number of values that will come. "
     "Only while the dictionary is frozen; else nothing happens and it is 0."},
    {"size", mapping_size, METH_O,
     "size($self, key, /)\n--\n\nHow many bytes the value of key has as it is stored, as "
     "view(key).nbytes; the value itself is not got. KeyError when it is absent."},
    {"owner", mapping_owner, METH_O,
     "owner($self, key, /)\n--\n\nThe number of the manager that holds key; manager m runs on node "
     "m mod nodes."},
    {"detach", handle_detach, METH_NOARGS,
     "detach($self, /)\n--\n\nEnd this handle. The dictionary and the views taken from it stay. "
     "Calls of other threads that are under way are "
     "finished first."},
    {"close", handle_detach, METH_NOARGS, "close($self, /)\n--\n\nThe same as detach()."},
    {"__enter__", handle_enter, METH_NOARGS, NULL},
    {"__exit__", handle_exit, METH_VARARGS, NULL},
    {"__reduce__", handle_reduce, METH_NOARGS,
     "Pickles name and timeout; whoever unpickles it attaches anew."},
    {NULL},
};

static PyGetSetDef handle_getset[] = {
    {"name", handle_member, NULL, "the dictionary's name, as in $DDICT_NAME",
     (void *)offsetof(struct handle, name)},
    {"_node", handle_member, NULL, NULL, (void *)offsetof(struct handle, node)},
    {"timeout", handle_member, NULL, "seconds that a call may take, None for $DDICT_TIMEOUT or 60",
     (void *)offsetof(struct handle, timeout)},
    {"_seconds", handle_get_seconds, NULL, NULL, NULL}, /* the timeout, with None resolved */
    {"attached", handle_attached, NULL, "False after detach()", NULL},
    {"is_frozen", freeze_is, NULL, "True between freeze() and unfreeze() of whichever process",
     NULL},
    {"checkpoint_id", window_get_id, window_set_id,
     "the checkpoint at which this handle stores and reads", NULL},
    {"working_set", window_get_size, NULL,
     "how many checkpoints the dictionary keeps; 0: it has none", NULL},
    {"info", info_get, NULL, "what the handle is attached to, as a dict", NULL},
    {"stats", stats_get, NULL,
     "the figures of every manager, as a list of dicts in order of manager_id", NULL},
    {NULL},
};

static PyType_Slot handle_slots[] = {
    {Py_tp_doc, "The C part of ddict.DDict."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, handle_tp_init},
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_repr, handle_repr},
    {Py_tp_iter, iter_new},
    {Py_tp_methods, handle_methods},
    {Py_tp_getset, handle_getset},
    {Py_mp_subscript, mapping_subscript},
    {Py_mp_ass_subscript, mapping_ass_subscript},
    {Py_mp_length, mapping_length},
    {Py_sq_contains, mapping_contains},
    {0, NULL},
};

static PyType_Spec handle_spec = {"ddict._ddict.Handle", sizeof(struct handle), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, handle_slots};

int handle_init(PyObject *module) {
    handle_type = (PyTypeObject *)PyType_FromSpec(&handle_spec);
    return handle_type ? PyModule_AddObjectRef(module, "Handle", (PyObject *)handle_type) : -1;
}
