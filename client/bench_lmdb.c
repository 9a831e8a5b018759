/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_lmdb.c - LMDB as a store of the benchmark: its fastest settings (no sync, writable map, file in memory). Each read sees what was last
 * committed, as the dictionary's do: the transaction is renewed for each get, view and get_many. `where` is an empty directory.
 */
#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

struct lmdb { MDB_env *env; MDB_dbi dbi; MDB_txn *read; };

static int last;

static int code(int rc)
{
    last = rc;
    return rc == 0 ? 0 : -EIO;
}

static const char *error(void) { return mdb_strerror(last); }

static void close_it(void *self)
{
    struct lmdb *l = self;
    if (l == NULL)
        return;
    if (l->read != NULL)
        mdb_txn_abort(l->read);
    mdb_env_close(l->env);
    free(l);
}

static int open_it(void **self, const char *where, uint64_t bytes)
{
    struct lmdb *l = calloc(1, sizeof *l);
    MDB_txn *t;
    if (l == NULL)
        return code(ENOMEM);
    int rc = mdb_env_create(&l->env);
    if (rc == 0)
        rc = mdb_env_set_mapsize(l->env, 3 * bytes + (256u << 20));
    if (rc == 0)
        rc = mdb_env_set_maxreaders(l->env, BENCH_CLIENTS_MAX + 8);
    if (rc == 0)
        rc = mdb_env_open(l->env, where, MDB_NOSYNC | MDB_NOMETASYNC | MDB_WRITEMAP | MDB_NORDAHEAD, 0600);
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

static MDB_val val_of(const void *p, size_t n) { return (MDB_val){.mv_size = n, .mv_data = (void *)(uintptr_t)p}; }

static int put_many(void *self, struct ddict_pair *pairs, unsigned n)
{
    struct lmdb *l = self;
    MDB_txn *t;
    int rc = mdb_txn_begin(l->env, NULL, 0, &t);
    if (rc != 0)
        return code(rc);
    for (unsigned i = 0; i < n && rc == 0; i++) {
        MDB_val k = val_of(pairs[i].key, pairs[i].klen), v = val_of(pairs[i].val, pairs[i].vlen);
        rc = mdb_put(t, l->dbi, &k, &v, 0);
    }
    return code(rc == 0 ? mdb_txn_commit(t) : (mdb_txn_abort(t), rc));
}

static int put(void *self, const void *key, size_t klen, const void *val, size_t vlen)
{
    struct ddict_pair p = {.key = key, .klen = klen, .val = val, .vlen = vlen};
    return put_many(self, &p, 1);
}

static int read_one(struct lmdb *l, const void *key, size_t klen, MDB_val *v)
{
    MDB_val k = val_of(key, klen);
    return code(mdb_get(l->read, l->dbi, &k, v));
}

static int get(void *self, const void *key, size_t klen, void *buf, size_t cap, uint64_t index)
{
    struct lmdb *l = self;
    MDB_val v;
    int rc = code(mdb_txn_renew(l->read));
    if (rc < 0)
        return rc;
    rc = read_one(l, key, klen, &v);
    if (rc == 0 && v.mv_size != cap)
        rc = BENCH_WRONG;
    if (rc == 0)
        memcpy(buf, v.mv_data, cap);
    mdb_txn_reset(l->read);
    return rc < 0 ? rc : bench_check(buf, cap, index);
}

static int view(void *self, const void *key, size_t klen, uint64_t index)
{
    struct lmdb *l = self;
    MDB_val v;
    int rc = code(mdb_txn_renew(l->read));
    if (rc < 0)
        return rc;
    rc = read_one(l, key, klen, &v);
    if (rc == 0)
        rc = bench_check(v.mv_data, v.mv_size, index);
    mdb_txn_reset(l->read);
    return rc;
}

static int get_many(void *self, struct ddict_want *wants, const uint64_t *index, unsigned n)
{
    struct lmdb *l = self;
    int rc = code(mdb_txn_renew(l->read));
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < n && rc == 0; i++) {
        MDB_val v;
        rc = read_one(l, wants[i].key, wants[i].klen, &v);
        if (rc == 0)
            rc = bench_check(v.mv_data, v.mv_size, index[i]);
    }
    mdb_txn_reset(l->read);
    return rc;
}

static int del(void *self, const void *key, size_t klen) /* the file is removed as a whole */
{
    (void)self;
    (void)key;
    (void)klen;
    return 0;
}

const struct bench_store bench_lmdb = {"lmdb", open_it, close_it, put_many, put, get, view, get_many, del, error};
