/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_writer.c - records are gathered, put in batches, and added to the unit's list once they are
 * in the dictionary.
 *
 * A record is put only if its key is absent (DDICT_NEW), so nothing is replaced unnoticed. If two
 * members of one unit have the same name, the later one wins, as when an archive is extracted.
 * --replace overwrites any item. A refill replaces nothing.
 */
#include "batch_writer.h"

#include "load.h"
#include "names.h"
#include "plan.h"
#include "state.h"
#include "wanted.h"
#include <base/error.h>
#include <base/size.h>
#include <base/vec.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define BATCH_BYTES  (4u << 20) /* size of a batch */
#define BATCH_ITEMS  1024u
#define KEEP_BYTES   (16u << 20) /* a buffer that grew larger than this is shrunk again */
#define PART_BYTES   (1u << 20)  /* size of one item of the unit's list */
#define DONE_VERSION 1u

struct entry {
    size_t key, klen, value, vlen; /* offsets into keys and values */
    uint64_t number;
    unsigned tag;
    bool again; /* an earlier record of this unit has the same name */
    bool there; /* in the dictionary already, with the same length */
};

struct sink {
    uint64_t unit;
    const struct origin *origin;
    struct pack keys;
    uint8_t *values;
    size_t used, cap;
    struct entry entries[BATCH_ITEMS];
    struct ddict_pair pairs[BATCH_ITEMS];
    unsigned n; /* complete records; the open record is entries[n] */
    bool open;
    struct pack part; /* the part of the list that is being filled */
    uint64_t parts, items, bytes, failed, left_out;
    uint64_t refused; /* of failed: their keys were there */
    struct pack failures, left, links;
    struct names *seen; /* names in this unit; NULL: none yet */
};

struct sink *sink_new(void) {
    struct sink *s = calloc(1, sizeof *s);
    if (!s || !(s->values = malloc(BATCH_BYTES))) {
        free(s);
        return NULL;
    }
    s->cap = BATCH_BYTES;
    return s;
}

static void sink_clear(struct sink *s) {
    s->n = 0;
    s->used = s->keys.len = s->part.len = 0;
    s->open = false;
    s->parts = s->items = s->bytes = s->failed = s->left_out = s->refused = 0;
    pack_free(&s->failures);
    pack_free(&s->left);
    pack_free(&s->links);
    names_free(s->seen);
    s->seen = NULL;
}

void sink_free(struct sink *s) {
    if (!s)
        return;
    sink_clear(s);
    pack_free(&s->keys);
    pack_free(&s->part);
    free(s->values);
    free(s);
}

/* counters; they order nothing */
static void figure_add(uint64_t *figure, uint64_t n) {
    __atomic_fetch_add(figure, n, __ATOMIC_RELAXED);
}

static int no_memory(void) {
    return dd_error(-ENOMEM, "out of memory");
}

/* --- errors --- */

static int failure_note(struct sink *s, const char *sentence) {
    if (!the_load.o->skip) {
        load_fail(-EBADMSG, sentence);
        return dd_error(-ECANCELED, "%s", sentence);
    }
    pack_text(&s->failures, sentence, strlen(sentence));
    s->failed++;
    figure_add(&the_load.figures.failed, 1);
    return s->failures.bad ? no_memory() : 0;
}

