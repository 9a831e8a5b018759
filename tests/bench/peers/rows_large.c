/* SPDX-License-Identifier: Apache-2.0 */
/* rows_large.c - large values: what a view of 256 MiB costs, and one of 16 MiB that is made where
 * it will be read from. */
#include "peers.h"
#include <base/clock.h>
#include <ddict.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LARGE (256u << 20)
#define SMALL 1024u
#define MADE  (16u << 20)

struct viewed {
    ddict_t *d;
    const char *key;
    size_t len;
};

static int64_t go_view(struct turn *t, uint64_t ns, uint64_t *spent) {
    struct viewed *x = t->self;
    uint64_t begun = clock_ns(), n = 0, now = begun;
    while (now - begun < ns) {
        for (unsigned i = 0; i < 64; i++) {
            struct ddict_view v;
            int rc = ddict_view(x->d, x->key, strlen(x->key), &v, 0, -1);
            if (rc < 0)
                return rc;
            rc = v.len == x->len ? 0 : -EILSEQ;
            ddict_release(&v);
            if (rc < 0)
                return rc;
        }
        n += 64;
        now = clock_ns();
    }
    *spent = now - begun;
    return (int64_t)n;
}

int rows_big_view(const struct row *r, const struct where *w, const struct plan *p) {
    struct turn t[2];
    void *d = NULL;
    char *val = calloc(1, LARGE);
    int rc = !val ? -ENOMEM : store_ddict.open(&d, w);
    struct viewed x[2] = {{.key = "large", .len = LARGE}, {.key = "small", .len = SMALL}};
    memset(t, 0, sizeof t);
    for (unsigned i = 0; i < 2 && rc == 0; i++) {
        x[i].d = d;
        rc = ddict_put(d, x[i].key, strlen(x[i].key), val, x[i].len, 0, -1);
        if (rc == 0)
            rc = turn_other(&t[i], i == 0 ? "view of 256 MiB" : "view of 1 KiB", go_view, w);
        t[i].self = &x[i];
    }
    t[0].store = &store_ddict;
    rc = rc == 0 ? turns_run(r->name, t, 2, p) : turns_fail(t, rc);
    for (unsigned i = 0; i < 2; i++) {
        if (d)
            ddict_del(d, x[i].key, strlen(x[i].key), -1);
        turn_free(&t[i]);
    }
    if (d)
        store_ddict.close(d);
    free(val);
    return rc;
}

/* --- made and put, or made in place --- */

struct made {
    ddict_t *d;
    void *buf;
};

static int make_and_put(const struct made *x, const char *key, uint64_t index) {
    pair_fill(x->buf, MADE, index);
    return ddict_put(x->d, key, KEY_BYTES, x->buf, MADE, 0, -1);
}

static int make_in_place(const struct made *x, const char *key, uint64_t index) {
    struct ddict_place place;
    int rc = ddict_reserve(x->d, key, KEY_BYTES, MADE, 0, &place);
    if (rc < 0)
        return rc;
    pair_fill(place.data, MADE, index);
    return ddict_commit(&place, -1);
}

static int64_t go_make(struct turn *t, uint64_t ns, uint64_t *spent) {
    uint64_t begun = clock_ns(), n = 0;
    for (; clock_ns() - begun < ns; n++) {
        char key[KEY_BYTES];
        uint64_t index = n % t->where->keys;
        pair_key(key, index);
        int rc =
            t->op == PUT ? make_and_put(t->self, key, index) : make_in_place(t->self, key, index);
        if (rc < 0)
            return rc;
    }
    *spent = clock_ns() - begun;
    return (int64_t)n;
}

/* What was made in place is what is there. */
static int made_check(const struct made *x) {
    struct ddict_view v;
    char key[KEY_BYTES];
    pair_key(key, 0);
    int rc = make_in_place(x, key, 0);
    if (rc == 0 && (rc = ddict_view(x->d, key, KEY_BYTES, &v, 0, -1)) == 0) {
        rc = v.len == MADE ? pair_check(v.data, MADE, 0) : -EILSEQ;
        ddict_release(&v);
    }
    return rc;
}

int rows_made(const struct row *r, const struct where *w, const struct plan *p) {
    struct where few = *w;
    struct turn t[2];
    struct made x = {.buf = aligned_alloc(64, MADE)};
    void *d = NULL;
    memset(t, 0, sizeof t);
    few.keys = 8;
    int rc = !x.buf ? -ENOMEM : store_ddict.open(&d, w);
    x.d = d;
    if (rc == 0)
        rc = made_check(&x);
    for (unsigned i = 0; i < 2 && rc == 0; i++) {
        rc = turn_other(&t[i], i == 0 ? "made in place" : "made and put", go_make, &few);
        t[i].self = &x;
        t[i].op = i == 0 ? VIEW : PUT;
    }
    t[0].store = &store_ddict;
    rc = rc == 0 ? turns_run(r->name, t, 2, p) : turns_fail(t, rc);
    for (unsigned i = 0; i < 2; i++)
        turn_free(&t[i]);
    if (d)
        store_ddict.close(d);
    free(x.buf);
    return rc;
}
