/* SPDX-License-Identifier: Apache-2.0 */
/* ls_sets.c - `ddict ls --sets`. */
#include "ls_sets.h"

#include "cmd.h"
#include <base/error.h>
#include <base/size.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* how the stored key of a tuple begins whose first element is "ddict.set", doc/FORMAT.md */
static const char head[] = "t\x0a\0\0\0sddict.set";
#define HEAD (sizeof head - 1)

/* Whether the key is ("ddict.set", NAME). */
static bool is_set(const uint8_t *key, size_t len) {
    if (len < HEAD + 5 || memcmp(key, head, HEAD) != 0)
        return false;
    const uint8_t *n = key + HEAD;
    return ((size_t)n[0] | (size_t)n[1] << 8 | (size_t)n[2] << 16 | (size_t)n[3] << 24) ==
               len - HEAD - 4 &&
           n[4] == 's';
}

/* The set's own description without its long members. NULL: the key was removed, or the value is no
 * JSON. */
static json_t *set_read(ddict_t *d, const void *key, size_t len, int *rc) {
    struct ddict_view v;
    *rc = ddict_view(d, key, len, &v, 0, -1);
    if (*rc < 0)
        return NULL;
    json_t *o = json_loadb(v.data, v.len, 0, NULL);
    ddict_release(&v);
    if (!o)
        return NULL;
    json_t *classes = json_object_get(o, "classes");
    if (classes)
        json_object_set_new(o, "classes", json_integer((json_int_t)json_array_size(classes)));
    json_object_del(o, "counts");
    json_object_del(o, "load");
    return o;
}

static int by_name(const void *a, const void *b) {
    return strcmp(json_string_value(json_object_get(*(json_t *const *)a, "name")),
                  json_string_value(json_object_get(*(json_t *const *)b, "name")));
}

static void line_print(const json_t *o) {
    char size[24], classes[24] = "-";
    const json_t *n = json_object_get(o, "classes"), *bytes = json_object_get(o, "bytes"),
                 *sources = json_object_get(o, "sources");
    const char *source = json_string_value(json_array_get(sources, 0)),
               *kind = json_string_value(json_object_get(o, "kind"));
    if (n)
        snprintf(classes, sizeof classes, "%" JSON_INTEGER_FORMAT, json_integer_value(n));
    printf("%-20s %-6s %10" JSON_INTEGER_FORMAT " %10s %8s  %s",
           json_string_value(json_object_get(o, "name")), kind ? kind : "",
           json_integer_value(json_object_get(o, "items")),
           bytes ? size_format(size, sizeof size, (uint64_t)json_integer_value(bytes)) : "-",
           classes, source ? source : "");
    if (json_array_size(sources) > 1)
        printf(" and %zu more", json_array_size(sources) - 1);
    putchar('\n');
}

static int sets_read(ddict_t *d, json_t *all) {
    ddict_iter_t *it;
    const void *key;
    size_t len;
    int rc = ddict_iter_open_prefix(d, -1, head, HEAD, &it, -1), e;
    if (rc < 0)
        return rc;
    while ((rc = ddict_iter_next(it, &key, &len)) == 1) {
        if (!is_set(key, len))
            continue;
        json_t *o = set_read(d, key, len, &e);
        if (o && json_is_string(json_object_get(o, "name")))
            json_array_append(all, o);
        json_decref(o);
        if (e < 0 && !key_is_absent(e)) { /* removed meanwhile, or lost */
            rc = e;
            break;
        }
    }
    ddict_iter_close(it);
    return rc < 0 ? rc : 0;
}

int sets_show(ddict_t *d, bool json) {
    json_t *all = json_array();
    int rc = !all ? -1 : sets_read(d, all);
    if (rc < 0) {
        json_decref(all);
        return cmd_failed(NULL, rc);
    }
    size_t n = json_array_size(all);
    json_t **sorted = calloc(n + 1, sizeof *sorted);
    for (size_t i = 0; sorted && i < n; i++)
        sorted[i] = json_array_get(all, i);
    if (sorted)
        qsort(sorted, n, sizeof *sorted, by_name);
    if (!json)
        printf("%-20s %-6s %10s %10s %8s  %s\n", "set", "kind", "items", "size", "classes", "from");
    else
        putchar('[');
    for (size_t i = 0; sorted && i < n; i++) {
        char *text = json ? json_dumps(sorted[i], JSON_COMPACT) : NULL;
        if (json)
            printf("%s\n%s", i > 0 ? "," : "", text ? text : "{}");
        else
            line_print(sorted[i]);
        free(text);
    }
    if (json)
        puts("\n]");
    free(sorted);
    json_decref(all);
    return EXIT_OK;
}
