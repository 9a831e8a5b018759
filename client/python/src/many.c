/* SPDX-License-Identifier: Apache-2.0 */
/* many.c - many keys in one call: their requests travel together. */
#include "pyddict.h"

#include <errno.h>
#include <string.h>

#define MANY_MAX   1024 /* pairs or keys in one call of libddict */
#define MANY_MIN   16
#define MANY_FIRST 256         /* keys of the first call, before the size of the values is known */
#define MANY_BYTES (32u << 20) /* approximate size of the values of one call */
/* bytes; a value in pieces up to this size is joined, so that it travels with the others */
#define JOIN_MAX (64u << 10)

struct keys { /* encoded keys, one after another */
    char *buf;
    size_t len, cap;
};

/* Append a key; its encoded length, or 0 with an exception. */
static size_t keys_append(struct keys *ks, PyObject *obj) {
    struct key k;
    size_t n;

    if (key_encode(&k, obj) < 0)
        return 0;
    n = k.len;
    if (n == 0) {
        error_raise_text(DDICT_EKEYSIZE, ddict_strerror(DDICT_EKEYSIZE)); /* RawKey(b"") */
    } else if (ks->len + n > ks->cap) {
        size_t cap = 2 * (ks->len + n) + 1024;
        char *p = PyMem_Realloc(ks->buf, cap);
        if (p) {
            ks->buf = p;
            ks->cap = cap;
        } else {
            PyErr_NoMemory();
            n = 0;
        }
    }
    if (n) {
        memcpy(ks->buf + ks->len, k.data, n);
        ks->len += n;
    }
    key_clear(&k);
    return n;
}

/* --- get --- */

/* Ask once more, when its manager answers. */
static int want_again(struct handle *h, struct ddict_want *w) {
    struct key k = {.data = (unsigned char *)(uintptr_t)w->key, .len = w->klen};

    if (key_is_there(h, &k, NULL, h->timeout_ms, 0) == 2)
        return -1;
    Py_BEGIN_ALLOW_THREADS ddict_get_many(h->d, w, 1, 0, h->timeout_ms);
    Py_END_ALLOW_THREADS return 0;
}

int wants_ask(struct handle *h, PyObject *const *objs, Py_ssize_t n, struct ddict_want *w) {
    struct keys ks = {NULL, 0, 0};
    int first = first_try_ms(h, h->timeout_ms);
    ssize_t rc = -1;
    const char *p;

    for (Py_ssize_t i = 0; i < n; i++)
        if (!(w[i].klen = keys_append(&ks, objs[i])))
            goto out;
    if (handle_begin(h) < 0)
        goto out;
    p = ks.buf;
    for (Py_ssize_t i = 0; i < n; p += w[i++].klen)
        w[i].key = p;
    Py_BEGIN_ALLOW_THREADS rc = ddict_get_many(h->d, w, (size_t)n, 0, first);
    Py_END_ALLOW_THREADS if (rc < 0) error_raise((int)rc, NULL);
    for (Py_ssize_t i = 0; rc >= 0 && i < n && first != h->timeout_ms; i++)
        if (w[i].status == -ETIMEDOUT && want_again(h, &w[i]) < 0) {
            for (i = 0; i < n; i++)
                if (w[i].status == 0)
                    ddict_release(&w[i].view);
            rc = -1;
        }
    handle_end(h);
    for (Py_ssize_t i = 0; i < n; i++)
        w[i].key = NULL;
out:
    PyMem_Free(ks.buf);
    return rc < 0 ? -1 : 0;
}

/* No view is left: read this one value into private memory. */
static PyObject *want_alone(struct handle *h, PyObject *key, PyObject *missing) {
    PyObject *obj = NULL;
    struct found f;
    struct key k;
    int rc;

    if (key_encode(&k, key) < 0)
        return NULL;
    if (handle_check(h) == 0) {
        rc = lookup(h, &k, &f, true, h->timeout_ms);
        if (rc == 0) {
            obj = load_copy(f.v.data, f.v.len, f.v.tag);
            found_clear(&f);
            if (!obj)
                error_name_key(key);
        } else {
            obj = rc == DDICT_ENOKEY ? Py_NewRef(missing) : rc < 0 ? error_raise(rc, key) : NULL;
        }
    }
    key_clear(&k);
    return obj;
}

