/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_s3.c - objects of a bucket. s3://bucket/a/b means the objects below the folder a/b, or if
 * there are none the object of that name. A unit is a run of objects of the list. A thread gets
 * many small objects at once; a large one it gets alone, and passes its bytes on as they arrive.
 */
#include "s3.h"
#include "s3_list.h"
#include <base/error.h>

#include <errno.h>
#include <inttypes.h>
#include <load/format/sources.h>
#include <load/pack.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define LARGE        (8u << 20)  /* a larger object is got alone, in pieces */
#define FLIGHT_BYTES (32u << 20) /* total size of the small objects that a thread gets at once */
#define UNIT_OBJECTS 1024u       /* one page */
#define ETAG_MAX     128u

static bool s3_match(const char *text, bool folder, const unsigned char *head, size_t n) {
    (void)folder, (void)head, (void)n;
    return strncmp(text, "s3://", 5) == 0;
}

/* --- the list: stamp() keeps it for plan(), which comes next in the same process --- */

struct listing {
    char *text; /* the source's text */
    struct pack objects;
    uint64_t n;
    char region[64];
    XXH3_state_t *hash;
};
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct listing *kept; /* under kept_lock */

static void listing_free(struct listing *l) {
    if (!l)
        return;
    free(l->text);
    pack_free(&l->objects);
    XXH3_freeState(l->hash);
    free(l);
}

static int listing_add(void *arg, const struct s3_object *o) {
    struct listing *l = arg;
    size_t len = strlen(o->key);
    if (o->key[len - 1] == '/' && o->size == 0)
        return 0; /* an empty object that stands for a folder, as consoles make them */
    pack_text(&l->objects, o->key, len);
    pack_text(&l->objects, o->etag, strlen(o->etag));
    pack_u64(&l->objects, o->size);
    XXH3_128bits_update(l->hash, o->key, len + 1);
    XXH3_128bits_update(l->hash, o->etag, strlen(o->etag) + 1);
    XXH3_128bits_update(l->hash, &o->size, sizeof o->size);
    l->n++;
    return l->objects.bad ? dd_error(-ENOMEM, "out of memory") : 0;
}

static int listing_one(void *arg, const struct s3_object *o) {
    const char *name = ((struct listing *)arg)->text;
    return strcmp(o->key, name) == 0 ? listing_add(arg, o) : 1;
}

static int listing_read(struct listing **out, const char *text) {
    struct s3 *s = NULL;
    char folder[S3_KEY_MAX + 2];
    struct listing *l = calloc(1, sizeof *l);
    int rc = l && (l->hash = XXH3_createState()) ? s3_open(&s, text, NULL)
                                                 : dd_error(-ENOMEM, "out of memory");
    if (rc == 0) {
        const char *prefix = s3_prefix(s);
        size_t n = strlen(prefix);
        snprintf(folder, sizeof folder, "%s%s", prefix, n > 0 && prefix[n - 1] != '/' ? "/" : "");
        XXH3_128bits_reset(l->hash);
        rc = s3_list(s, folder, 1000, listing_add, l);
        if (rc == 0 && l->n == 0 && n > 0 && prefix[n - 1] != '/') {
            l->text = (char *)prefix;
            rc = s3_list(s, prefix, 1, listing_one, l);
            l->text = NULL;
            rc = rc > 0 ? 0 : rc;
        }
        if (rc == 0 && l->n == 0)
            rc = dd_error(-ENOENT, "%.300s: there is no such object, and nothing below it", text);
        snprintf(l->region, sizeof l->region, "%s", s3_region(s));
    }
    s3_close(s);
    if (rc == 0 && !(l->text = strdup(text)))
        rc = dd_error(-ENOMEM, "out of memory");
    if (rc < 0)
        listing_free(l);
    else
        *out = l;
    return rc;
}

static int s3_stamp(const char *text, char *stamp, size_t cap) {
    struct listing *l;
    int rc = listing_read(&l, text);
    if (rc < 0)
        return rc;
    XXH128_hash_t h = XXH3_128bits_digest(l->hash);
    snprintf(stamp, cap, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64, (uint64_t)h.low64);
    pthread_mutex_lock(&kept_lock);
    listing_free(kept);
    kept = l;
    pthread_mutex_unlock(&kept_lock);
    return 0;
}

