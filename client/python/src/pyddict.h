/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pyddict.h - what the files of the extension module ddict._ddict share.
 *
 * All functions are called with the GIL held and give it back themselves where they can wait.
 * Functions that return int give 0 or -1 with a Python exception set, those that return an object
 * NULL with an exception, unless said otherwise. How keys and values are stored stands in
 * doc/FORMAT.md.
 */
#ifndef PYDDICT_H
#define PYDDICT_H

#define PY_SSIZE_T_CLEAN
#include <ddict.h>

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#if PY_VERSION_HEX < 0x030A0000 /* Python 3.9 */
static inline int PyModule_AddObjectRef(PyObject *module, const char *name, PyObject *obj) {
    Py_XINCREF(obj);
    if (obj && PyModule_AddObject(module, name, obj) == 0)
        return 0;
    Py_XDECREF(obj);
    return -1;
}
static inline PyObject *Py_NewRef(PyObject *obj) {
    Py_INCREF(obj);
    return obj;
}
static inline PyObject *Py_XNewRef(PyObject *obj) {
    Py_XINCREF(obj);
    return obj;
}
#endif

#define LOCAL __attribute__((visibility("hidden")))

/* Copies from this size on are made without the GIL: below it, giving it back costs as much as the
 * copy. Bytes. */
#define COPY_NOGIL_MIN (128u << 10)

/* --- errors.c: negative codes become exceptions --- */

LOCAL int errors_init(PyObject *module);
/* Set the exception for code, a failure of the calling thread's last libddict call. key (may be
 * NULL): what KeyError names. Returns NULL. */
LOCAL PyObject *error_raise(int code, PyObject *key);
/* The same with a sentence of our own. */
LOCAL PyObject *error_raise_text(int code, const char *text);
LOCAL extern PyObject *error_base; /* ddict.Error */
/* An exception that was raised when the value of key was pickled or unpickled, with key in its
 * text. KeyError and StopIteration, which mean something else to who asked for a key, become
 * ddict.Error. A new reference. */
LOCAL PyObject *error_named(PyObject *exc, PyObject *key);
/* The same with the one that is set. */
LOCAL void error_name_key(PyObject *key);

/* --- args.c --- */

/* names[] of count arguments, the first needed, the first positional ones allowed without their
 * name. out[] comes in as NULLs. */
LOCAL int args_parse(const char *func, PyObject *const *args, Py_ssize_t n, PyObject *kw,
                     const char *const *names, PyObject **out, int positional, int count);
LOCAL int args_count(const char *func, Py_ssize_t n, int min, int max);
/* Seconds (None: -1, the library's default) as milliseconds. */
LOCAL int timeout_parse(PyObject *seconds, int *ms);
/* What wait= and timeout= of a call say together. */
struct waiting {
    bool wait;      /* for the key */
    double seconds; /* with wait: at most so long; and the same in ms */
    int wait_ms;
    /* that a call of libddict may take; without wait the given timeout, else the handle's */
    int ms;
};
/* Either may be NULL: it was not given. handle_ms: the handle's. TypeError for a wait that is
 * neither True nor False: seconds have their own name. */
LOCAL int waiting_parse(int handle_ms, PyObject *wait, PyObject *timeout, struct waiting *w);
/* The seconds that a call may take: the handle's, else libddict's default. */
LOCAL double timeout_seconds(int handle_ms);

/* --- key.c: Python keys and their bytes --- */

struct key {
    unsigned char *data; /* inl or heap */
    size_t len, cap;
    unsigned char inl[240];
};
LOCAL int key_init(PyObject *module);
/* On success k belongs to the caller until key_clear(). k must not be moved. */
LOCAL int key_encode(struct key *k, PyObject *obj);
/* After key_encode() failed: whether obj is one of those that a dict would look for in vain. Then
 * the exception is gone. */
LOCAL bool key_is_never_there(PyObject *obj);
LOCAL void key_clear(struct key *k);
/* The bytes that keys of a prefix begin with: a str, bytes or a tuple of first parts; None for all
 * keys. */