PyObject *want_take(struct handle *h, struct ddict_want *w, PyObject *key, PyObject *missing,
                    bool view) {
    PyObject *obj;

    if (w->status == DDICT_EVIEWS && !view)
        return want_alone(h, key, missing);
    if (w->status == DDICT_ENOKEY)
        return Py_NewRef(missing);
    if (w->status < 0)
        return error_raise(w->status, key);
    if (view)
        return view_new(&w->view);
    obj = load_copy(w->view.data, w->view.len, w->view.tag);
    ddict_release(&w->view);
    if (!obj)
        error_name_key(key);
    return obj;
}

/* Append the values of the keys objs[0 .. n-1] to list. *bytes: size of all values. */
static int chunk_get(struct handle *h, PyObject *list, PyObject *const *objs, Py_ssize_t n,
                     struct ddict_want *w, PyObject *missing, bool view, size_t *bytes) {
    Py_ssize_t i;

    if (wants_ask(h, objs, n, w) < 0)
        return -1;
    *bytes = 0;
    for (i = 0; i < n; i++) {
        size_t len = w[i].status == 0 ? w[i].view.len : 0;
        PyObject *obj = want_take(h, &w[i], objs[i], missing, view);
        int rc = obj ? PyList_Append(list, obj) : -1;
        Py_XDECREF(obj);
        if (rc < 0)
            break;
        *bytes += len;
    }
    if (i == n)
        return 0;
    while (++i < n)
        if (w[i].status == 0)
            ddict_release(&w[i].view);
    return -1;
}

/* A str is an iterable of str, too, but never meant as a list of keys. */
static PyObject *keys_tuple(PyObject *keys) {
    if (!PyUnicode_Check(keys) && !PyBytes_Check(keys))
        return PySequence_Tuple(keys);
    PyErr_Format(PyExc_TypeError, "several keys are a list of them, not one %.200s: [%R]",
                 Py_TYPE(keys)->tp_name, keys);
    return NULL;
}

static PyObject *get_all(PyObject *self, PyObject *keys, PyObject *missing, bool view) {
    struct handle *h = (struct handle *)self;
    PyObject *t = keys_tuple(keys), *list = t ? PyList_New(0) : NULL;
    Py_ssize_t n = t ? PyTuple_GET_SIZE(t) : 0, step = view ? MANY_MAX : MANY_FIRST, at = 0;
    struct ddict_want *w = PyMem_Malloc(MANY_MAX * sizeof *w);

    if (!w && list)
        PyErr_NoMemory();
    if (!w || !list)
        Py_CLEAR(list);
    while (list && at < n) {
        Py_ssize_t m = n - at < step ? n - at : step;
        size_t bytes;
        if (chunk_get(h, list, ((PyTupleObject *)t)->ob_item + at, m, w, missing, view, &bytes) <
            0) {
            Py_CLEAR(list);
            break;
        }
        at += m;
        if (!view) { /* as many values of this size as fit */
            size_t mean = bytes / (size_t)m + 1, fit = MANY_BYTES / mean;
            step = fit > MANY_MAX ? MANY_MAX : fit < MANY_MIN ? MANY_MIN : (Py_ssize_t)fit;
        }
    }
    PyMem_Free(w);
    Py_XDECREF(t);
    return list;
}

PyObject *many_get(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw) {
    static const char *const names[] = {"keys", "default"};
    PyObject *a[2] = {NULL, NULL};

    if (args_parse("get_many", args, n, kw, names, a, 2, 2) < 0)
        return NULL;
    return get_all(self, a[0], a[1] ? a[1] : Py_None, false);
}

/* _view_many(keys): a list of Views, None for absent keys */
PyObject *many_view(PyObject *self, PyObject *keys) {
    return get_all(self, keys, Py_None, true);
}

/* --- put --- */

