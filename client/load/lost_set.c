/* SPDX-License-Identifier: Apache-2.0 */
/* lost_set.c - sets that may have lost keys, lost_set.h */
#include "lost_set.h"

#include "names.h"
#include "set_key.h"
#include "state.h"
#include <base/error.h>
#include <base/vec.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static struct {
    const bool *anew;      /* [managers] */
    struct names *there;   /* hashes of the keys of all pieces and copies, and of anew */
    struct names *claimed; /* hashes of keys */
    struct lost_set *sets;
    size_t n, cap;
} lost;

void lost_set_failed(struct lost_set *l, const char *why) {
    if (l->why[0] == 0)
        snprintf(l->why, sizeof l->why, "%s", why);
}

/* --- which keys are there --- */

bool key_is_there(const void *key, size_t len) {
    uint64_t unused;
    return names_find(lost.there, XXH3_64bits(key, len), &unused);
}

bool key_began_anew(const void *key, size_t len) {
    return lost.anew[ddict_owner(the_load.d, key, len)];
}

int key_claim(const void *key, size_t len) {
    return names_add(lost.claimed, XXH3_64bits(key, len), 0, NULL);
}

/* The set of a piece or of a copy, whose key has the set's name behind head bytes. 0 or -ENOMEM. */
static int set_note(const uint8_t *key, size_t len, size_t head) {
    struct unpack u = {.at = key + head, .left = len - head};
    size_t n, i = 0;
    const char *name = unpack_text(&u, &n);
    if (u.bad || n < 2 || *name != 's' || n > sizeof lost.sets->name)
        return 0;
    while (i < lost.n &&
           (strlen(lost.sets[i].name) != n - 1 || memcmp(lost.sets[i].name, name + 1, n - 1) != 0))
        i++;
    if (i < lost.n)
        return 0;
    if (VEC_ROOM(&lost.sets, &lost.cap, lost.n + 1, 16) < 0)
        return dd_error(-ENOMEM, "out of memory");
    struct lost_set *l = &lost.sets[lost.n++];
    memset(l, 0, sizeof *l);
    memcpy(l->name, name + 1, n - 1);
    return 0;
}

/* List the keys of a manager (-1: of all) that begin with the n bytes of head, and note the sets
 * that they are of; n 0: all keys, and no sets. */
static int keys_list(int manager, const char *head, size_t n) {
    ddict_iter_t *it;
    const void *key;
    size_t len;
    int rc = ddict_iter_open_flags(the_load.d, manager, head, n, DDICT_ITER_HIDDEN, &it, -1);
    if (rc < 0)
        return load_error(rc);
    while ((rc = ddict_iter_next(it, &key, &len)) == 1) {
        rc = names_add(lost.there, XXH3_64bits(key, len), 0, NULL);
        if (rc >= 0 && n > 0)
            rc = set_note(key, len, n);
        if (rc < 0)
            break;
    }
    ddict_iter_close(it);
    return rc == -ENOMEM ? dd_error(-ENOMEM, "out of memory") : rc < 0 ? load_error(rc) : 0;
}

/* --- descriptions --- */

int lost_piece_view(const char *name, const char *what, int64_t part, struct ddict_view *v) {
    uint8_t key[SET_KEY_CAP];
    size_t len = set_key(key, name, what, part);
    int found = 0;
    for (unsigned c = 0; len > 0; c++) {
        int rc = key_is_there(key, len) ? ddict_view(the_load.d, key, len, v, 0, LISTED_WAIT_MS)
                                        : DDICT_ENOKEY;
        if (rc >= 0)
            return 1;
        if (!key_is_absent(rc))
            found = load_error(rc);
        len = c < SET_COPIES ? set_copy_key(key, name, what, part, c) : 0;
    }
    return found;
}

/* Put those of a piece and its copies that are lost. 1, 0: none is left; or negative. */
static int piece_restore(const char *name, const char *what, int64_t part) {
    uint8_t key[SET_KEY_CAP];
    struct ddict_view v;
    int rc = lost_piece_view(name, what, part, &v);
    if (rc <= 0)
        return rc;
    size_t len = set_key(key, name, what, part);
    for (unsigned c = 0; len > 0 && rc >= 0; c++) {
        if (!key_is_there(key, len) && key_began_anew(key, len))
            rc = ddict_put(the_load.d, key, len, v.data, v.len,
                           DDICT_TAG(v.tag) | the_load.wanted_flags | DDICT_NEW, -1);
        if (rc == DDICT_EEXISTS)
            rc = 0;
        len = c < SET_COPIES ? set_copy_key(key, name, what, part, c) : 0;
    }
    ddict_release(&v);
    return rc < 0 ? load_error(rc) : 1;
}

json_int_t head_int(const struct lost_set *l, const char *member) {
    return json_integer_value(json_object_get(l->head, member));
}

bool head_is_true(const struct lost_set *l, const char *member) {
    return json_is_true(json_object_get(l->head, member));
}

json_int_t refill_int(const struct lost_set *l, const char *member) {
    return json_integer_value(json_object_get(json_object_get(l->head, "refill"), member));
}

bool head_has_sizes(const struct lost_set *l) {
    const char *kind = json_string_value(json_object_get(l->head, "kind"));
    return !kind || strcmp(kind, "samples") != 0;
}

