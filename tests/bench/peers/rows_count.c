/* SPDX-License-Identifier: Apache-2.0 */
/* rows_count.c - the row that counts and takes no time: bytes of memory of a pair. */
#include "peers.h"
#include <ddict.h>

#include <stdlib.h>

static double used(ddict_t *d) {
    struct ddict_manager_stats *s;
    double sum = 0;
    int n = ddict_stats(d, &s, sizeof *s, -1);
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
    if (d)
        store_ddict.close(d);
    return rc;
}
