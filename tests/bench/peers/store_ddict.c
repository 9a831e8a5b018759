/* SPDX-License-Identifier: Apache-2.0 */
/* store_ddict.c - the dictionary that $DDICT_NAME names. */
#include "peers.h"
#include <ddict.h>

#include <errno.h>
#include <string.h>

static int open_it(void **self, const struct where *w) {
    (void)w;
    return ddict_attach((ddict_t **)self, NULL, -1);
}

static void close_it(void *self) {
    ddict_detach(self);
}

static int put(void *self, const struct pair *p) {
    return ddict_put(self, p->key, KEY_BYTES, p->val, p->len, 0, -1);
}

static int put_many(void *self, const struct pair *p, unsigned n) {
    struct ddict_pair pairs[BATCH_MAX];
    for (unsigned i = 0; i < n; i++)
        pairs[i] = (struct ddict_pair){
            .key = p[i].key, .klen = KEY_BYTES, .val = p[i].val, .vlen = p[i].len};
    ssize_t rc = ddict_put_many(self, pairs, n, -1);
    if (rc == (ssize_t)n)
        return 0;
    for (unsigned i = 0; i < n && rc >= 0; i++)
        if (pairs[i].status < 0)
            return pairs[i].status;
    return (int)rc;
}

static int view(void *self, const struct pair *p) {
    struct ddict_view v;
    int rc = ddict_view(self, p->key, KEY_BYTES, &v, 0, -1);
    if (rc < 0)
        return rc;
    rc = v.len == p->len ? pair_check(v.data, v.len, p->index) : -EILSEQ;
    ddict_release(&v);
    return rc;
}

static int view_many(void *self, const struct pair *p, unsigned n) {
    struct ddict_want want[BATCH_MAX];
    for (unsigned i = 0; i < n; i++) {
        want[i].key = p[i].key;
        want[i].klen = KEY_BYTES;
    }
    ssize_t found = ddict_get_many(self, want, n, 0, -1);
    int rc = found < 0 ? (int)found : 0;
    for (unsigned i = 0; i < n && found >= 0; i++) {
        if (want[i].status < 0) {
            rc = want[i].status;
            continue;
        }
        if (want[i].view.len != p[i].len ||
            pair_check(want[i].view.data, want[i].view.len, p[i].index) < 0)
            rc = -EILSEQ;
        ddict_release(&want[i].view);
    }
    return rc;
}

static int get(void *self, const struct pair *p) {
    size_t len;
    int rc = ddict_get(self, p->key, KEY_BYTES, p->val, p->len, &len, NULL, 0, -1);
    return rc < 0 ? rc : len == p->len ? 0 : -EILSEQ;
}

const struct store store_ddict = {"ddict", open_it,   close_it, put,         put_many,
                                  view,    view_many, get,      ddict_errmsg};
