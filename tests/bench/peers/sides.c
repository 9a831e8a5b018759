/* SPDX-License-Identifier: Apache-2.0 */
/* sides.c - several stores opened, filled and read for one row. */
#include "peers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Open, fill and read each of these stores that is there. load: the store is filled by us. */
int sides_open(struct sides *s, const struct store *const *stores, unsigned count,
               const struct where *w, enum op op, unsigned batch) {
    s->n = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!store_is_there(stores[i], w))
            continue;
        struct turn *t = &s->turn[s->n];
        void *self;
        int rc = stores[i]->open(&self, w);
        if (rc == 0) {
            s->n++;
            rc = turn_store(t, stores[i], self, w, op, batch);
        } else {
            t->store = stores[i];
            snprintf(t->name, sizeof t->name, "%s", stores[i]->name);
        }
        if (rc == 0)
            rc = store_load(stores[i], self, w);
        if (rc < 0)
            return turns_fail(t, rc);
    }
    return 0;
}

void sides_close(struct sides *s) {
    for (unsigned i = 0; i < s->n; i++) {
        if (s->turn[i].store && s->turn[i].self)
            s->turn[i].store->close(s->turn[i].self);
        turn_free(&s->turn[i]);
    }
}

int sides_run(const char *row, const struct store *const *stores, unsigned count,
              const struct where *w, enum op op, unsigned batch, const struct plan *p,
              bool latencies) {
    struct sides *s = calloc(1, sizeof *s);
    int rc = !s ? -ENOMEM : sides_open(s, stores, count, w, op, batch);
    for (unsigned i = 0; rc == 0 && i < s->n; i++)
        s->turn[i].latencies = latencies;
    if (rc == 0)
        rc = turns_run(row, s->turn, s->n, p);
    if (s)
        sides_close(s);
    free(s);
    return rc;
}
