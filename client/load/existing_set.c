/* SPDX-License-Identifier: Apache-2.0 */
/* existing_set.c - a set that is in the dictionary, existing_set.h */
#include "existing_set.h"

#include "names.h"
#include "set_key.h"
#include "state.h"
#include <base/error.h>

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* 1, or as set_piece_view(). */
static int head_read(const char *name, json_t **o) {
    struct ddict_view v;
    int rc = set_piece_view(name, NULL, 0, &v);
    *o = NULL;
    if (rc < 0)
        return rc;
    *o = json_loadb(v.data, v.len, 0, NULL);
    ddict_release(&v);
    return *o ? 1 : dd_error(-EBADMSG, "the set \"%s\" in the dictionary cannot be read", name);
}

/* With --refill, from "refill" of its description. NULL: it is read again. */
static const char *why_once(const json_t *how) {
    const char *dictionary = json_string_value(json_object_get(how, "dictionary"));
    if (!the_load.refills)
        return NULL;
    return dictionary && strcmp(dictionary, the_load.dictionary) == 0
               ? json_string_value(json_object_get(how, "once"))
               : "it was restored, perhaps with changes; --replace loads it anew";
}

int set_look(const char *name, struct set_found *found) {
    json_t *o;
    int rc = head_read(name, &o);
    memset(found, 0, sizeof *found);
    if (rc == 1) {
        const char *load = json_string_value(json_object_get(o, "load"));
        snprintf(found->id, sizeof found->id, "%s", load ? load : "");
        found->is_incomplete = load && *load == 0;
        const char *why = why_once(json_object_get(o, "refill"));
        snprintf(found->once, sizeof found->once, "%s", why ? why : "");
        found->items = (uint64_t)json_integer_value(json_object_get(o, "items"));
        found->bytes = (uint64_t)json_integer_value(json_object_get(o, "bytes"));
    }
    json_decref(o);
    found->lost = rc == DDICT_EKEYLOST;
    return key_is_absent(rc) ? 0 : rc;
}

static int head_put_alone(const char *name, const char *text) {
    uint8_t key[SET_KEY_CAP];
    int rc = ddict_put(the_load.d, key, set_key(key, name, NULL, 0), text, strlen(text),
                       DDICT_TAG(LOAD_TAG_STR) | DDICT_LOADED, -1);
    return rc < 0 ? load_error(rc) : 0;
}

int set_mark_incomplete(const char *name) {
    json_t *o;
    int rc = head_read(name, &o);
    if (rc < 0)
        return key_is_absent(rc) ? 0 : rc;
    char *text =
        json_object_set_new(o, "load", json_string("")) == 0 ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    rc = !text ? dd_error(-ENOMEM, "out of memory") : head_put_alone(name, text);
    /* If a node is lost meanwhile, what it had is put again, and that may be the head without the
     * mark, from a copy. Removing a copy waits until the refill has ended; then the head is put
     * once more. */
    if (rc == 0 && the_load.refills && (rc = set_copies_remove(name, NULL, 0)) == 0)
        rc = head_put_alone(name, text);
    free(text);
    return rc;
}

static int item_unload(const void *key, size_t len, const struct names *keep) {
    uint64_t unused;
    if (keep && names_find(keep, XXH3_64bits(key, len), &unused))
        return 0;
    if (load_stopped())
        return -ECANCELED;
    int rc = ddict_unload(the_load.d, key, len, -1);
    return rc < 0 && !key_is_absent(rc) ? load_error(rc) : 0;
}

/* Those that a part of its keys has. Where that was lost, a set that replaces this one goes on. */
static int part_unload(const char *name, int64_t part, const struct names *keep) {
    struct ddict_view v;
    int rc = set_piece_view(name, "keys", part, &v);
    if (rc == DDICT_EKEYLOST && !keep)
        return dd_error(
            rc,
            "which items the set \"%s\" has was lost with nodes; load it with --replace "
            "first",
            name);
    if (rc < 0)
        return key_is_absent(rc) ? 0 : rc;
    struct unpack u = {.at = v.data, .left = v.len};
    rc = 0;
    while (rc == 0 && u.left > 0 && !u.bad) {
        size_t n;
        const char *item = unpack_text(&u, &n);
        if (!u.bad)
            rc = item_unload(item, n, keep);
    }
    ddict_release(&v);
    return rc;
}

int set_items_remove(const char *name, const struct names *keep) {
    json_t *o;
    int rc = head_read(name, &o);
    if (rc < 0)
        return key_is_absent(rc) ? 0 : rc;
    const char *prefix = json_string_value(json_object_get(o, "prefix"));
    json_int_t items = json_integer_value(json_object_get(o, "items")),
               parts = json_integer_value(json_object_get(o, "parts"));
    bool numbered = json_is_true(json_object_get(o, "numbered"));
    char text[NUMBER_KEY_CAP];
    rc = 0;
    for (json_int_t i = 0; numbered && prefix && i < items && rc == 0; i++)
        rc = item_unload(text, number_key(text, prefix, (uint64_t)i), keep);
    for (json_int_t p = 0; !numbered && p < parts && rc == 0; p++)
        rc = part_unload(name, p, keep);
    json_decref(o);
    return rc;
}

int set_remove(const char *name) {
    static const char *const what[] = {"keys", "sizes", "labels"};
    json_t *o;
    int rc = head_read(name, &o);
    if (rc < 0)
        return key_is_absent(rc) ? 0 : rc;
    int64_t parts = json_integer_value(json_object_get(o, "parts"));
    json_decref(o);
    rc = set_piece_remove(name, NULL, 0);
    for (int64_t p = 0; p < parts && rc == 0; p++)
        for (unsigned i = 0; i < 3 && rc == 0; i++)
            rc = set_piece_remove(name, what[i], p);
    return rc;
}