struct batch {
    struct handle *h;
    struct keys keys;
    struct ddict_pair pair[MANY_MAX];
    struct value value[MANY_MAX];
    PyObject *obj[MANY_MAX]; /* the (key, value) tuples, which keep the data alive */
    size_t n, bytes;
    Py_ssize_t stored;
    unsigned flags; /* DDICT_PERSISTENT or 0 */
    /* lists of keys; unknown: those of failed that may be stored nevertheless */
    PyObject *failed, *unknown;
    int code;       /* of the first pair that failed */
    char text[512]; /* its sentence */
};

static void batch_empty(struct batch *b) {
    for (size_t i = 0; i < b->n; i++) {
        value_clear(&b->value[i]);
        Py_DECREF(b->obj[i]);
    }
    b->n = b->bytes = b->keys.len = 0;
}

/* Whether the manager was asked, but its answer is not known. */
static bool unknown(int code) {
    return code == -ETIMEDOUT || code == DDICT_ELOST || code == DDICT_EGONE;
}

/* The code for pairs that were not sent: the reason why the call ended early. */
static int batch_why(const struct batch *b, ssize_t rc) {
    if (rc < 0)
        return (int)rc;
    for (size_t i = 0; i < b->n; i++)
        if (unknown(b->pair[i].status))
            return b->pair[i].status;
    int state = ddict_ending(b->h->d);
    return state < 0 ? state : -ETIMEDOUT;
}

/* sent: the put may have taken effect */
static int batch_fail(struct batch *b, int code, const char *text, PyObject *pair, bool sent) {
    PyObject *key = PySequence_GetItem(pair, 0);
    int rc = key ? PyList_Append(b->failed, key) : -1;

    if (rc == 0 && sent && unknown(code))
        rc = PyList_Append(b->unknown, key);
    Py_XDECREF(key);
    if (!b->code)
        snprintf(b->text, sizeof b->text, "%s", text && *text ? text : ddict_strerror(code));
    if (!b->code)
        b->code = code;
    return rc;
}

/* Send the gathered pairs. 0, also if some were refused. */
static int batch_flush(struct batch *b) {
    const char *p = b->keys.buf;
    char text[sizeof b->text];
    int err = 0, why;
    ssize_t rc;

    if (b->n == 0)
        return 0;
    if (handle_begin(b->h) < 0)
        return -1;
    for (size_t i = 0; i < b->n; p += b->pair[i++].klen)
        b->pair[i].key = p;
    Py_BEGIN_ALLOW_THREADS rc = ddict_put_many(b->h->d, b->pair, b->n, b->h->timeout_ms);
    Py_END_ALLOW_THREADS snprintf(text, sizeof text, "%s",
                                  rc < (ssize_t)b->n ? ddict_errmsg() : "");
    why = rc < (ssize_t)b->n ? batch_why(b, rc) : 0;
    handle_end(b->h);
    for (size_t i = 0; err == 0 && i < b->n; i++) {
        int code = rc < 0 ? -ECANCELED : b->pair[i].status;
        bool sent = code != -ECANCELED;
        if (code < 0)
            err = batch_fail(b, sent ? code : why, text, b->obj[i], sent);
        else
            b->stored++;
    }
    batch_empty(b);
    return err;
}

/* v is stored behind the gathered pairs, so batch_flush() does not touch it. */
static int batch_put_alone(struct batch *b, struct value *v, PyObject *key, PyObject *pair) {
    struct key k;
    int rc;

    if (batch_flush(b) < 0 || key_encode(&k, key) < 0)
        return -1;
    rc = handle_check(b->h) < 0 ? 1 : value_put(b->h, &k, v, b->flags);
    key_clear(&k);
    if (rc == 0)
        b->stored++;
    return rc < 0 ? batch_fail(b, rc, ddict_errmsg(), pair, true) : -rc;
}

