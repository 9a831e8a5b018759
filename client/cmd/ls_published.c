/* SPDX-License-Identifier: Apache-2.0 */
/* ls_published.c - `ddict ls --published`. */
#include "ls_published.h"

#include "cmd.h"
#include "value_kind.h"
#include <base/error.h>
#include <base/size.h>

#include <common/key_text.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <lib/publish.h>
#include <stdio.h>
#include <stdlib.h>

struct table {
    ddict_t *d;
    json_t *json; /* NULL: lines */
    struct bytes text;
};

/* The newest version of an index; its version is 0 where nothing is published, or all was removed
 * meanwhile. */
static int newest_read(ddict_t *d, const void *key, size_t len, struct pub_entry *e) {
    struct ddict_view v;
    *e = (struct pub_entry){.version = 0};
    int rc = ddict_view(d, key, len, &v, 0, -1);
    if (rc < 0)
        return key_is_absent(rc) ? 0 : rc;
    const struct pub_index *x = v.data;
    if (pub_is_index(x, v.len))
        *e = x->entry[0];
    ddict_release(&v);
    return 0;
}

static int row_add(struct table *t, const struct pub_entry *e) {
    if (!t->json) {
        char b[24];
        printf("%8" PRIu64 "  %10s  %-9s  %4" PRIu32 "  %s\n", e->version,
               size_format(b, sizeof b, e->len), value_kind(e->tag), e->origin, t->text.data);
        return 0;
    }
    json_t *o = json_pack("{s:s%,s:I,s:I,s:s,s:I}", "name", (const char *)t->text.data, t->text.len,
                          "version", (json_int_t)e->version, "bytes", (json_int_t)e->len, "kind",
                          value_kind(e->tag), "node", (json_int_t)e->origin);
    return o && json_array_append_new(t->json, o) == 0 ? 0 : -ENOMEM;
}

static int rows_read(struct table *t) {
    ddict_iter_t *it;
    const void *key;
    size_t len;
    struct pub_entry e;
    int rc = ddict_iter_open_prefix(t->d, -1, PUB_INDEX, PUB_INDEX_LEN, &it, -1), one = 0;
    if (rc < 0)
        return rc;
    while (one >= 0 && (rc = ddict_iter_next(it, &key, &len)) == 1) {
        one = newest_read(t->d, key, len, &e);
        if (one < 0 || e.version == 0)
            continue;
        one = key_show(&t->text, (const char *)key + PUB_INDEX_LEN, len - PUB_INDEX_LEN, NULL);
        if (one == 0)
            one = row_add(t, &e);
    }
    ddict_iter_close(it);
    return one < 0 ? one : rc < 0 ? rc : 0;
}

int published_show(ddict_t *d, bool json) {
    struct table t = {.d = d, .json = json ? json_array() : NULL};
    if (!json)
        printf("%8s  %10s  %-9s  %4s  %s\n", "version", "size", "kind", "node", "name");
    int rc = json && !t.json ? -ENOMEM : rows_read(&t);
    for (size_t i = 0; rc == 0 && i < json_array_size(t.json); i++) {
        char *text = json_dumps(json_array_get(t.json, i), JSON_COMPACT);
        printf("%s\n%s", i > 0 ? "," : "[", text ? text : "{}");
        free(text);
    }
    if (rc == 0 && json)
        puts(json_array_size(t.json) > 0 ? "\n]" : "[\n]");
    json_decref(t.json);
    bytes_free(&t.text);
    return rc < 0 ? cmd_failed(NULL, rc) : EXIT_OK;
}
