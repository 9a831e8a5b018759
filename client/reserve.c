/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reserve.c - values that are built in place: in the area of the lane to the manager that will be asked, which copies them from there into their blocks.
 *
 *  P1  A place that was committed is read by the manager until SQ head has passed its last record, also when nobody waits for the answer any more; where that is an ABORT or
 *      CANCEL, it is the last. Until then its part of the area is not used again.
 *  P2  Memory of the area below DD_AREA_KEPT stays, the rest is given back when its place is over.
 */
#include "ask.h"
#include "port_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE     4096u
#define NOT_SENT UINT64_MAX /* its last record is a notice that waits for room */
#define COPIED \
    16384u /* a value up to this goes through the ring: two records cost more than the copy */

struct place {
    struct place *next; /* of its port, by offset; under port.lock */
    struct session *session;
    uint32_t generation;    /* of fork_generation */
    struct node_manager *m; /* NULL: its session was closed; under registry_lock */
    uint64_t off, size;     /* of the area */
    bool over;              /* it waits for P1 */
    uint64_t until;         /* SQ head that is P1 */
    struct outgoing out;
    struct iovec iov;
    unsigned char key[];
};

static void memory_return(struct port *p, uint64_t off, uint64_t size) {
    uint64_t from = off > DD_AREA_KEPT ? off : DD_AREA_KEPT, to = off + size;
    if (to > from)
        fallocate(p->lane.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)(LANE_RINGS_SIZE + from), (off_t)(to - from));
}

/* Under port.lock: drop those that are over and not read any more. */
static void places_settle(struct port *p) {
    /* Acquire pairs with the release of head in ring_consume(): its reads of the area are over. */
    uint64_t head = __atomic_load_n(p->lane.sq.head, __ATOMIC_ACQUIRE);
    for (struct place **at = &p->places, *e; (e = *at) != NULL;) {
        if (e->over && e->until == NOT_SENT && p->nowed == 0)
            e->until = p->lane.sq.pos;
        if (!e->over || e->until == NOT_SENT || (int64_t)(head - e->until) < 0) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        memory_return(p, e->off, e->size);
        free(e);
    }
}

/* The first gap that is large enough. */
static bool place_find(struct port *p, struct place *e) {
    uint64_t off = 0;
    struct place **at = &p->places;
    places_settle(p);
    for (; *at != NULL && (*at)->off - off < e->size; at = &(*at)->next)
        off = (*at)->off + (*at)->size;
    if (off > DD_LANE_AREA || e->size > DD_LANE_AREA - off)
        return false;
    e->off = off;
    e->next = *at;
    *at = e;
    return true;
}

static int place_open(struct ddict_place *out, struct place *e) {
    struct port *p = &e->m->port;
    port_lock(p);
    bool fresh = p->lane.area == NULL;
    uint8_t *area = lane_area(&p->lane);
    bool ok = area != NULL && place_find(p, e);
    port_unlock(p);
    if (area == NULL)
        return -ENOMEM;
    if (fresh)
        madvise(area, DD_LANE_AREA, MADV_DONTFORK); /* a child has no part in it */
    if (!ok)
        return dd_error(-ENOMEM,
                        "no room for a value of %llu bytes beside those that are being built",
                        (unsigned long long)e->size);
    out->data = area + e->off;
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
    unsigned owner = hash_owner(h, s->managers);
    uint64_t most =
        (s->spill_bytes > s->total_bytes ? s->spill_bytes : s->total_bytes) / s->managers;
    if (vlen > most || vlen > DD_LANE_AREA)
        return dd_error(DDICT_EVALSIZE,
                        "a value of %zu bytes: a manager has %llu, and a value that is built in "
                        "place at most %llu",
                        vlen, (unsigned long long)most, (unsigned long long)DD_LANE_AREA);
    struct place *e = calloc(1, sizeof *e + klen);
    if (e == NULL)
        return dd_error(-ENOMEM, "no memory for a place");
    rc = put_head(&e->out.head, owner, klen, vlen, flags);
    if (rc == 0) {
        memcpy(e->key, key, klen);
        e->session = s;
        e->generation = __atomic_load_n(&fork_generation, __ATOMIC_RELAXED);
        e->m = session_ask(s, owner);
        e->size = vlen > 0 ? (vlen + PAGE - 1) & ~(uint64_t)(PAGE - 1) : PAGE;
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

/* Is it still there? */
static bool place_lives(const struct place *e) {
    return e->generation == __atomic_load_n(&fork_generation, __ATOMIC_RELAXED) &&
           __atomic_load_n(&e->m, __ATOMIC_RELAXED) != NULL;
}

static void place_close(struct place *e) {
    struct port *p = &e->m->port;
    port_lock(p);
    e->over = true;
    port_pay(p);
    e->until = p->nowed == 0 ? p->lane.sq.pos
                             : NOT_SENT; /* whatever names it is in the ring before this */
    places_settle(p);
    port_unlock(p);
}

int ddict_commit_keep(const struct ddict_place *p, int timeout_ms) {
    struct place *e = p->own_;
    if (e == NULL)
        return dd_error(-EINVAL, "commit of a place that is over");
    if (!place_lives(e))
        return dd_error(-ECANCELED,
                        "the place was reserved in another process, or its handle was detached");
    if (!board_serves(e->session->board))
        return session_state_error(e->session);
    struct request r = {.sink = SINK_NONE};
    struct outgoing out = e->out;
    return ask(e->session, e->m, &out, &r, timeout_ms);
}

void ddict_abort(struct ddict_place *p) {
    struct place *e = p->own_;
    *p = (struct ddict_place){0};
    if (e == NULL)
        return;
    if (place_lives(e))
        place_close(e);
    else if (e->m == NULL)
        free(e);
}

int ddict_commit(struct ddict_place *p, int timeout_ms) {
    int rc = ddict_commit_keep(p, timeout_ms);
    ddict_abort(p);
    return rc;
}

void places_free(struct port *p) {
    while (p->places != NULL) {
        struct place *e = p->places;
        p->places = e->next;
        if (e->over)
            free(e);
        else
            __atomic_store_n(&e->m, NULL, __ATOMIC_RELAXED); /* who holds it frees it */
    }
}
