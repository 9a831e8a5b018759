/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_lmdb.c - LMDB with its fastest settings (no sync, writable map, a file in memory). Each
 * read sees what was last committed, as the dictionary's do: the transaction is renewed for each
 * view, get, and batch of views.
 */
#include "peers.h"

#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

struct lmdb {
    MDB_env *env;
    MDB_dbi dbi;
    MDB_txn *read;
};

static int last;

static int code(int rc) {
    last = rc;
    return rc == 0 ? 0 : -EIO;
}

static const char *error(void) {
    return mdb_strerror(last);
}

static void close_it(void *self) {
    struct lmdb *l = self;
    if (l->read)
        mdb_txn_abort(l->read);
    mdb_env_close(l->env);
    free(l);
}

static int open_it(void **self, const struct where *w) {
    struct lmdb *l = calloc(1, sizeof *l);
    MDB_txn *t;
    if (!l)
        return -ENOMEM;
    int rc = mdb_env_create(&l->env);
    if (rc == 0)
        rc = mdb_env_set_mapsize(l->env, 4 * w->keys * (w->len + 256) + (256u << 20));
    if (rc == 0)
        rc = mdb_env_open(l->env, w->lmdb,
                          MDB_NOSYNC | MDB_NOMETASYNC | MDB_WRITEMAP | MDB_NORDAHEAD, 0600);
    if (rc == 0 && (rc = mdb_txn_begin(l->env, NULL, 0, &t)) == 0) {
        rc = mdb_dbi_open(t, NULL, 0, &l->dbi);
        rc = rc == 0 ? mdb_txn_commit(t) : (mdb_txn_abort(t), rc);
    }
    if (rc == 0 && (rc = mdb_txn_begin(l->env, NULL, MDB_RDONLY, &l->read)) == 0)
        mdb_txn_reset(l->read);
    if (rc != 0) {
        close_it(l);
        return code(rc);
    }
    *self = l;
    return 0;
}

static int put_many(void *self, const struct pair *p, unsigned n) {
    struct lmdb *l = self;
    MDB_txn *t;
    int rc = mdb_txn_begin(l->env, NULL, 0, &t);
    if (rc != 0)
        return code(rc);
    for (unsigned i = 0; i < n && rc == 0; i++) {
        MDB_val k = {KEY_BYTES, (void *)(uintptr_t)p[i].key}, v = {p[i].len, p[i].val};
        rc = mdb_put(t, l->dbi, &k, &v, 0);
    }
    return code(rc == 0 ? mdb_txn_commit(t) : (mdb_txn_abort(t), rc));
}

static int put(void *self, const struct pair *p) {
    return put_many(self, p, 1);
}

static int find(struct lmdb *l, const struct pair *p, MDB_val *v) {
    MDB_val k = {KEY_BYTES, (void *)(uintptr_t)p->key};
    int rc = code(mdb_get(l->read, l->dbi, &k, v));
    return rc < 0 ? rc : v->mv_size == p->len ? 0 : -EILSEQ;
}

static int view_many(void *self, const struct pair *p, unsigned n) {
    struct lmdb *l = self;
    int rc = code(mdb_txn_renew(l->read));
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < n && rc == 0; i++) {
        MDB_val v;
        rc = find(l, &p[i], &v);
        if (rc == 0)
            rc = pair_check(v.mv_data, v.mv_size, p[i].index);
    }
    mdb_txn_reset(l->read);
    return rc;
}

static int view(void *self, const struct pair *p) {
    return view_many(self, p, 1);
}

static int get(void *self, const struct pair *p) {
    struct lmdb *l = self;
    MDB_val v;
    int rc = code(mdb_txn_renew(l->read));
    if (rc < 0)
        return rc;
    rc = find(l, p, &v);
    if (rc == 0)
        memcpy(p->val, v.mv_data, p->len);
    mdb_txn_reset(l->read);
    return rc;
}

const struct store store_lmdb = {"lmdb", open_it,   close_it, put,  put_many,
                                 view,   view_many, get,      error};