static int batch_add(struct batch *b, PyObject *pair) {
    struct value *v = &b->value[b->n];
    PyObject *key = PyTuple_GET_ITEM(pair, 0);
    size_t klen;
    int rc;

    if (value_encode(v, PyTuple_GET_ITEM(pair, 1)) < 0) {
        error_name_key(key);
        return -1;
    }
    if (v->n > 1 && v->len > JOIN_MAX) {
        rc = batch_put_alone(b, v, key, pair);
        value_clear(v);
        return rc;
    }
    if (value_join(v) < 0 || !(klen = keys_append(&b->keys, key))) {
        value_clear(v);
        return -1;
    }
    b->pair[b->n] = (struct ddict_pair){.klen = klen,
                                        .val = v->iov[0].iov_base,
                                        .vlen = v->len,
                                        .flags = DDICT_TAG(v->tag) | b->flags};
    b->obj[b->n++] = Py_NewRef(pair);
    b->bytes += v->len + klen;
    return b->n == MANY_MAX || b->bytes >= MANY_BYTES ? batch_flush(b) : 0;
}

static PyObject *pair_check(PyObject *item, Py_ssize_t at) {
    PyObject *t = PySequence_Tuple(item);

    if (!t && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "element %zd is not a (key, value) pair", at);
    if (t && PyTuple_GET_SIZE(t) != 2) {
        PyErr_Format(PyExc_ValueError, "element %zd has length %zd; a (key, value) pair has 2", at,
                     PyTuple_GET_SIZE(t));
        Py_CLEAR(t);
    }
    return t;
}

/* Set .failed, .unknown and .stored of an exception: the keys that failed, those of them that may
 * be stored nevertheless, and the number of stored pairs. */
static void batch_tell(struct batch *b, PyObject *exc) {
    PyObject *n = PyLong_FromSsize_t(b->stored);

    if (!n || PyObject_SetAttrString(exc, "failed", b->failed) < 0 ||
        PyObject_SetAttrString(exc, "unknown", b->unknown) < 0 ||
        PyObject_SetAttrString(exc, "stored", n) < 0)
        PyErr_Clear();
    Py_XDECREF(n);
}

/* After an exception the pairs before it are stored nevertheless, as by dict.update(). pair: the
 * pair that raised it, or NULL. */
static void batch_flush_kept(struct batch *b, PyObject *pair) {
    PyObject *type, *value, *tb, *key = pair ? PyTuple_GET_ITEM(pair, 0) : NULL;

    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    if (batch_flush(b) < 0 || (key && PyList_Append(b->failed, key) < 0))
        PyErr_Clear();
    if (value)
        batch_tell(b, value);
    PyErr_Restore(type, value, tb);
}

static PyObject *batch_result(struct batch *b) {
    PyObject *type, *value, *tb;

    if (!b->code)
        return PyLong_FromSsize_t(b->stored);
    error_raise_text(b->code, b->text);
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    batch_tell(b, value);
    PyErr_Restore(type, value, tb);
    return NULL;
}

/* _put_pairs(iterable, persistent): the number of stored pairs. Stops after a batch with a refused
 * pair. */
PyObject *many_put(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    int persistent = args_count("_put_pairs", n, 2, 2) < 0 ? -1 : PyObject_IsTrue(args[1]);
    PyObject *it = persistent < 0 ? NULL : PyObject_GetIter(args[0]), *item, *bad = NULL,
             *result = NULL;
    struct batch *b = it ? PyMem_Calloc(1, sizeof *b) : NULL;
    Py_ssize_t at = 0;
    int rc = 0;

    if (b) {
        b->h = (struct handle *)self;
        b->flags = persistent ? DDICT_PERSISTENT : 0;
        b->failed = PyList_New(0);
        b->unknown = PyList_New(0);
    } else if (it) {
        PyErr_NoMemory();
    }
    if (b && b->failed && b->unknown) {
        while (rc == 0 && !b->code && (item = PyIter_Next(it))) {
            PyObject *pair = pair_check(item, at++);
            rc = pair ? batch_add(b, pair) : -1;
            if (rc < 0)
                bad = Py_XNewRef(pair);
            Py_XDECREF(pair);
            Py_DECREF(item);
        }
        if (rc < 0 || PyErr_Occurred())
            batch_flush_kept(b, bad);
        else if (batch_flush(b) == 0)
            result = batch_result(b);
        batch_empty(b);
    }
    Py_XDECREF(bad);
    if (b) {
        Py_XDECREF(b->failed);
        Py_XDECREF(b->unknown);
        PyMem_Free(b->keys.buf);
        PyMem_Free(b);
    }
    Py_XDECREF(it);
    return result;
}
