/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c - values built in place: in the area of the lane to the manager that will receive the
 * put, which copies them from there into their blocks.
 *
 * P1 The manager reads a committed place until SQ head has passed its last record (an ABORT or
 *    CANCEL, if there is one), even if nobody waits for the answer any more. Until then its part of
 *    the area is not used again.
 * P2 Memory of the area below DD_AREA_KEPT stays; the rest is given back when its place is over.
 *    The manager takes away what stays if there was no place for long (PROTOCOL 3, R4); meanwhile a
 *    new place begins behind that.
 */
#include "client_lane_inside.h"
#include "near.h"
#include "request.h"
#include "view.h"
#include "window.h"
#include <base/page.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NOT_SENT UINT64_MAX /* the last record is a notice that waits for room */
/* a value up to this size goes through the ring: a copy costs less than two records */
#define COPIED 16384u

struct place {
    struct place *next; /* the lane's list, by offset; under lane.lock */
    struct session *session;
    uint32_t generation;    /* fork_generation at the reservation */
    struct node_manager *m; /* NULL: its session was closed; under registry_lock */
    uint64_t off, size;     /* in the area */
    /* of a key of a working set: it lies in memory of this process, and m is not set */
    ddict_t *window;
    uint64_t session_id;
    ddict_t *d;     /* of another key */
    unsigned flags; /* as they were given */
    bool over;      /* closed, but P1 may still hold it */
    uint64_t until; /* SQ head at which P1 ends */
    struct outgoing out;
    struct iovec iov;
    unsigned char key[];
};

static void memory_return(struct client_lane *p, uint64_t off, uint64_t size) {
    uint64_t from = off > DD_AREA_KEPT ? off : DD_AREA_KEPT, to = off + size;
    if (to > from)
        fallocate(p->lane.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)(LANE_RINGS_SIZE + from), (off_t)(to - from));
}

/* Tell the manager which part of the area is in use (PROTOCOL 3, R4). */
static void area_tell(struct client_lane *p) {
    uint64_t until = 0;
    bool over = true;
    for (const struct place *e = p->places; e; e = e->next) {
        over &= e->over && e->until != NOT_SENT;
        if (e->over && e->until != NOT_SENT && (until == 0 || (int64_t)(e->until - until) > 0))
            until = e->until;
    }
    lane_area_end(&p->lane, !p->places ? LANE_AREA_FREE
                            : over     ? LANE_AREA_UNTIL | until
                                       : LANE_AREA_USED);
}

/* Under lane.lock: free closed places that the manager does not read any more. */
static void places_settle(struct client_lane *p) {
    /* Acquire pairs with the release of head in ring_consume(): the manager's reads of the area are
     * over. */
    uint64_t head = __atomic_load_n(p->lane.sq.head, __ATOMIC_ACQUIRE);
    for (struct place **at = &p->places, *e; (e = *at);) {
        if (e->over && e->until == NOT_SENT && p->notices_n == 0)
            e->until = p->lane.sq.pos;
        if (!e->over || e->until == NOT_SENT || (int64_t)(head - e->until) < 0) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        memory_return(p, e->off, e->size);
        free(e);
    }
    area_tell(p);
}

/* Find the first gap that is large enough. */
static bool place_find(struct client_lane *p, struct place *e) {
    struct place **at = &p->places;
    places_settle(p);
    uint64_t off = lane_area_begin(&p->lane);
    for (; *at && ((*at)->off < off || (*at)->off - off < e->size); at = &(*at)->next)
        if ((*at)->off + (*at)->size > off)
            off = (*at)->off + (*at)->size;
    if (off > DD_LANE_AREA || e->size > DD_LANE_AREA - off) {
        area_tell(p);
        return false;
    }
    e->off = off;
    e->next = *at;
    *at = e;
    return true;
}

static int place_open(struct ddict_place *out, struct place *e) {
    struct client_lane *p = &e->m->lane;
    client_lane_lock(p);
    bool fresh = !p->lane.area;
    uint8_t *area = lane_area(&p->lane);
    bool ok = area && place_find(p, e);
    client_lane_unlock(p);
    if (!area)
        return -ENOMEM;
    if (fresh)
        madvise(area, DD_LANE_AREA, MADV_DONTFORK); /* a forked child does not share it */
    if (!ok)
        return dd_error(-ENOMEM,
                        "no room for a value of %llu bytes beside those that are being built",
                        (unsigned long long)e->size);
    out->data = area + e->off;
    out->own_ = e;
    return 0;
}

/* A place for a key of a working set: its value is put under another name at each commit. */
static int window_place_open(struct ddict_place *out, struct place *e, ddict_t *d,
                             struct session *s, const void *key, size_t vlen, unsigned flags) {
    memcpy(e->key, key, e->out.head.key_len);
    e->window = d;
    e->session = s;
    e->session_id = s->id;
    e->generation = __atomic_load_n(&fork_generation, __ATOMIC_RELAXED);
    e->flags = flags;
    out->data = view_memory(vlen);
    if (!out->data) {
        free(e);
        return dd_error(-ENOMEM, "no memory for a value of %zu bytes", vlen);
    }
    e->iov = (struct iovec){.iov_base = out->data, .iov_len = vlen};
    out->len = vlen;
    out->own_ = e;
    return 0;
}