LOCAL int prefix_encode(struct key *k, PyObject *obj);
/* Any bytes give a key that encodes to the same bytes again. */
LOCAL PyObject *key_decode(const void *data, size_t len);
/* Decimal text, shared with values; buf holds 24 bytes. Returns the length. */
LOCAL size_t decimal_format(long long v, char *buf);
/* NULL without an exception when the text is not the one decimal_format() would have made. */
LOCAL PyObject *decimal_parse(const char *s, size_t len);

/* --- value.c: from a Python object to the pieces that ddict_putv() gathers --- */

enum {
    TAG_BYTES,
    TAG_BYTEARRAY,
    TAG_PICKLE,
    TAG_BUFFERS,
    TAG_STR,
    TAG_INT,
    TAG_FLOAT,
    TAG_ARRAY,
    TAG_BOOL
};

/* bytes; smaller buffers travel in the pickle stream: a value below this size is not 64-byte
 * aligned */
#define OOB_MIN 256u
/* buffers out of band in one value: two pieces each, and ddict_putv() takes 1024 */
#define OOB_MAX   500u
#define OOB_ALIGN 64u

struct oob_head { /* little endian; start of a TAG_BUFFERS value */
    uint32_t count;
    uint32_t version; /* 1 */
    uint64_t stream_len;
    struct {
        uint64_t off, len;
    } buf[];
};

struct value {
    struct iovec *iov; /* one, two, or heap */
    int n;
    unsigned tag;
    size_t len;
    struct iovec one, two[2];
    _Alignas(8) unsigned char head[64]; /* of an array */
    PyObject *hold;                     /* owns what iov points to; may be NULL */
    PyObject *oob;                      /* list of PickleBuffers; may be NULL */
    Py_buffer buf;                      /* held while buf.obj is not NULL */
    void *heap;
    char text[32]; /* numbers */
};
LOCAL int value_init(void);
/* obj must stay referenced until value_clear(). v must not be moved. */
LOCAL int value_encode(struct value *v, PyObject *obj);
/* Join the pieces into one. */
LOCAL int value_join(struct value *v);
LOCAL void value_clear(struct value *v);

/* --- load.c: from stored bytes to a Python object --- */

LOCAL int load_init(void);
/* An object that shares nothing with the dictionary. */
LOCAL PyObject *load_copy(const void *data, size_t len, unsigned tag);
/* Buffers out of band alias view (a View), read-only; tensors only when alias_tensors. */
LOCAL PyObject *load_alias(PyObject *view, const struct ddict_view *v, bool alias_tensors);
/* memcpy, without the GIL when it takes long. The memory must not be able to go away meanwhile. */
LOCAL void copy_bytes(void *dst, const void *src, size_t n);

/* --- array.c: arrays of numpy and torch --- */

LOCAL int array_init(void);
/* 1: the pieces of v are an array. 0: obj is none, or none that can be stored so. -1. */
LOCAL int array_encode(struct value *v, PyObject *obj);
/* view: NULL for a copy. */
LOCAL PyObject *array_load(const char *data, size_t len, PyObject *view, bool alias_tensors);

/* --- memory.c: a buffer over memory that another object owns --- */

LOCAL int memory_init(PyObject *module);
/* owner is kept; when it exports a buffer that must stay exported, export is true. */
LOCAL PyObject *memory_new(PyObject *owner, bool export, void *p, size_t len, bool readonly,
                           bool alias);

/* --- view.c --- */

LOCAL int view_init(PyObject *module);
/* Takes over v, also when it fails. */
LOCAL PyObject *view_new(const struct ddict_view *v);
LOCAL bool view_check(PyObject *obj);
LOCAL unsigned view_tag(PyObject *view);

/* --- handle.c: the type that DDict derives from --- */

