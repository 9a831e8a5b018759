/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapping.c - operations on one key, and on all keys at once.
 *
 * Encoding a key or a value may run the user's code, which may detach the handle; so handle_check()
 * follows it.
 */
#include "pyddict.h"

#include <errno.h>

/* For d[key], get and view: 0 and *out, or a code; an exception is set only for 1. w: NULL for a
 * call that does not wait. Where the dictionary refills one that does only waits: a look-up before it
 * would wait for a refill (ddict.h), longer than the call may take. */
static int find(struct handle *h, PyObject *key, struct found *f, bool copy,
                const struct waiting *w) {
    bool waits = w && w->wait, only_waits = waits && h->refills;
    struct key k;
    int rc;

    if (key_encode(&k, key) < 0)
        return 1;
    rc = handle_check(h) < 0 ? 1
         : only_waits        ? DDICT_ENOKEY
                             : lookup(h, &k, f, copy, w ? w->ms : h->timeout_ms);
    if (rc == DDICT_ENOKEY && waits && (w->seconds > 0 || only_waits))
        rc = lookup_wait(h, &k, f, copy, w->seconds);
    key_clear(&k);
    return rc;
}

static PyObject *found_load(struct found *f, PyObject *key) {
    PyObject *obj = load_copy(f->v.data, f->v.len, f->v.tag);

    if (!obj)
        error_name_key(key);
    found_clear(f);
    return obj;
}

static PyObject *wait_over(PyObject *key, double seconds) {
    PyObject *s = PyFloat_FromDouble(seconds),
             *text = s ? PyUnicode_FromFormat("key %R did not come within %S s", key, s) : NULL;
    const char *utf8 = text ? PyUnicode_AsUTF8(text) : NULL;

    if (utf8)
        error_raise_text(-ETIMEDOUT, utf8);
    Py_XDECREF(text);
    Py_XDECREF(s);
    return NULL;
}

PyObject *mapping_subscript(PyObject *self, PyObject *key) {
    struct found f;
    int rc = find((struct handle *)self, key, &f, true, NULL);

    if (rc == 0)
        return found_load(&f, key);
    return rc < 0 ? error_raise(rc, key) : NULL;
}

PyObject *mapping_get(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw) {
    static const char *const names[] = {"key", "default", "wait", "timeout"};
    PyObject *a[4] = {NULL, NULL, NULL, NULL};
    struct handle *h = (struct handle *)self;
    struct waiting w;
    struct found f;
    int rc;

    if (args_parse("get", args, n, kw, names, a, 2, 4) < 0 ||
        waiting_parse(h->timeout_ms, a[2], a[3], &w) < 0)
        return NULL;
    rc = find(h, a[0], &f, true, &w);
    if (rc == 0)
        return found_load(&f, a[0]);
    if (rc == 1 && !w.wait && key_is_never_there(a[0]))
        rc = DDICT_ENOKEY;
    if (rc != DDICT_ENOKEY)
        return rc < 0 ? error_raise(rc, a[0]) : NULL;
    if (!a[1] && w.wait)
        return wait_over(a[0], w.seconds);
    return Py_NewRef(a[1] ? a[1] : Py_None);
}

PyObject *mapping_view(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw) {
    static const char *const names[] = {"key", "wait", "timeout"};
    PyObject *a[3] = {NULL, NULL, NULL};
    struct handle *h = (struct handle *)self;
    struct waiting w;
    struct found f;
    int rc;

    if (args_parse("view", args, n, kw, names, a, 1, 3) < 0 ||
        waiting_parse(h->timeout_ms, a[1], a[2], &w) < 0)
        return NULL;
    rc = find(h, a[0], &f, false, &w);
    if (rc == 0)
        return view_new(&f.v);
    if (rc == DDICT_ENOKEY && w.wait)
        return wait_over(a[0], w.seconds);
    return rc < 0 ? error_raise(rc, a[0]) : NULL;
}

