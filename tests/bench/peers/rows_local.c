/* SPDX-License-Identifier: Apache-2.0 */
/* rows_local.c - the rows of one client on one node. */
#include "peers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct store *const everyone[] = {&store_ddict, &store_table, &store_lmdb,
                                               &store_redis, &store_memcached};

int rows_view(const struct row *r, const struct where *w, const struct plan *p) {
    struct where few = *w;
    if (strcmp(r->name, "view_cached") == 0)
        few.keys = 512;
    return sides_run(r->name, everyone, LENGTH(everyone), &few, VIEW, 1, p, false);
}

int rows_get_many(const struct row *r, const struct where *w, const struct plan *p) {
    return sides_run(r->name, everyone, LENGTH(everyone), w, VIEW_MANY, 32, p, false);
}

int rows_put(const struct row *r, const struct where *w, const struct plan *p) {
    return sides_run(r->name, everyone, LENGTH(everyone), w, PUT, 1, p, true);
}

int rows_put_many(const struct row *r, const struct where *w, const struct plan *p) {
    return sides_run(r->name, everyone, LENGTH(everyone), w, PUT_MANY, 512, p, false);
}

/* The table's put and get of a key that is there are a memcpy. */
int rows_copy(const struct row *r, const struct where *w, const struct plan *p) {
    struct where few = *w;
    few.keys = 8;
    few.len = 16u << 20;
    return sides_run(r->name, everyone, LENGTH(everyone), &few,
                     strcmp(r->name, "put_16m") == 0 ? PUT : GET, 1, p, true);
}