struct handle {
    PyObject_HEAD ddict_t *d; /* NULL before __init__ and after detach */
    PyObject *name;           /* str */
    PyObject *node;           /* str: this node, as the dictionary calls it */
    PyObject *timeout;        /* float or None */
    int timeout_ms;
    unsigned nodes, node_id;
    bool refills; /* ddict_refills() */
    /* calls under way without the GIL, and open iterators; the last one detaches when closing */
    unsigned busy;
    bool closing;
};
LOCAL int handle_init(PyObject *module);
LOCAL extern PyTypeObject *handle_type;
/* Pair around everything that gives the GIL back while it uses h->d. */
LOCAL int handle_begin(struct handle *h);
LOCAL void handle_end(struct handle *h);
/* 0, or -1 with ValueError when the handle is detached. */
LOCAL int handle_check(struct handle *h);
/* --- lookup.c: find a value, with or without waiting for it --- */

/* A value found: v is to be released, or priv (a private copy) to be freed. */
struct found {
    struct ddict_view v;
    void *priv;
};
/* 0, or a code of libddict without a Python exception, or 1 with one. A private copy only when copy is
 * allowed and no view is to be had. */
LOCAL int lookup(struct handle *h, const struct key *k, struct found *f, bool copy, int timeout_ms);
/*
 * As lookup(), waiting until the key exists, at most seconds. When it did not come in time
 * DDICT_ENOKEY, or DDICT_EKEYLOST if it may have been lost, 1 with a Python exception set when a signal
 * handler raised one.
 */
LOCAL int lookup_wait(struct handle *h, const struct key *k, struct found *f, bool copy,
                      double seconds);
/* Where the dictionary refills a call waits for what is read again (ddict.h), without a check for
 * Ctrl-C: a first try is as short as that, and then key_is_there() waits. */
LOCAL int first_try_ms(const struct handle *h, int timeout_ms);
/* As ddict_contains(), len is its vlen, of whose time gone_ms were used; where the dictionary refills with checks for
 * Ctrl-C, and 2 with a Python exception set, also when the time is over. */
LOCAL int key_is_there(struct handle *h, const struct key *k, size_t *len, int timeout_ms,
                       int gone_ms);
/* Before a call that cannot be tried twice; it is the call that says what there is. One that has begun
 * when the node is lost waits without a check. 0, or -1 with an exception. */
LOCAL int refill_wait(struct handle *h, const struct key *k);
/* Nobody has the key now. (base/error.h has it, too, but is not installed.) */
static inline bool key_is_absent(int rc) {
    return rc == DDICT_ENOKEY || rc == DDICT_EKEYLOST;
}
LOCAL void found_clear(struct found *f);
LOCAL double now_s(void);
LOCAL bool key_is_local(const struct handle *h, const struct key *k);

/* --- mapping.c, many.c, iter.c, stats.c: methods of the handle --- */

