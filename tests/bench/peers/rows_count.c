/* SPDX-License-Identifier: Apache-2.0 */
/* rows_count.c - rows that count and take no time: instructions of a view (peers.py runs this in callgrind), bytes of memory of a pair. */
#include "peers.h"
#include <ddict.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VIEWS 20000u
#define SET   1000u

/* callgrind collects in here alone. */
__attribute__((noinline, visibility("default"))) int measured_views(ddict_t *d,
                                                                    const char (*keys)[KEY_BYTES],
                                                                    unsigned n);
int measured_views(ddict_t *d, const char (*keys)[KEY_BYTES], unsigned n) {
    int rc = 0;
    for (unsigned i = 0; i < n && rc == 0; i++) {
        struct ddict_view v;
        rc = ddict_view(d, keys[i % SET], KEY_BYTES, &v, 0, -1);
        if (rc == 0)
            ddict_release(&v);
    }
    return rc;
}

/* Row frozen_count: of values of the other node, read by a second reader while the dictionary is frozen. */
int rows_instructions(const struct row *r, const struct where *w, const struct plan *p) {
    bool frozen = strcmp(r->name, "frozen_count") == 0;
    struct frozen f = {.own = *w};
    struct turn t = {.store = &store_ddict, .name = "ddict"};
    char(*keys)[KEY_BYTES] = calloc(SET, KEY_BYTES);
    const struct where *of = frozen ? &f.far : &f.own;
    f.own.keys = SET;
    int rc = keys == NULL ? -ENOMEM
             : frozen     ? frozen_begin(&f, w, SET)
                          : store_ddict.open(&f.second, &f.own);
    if (rc == 0 && !frozen)
        rc = store_load(&store_ddict, f.second, &f.own);
    for (unsigned i = 0; i < SET && rc == 0; i++)
        pair_key(keys[i], pair_number(of, i));
    if (rc == 0 && frozen)
        rc = store_warm(&store_ddict, f.second, of); /* its first look at the arena is no view's */
    if (rc == 0)
        rc = measured_views(f.second, (const char(*)[KEY_BYTES])keys, VIEWS);
    row_note("views", VIEWS);
    rc = rc == 0 ? turns_run(r->name, &t, 0, p) : turns_fail(&t, rc);
    frozen_end(&f);
    free(keys);
    return rc;
}

static double used(ddict_t *d) {
    struct ddict_manager_stats *s;
    double sum = 0;
    int n = ddict_stats(d, &s, -1);
    for (int i = 0; i < n; i++)
        sum += (double)s[i].total_used_bytes;
    if (n > 0)
        free(s);
    return sum;
}

int rows_memory(const struct row *r, const struct where *w, const struct plan *p) {
    struct turn t = {.store = &store_ddict, .name = "ddict"};
    void *d = NULL;
    int rc = store_ddict.open(&d, w);
    double before = rc == 0 ? used(d) : 0;
    if (rc == 0)
        rc = store_load(&store_ddict, d, w);
    if (rc == 0)
        row_note("bytes_of_a_pair", (used(d) - before) / (double)w->keys);
    rc = rc == 0 ? turns_run(r->name, &t, 0, p) : turns_fail(&t, rc);
    if (d != NULL)
        store_ddict.close(d);
    return rc;
}