/* --- units --- */

/*
 * Length of the part of a key before the record's name: the folder, or the folder of the single
 * object.
 */
static size_t name_at(const char *prefix, const char *key, size_t len) {
    size_t n = strlen(prefix), at = n;
    if (len != n || n == 0)
        return at;
    while (at > 0 && key[at - 1] != '/')
        at--;
    return at;
}

static int units_make(struct load_plan *p, const struct listing *l) {
    struct unpack u = {.at = l->objects.data, .left = l->objects.len};
    struct pack work = {0};
    struct unit_facts f = {0};
    int rc = 0;
    for (uint64_t i = 0; i < l->n && rc == 0; i++) {
        size_t len, tag_len;
        const char *key = unpack_text(&u, &len), *etag = unpack_text(&u, &tag_len);
        uint64_t size = unpack_u64(&u);
        if (work.len == 0)
            pack_text(&work, l->region, strlen(l->region));
        pack_text(&work, key, len);
        pack_text(&work, etag, tag_len < ETAG_MAX ? tag_len : 0);
        pack_u64(&work, size);
        f.items++;
        f.bytes = bytes_add(f.bytes, (int64_t)size);
        f.largest = (int64_t)size > f.largest ? (int64_t)size : f.largest;
        if (f.bytes < LOAD_UNIT_BYTES && f.items < UNIT_OBJECTS && i + 1 < l->n)
            continue;
        f.read = (uint64_t)f.bytes;
        rc = work.bad ? dd_error(-ENOMEM, "out of memory") : plan_unit(p, &f, work.data, work.len);
        work.len = 0;
        f = (struct unit_facts){0};
    }
    pack_free(&work);
    return rc;
}

static int s3_plan(struct load_plan *p, const char *text) {
    pthread_mutex_lock(&kept_lock);
    struct listing *l = kept && strcmp(kept->text, text) == 0 ? kept : NULL;
    if (l)
        kept = NULL;
    pthread_mutex_unlock(&kept_lock);
    int rc = !l ? listing_read(&l, text) : 0;
    if (rc < 0)
        return rc;
    rc = units_make(p, l);
    listing_free(l);
    return rc;
}

/* --- reading --- */

struct object {
    char key[S3_KEY_MAX + 1], etag[ETAG_MAX];
    const char *name;
    size_t name_len;
    struct s3_want want;
};

struct reader {
    struct s3 *s3;
    struct sink *sink;
    struct unpack u;
    uint64_t bytes;        /* total size of the small objects on their way */
    struct object *object; /* [S3_FLIGHT] */
    bool used[S3_FLIGHT];
};

/* 1: the next object of the unit; 0: there is none; negative. */
static int object_next(struct reader *r, struct object *o) {
    size_t len, tag_len;
    if (r->u.left == 0)
        return 0;
    const char *key = unpack_text(&r->u, &len), *etag = unpack_text(&r->u, &tag_len);
    o->want = (struct s3_want){.size = unpack_u64(&r->u), .key = o->key, .etag = o->etag};
    if (r->u.bad || len > S3_KEY_MAX || tag_len >= ETAG_MAX)
        return dd_error(-EBADMSG, "the plan of this load is damaged");
    memcpy(o->key, key, len);
    o->key[len] = 0;
    memcpy(o->etag, etag, tag_len);
    o->etag[tag_len] = 0;
    size_t at = name_at(s3_prefix(r->s3), o->key, len);
    o->name = o->key + at;
    o->name_len = len - at;
    return 1;
}

/* Add the finished object as a record, or report why it failed. */
static int object_end(struct reader *r, struct object *o) {
    struct s3_want *w = &o->want;
    int rc = w->status;
    if (rc == -ENOENT)
        rc = sink_failed(r->sink, o->name, o->name_len, "the object is gone: %s", w->why);
    else if (rc == -ESTALE || rc == -EACCES || rc == -EIO)
        rc = sink_failed(r->sink, o->name, o->name_len, "%s", w->why);
    else if (rc == 0) {
        rc = sink_begin(r->sink, o->name, o->name_len, (int64_t)w->size);
        if (rc == 1) {
            rc = sink_add(r->sink, w->data, w->size);
            rc = rc == 0 ? sink_end(r->sink, LOAD_TAG_BYTES) : rc;
        }
    }
    free(w->data);
    w->data = NULL;
    sink_advance(r->sink, w->size);
    return rc < 0 ? rc : 0;
}

