/* SPDX-License-Identifier: Apache-2.0 */
/* bench_ddict.c - the dictionary as a store of the benchmark. `where` is its name. */
#include "bench.h"

static int open_it(void **self, const char *where, uint64_t bytes)
{
    (void)bytes;
    return ddict_attach((ddict_t **)self, where, -1);
}

static void close_it(void *self) { ddict_detach(self); }

static int put_many(void *self, struct ddict_pair *pairs, unsigned n)
{
    ssize_t rc = ddict_put_many(self, pairs, n, -1);
    if (rc < 0)
        return (int)rc;
    for (unsigned i = 0; i < n; i++)
        if (pairs[i].status < 0)
            return pairs[i].status;
    return 0;
}

static int put(void *self, const void *key, size_t klen, const void *val, size_t vlen) { return ddict_put(self, key, klen, val, vlen, 0, -1); }

static int get(void *self, const void *key, size_t klen, void *buf, size_t cap, uint64_t index)
{
    size_t len;
    int rc = ddict_get(self, key, klen, buf, cap, &len, NULL, 0, -1);
    return rc < 0 ? rc : len != cap ? BENCH_WRONG : bench_check(buf, len, index);
}

static int view(void *self, const void *key, size_t klen, uint64_t index)
{
    struct ddict_view v;
    int rc = ddict_view(self, key, klen, &v, 0, -1);
    if (rc < 0)
        return rc;
    rc = bench_check(v.data, v.len, index);
    ddict_release(&v);
    return rc;
}

static int get_many(void *self, struct ddict_want *wants, const uint64_t *index, unsigned n)
{
    ssize_t found = ddict_get_many(self, wants, n, 0, -1);
    int rc = found < 0 ? (int)found : 0;
    for (unsigned i = 0; i < n && found >= 0; i++) {
        if (wants[i].status < 0) {
            rc = wants[i].status;
            continue;
        }
        if (rc == 0)
            rc = bench_check(wants[i].view.data, wants[i].view.len, index[i]);
        ddict_release(&wants[i].view);
    }
    return rc;
}

static int del(void *self, const void *key, size_t klen)
{
    int rc = ddict_del(self, key, klen, -1);
    return rc == DDICT_ENOKEY ? 0 : rc;
}

const struct bench_store bench_ddict = {"ddict", open_it, close_it, put_many, put, get, view, get_many, del, ddict_errmsg};