int ddict_reserve(ddict_t *d, const void *key, size_t klen, size_t vlen, unsigned flags,
                  struct ddict_place *out) {
    struct session *s;
    *out = (struct ddict_place){0};
    int rc = session_enter(d, &s, -1);
    if (rc < 0 || (rc = key_check(klen)) < 0)
        return rc;
    uint64_t h = key_hash(key, klen);
    unsigned owner = deal_owner(&s->deal, key, klen, h);
    uint64_t most =
        (s->spill_bytes > s->total_bytes ? s->spill_bytes : s->total_bytes) / s->deal.owners;
    if (vlen > most || vlen > DD_LANE_AREA)
        return dd_error(DDICT_EVALSIZE,
                        "a value of %zu bytes: a manager has %llu, and a value that is built in "
                        "place at most %llu",
                        vlen, (unsigned long long)most, (unsigned long long)DD_LANE_AREA);
    struct place *e = calloc(1, sizeof *e + klen);
    if (!e)
        return dd_error(-ENOMEM, "no memory for a place");
    rc = put_head(&e->out.head, owner, klen, vlen, flags & ~DDICT_NEAR);
    if (rc == 0)
        rc = near_check(s, key, klen, flags);
    if (rc == 0 && window_has(s, key, klen))
        return window_place_open(out, e, d, s, key, vlen, flags);
    if (rc == 0) {
        memcpy(e->key, key, klen);
        e->d = d;
        e->flags = flags;
        e->session = s;
        e->generation = __atomic_load_n(&fork_generation, __ATOMIC_RELAXED);
        e->m = session_route(s, owner);
        uint64_t page = page_size(); /* whole ones: else no memory of it could be given back */
        e->size = vlen > 0 ? (vlen + page - 1) & ~(page - 1) : page;
        rc = place_open(out, e);
    }
    if (rc < 0) {
        free(e);
        return rc;
    }
    e->out.key = e->key;
    e->iov = (struct iovec){.iov_base = out->data, .iov_len = vlen};
    e->out.iov = &e->iov;
    e->out.niov = 1;
    e->out.placed = vlen > COPIED;
    e->out.place = e->off;
    out->len = vlen;
    return 0;
}

/* Whether the place is still valid: not inherited by a fork, and its handle not detached. */
static bool place_lives(const struct place *e) {
    if (e->window)
        return e->generation == __atomic_load_n(&fork_generation, __ATOMIC_RELAXED) &&
               __atomic_load_n(&e->session->id, __ATOMIC_RELAXED) == e->session_id &&
               !e->session->closing;
    return e->generation == __atomic_load_n(&fork_generation, __ATOMIC_RELAXED) &&
           __atomic_load_n(&e->m, __ATOMIC_RELAXED);
}

static void place_close(struct place *e) {
    struct client_lane *p = &e->m->lane;
    client_lane_lock(p);
    e->over = true;
    client_lane_notices_send(p);
    /* all records that name the place are in the ring before this */
    e->until = p->notices_n == 0 ? p->lane.sq.pos : NOT_SENT;
    places_settle(p);
    client_lane_unlock(p);
}

int ddict_commit_keep(const struct ddict_place *p, int timeout_ms) {
    struct place *e = p->own_;
    if (!e)
        return dd_error(-EINVAL, "commit of a place that is over");
    if (!place_lives(e))
        return dd_error(-ECANCELED,
                        "the place was reserved in another process, or its handle was detached");
    if (e->flags & DDICT_NEAR)
        return near_put(e->d, e->key, e->out.head.key_len, &e->iov, 1, e->flags, timeout_ms);
    if (e->window)
        return window_put(e->window, e->key, e->out.head.key_len, &e->iov, 1, e->flags, timeout_ms);
    if (!status_page_serves(e->session->status_page))
        return session_state_error(e->session);
    struct request r = {.sink = SINK_NONE};
    struct outgoing out = e->out;
    int rc = request_call(e->session, e->m, &out, &r, timeout_ms);
    return rc == DDICT_ELINK
               ? near_put(e->d, e->key, out.head.key_len, &e->iov, 1, e->flags, timeout_ms)
               : rc;
}

void ddict_abort(struct ddict_place *p) {
    struct place *e = p->own_;
    *p = (struct ddict_place){0};
    if (!e)
        return;
    if (e->window) {
        free(e->iov.iov_base);
        free(e);
    } else if (place_lives(e))
        place_close(e);
    else if (!e->m)
        free(e);
}

int ddict_commit(struct ddict_place *p, int timeout_ms) {
    int rc = ddict_commit_keep(p, timeout_ms);
    ddict_abort(p);
    return rc;
}

void places_free(struct client_lane *p) {
    while (p->places) {
        struct place *e = p->places;
        p->places = e->next;
        if (e->over)
            free(e);
        else
            /* ddict_abort() by its owner frees it */
            __atomic_store_n(&e->m, NULL, __ATOMIC_RELAXED);
    }
}