static int piece_take(void *arg, const void *bytes, size_t len) {
    return sink_add(arg, bytes, len);
}

/* Get a large object, while no other is on its way. */
static int large_get(struct reader *r, struct object *o) {
    int rc = sink_begin(r->sink, o->name, o->name_len, (int64_t)o->want.size);
    if (rc <= 0) {
        sink_advance(r->sink, o->want.size);
        return rc;
    }
    o->want.take = piece_take;
    o->want.arg = r->sink;
    rc = s3_start(r->s3, &o->want);
    if (rc == 0 && !s3_done(r->s3, &rc))
        return rc;
    if (rc == 0 && o->want.status == 0)
        rc = sink_end(r->sink, LOAD_TAG_BYTES);
    else if (rc == 0 && o->want.status > 0)
        rc = 0; /* sink_add() has refused and reported it */
    else if (rc == 0) {
        sink_cancel(r->sink);
        return object_end(r, o);
    }
    sink_advance(r->sink, o->want.size);
    return rc;
}

/* Wait for one of the small objects. */
static int small_take(struct reader *r) {
    int rc;
    struct s3_want *w = s3_done(r->s3, &rc);
    if (!w)
        return rc;
    r->bytes -= w->size;
    r->used[w->index] = false;
    return object_end(r, &r->object[w->index]);
}

static int small_start(struct reader *r, const struct object *next) {
    unsigned i = 0;
    while (r->used[i])
        i++;
    struct object *o = &r->object[i];
    *o = *next;
    o->want.key = o->key;
    o->want.etag = o->etag;
    o->name = o->key + (next->name - next->key);
    o->want.index = i;
    int rc = s3_start(r->s3, &o->want);
    if (rc < 0)
        return rc;
    r->used[i] = true;
    r->bytes += o->want.size;
    return 0;
}

static int objects_get(struct reader *r) {
    struct object next;
    int rc;
    while ((rc = object_next(r, &next)) == 1) {
        bool large = next.want.size > LARGE;
        if (sink_has(r->sink, next.name, next.name_len, (int64_t)next.want.size)) {
            rc = sink_begin(r->sink, next.name, next.name_len, (int64_t)next.want.size);
            if (rc < 0)
                return rc;
            if (rc == 0) {
                sink_advance(r->sink, next.want.size);
                continue;
            }
            sink_cancel(r->sink); /* the item was removed meanwhile */
        }
        while (s3_under_way(r->s3) > 0 && (large || s3_under_way(r->s3) == S3_FLIGHT ||
                                           r->bytes + next.want.size > FLIGHT_BYTES))
            if ((rc = small_take(r)) < 0)
                return rc;
        rc = large ? large_get(r, &next) : small_start(r, &next);
        if (rc < 0)
            return rc;
    }
    while (rc == 0 && s3_under_way(r->s3) > 0)
        rc = small_take(r);
    return rc;
}

static int s3_read(struct sink *sink, const char *text, const void *work, size_t len) {
    struct reader r = {.sink = sink, .u = {.at = work, .left = len}};
    char region[64];
    size_t n;
    const char *where = unpack_text(&r.u, &n);
    if (n >= sizeof region)
        return dd_error(-EBADMSG, "the plan of this load is damaged");
    memcpy(region, where, n);
    region[n] = 0;
    int rc = s3_open(&r.s3, text, region);
    if (rc < 0)
        return rc;
    r.object = calloc(S3_FLIGHT, sizeof *r.object);
    rc = r.object ? objects_get(&r) : dd_error(-ENOMEM, "out of memory");
    s3_close(r.s3);
    free(r.object);
    return rc;
}

const struct source_kind source_s3 = {.name = "s3",
                                      .sorted = true,
                                      .match = s3_match,
                                      .stamp = s3_stamp,
                                      .plan = s3_plan,
                                      .read = s3_read};
