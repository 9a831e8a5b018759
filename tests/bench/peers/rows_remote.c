/* SPDX-License-Identifier: Apache-2.0 */
/* rows_remote.c - the rows across two nodes: only keys that the other node's manager owns; for the
 * frozen row beside those of our own. */
#include "peers.h"
#include <ddict.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_BYTES (64u << 20) /* of one request for a stream */
#define AT_ONCE      8u          /* values of 1 MiB that are asked for together */

/* The first n pairs of which another node has the key, or we have it. */
static int numbers_find(uint64_t *number, uint64_t n, bool ours) {
    ddict_t *d;
    struct ddict_info info;
    int rc = ddict_attach(&d, NULL, -1);
    if (rc < 0)
        return rc;
    rc = ddict_get_info(d, &info);
    if (rc == 0 && info.nodes < 2)
        rc = -EINVAL;
    for (uint64_t i = 0, k = 0; rc == 0 && i < n; k++) {
        char key[KEY_BYTES];
        pair_key(key, k);
        if ((ddict_owner(d, key, KEY_BYTES) % info.nodes == info.node_id) == ours)
            number[i++] = k;
    }
    ddict_detach(d);
    return rc;
}

/* A store once more, reading several at once. */
static int many_add(struct sides *s, const struct store *store, const struct where *w,
                    unsigned batch, const char *name) {
    void *self;
    if (!store_is_there(store, w))
        return 0;
    int rc = store->open(&self, w);
    if (rc == 0) {
        rc = turn_store(&s->turn[s->n], store, self, w, VIEW_MANY, batch);
        snprintf(s->turn[s->n].name, sizeof s->turn[0].name, "%s", name);
        s->n++;
    }
    return rc;
}

int rows_remote(const struct row *r, const struct where *w, const struct plan *p) {
    static const struct store *const stores[] = {&store_ddict, &store_tcp, &store_redis_tcp};
    bool small = strcmp(r->name, "remote_1k") == 0, many = strcmp(r->name, "remote_many") == 0;
    struct where there = *w;
    there.len = small || many ? 1024 : strcmp(r->name, "remote_1m") == 0 ? 1u << 20 : 64u << 20;
    there.keys = small || many ? w->keys / 16 : there.len == 1u << 20 ? 64 : 4;
    uint64_t *number = calloc(there.keys, sizeof *number);
    struct sides *s = calloc(1, sizeof *s);
    int rc = !number || !s ? -ENOMEM : numbers_find(number, there.keys, false);
    there.number = number;
    if (rc == 0)
        rc = sides_open(s, stores, LENGTH(stores), &there, many ? VIEW_MANY : GET, many ? 256 : 1);
    for (unsigned i = 0; rc == 0 && i < s->n; i++)
        s->turn[i].latencies = !many;
    if (rc == 0 && !small && !many)
        rc = many_add(s, &store_tcp, &there,
                      there.len < STREAM_BYTES ? (unsigned)(STREAM_BYTES / there.len) : 2,
                      "raw TCP stream");
    if (rc == 0 && there.len == 1u << 20)
        rc = many_add(s, &store_ddict, &there, AT_ONCE, "ddict, 8 at once");
    if (rc == 0)
        rc = turns_run(r->name, s->turn, s->n, p);
    if (s)
        sides_close(s);
    free(s);
    free(number);
    return rc;
}

/* Two nodes: as many pairs of the other's as of our own, frozen; `first` has read all, `second` is
 * attached and has read nothing yet. */
struct frozen {
    void *first, *second;
    struct where far, own;
};

static int frozen_begin(struct frozen *f, const struct where *w, uint64_t keys) {
    *f = (struct frozen){.far = *w, .own = *w};
    uint64_t *far = calloc(keys, sizeof *far), *own = calloc(keys, sizeof *own);
    f->far.number = far;
    f->own.number = own;
    f->far.keys = f->own.keys = keys;
    int rc = !far || !own ? -ENOMEM : 0;
    if (rc == 0 && (rc = numbers_find(far, keys, false)) == 0)
        rc = numbers_find(own, keys, true);
    if (rc == 0 && (rc = store_ddict.open(&f->first, w)) == 0 &&
        (rc = store_load(&store_ddict, f->first, &f->far)) == 0 &&
        (rc = store_load(&store_ddict, f->first, &f->own)) == 0 &&
        (rc = ddict_freeze(f->first, -1)) == 0 &&
        (rc = store_warm(&store_ddict, f->first, &f->far)) == 0)
        rc = store_ddict.open(&f->second, w);
    return rc;
}

/* after a failure, too */
static void frozen_end(struct frozen *f) {
    if (f->second)
        store_ddict.close(f->second);
    if (f->first) {
        ddict_unfreeze(f->first, -1);
        store_ddict.close(f->first);
    }
    free((void *)(uintptr_t)f->far.number);
    free((void *)(uintptr_t)f->own.number);
}

int rows_frozen(const struct row *r, const struct where *w, const struct plan *p) {
    struct frozen f;
    struct turn t[2] = {0};
    int rc = frozen_begin(&f, w, w->keys / 4);
    t[0].store = &store_ddict; /* for the error */
    if (rc == 0)
        rc = turn_store(&t[0], &store_ddict, f.second, &f.far, VIEW, 1);
    if (rc == 0)
        rc = turn_store(&t[1], &store_ddict, f.second, &f.own, VIEW, 1);
    snprintf(t[0].name, sizeof t[0].name, "ddict");
    snprintf(t[1].name, sizeof t[1].name, "own keys");
    rc = rc == 0 ? turns_run(r->name, t, 2, p) : turns_fail(&t[0], rc);
    turn_free(&t[0]);
    turn_free(&t[1]);
    frozen_end(&f);
    return rc;
}