/* Whether the set is being put, or was removed. Its pieces are put in this order: parts, copies of
 * the head, head; and removed in this one: copies of the head, head, parts. Where the head was lost
 * on another node it is not there either; then asking for it waits, or tells. */
static bool head_is_absent(const struct lost_set *l) {
    uint8_t key[SET_KEY_CAP];
    size_t len = set_key(key, l->name, NULL, 0);
    return !key_is_there(key, len) && !key_began_anew(key, len) &&
           ddict_contains(the_load.d, key, len, NULL, LISTED_WAIT_MS) == 0;
}

/* 1: the head is read; 0: none is left, or what is left is no JSON; or negative. */
static int lost_head_read(struct lost_set *l) {
    struct ddict_view v;
    int rc = lost_piece_view(l->name, NULL, 0, &v);
    if (rc <= 0)
        return rc;
    l->head = json_loadb(v.data, v.len, 0, NULL);
    ddict_release(&v);
    return l->head != NULL;
}

/* It is being replaced or removed, or that was broken off: what is lost of its description stays
 * so. */
static bool is_incomplete(const struct lost_set *l) {
    const char *load = json_string_value(json_object_get(l->head, "load"));
    return load && *load == 0;
}

/* The set can be read again if this dictionary loaded it, and kept how. */
static void head_judge(struct lost_set *l) {
    const json_t *how = json_object_get(l->head, "refill");
    const char *dictionary = json_string_value(json_object_get(how, "dictionary")),
               *once = json_string_value(json_object_get(how, "once"));
    if (!dictionary)
        lost_set_failed(l, "it was not put by `ddict load`");
    else if (strcmp(dictionary, the_load.dictionary) != 0)
        lost_set_failed(l,
                        "it was restored: its items may have been changed before they were saved");
    else
        l->time = json_integer_value(json_object_get(how, "time"));
    if (once)
        lost_set_failed(l, once);
    if (is_incomplete(l))
        lost_set_failed(l, "it is being replaced or removed, or that was broken off");
    l->is_final = l->why[0] != 0;
}

/* Put what is missing of the description from its copies. is_whole: nothing is missing any more. 0
 * or negative. */
static int description_restore(struct lost_set *l) {
    static const char *const what[] = {"sizes", "keys", "labels"};
    const bool has[] = {head_has_sizes(l), !head_is_true(l, "numbered"), head_is_true(l, "labels")};
    int rc = piece_restore(l->name, NULL, 0);
    bool whole = rc == 1;
    for (int64_t p = 0; p < head_int(l, "parts") && rc >= 0; p++)
        for (unsigned i = 0; i < 3 && rc >= 0; i++)
            if (has[i] && (rc = piece_restore(l->name, what[i], p)) == 0)
                whole = false;
    l->is_whole = rc >= 0 && whole;
    if (rc >= 0 && !whole)
        lost_set_failed(l, "a part of its description was lost with another node");
    return rc < 0 ? rc : 0;
}

/* --- all of them --- */

/* The one that was loaded last comes first: what two sets have is put as it was. */
static int later_compare(const void *a, const void *b) {
    const struct lost_set *x = a, *y = b;
    return x->time != y->time ? (x->time > y->time ? -1 : 1) : strcmp(x->name, y->name);
}

/* A failure is the set's. */
static int lost_set_find(struct lost_set *l, const char *only) {
    int rc = lost_head_read(l);
    if (rc == 0) {
        lost_set_failed(l, "its description was lost with another node");
        l->is_final = true;
    }
    if (rc == 1) {
        head_judge(l);
        if (!is_incomplete(l) && (!only || strcmp(l->name, only) == 0))
            rc = description_restore(l);
    }
    if (rc < 0)
        lost_set_failed(l, dd_errmsg());
    return rc;
}

int lost_sets_find(const bool *anew, const char *only) {
    lost.anew = anew;
    lost.there = names_new();
    lost.claimed = names_new();
    int rc = !lost.there || !lost.claimed ? dd_error(-ENOMEM, "out of memory")
                                          : keys_list(-1, SET_KEY_HEAD, sizeof SET_KEY_HEAD - 1);
    if (rc == 0)
        rc = keys_list(-1, SET_COPY_HEAD, sizeof SET_COPY_HEAD - 1);
    for (unsigned m = 0; m < the_load.info.managers && rc == 0; m++)
        rc = lost.anew[m] ? keys_list((int)m, "", 0) : 0;
    for (size_t i = 0; i < lost.n && rc == 0;)
        if (head_is_absent(&lost.sets[i]))
            lost.sets[i] = lost.sets[--lost.n];
        else if ((rc = lost_set_find(&lost.sets[i++], only)) != -ENOMEM && rc != DDICT_EGONE)
            rc = 0;
    if (rc == 0 && lost.n > 0)
        qsort(lost.sets, lost.n, sizeof *lost.sets, later_compare);
    return rc;
}

struct lost_set *lost_sets(size_t *n) {
    *n = lost.n;
    return lost.sets;
}

void lost_sets_free(void) {
    for (size_t i = 0; i < lost.n; i++)
        json_decref(lost.sets[i].head);
    free(lost.sets);
    names_free(lost.there);
    names_free(lost.claimed);
    memset(&lost, 0, sizeof lost);
}
