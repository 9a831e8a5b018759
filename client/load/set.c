/* SPDX-License-Identifier: Apache-2.0 */
/* set.c - make the items of a load a set: SETS, section 2. */
#include "set.h"

#include "existing_set.h"
#include "load.h"
#include "names.h"
#include "plan.h"
#include "set_key.h"
#include "state.h"
#include "text_json.h"
#include <base/error.h>
#include <base/vec.h>

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <load/format/sources.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

struct record {
    const uint8_t *key; /* points into one of the parts; includes the letter of its type */
    uint32_t len;
    uint32_t folder; /* length of the first folder of its path; 0: none */
    uint64_t number, size, order;
};

struct gathered {
    struct record *record;
    uint64_t n;
    size_t cap;
    uint8_t **part; /* owned */
    uint64_t parts;
    size_t part_cap;
    struct pack links;
};

static int no_memory(void) {
    return dd_error(-ENOMEM, "out of memory");
}

/* --- from the units' lists --- */

static int record_add(struct gathered *g, const struct record *r) {
    if (VEC_ROOM(&g->record, &g->cap, g->n + 1, 1024) < 0)
        return no_memory();
    g->record[g->n] = *r;
    g->record[g->n].order = g->n;
    g->n++;
    return 0;
}

static int part_keep(struct gathered *g, uint8_t *part) {
    if (VEC_ROOM(&g->part, &g->part_cap, g->parts + 1, 64) < 0) {
        free(part);
        return no_memory();
    }
    g->part[g->parts++] = part;
    return 0;
}

static int part_read(struct gathered *g, uint8_t *part, size_t len, bool numbered) {
    struct unpack u = {.at = part, .left = len};
    int rc = part_keep(g, part);
    while (rc == 0 && u.left > 0 && !u.bad) {
        struct record r = {0};
        size_t n = 0;
        if (numbered) {
            r.number = unpack_u64(&u);
        } else {
            r.key = (const uint8_t *)unpack_text(&u, &n);
            r.len = (uint32_t)n;
        }
        r.size = unpack_u64(&u);
        if (!u.bad)
            rc = record_add(g, &r);
    }
    return rc == 0 && u.bad ? dd_error(-EBADMSG, "the list of a unit cannot be read") : rc;
}

static void texts_take(struct pack *into, struct unpack *u) {
    size_t n;
    const char *texts = unpack_text(u, &n);
    pack_bytes(into, texts, n);
}

static int unit_gather(struct gathered *g, uint64_t n, bool numbered, struct set_result *r) {
    uint8_t *value;
    size_t len;
    int rc = state_get(the_load.id, "done", (int64_t)n, -1, &value, &len);
    if (rc < 0)
        return rc == DDICT_ENOKEY
                   ? dd_error(rc, "what unit %" PRIu64 " loaded is not in the dictionary any more",
                              n)
                   : rc;
    struct unpack u = {.at = value, .left = len};
    unpack_u32(&u);
    uint64_t parts = unpack_u64(&u);
    unpack_u64(&u);
    unpack_u64(&u);
    r->failed += unpack_u64(&u);
    r->left_out += unpack_u64(&u);
    texts_take(&r->failures, &u);
    texts_take(&r->left, &u);
    texts_take(&g->links, &u);
    r->refused += unpack_u64(&u);
    if (u.bad)
        rc = dd_error(-EBADMSG, "the list of unit %" PRIu64 " cannot be read", n);
    free(value);
    for (uint64_t i = 0; i < parts && rc == 0; i++) {
        rc = state_get(the_load.id, "part", (int64_t)n, (int64_t)i, &value, &len);
        if (rc == DDICT_ENOKEY)
            dd_error(rc, "what unit %" PRIu64 " loaded is not in the dictionary any more", n);
        if (rc == 0)
            rc = part_read(g, value, len, numbered);
    }
    return rc;
}

/* --- hard links: the value is a copy of the target's; a member with bytes of its own has
 * precedence over a link of the same name --- */