int sink_failed(struct sink *s, const char *name, size_t len, const char *fmt, ...) {
    char text[LOAD_ERROR_MAX], sentence[LOAD_ERROR_MAX + 512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (name)
        snprintf(sentence, sizeof sentence, "%s: %.*s: %s", s->origin->text,
                 (int)(len < 400 ? len : 400), name, text);
    else
        snprintf(sentence, sizeof sentence, "%s: %s", s->origin->text, text);
    return failure_note(s, sentence);
}

void sink_left_out(struct sink *s, const char *name, size_t len, const char *what) {
    if (s->left_out++ < 100) {
        char text[LOAD_ERROR_MAX];
        snprintf(text, sizeof text, "%.*s: %s", (int)(len < 400 ? len : 400), name, what);
        pack_text(&s->left, text, strlen(text));
    }
}

void sink_advance(struct sink *s, uint64_t bytes) {
    figure_add(&the_load.figures.read, bytes);
}

/* --- the list of the unit's records --- */

static int part_put(struct sink *s) {
    if (s->part.bad)
        return no_memory();
    if (s->part.len == 0)
        return 0;
    int rc = state_put(the_load.id, "part", (int64_t)s->unit, (int64_t)s->parts, s->part.data,
                       s->part.len, 0);
    s->parts++;
    s->part.len = 0;
    return rc;
}

static int record_note(struct sink *s, const struct entry *e) {
    if (the_load.wanted) { /* the set has its lists already */
        wanted_mark(the_load.wanted, s->keys.data + e->key, e->klen, true);
        return 0;
    }
    if (s->origin->kind->numbered)
        pack_u64(&s->part, e->number);
    else
        pack_text(&s->part, s->keys.data + e->key, e->klen);
    pack_u64(&s->part, e->vlen);
    s->items++;
    s->bytes += e->vlen;
    figure_add(&the_load.figures.items, 1);
    figure_add(&the_load.figures.bytes, e->vlen);
    if (e->there)
        figure_add(&the_load.figures.there, 1);
    return s->part.len >= PART_BYTES ? part_put(s) : 0;
}

/* --- batches --- */

static const char *key_text(const struct sink *s, const struct entry *e, char *buf, size_t cap) {
    if (s->origin->kind->numbered)
        snprintf(buf, cap, "%" PRIu64, e->number);
    else
        snprintf(buf, cap, "%.*s", (int)(e->klen - 1 < 400 ? e->klen - 1 : 400),
                 (char *)s->keys.data + e->key + 1);
    return buf;
}

/* The pair was refused. 0: an earlier try has put it; 1: it is left out; negative: stop. */
static int entry_refused(struct sink *s, const struct entry *e, int status) {
    char key[420], have[24];
    size_t there;
    int rc;
    if (status == DDICT_EEXISTS && the_load.wanted) { /* of a later set, or put since */
        wanted_mark(the_load.wanted, s->keys.data + e->key, e->klen, false);
        return 1;
    }
    if (status == DDICT_EEXISTS) {
        rc = ddict_contains(the_load.d, s->keys.data + e->key, e->klen, &there, -1);
        if (rc == 1 && the_load.continued && there == e->vlen)
            return 0;
        s->refused++;
        rc = sink_failed(s, NULL, 0,
                         "the key %s is there already, of another item or of another member with "
                         "this name (--replace puts over it, --prefix gives other keys)",
                         key_text(s, e, key, sizeof key));
        return rc < 0 ? rc : 1;
    }
    if (status == DDICT_EVALSIZE || status == DDICT_EKEYSIZE) {
        key_text(s, e, key, sizeof key);
        if (status == DDICT_EKEYSIZE)
            rc = sink_failed(s, key, strlen(key), "a key of %zu bytes; at most %u are possible",
                             e->klen, DDICT_KEY_MAX);
        else
            rc = sink_failed(s, key, strlen(key),
                             "%zu bytes are more than a manager can hold (%s); fewer managers or "
                             "more memory would do",
                             e->vlen, size_format(have, sizeof have, the_load.manager_bytes));
        return rc < 0 ? rc : 1;
    }
    if (status == DDICT_EFULL)
        return dd_error(status, "%s: does not fit: at %s %s: %s", s->origin->text,
                        key_text(s, e, key, sizeof key), "the dictionary is full", ddict_errmsg());
    return dd_error(status, "%s: cannot store %s: %s", s->origin->text,
                    key_text(s, e, key, sizeof key), dd_strerror(status));
}

static unsigned put_flags(const struct entry *e) {
    if (the_load.wanted)
        return the_load.wanted_flags | DDICT_NEW;
    return DDICT_LOADED | (e->again || the_load.o->replace ? 0 : DDICT_NEW);
}

static int batch_put(struct sink *s) {
    unsigned n = 0;
    ssize_t stored = 0;
    int rc = 0;
    for (unsigned i = 0; i < s->n; i++) {
        const struct entry *e = &s->entries[i];
        if (!e->there)
            s->pairs[n++] = (struct ddict_pair){.key = s->keys.data + e->key,
                                                .klen = e->klen,
                                                .val = s->values + e->value,
                                                .vlen = e->vlen,
                                                .flags = DDICT_TAG(e->tag) | put_flags(e)};
    }
    if (n > 0)
        stored = ddict_put_many(the_load.d, s->pairs, n, -1);
    if (stored < 0)
        return load_error((int)stored);
    n = 0;
    for (unsigned i = 0; i < s->n && rc >= 0; i++) {
        const struct entry *e = &s->entries[i];
        int status = e->there ? 0 : s->pairs[n++].status;
        rc = status != 0 ? entry_refused(s, e, status) : 0;
        if (rc == 0)
            rc = record_note(s, e);
    }
    return rc < 0 ? rc : 0;
}

/* Put the complete records, and move the open record to the front. */
static int sink_flush(struct sink *s) {
    int rc = batch_put(s);
    if (s->open) {
        struct entry e = s->entries[s->n];
        memmove(s->keys.data, s->keys.data + e.key, e.klen);
        memmove(s->values, s->values + e.value, s->used - e.value);
        s->used -= e.value;
        s->keys.len = e.klen;
        e.key = e.value = 0;
        s->entries[0] = e;
    } else {
        s->keys.len = s->used = 0;
        if (s->cap > KEEP_BYTES) {
            uint8_t *less = realloc(s->values, BATCH_BYTES);
            if (less) {
                s->values = less;
                s->cap = BATCH_BYTES;
            }
        }
    }
    s->n = 0;
    return rc;
}

/* --- records --- */

/* The key is in s->keys, from e->key on. */
static int entry_begin(struct sink *s, struct entry *e, const char *name, size_t len,
                       int64_t size) {
    int rc = 0;
    if (s->keys.bad)
        return no_memory();
    e->klen = s->keys.len - e->key;
    if (the_load.wanted && !wanted_has(the_load.wanted, s->keys.data + e->key, e->klen)) {
        s->keys.len = e->key;
        return 0;
    }
    if (size >= 0 && (uint64_t)size > the_load.manager_bytes) {
        char have[24];
        s->keys.len = e->key;
        rc = sink_failed(
            s, name, len,
            "%" PRId64
            " bytes are more than a manager can hold (%s); fewer managers or more memory would do",
            size, size_format(have, sizeof have, the_load.manager_bytes));
        return rc;
    }
    if (!s->origin->kind->numbered) {
        if (!s->seen && !(s->seen = names_new()))
            return no_memory();
        rc = names_add(s->seen, XXH3_64bits(s->keys.data + e->key, e->klen), 0, NULL);
        if (rc < 0)
            return rc;
    }
    e->again = rc == 1;
    if (the_load.continued && !e->again && size >= 0 && !the_load.o->replace) {
        size_t there;
        rc = ddict_contains(the_load.d, s->keys.data + e->key, e->klen, &there, -1);
        if (rc < 0 && !key_is_absent(rc))
            return load_error(rc);
        if (rc == 1 && there == (size_t)size) {
            e->there = true;
            e->vlen = there;
            s->n++;
            return s->n == BATCH_ITEMS && (rc = sink_flush(s)) < 0 ? rc : 0;
        }
    }
    s->open = true;
    return 1;
}

static int entry_new(struct sink *s, struct entry **out) {
    int rc = 0;
    if (load_stopped())
        return -ECANCELED;
    if (s->n == BATCH_ITEMS || s->used >= BATCH_BYTES)
        rc = sink_flush(s);
    *out = &s->entries[s->n];
    **out = (struct entry){.key = s->keys.len, .value = s->used};
    return rc;
}

int sink_begin(struct sink *s, const char *name, size_t len, int64_t size) {
    struct entry *e;
    int rc = entry_new(s, &e);
    if (rc < 0)
        return rc;
    pack_bytes(&s->keys, "s", 1);
    pack_bytes(&s->keys, the_load.o->prefix, strlen(the_load.o->prefix));
    if (!s->origin->kind->sorted)
        pack_bytes(&s->keys, name, len);
    else if (name_clean(&s->keys, name, len) < 0) {
        s->keys.len = e->key;
        return sink_failed(s, name, len, "such a name (with \"..\", or empty) is not loaded");
    }
    return entry_begin(s, e, name, len, size);
}

/* In a refill. */
static bool is_wanted(const char *name, size_t len) {
    struct pack key = {0};
    pack_bytes(&key, "s", 1);
    pack_bytes(&key, the_load.o->prefix, strlen(the_load.o->prefix));
    bool is = name_clean(&key, name, len) == 0 && !key.bad &&
              wanted_has(the_load.wanted, key.data, key.len);
    pack_free(&key);
    return is;
}

bool sink_has(struct sink *s, const char *name, size_t len, int64_t size) {
    struct pack key = {0};
    size_t there = 0;
    if (the_load.wanted)
        return !is_wanted(name, len);
    if (!the_load.continued || the_load.o->replace || size < 0)
        return false;
    pack_bytes(&key, "s", 1);
    pack_bytes(&key, the_load.o->prefix, strlen(the_load.o->prefix));
    bool has = name_clean(&key, name, len) == 0 && !key.bad &&
               ddict_contains(the_load.d, key.data, key.len, &there, -1) == 1 &&
               there == (size_t)size;
    pack_free(&key);
    return has;
}

int sink_begin_number(struct sink *s, uint64_t n, int64_t size) {
    struct entry *e;
    char text[24];
    int rc = entry_new(s, &e), len = snprintf(text, sizeof text, "%" PRIu64, n);
    if (rc < 0)
        return rc;
    e->number = n;
    pack_bytes(&s->keys, *the_load.o->prefix != 0 ? "s" : "i", 1);
    pack_bytes(&s->keys, the_load.o->prefix, strlen(the_load.o->prefix));
    pack_bytes(&s->keys, text, (size_t)len);
    return entry_begin(s, e, text, (size_t)len, size);
}

void sink_cancel(struct sink *s) {
    if (!s->open)
        return;
    s->open = false;
    s->used = s->entries[s->n].value;
    s->keys.len = s->entries[s->n].key;
}

/* Make room for len more bytes of the open record. 0; 1: the record was refused; negative. */
static int room_make(struct sink *s, size_t len) {
    struct entry *e = &s->entries[s->n];
    char name[420], have[24];
    if (len <= s->cap - s->used)
        return 0;
    if (s->used - e->value > the_load.manager_bytes ||
        len > the_load.manager_bytes - (s->used - e->value)) {
        key_text(s, e, name, sizeof name);
        sink_cancel(s);
        int rc = sink_failed(
            s, name, strlen(name),
            "more than %s, and a manager cannot hold that; fewer managers or more memory would do",
            size_format(have, sizeof have, the_load.manager_bytes));
        return rc < 0 ? rc : 1;
    }
    int rc = s->n > 0 ? sink_flush(s) : 0;
    if (rc < 0 || len <= s->cap - s->used)
        return rc;
    return VEC_ROOM(&s->values, &s->cap, s->used + len, BATCH_BYTES) < 0 ? no_memory() : 0;
}

void *sink_room(struct sink *s, size_t len, int *rc) {
    *rc = room_make(s, len);
    if (*rc != 0)
        return NULL;
    s->used += len;
    return s->values + s->used - len;
}

void sink_unroom(struct sink *s, size_t len) {
    s->used -= len;
}

int sink_add(struct sink *s, const void *bytes, size_t len) {
    int rc = room_make(s, len);
    if (rc != 0)
        return rc;
    if (len > 0)
        memcpy(s->values + s->used, bytes, len);
    s->used += len;
    return 0;
}

int sink_end(struct sink *s, unsigned tag) {
    struct entry *e = &s->entries[s->n];
    char name[420];
    e->tag = tag;
    e->vlen = s->used - e->value;
    if (the_load.wanted && !wanted_fits(the_load.wanted, s->keys.data + e->key, e->klen, e->vlen)) {
        key_text(s, e, name, sizeof name);
        sink_cancel(s);
        return sink_failed(s, name, strlen(name), "it has another size than when it was loaded");
    }
    s->open = false;
    s->n++;
    return s->n == BATCH_ITEMS || s->used >= BATCH_BYTES ? sink_flush(s) : 0;
}

int sink_link(struct sink *s, const char *name, size_t len, const char *target, size_t target_len) {
    struct pack to = {0}, from = {0};
    int rc = 0;
    pack_bytes(&to, "s", 1);
    pack_bytes(&to, the_load.o->prefix, strlen(the_load.o->prefix));
    pack_bytes(&from, to.data, to.len);
    if (name_clean(&to, name, len) < 0 || name_clean(&from, target, target_len) < 0) {
        rc = sink_failed(s, name, len,
                         "a link to %.*s: such names (with \"..\", or empty) are not loaded",
                         (int)(target_len < 400 ? target_len : 400), target);
    } else {
        pack_text(&s->links, to.data, to.len);
        pack_text(&s->links, from.data, from.len);
        rc = to.bad || from.bad || s->links.bad ? no_memory() : 0;
    }
    pack_free(&to);
    pack_free(&from);
    return rc;
}

/* --- a unit --- */

static int done_put(struct sink *s) {
    struct pack head = {0};
    int rc = sink_flush(s);
    if (the_load.wanted)
        return rc == 0 ? wanted_unit_end(the_load.wanted, &s->links, &s->failures) : rc;
    if (rc == 0)
        rc = part_put(s);
    pack_u32(&head, DONE_VERSION);
    pack_u64(&head, s->parts);
    pack_u64(&head, s->items);
    pack_u64(&head, s->bytes);
    pack_u64(&head, s->failed);
    pack_u64(&head, s->left_out);
    pack_text(&head, s->failures.data, s->failures.len);
    pack_text(&head, s->left.data, s->left.len);
    pack_text(&head, s->links.data, s->links.len);
    pack_u64(&head, s->refused);
    if (rc == 0)
        rc = head.bad || s->failures.bad || s->left.bad || s->links.bad
                 ? no_memory()
                 : state_put(the_load.id, "done", (int64_t)s->unit, -1, head.data, head.len, 0);
    pack_free(&head);
    return rc;
}

static int rest_failed(struct sink *s, const char *why) {
    char text[LOAD_ERROR_MAX + 64];
    snprintf(text, sizeof text, "%s; what follows in this part of it is missing", why);
    return failure_note(s, text);
}

int sink_unit(struct sink *s, uint64_t n) {
    struct unit u;
    int rc = unit_fetch(&u, n);
    if (rc < 0)
        return rc;
    sink_clear(s);
    s->unit = n;
    s->origin = &the_load.origins[u.source];
    rc = s->origin->kind->read(s, s->origin->text, u.work, u.len);
    sink_cancel(s);
    if (rc < 0 && rc != -ECANCELED && the_load.o->skip && rc != DDICT_EFULL && rc != DDICT_EGONE &&
        rc != DDICT_ELOST && rc != -ETIMEDOUT && rc != -ENOMEM)
        rc = rest_failed(s, dd_errmsg());
    if (rc == 0)
        rc = done_put(s);
    free(u.value);
    return rc;
}