#define METHOD(f) (PyCFunction)(void (*)(void))(f)
LOCAL PyObject *mapping_subscript(PyObject *self, PyObject *key);
LOCAL int mapping_ass_subscript(PyObject *self, PyObject *key, PyObject *value);
LOCAL int mapping_contains(PyObject *self, PyObject *key);
LOCAL Py_ssize_t mapping_length(PyObject *self);
LOCAL PyObject *mapping_local_len(PyObject *self, PyObject *unused);
LOCAL PyObject *mapping_get(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
LOCAL PyObject *mapping_view(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
LOCAL PyObject *mapping_pop(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
LOCAL PyObject *mapping_setdefault(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL PyObject *mapping_put_new(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL PyObject *mapping_put_existing(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL PyObject *mapping_put(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
LOCAL PyObject *mapping_pput(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL PyObject *mapping_clear(PyObject *self, PyObject *unused);
LOCAL PyObject *mapping_owner(PyObject *self, PyObject *key);
LOCAL PyObject *mapping_size(PyObject *self, PyObject *key);
LOCAL PyObject *freeze_freeze(PyObject *self, PyObject *unused);
LOCAL PyObject *freeze_unfreeze(PyObject *self, PyObject *unused);
LOCAL PyObject *freeze_is(PyObject *self, void *unused);

/* persist.c */
LOCAL PyObject *persist_get(PyObject *self, PyObject *unused);
LOCAL PyObject *persist_ids(PyObject *self, PyObject *unused);
LOCAL PyObject *persist_save(PyObject *self, PyObject *id);
LOCAL PyObject *persist_restore(PyObject *self, PyObject *id);
LOCAL PyObject *persist_number(PyObject *self, PyObject *unused);
LOCAL PyObject *persist_moved(PyObject *self, PyObject *id);
LOCAL PyObject *persist_advance(PyObject *self, PyObject *unused);
LOCAL PyObject *freeze_prefetch(PyObject *self, PyObject *keys);
LOCAL int value_put(struct handle *h, const struct key *k, const struct value *v, unsigned flags);

LOCAL PyObject *many_get(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
LOCAL PyObject *many_view(PyObject *self, PyObject *keys);
LOCAL PyObject *many_put(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL PyObject *many_gather(PyObject *self, PyObject *const *args, Py_ssize_t n);
/* Ask for n keys. Then every want whose status is 0 holds a view that is to be released. */
LOCAL int wants_ask(struct handle *h, PyObject *const *objs, Py_ssize_t n, struct ddict_want *w);
/* The value, or a View; missing for an absent key. The want's view is then released or the View's.
 * */
LOCAL PyObject *want_take(struct handle *h, struct ddict_want *w, PyObject *key, PyObject *missing,
                          bool view);

/* atomic.c */
LOCAL PyObject *atomic_add(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw);
LOCAL PyObject *atomic_append(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL PyObject *atomic_version(PyObject *self, PyObject *key);
LOCAL PyObject *atomic_put_if(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL PyObject *atomic_is(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL PyObject *atomic_wait(PyObject *self, PyObject *const *args, Py_ssize_t n);

/* window.c */
LOCAL PyObject *window_checkpoint(PyObject *self, PyObject *unused);
LOCAL PyObject *window_rollback(PyObject *self, PyObject *unused);
LOCAL PyObject *window_sync(PyObject *self, PyObject *unused);
LOCAL PyObject *window_get_id(PyObject *self, void *unused);
LOCAL int window_set_id(PyObject *self, PyObject *value, void *unused);
LOCAL PyObject *window_get_size(PyObject *self, void *unused);

/* queue.c */
LOCAL PyObject *queue_push(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL PyObject *queue_open(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL PyObject *queue_take(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL PyObject *queue_size(PyObject *self, PyObject *key);

/* holder.c */
LOCAL PyObject *holder_self(PyObject *self, PyObject *unused);
LOCAL PyObject *holder_alive(PyObject *self, PyObject *const *args, Py_ssize_t n);

/* sub.c */
LOCAL int sub_init(void);
LOCAL PyObject *sub_new(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL int requests_init(PyObject *module); /* requests.c */

/* publish.c */
LOCAL int publish_init(void);
LOCAL PyObject *publish_publish(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL PyObject *publish_unpublish(PyObject *self, PyObject *name);
LOCAL PyObject *publish_view(PyObject *self, PyObject *const *args, Py_ssize_t n);
LOCAL PyObject *publish_follow(PyObject *self, PyObject *name);

/* place.c */
LOCAL int place_init(PyObject *module);
LOCAL PyObject *place_new(PyObject *self, PyObject *args);

LOCAL int up_init(PyObject *module);
LOCAL int persist_init(PyObject *module);

LOCAL int iter_init(void);
LOCAL PyObject *iter_new(PyObject *handle);
LOCAL PyObject *iter_keys(PyObject *handle, PyObject *const *args, Py_ssize_t n);

LOCAL PyObject *stats_get(PyObject *self, void *unused);
LOCAL PyObject *info_get(PyObject *self, void *unused);

#endif