static int link_failed(struct set_result *r, const uint8_t *key, size_t klen, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static int link_failed(struct set_result *r, const uint8_t *key, size_t klen, const char *fmt,
                       ...) {
    char why[LOAD_ERROR_MAX], text[LOAD_ERROR_MAX + 512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    snprintf(text, sizeof text, "%.*s: %s", (int)(klen - 1 < 400 ? klen - 1 : 400),
             (const char *)key + 1, why);
    if (!the_load.o->skip)
        return dd_error(-EBADMSG, "%s", text);
    pack_text(&r->failures, text, strlen(text));
    r->failed++;
    return 0;
}

/* 1: the item is there. 0: the put was refused, and that was reported. */
static int link_put(const uint8_t *key, size_t klen, const struct ddict_view *v, bool again,
                    struct set_result *r) {
    size_t there;
    int rc = ddict_put(
        the_load.d, key, klen, v->data, v->len,
        DDICT_TAG(v->tag) | DDICT_LOADED | (again || the_load.o->replace ? 0 : DDICT_NEW), -1);
    if (rc != DDICT_EEXISTS)
        return rc < 0 ? load_error(rc) : 1;
    rc = ddict_contains(the_load.d, key, klen, &there, -1);
    if (rc == 1 && the_load.continued && there == v->len)
        return 1;
    r->refused++;
    return rc < 0 ? load_error(rc)
                  : link_failed(r, key, klen,
                                "the key is there already, of another item (--replace puts over "
                                "it, --prefix gives other keys)");
}

/* values of names: the record is a member, or a link */
enum { MEMBER, LINKED };

static int link_make(struct gathered *g, struct names *names, const uint8_t *key, size_t klen,
                     const uint8_t *target, size_t tlen, struct set_result *r) {
    struct ddict_view v;
    uint64_t old, hash = XXH3_64bits(key, klen);
    int there = names_add(names, hash, LINKED, &old);
    if (there < 0)
        return there;
    if (there == 1 && old == MEMBER) { /* a member with bytes of its own has this name */
        r->twice++;
        return names_add(names, hash, MEMBER, NULL) < 0 ? -ENOMEM : 0;
    }
    int rc = ddict_view(the_load.d, target, tlen, &v, 0, -1);
    if (rc == DDICT_ENOKEY)
        return link_failed(r, key, klen, "a link to %.*s, which is not in the source",
                           (int)(tlen - 1 < 400 ? tlen - 1 : 400), (const char *)target + 1);
    if (rc < 0)
        return load_error(rc);
    rc = link_put(key, klen, &v, there == 1, r);
    struct record record = {.len = (uint32_t)klen, .size = v.len};
    ddict_release(&v);
    if (rc <= 0)
        return rc;
    uint8_t *copy = malloc(klen);
    if (!copy)
        return no_memory();
    memcpy(copy, key, klen);
    record.key = copy;
    r->links++;
    rc = part_keep(g, copy);
    return rc == 0 ? record_add(g, &record) : rc;
}

static int links_make(struct gathered *g, struct set_result *r) {
    struct unpack u = {.at = g->links.data, .left = g->links.len};
    struct names *names = u.left > 0 ? names_new() : NULL;
    int rc = u.left > 0 && !names ? no_memory() : 0;
    for (uint64_t i = 0; names && i < g->n && rc >= 0; i++)
        rc = names_add(names, XXH3_64bits(g->record[i].key, g->record[i].len), MEMBER, NULL);
    rc = rc < 0 ? rc : 0;
    while (rc == 0 && u.left > 0 && !u.bad) {
        size_t klen, tlen;
        const char *key = unpack_text(&u, &klen), *target = unpack_text(&u, &tlen);
        if (!u.bad)
            rc = link_make(g, names, (const uint8_t *)key, klen, (const uint8_t *)target, tlen, r);
        if (load_stopped())
            rc = -ECANCELED;
    }
    names_free(names);
    return rc;
}

/* --- order --- */

static const uint8_t *path_of(const struct record *r, size_t *len) {
    size_t skip = 1 + strlen(the_load.o->prefix);
    *len = r->len - skip;
    return r->key + skip;
}

static int bytes_compare(const uint8_t *a, size_t an, const uint8_t *b, size_t bn) {
    int c = memcmp(a, b, an < bn ? an : bn);
    return c != 0 ? c : an < bn ? -1 : an > bn;
}

static size_t folder_len(const uint8_t *path, size_t len) {
    const uint8_t *slash = memrchr(path, '/', len);
    return slash ? (size_t)(slash - path) : 0;
}

/* The order of torchvision's ImageFolder: by first folder, then by folder, then by name. Equal
 * names keep the order of the source. */
static int path_compare(const void *a, const void *b) {
    const struct record *x = a, *y = b;
    size_t xn, yn;
    const uint8_t *xp = path_of(x, &xn), *yp = path_of(y, &yn);
    int c = bytes_compare(xp, x->folder, yp, y->folder);
    if (c == 0) {
        size_t xf = folder_len(xp, xn), yf = folder_len(yp, yn);
        c = bytes_compare(xp, xf, yp, yf);
        if (c == 0)
            c = bytes_compare(xp + xf, xn - xf, yp + yf, yn - yf);
    }
    return c != 0 ? c : x->order < y->order ? -1 : x->order > y->order;
}

static int number_compare(const void *a, const void *b) {
    const struct record *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool same_name(const struct record *a, const struct record *b) {
    return a->len == b->len && memcmp(a->key, b->key, a->len) == 0;
}

static int key_order_compare(const void *a, const void *b) {
    const struct record *x = a, *y = b;
    int c = bytes_compare(x->key, x->len, y->key, y->len);
    return c != 0 ? c : x->order < y->order ? -1 : x->order > y->order;
}

static int order_compare(const void *a, const void *b) {
    const struct record *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Of several records with one name the last one is kept, at its own position. */
static void gathered_order(struct gathered *g, const struct source_kind *kind,
                           struct set_result *r) {
    uint64_t n = 0;
    if (g->n == 0)
        return;
    if (kind->numbered) {
        qsort(g->record, g->n, sizeof *g->record, number_compare);
        return;
    }
    for (uint64_t i = 0; kind->sorted && i < g->n; i++) {
        size_t len;
        const uint8_t *path = path_of(&g->record[i], &len), *slash = memchr(path, '/', len);
        g->record[i].folder = slash ? (uint32_t)(slash - path) : 0;
    }
    qsort(g->record, g->n, sizeof *g->record, kind->sorted ? path_compare : key_order_compare);
    for (uint64_t i = 0; i < g->n; i++)
        if (i + 1 < g->n && same_name(&g->record[i], &g->record[i + 1]))
            r->twice++;
        else
            g->record[n++] = g->record[i];
    g->n = n;
    if (!kind->sorted)
        qsort(g->record, g->n, sizeof *g->record, order_compare);
}

/* --- into the dictionary --- */

static int set_put(const char *name, const char *what, int64_t part, const struct pack *value,
                   unsigned tag) {
    if (value->bad)
        return no_memory();
    return set_piece_put(name, what, part, value->data ? (const void *)value->data : "", value->len,
                         DDICT_TAG(tag));
}

static int part_put(const struct gathered *g, uint64_t part, bool numbered, const int64_t *labels) {
    struct pack keys = {0}, sizes = {0}, classes = {0};
    uint64_t end = (part + 1) * SET_PART < g->n ? (part + 1) * SET_PART : g->n;
    for (uint64_t i = part * SET_PART; i < end; i++) {
        if (!numbered)
            pack_text(&keys, g->record[i].key, g->record[i].len);
        pack_u64(&sizes, g->record[i].size);
        if (labels)
            pack_u64(&classes, (uint64_t)labels[i]);
    }
    int rc = numbered ? 0 : set_put(the_load.set, "keys", (int64_t)part, &keys, LOAD_TAG_BYTES);
    if (rc == 0)
        rc = set_put(the_load.set, "sizes", (int64_t)part, &sizes, LOAD_TAG_BYTES);
    if (rc == 0 && labels)
        rc = set_put(the_load.set, "labels", (int64_t)part, &classes, LOAD_TAG_BYTES);
    pack_free(&keys);
    pack_free(&sizes);
    pack_free(&classes);
    return rc;
}

/* The records are sorted, so the items of a class are adjacent. NULL labels: some item has no
 * folder. 0 or -ENOMEM. */
static int classes_make(const struct gathered *g, json_t *o, int64_t **labels, uint64_t *nclasses) {
    *labels = NULL;
    for (uint64_t i = 0; i < g->n; i++)
        if (g->record[i].folder == 0)
            return 0;
    json_t *names = json_array(), *counts = json_array();
    uint64_t begin = 0;
    *labels = malloc((g->n + 1) * sizeof **labels);
    if (!*labels || !names || !counts)
        return no_memory();
    for (uint64_t i = 0; i < g->n; i++) {
        size_t len, before;
        const uint8_t *path = path_of(&g->record[i], &len),
                      *last = i > 0 ? path_of(&g->record[i - 1], &before) : NULL;
        if (i > 0 && bytes_compare(path, g->record[i].folder, last, g->record[i - 1].folder) != 0) {
            json_array_append_new(names, text_json(last, g->record[i - 1].folder));
            json_array_append_new(counts, json_integer((json_int_t)(i - begin)));
            begin = i;
        }
        (*labels)[i] = (int64_t)json_array_size(names);
    }
    if (g->n > 0) {
        size_t len;
        const uint8_t *path = path_of(&g->record[g->n - 1], &len);
        json_array_append_new(names, text_json(path, g->record[g->n - 1].folder));
        json_array_append_new(counts, json_integer((json_int_t)(g->n - begin)));
    }
    *nclasses = json_array_size(names);
    json_object_set_new(o, "classes", names);
    json_object_set_new(o, "counts", counts);
    return 0;
}

static json_int_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (json_int_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool names_are_utf8(void) {
    bool are = text_is_utf8((const uint8_t *)the_load.o->prefix, strlen(the_load.o->prefix));
    for (unsigned i = 0; i < the_load.o->nsources; i++)
        are &=
            text_is_utf8((const uint8_t *)the_load.o->sources[i], strlen(the_load.o->sources[i]));
    return are;
}

const char *set_why_once(const struct load_plan *p, const struct set_result *r) {
    if (p->failures > 0 && strcmp(p->kind->name, "dir") != 0)
        return "a source is damaged";
    if (r->twice > 0)
        return "names come more than once in its source";
    if (r->refused > 0)
        return "items were refused whose keys were there already";
    return names_are_utf8() ? NULL : "the name of a source, or the prefix, is not UTF-8";
}

/* What is needed to read the set again, beside the head's other members. It is of this dictionary:
 * what another one saved, and was restored here, may have been changed there. */
static json_t *refill_make(const struct load_plan *p, const struct set_result *r) {
    const char *why = set_why_once(p, r);
    json_t *o = json_pack("{s:s,s:I,s:b,s:I,s:I,s:I}", "dictionary", the_load.dictionary, "time",
                          now_ms(), "anon", the_load.o->anon, "newest", (json_int_t)p->newest,
                          "tops", (json_int_t)p->tops, "folders", (json_int_t)p->folders);
    if (o && why)
        json_object_set_new(o, "once", json_string(why));
    return o;
}

static json_t *head_make(const struct load_plan *p, const struct gathered *g,
                         const struct set_result *r) {
    const struct source_kind *kind = the_load.origins[0].kind;
    json_t *sources = json_array();
    for (unsigned i = 0; i < the_load.o->nsources; i++)
        json_array_append_new(
            sources, text_json(the_load.origins[i].text, strlen(the_load.origins[i].text)));
    bool numbered = kind->numbered && (g->n == 0 || g->record[g->n - 1].number == g->n - 1);
    json_t *o = json_pack("{s:i,s:s,s:o,s:s,s:o,s:I,s:I,s:I,s:b,s:I,s:s}", "version", 1, "name",
                          the_load.set, "sources", sources, "kind", kind->name, "prefix",
                          text_json(the_load.o->prefix, strlen(the_load.o->prefix)), "items",
                          (json_int_t)r->items, "bytes", (json_int_t)r->bytes, "parts",
                          (json_int_t)((g->n + SET_PART - 1) / SET_PART), "numbered", numbered,
                          "skipped", (json_int_t)r->failed, "load", the_load.id);
    if (o && the_load.refills)
        json_object_set_new(o, "refill", refill_make(p, r));
    if (o && p->array) {
        json_t *shape = json_array();
        for (unsigned i = 0; i < p->ndim; i++)
            json_array_append_new(shape, json_integer((json_int_t)p->shape[i]));
        json_object_set_new(o, "dtype", json_string(p->dtype));
        json_object_set_new(o, "shape", shape);
    }
    return o;
}

/* Some records of a numbered set were skipped: write its keys one by one, as for other sets. */
static int numbers_to_keys(struct gathered *g) {
    for (uint64_t i = 0; i < g->n; i++) {
        char text[NUMBER_KEY_CAP];
        size_t n = number_key(text, the_load.o->prefix, g->record[i].number);
        uint8_t *copy = malloc(n);
        if (!copy)
            return no_memory();
        memcpy(copy, text, n);
        g->record[i].key = copy;
        g->record[i].len = (uint32_t)n;
        int rc = part_keep(g, copy);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int parts_put(const struct load_plan *p, struct gathered *g, struct set_result *r) {
    const struct source_kind *kind = p->kind;
    int64_t *classes = NULL;
    const int64_t *labels = NULL;
    struct pack head = {0};
    for (uint64_t i = 0; i < g->n; i++)
        r->bytes += g->record[i].size;
    r->items = g->n;
    json_t *o = head_make(p, g, r);
    int rc = !o ? no_memory() : 0;
    if (rc == 0 && kind->sorted)
        rc = classes_make(g, o, &classes, &r->classes);
    labels = classes;
    bool numbered = rc == 0 && json_is_true(json_object_get(o, "numbered"));
    if (rc == 0 && p->labels) { /* the labels of the records that were loaded */
        classes = malloc((g->n + 1) * sizeof *classes);
        for (uint64_t i = 0; classes && i < g->n; i++)
            classes[i] = g->record[i].number < p->nlabels ? p->labels[g->record[i].number] : -1;
        labels = classes;
        rc = !classes ? no_memory() : 0;
    }
    if (rc == 0 && kind->numbered && !numbered)
        rc = numbers_to_keys(g);
    for (uint64_t part = 0; part < (g->n + SET_PART - 1) / SET_PART && rc == 0; part++)
        rc = load_stopped() ? -ECANCELED : part_put(g, part, numbered, labels);
    if (rc == 0) {
        json_object_set_new(o, "labels", json_boolean(labels != NULL));
        char *text = json_dumps(o, JSON_COMPACT);
        pack_bytes(&head, text ? text : "", text ? strlen(text) : 0);
        rc = !text ? no_memory() : set_put(the_load.set, NULL, 0, &head, LOAD_TAG_STR);
        free(text);
    }
    pack_free(&head);
    free(classes);
    json_decref(o);
    return rc;
}

/* With --refill nobody else could remove what the set of this name had, and the new one has not. */
static int rest_remove(const struct gathered *g) {
    struct names *keep = names_new();
    int rc = !keep ? no_memory() : 0;
    for (uint64_t i = 0; i < g->n && rc >= 0; i++) {
        char text[NUMBER_KEY_CAP];
        const struct record *r = &g->record[i];
        rc = names_add(keep,
                       r->key ? XXH3_64bits(r->key, r->len)
                              : XXH3_64bits(text, number_key(text, the_load.o->prefix, r->number)),
                       0, NULL);
    }
    rc = rc < 0 ? rc : set_items_remove(the_load.set, keep);
    names_free(keep);
    return rc;
}

int set_write(const struct load_plan *p, struct set_result *r) {
    struct gathered g = {0};
    int rc = 0;
    memset(r, 0, sizeof *r);
    pack_bytes(&r->failures, p->notes.data, p->notes.len);
    r->failed = p->failures;
    for (uint64_t n = 0; n < p->units && rc == 0; n++)
        rc = load_stopped() ? -ECANCELED : unit_gather(&g, n, p->kind->numbered, r);
    if (rc == 0)
        rc = links_make(&g, r);
    if (rc == 0) {
        gathered_order(&g, p->kind, r);
        rc = the_load.refills ? rest_remove(&g) : 0;
        rc = rc < 0 ? rc : set_remove(the_load.set);
    }
    if (rc >= 0)
        rc = parts_put(p, &g, r);
    for (uint64_t i = 0; i < g.parts; i++)
        free(g.part[i]);
    free(g.part);
    free(g.record);
    pack_free(&g.links);
    return rc;
}
