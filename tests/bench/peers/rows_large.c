/* SPDX-License-Identifier: Apache-2.0 */
/* rows_large.c - large values: copies of 16 MiB beside memcpy, and what a view of 256 MiB costs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <ddict.h>
#include <base/clock.h>

#include "peers.h"

#define LARGE (256u << 20)
#define SMALL 1024u

struct viewed { ddict_t *d; const char *key; size_t len; };

static int64_t go_view(struct turn *t, uint64_t ns, uint64_t *spent)
{
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

int rows_big_view(const struct row *r, const struct where *w, const struct plan *p)
{
    struct turn t[2];
    void *d = NULL;
    char *val = calloc(1, LARGE);
    int rc = val == NULL ? -ENOMEM : store_ddict.open(&d, w);
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
        if (d != NULL)
            ddict_del(d, x[i].key, strlen(x[i].key), -1);
        turn_free(&t[i]);
    }
    if (d != NULL)
        store_ddict.close(d);
    free(val);
    return rc;
}