int value_put(struct handle *h, const struct key *k, const struct value *v, unsigned flags) {
    int rc;

    flags |= DDICT_TAG(v->tag);
    h->busy++;
    Py_BEGIN_ALLOW_THREADS if (v->n == 1) rc = ddict_put(h->d, k->data, k->len, v->iov[0].iov_base,
                                                         v->iov[0].iov_len, flags, h->timeout_ms);
    else rc = ddict_putv(h->d, k->data, k->len, v->iov, v->n, flags, h->timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    return rc;
}

/* 0, or a code; 1: an exception is set. */
static int put(struct handle *h, PyObject *key, PyObject *value, unsigned flags) {
    struct value v;
    struct key k;
    int rc = 1;

    if (key_encode(&k, key) < 0)
        return 1;
    if (value_encode(&v, value) == 0) {
        /* without a condition it waits for nothing */
        if (handle_check(h) == 0 &&
            ((flags & (DDICT_NEW | DDICT_EXISTING)) == 0 || refill_wait(h, &k) == 0))
            rc = handle_check(h) < 0 ? 1 : value_put(h, &k, &v, flags);
        value_clear(&v);
    }
    key_clear(&k);
    return rc;
}

static int del(struct handle *h, PyObject *key) {
    struct key k;
    int rc;

    if (key_encode(&k, key) < 0)
        return 1;
    if (handle_begin(h) < 0) {
        key_clear(&k);
        return 1;
    }
    rc = refill_wait(h, &k) < 0 ? 1 : 0;
    if (rc == 0) {
        Py_BEGIN_ALLOW_THREADS rc = ddict_del(h->d, k.data, k.len, h->timeout_ms);
        Py_END_ALLOW_THREADS
    }
    handle_end(h);
    key_clear(&k);
    return rc;
}

int mapping_ass_subscript(PyObject *self, PyObject *key, PyObject *value) {
    struct handle *h = (struct handle *)self;
    int rc = value ? put(h, key, value, 0) : del(h, key);

    if (rc < 0)
        error_raise(rc, key);
    return rc ? -1 : 0;
}

/* 1: it is there, and *len (may be NULL) has the bytes of its value; 0: it is not; -1: an exception */
static int is_there(PyObject *self, PyObject *key, size_t *len) {
    struct handle *h = (struct handle *)self;
    struct key k;
    int rc = -ETIMEDOUT;

    if (key_encode(&k, key) < 0)
        return !len && key_is_never_there(key) ? 0 : -1;
    if (handle_begin(h) < 0) {
        key_clear(&k);
        return -1;
    }
    if (key_is_local(h, &k))
        rc = ddict_contains(h->d, k.data, k.len, len, 0);
    if (rc == -ETIMEDOUT)
        rc = key_is_there(h, &k, len, h->timeout_ms, 0);
    handle_end(h);
    key_clear(&k);
    if (rc < 0)
        error_raise(rc, key);
    return rc < 0 || rc == 2 ? -1 : rc;
}

int mapping_contains(PyObject *self, PyObject *key) {
    return is_there(self, key, NULL);
}

PyObject *mapping_size(PyObject *self, PyObject *key) {
    size_t len = 0;
    int rc = is_there(self, key, &len);

    if (rc == 0)
        error_raise(DDICT_ENOKEY, key);
    return rc == 1 ? PyLong_FromSize_t(len) : NULL;
}

PyObject *mapping_local_len(PyObject *self, PyObject *unused) {
    struct handle *h = (struct handle *)self;
    int64_t n;

    if (handle_begin(h) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS n = ddict_local_len(h->d, h->timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    return n < 0 ? error_raise((int)n, NULL) : PyLong_FromLongLong(n);
}

Py_ssize_t mapping_length(PyObject *self) {
    struct handle *h = (struct handle *)self;
    int64_t n;

    if (handle_begin(h) < 0)
        return -1;
    Py_BEGIN_ALLOW_THREADS n = ddict_len(h->d, h->timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    if (n < 0)
        error_raise((int)n, NULL);
    return n < 0 ? -1 : (Py_ssize_t)n;
}

/*
 * Put back a value that was popped but cannot be unpickled here, unless the key has another value
 * by now. The exception, which is set, gets the bytes if that fails. Only a value that replaced the
 * one that was looked at can come here.
 */
static void pop_undo(struct handle *h, const struct key *k, const struct found *f, PyObject *key) {
    struct value v = {
        .one = {(void *)f->v.data, f->v.len}, .n = 1, .tag = f->v.tag, .len = f->v.len};
    PyObject *type, *value, *trace, *bytes;
    int rc;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    v.iov = &v.one;
    rc = handle_check(h) < 0 ? -EINVAL : value_put(h, k, &v, DDICT_NEW);
    PyErr_Clear();
    if (rc < 0 && rc != DDICT_EEXISTS) {
        bytes = PyBytes_FromStringAndSize(f->v.data, (Py_ssize_t)f->v.len);
        if (!bytes || PyObject_SetAttrString(value, "value", bytes) < 0)
            PyErr_Clear();
        Py_XDECREF(bytes);
    }
    PyErr_Restore(type, value, trace);
}

/*
 * The value is unpickled before it is removed, so that one that cannot be unpickled here stays for
 * the other processes. By its version the removed value is recognised as the one that was
 * unpickled. 0 and *out, or a code; an exception is set only for 1.
 */
static int pop_once(struct handle *h, PyObject *key, const struct key *k, int timeout_ms,
                    PyObject **out) {
    struct found f = {.priv = NULL};
    uint64_t version;
    PyObject *obj;
    int rc = handle_check(h) < 0 ? 1 : lookup(h, k, &f, true, timeout_ms);

    if (rc)
        return rc;
    version = f.priv ? 0 : f.v.version;
    obj = found_load(&f, key);
    if (!obj || handle_begin(h) < 0) { /* unpickling may have run code that detached the handle */
        Py_XDECREF(obj);
        return 1;
    }
    f.priv = NULL;
    Py_BEGIN_ALLOW_THREADS rc = ddict_pop(h->d, k->data, k->len, &f.v, 0, timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    if (rc == 0 && (version == 0 || f.v.version != version)) { /* another value by now */
        Py_SETREF(obj, load_copy(f.v.data, f.v.len, f.v.tag));
        if (!obj) {
            error_name_key(key);
            pop_undo(h, k, &f, key);
        }
    }
    if (rc == 0)
        found_clear(&f);
    if (rc == 0 && obj) {
        *out = obj;
        return 0;
    }
    Py_XDECREF(obj);
    return rc ? rc : 1;
}

/* Wait until a value was popped, or the time is over: other callers may be faster each time. */
static int pop_wait(struct handle *h, PyObject *key, const struct key *k, const struct waiting *w,
                    PyObject **out) {
    double until = now_s() + w->seconds, left = w->seconds;
    struct found f;
    int rc;

    for (bool waits = h->refills;; waits = true) { /* as find() */
        if (waits) {
            rc = handle_check(h) < 0 ? 1 : lookup_wait(h, k, &f, true, left);
            if (rc)
                return rc;
            found_clear(&f);
        }
        rc = pop_once(h, key, k, w->ms, out);
        if (!key_is_absent(rc) || (left = until - now_s()) <= 0)
            return rc;
    }
}

PyObject *mapping_pop(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw) {
    /* key and default are positional only */
    static const char *const names[] = {"", "", "wait", "timeout"};
    PyObject *a[4] = {NULL, NULL, NULL, NULL}, *obj = NULL;
    struct handle *h = (struct handle *)self;
    struct waiting w;
    struct key k;
    int rc;

    if (args_count("pop", n, 1, 2) < 0 || args_parse("pop", args, n, kw, names, a, 2, 4) < 0 ||
        waiting_parse(h->timeout_ms, a[2], a[3], &w) < 0)
        return NULL;
    if (key_encode(&k, a[0]) < 0)
        return a[1] && !w.wait && key_is_never_there(a[0]) ? Py_NewRef(a[1]) : NULL;
    rc = w.wait ? pop_wait(h, a[0], &k, &w, &obj) : pop_once(h, a[0], &k, w.ms, &obj);
    key_clear(&k);
    if (rc == 0)
        return obj;
    if (rc == DDICT_ENOKEY && a[1])
        return Py_NewRef(a[1]);
    if (rc == DDICT_ENOKEY && w.wait)
        return wait_over(a[0], w.seconds);
    return rc < 0 ? error_raise(rc, a[0]) : NULL;
}

PyObject *mapping_setdefault(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    struct handle *h = (struct handle *)self;
    PyObject *value = n > 1 ? args[1] : Py_None;
    struct found f;
    int rc;

    if (args_count("setdefault", n, 1, 2) < 0)
        return NULL;
    /* repeated if another process puts the key after our look-up and removes it after our put */
    for (;;) {
        rc = find(h, args[0], &f, true, NULL);
        if (rc == 0)
            return found_load(&f, args[0]);
        if (rc == DDICT_ENOKEY)
            rc = put(h, args[0], value, DDICT_NEW);
        if (rc == 0)
            return Py_NewRef(value);
        if (rc != DDICT_EEXISTS)
            return rc < 0 ? error_raise(rc, args[0]) : NULL;
        if (PyErr_CheckSignals() < 0)
            return NULL;
    }
}

static PyObject *put_if(const char *func, PyObject *self, PyObject *const *args, Py_ssize_t n,
                        unsigned flag, int refusal) {
    int rc;

    if (args_count(func, n, 2, 2) < 0)
        return NULL;
    rc = put((struct handle *)self, args[0], args[1], flag);
    if (rc == 0 || rc == refusal)
        return PyBool_FromLong(rc == 0);
    return rc < 0 ? error_raise(rc, args[0]) : NULL;
}

PyObject *mapping_put_new(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    return put_if("put_new", self, args, n, DDICT_NEW, DDICT_EEXISTS);
}

PyObject *mapping_put_existing(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    return put_if("put_existing", self, args, n, DDICT_EXISTING, DDICT_ENOKEY);
}

PyObject *mapping_pput(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    int rc;

    if (args_count("pput", n, 2, 2) < 0)
        return NULL;
    rc = put((struct handle *)self, args[0], args[1], DDICT_PERSISTENT);
    if (rc != 0)
        return rc < 0 ? error_raise(rc, args[0]) : NULL;
    Py_RETURN_NONE;
}

PyObject *mapping_put(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw) {
    static const char *const names[] = {"key", "value", "near"};
    PyObject *a[3] = {NULL, NULL, NULL};
    int near, rc;

    if (args_parse("put", args, n, kw, names, a, 2, 3) < 0 ||
        (near = a[2] ? PyObject_IsTrue(a[2]) : 0) < 0)
        return NULL;
    if (!a[1]) {
        PyErr_SetString(PyExc_TypeError, "put() needs a value");
        return NULL;
    }
    rc = put((struct handle *)self, a[0], a[1], near ? DDICT_NEAR : 0);
    if (rc != 0)
        return rc < 0 ? error_raise(rc, a[0]) : NULL;
    Py_RETURN_NONE;
}

PyObject *mapping_clear(PyObject *self, PyObject *unused) {
    struct handle *h = (struct handle *)self;
    int rc;

    if (handle_begin(h) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = ddict_clear(h->d, h->timeout_ms);
    Py_END_ALLOW_THREADS handle_end(h);
    if (rc < 0)
        return error_raise(rc, NULL);
    Py_RETURN_NONE;
}

PyObject *mapping_owner(PyObject *self, PyObject *key) {
    struct handle *h = (struct handle *)self;
    struct key k;
    unsigned m;

    if (key_encode(&k, key) < 0)
        return NULL;
    if (handle_check(h) < 0) {
        key_clear(&k);
        return NULL;
    }
    m = ddict_owner(h->d, k.data, k.len);
    key_clear(&k);
    return PyLong_FromUnsignedLong(m);
}
