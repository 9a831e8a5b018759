/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get_many.c - many views at once, a few at a time: those of other nodes are asked for; while they travel, those of this node are read in place,
 * step by step for all of the few, so that misses of the cache overlap and one fence does for all their leases.
 */
#include "ask.h"
#include "cached.h"
#include "view.h"
#include <store/find.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLAB 1024u /* wants at a time */
#define AHEAD \
    32u /* keys looked up together: about as many misses as a core has under way, times the lines of a key */

struct get_call {
    struct session *s;
    struct ddict_want *want; /* of the slab */
    uint32_t n;
    uint64_t hash[SLAB];
    struct node_manager *here[SLAB]; /* NULL: on another node */
    size_t found;
    struct request *r; /* [SLAB], allocated with the first far key */
    uint32_t *slot;
    unsigned flags;
    int timeout_ms;
    struct patience w;
};

static int no_time_to_ask(void) {
    return dd_error(-ETIMEDOUT,
                    "a manager must be asked for this value, which a timeout of 0 does not allow");
}

/* --- from other nodes --- */

/* The request for want i, r as request_slot() left it. */
static int far_ask(struct get_call *c, struct node_manager *m, uint32_t i) {
    struct ddict_want *w = &c->want[i];
    struct outgoing out = {.head = {.type = MSG_GET,
                                    .key_len = (uint32_t)w->klen,
                                    .manager = hash_owner(c->hash[i], c->s->managers)},
                           .key = w->key};
    if (c->r[i].slot != NULL)
        out.head.flags = MSGF_VIEW;
    if (c->flags & DDICT_WAIT) {
        out.head.flags |= MSGF_WAIT;
        out.head.aux = patience_left_us(&c->w);
    }
    return port_send(&m->port, &out, &c->r[i], &c->w);
}

static int far_send(struct get_call *c, uint32_t i) {
    struct ddict_want *w = &c->want[i];
    unsigned owner = hash_owner(c->hash[i], c->s->managers);
    struct node_manager *m = session_ask(c->s, owner);
    struct request *r = &c->r[i];
    memset(r, 0, sizeof *r);
    r->sink = SINK_MEMORY;
    request_slot(c->s, r, &c->slot[i]);
    int rc = far_ask(c, m, i);
    if (rc < 0) {
        request_view(c->s, m, r, c->slot[i], &w->view, &rc); /* gives the slot back */
        w->status = rc;
    }
    return rc;
}

static int far_prepare(struct get_call *c) {
    if (c->r != NULL)
        return 0;
    c->r = malloc(SLAB * sizeof *c->r);
    c->slot = malloc(SLAB * sizeof *c->slot);
    return c->r != NULL && c->slot != NULL
               ? 0
               : dd_error(-ENOMEM, "no memory for the requests of a get of many");
}

static void far_collect(struct get_call *c, uint32_t i) {
    struct ddict_want *w = &c->want[i];
    unsigned owner = hash_owner(c->hash[i], c->s->managers);
    struct node_manager *m = session_ask(c->s, owner);
    bool waits = c->flags & DDICT_WAIT;
    int rc;
    for (;;) {
        if (waits)
            patience_extend(&c->w, ANSWER_GRACE_MS);
        rc = port_wait(&m->port, &c->r[i], &c->w);
        if (waits)
            patience_extend(&c->w, -ANSWER_GRACE_MS);
        else if (rc == 0)
            patience_renew(&c->w);
        if (!waits || rc < 0 || !request_was_late(&c->r[i]) || patience_left_us(&c->w) == 0)
            break;
        request_drop(&c->r[i]); /* ask again, as ask_waiting() does */
        request_again(&c->r[i]);
        if ((rc = far_ask(c, m, i)) < 0)
            break;
    }
    if (rc == 0)
        rc = c->r[i].status < 0 ? request_error(c->s, m, &c->r[i], c->r[i].status) : 0;
    request_view(c->s, m, &c->r[i], c->slot[i], &w->view, &rc);
    w->status = rc;
}

/* --- from this node --- */

/* Look-ups that go together, with the slots that they have in hand. */
struct few {
    struct lease_thread *t;
    struct find_one one[AHEAD];
    uint32_t index[AHEAD], slot[AHEAD], n;
};

/* Find the few, and none is left; returns how many were not found so. */
static __attribute__((noinline)) uint32_t here_find(struct get_call *c, struct few *f) {
    uint32_t k = f->n, found = 0, left = 0;
    f->n = 0;
    reader_find_many(f->one, k);
    fork_gate(); /* after all leases: they are copied, or we go on after it */
    for (uint32_t j = 0; j < k; j++) {
        struct ddict_want *w = &c->want[f->index[j]];
        if (unlikely(!f->one[j].found)) {
            lease_return(f->t, f->slot[j]);
            continue;
        }
        local_count(f->t, c->here[f->index[j]], f->one[j].f.val_len);
        view_set(&w->view, c->s, &f->one[j].f);
        w->view.slot_ = f->slot[j];
        w->status = 0;
        found++;
    }
    for (uint32_t j = 0; found + left < k && j < k; j++) { /* no slot is in hand any more: L1 */
        uint32_t i = f->index[j];
        struct ddict_want *w = &c->want[i];
        if (f->one[j].found)
            continue;
        w->status = local_view(c->s, c->here[i], c->hash[i], w->key, w->klen, &w->view);
        left += w->status < 0;
        found += w->status == 0;
    }
    c->found += found;
    return left;
}

/* Those of this node among the wants from..from + n, whose buckets are on their way; returns how many were not found so. */
static uint32_t here_take(struct get_call *c, uint32_t from, uint32_t n) {
    struct few f;
    uint32_t left = 0;
    struct lease_thread *t = f.t = lease_thread(c->s);
    f.n = 0;
    for (uint32_t i = from; i < from + n; i++) {
        struct ddict_want *w = &c->want[i];
        struct node_manager *m = c->here[i];
        if (m == NULL)
            continue;
        if (unlikely(t == NULL) || unlikely(*t->top == LEASE_NONE)) {
            left += here_find(c, &f); /* more slots are looked for only while none is in hand: L1 */
            if (t == NULL || (*t->top == LEASE_NONE && lease_refill(t) < 0)) {
                w->status = local_view(c->s, m, c->hash[i], w->key, w->klen,
                                       &w->view); /* knows what to say */
                c->found += w->status == 0;
                left += w->status < 0;
                continue;
            }
        }
        struct find_one *o = &f.one[f.n];
        o->a = &m->arena;
        o->h = c->hash[i];
        o->key = w->key;
        o->key_len = w->klen;
        o->slot = lease_slot(t->page, f.slot[f.n] = *t->top--);
        f.index[f.n++] = i;
    }
    return left + here_find(c, &f);
}

/* Those that are not here: 0 when it was asked for. */
static __attribute__((noinline)) int far_begin(struct get_call *c, uint32_t i, int *rc) {
    if (*rc == 0 && c->timeout_ms == 0)
        *rc = no_time_to_ask();
    if (*rc == 0)
        *rc = far_prepare(c);
    if (*rc == 0)
        *rc = far_send(c, i);
    if (*rc < 0)
        c->want[i].status = *rc;
    return *rc;
}

/* What could not be decided in place: lane, or waiting for the key. All within the time of one call. */
static void here_slow(struct get_call *c) {
    for (uint32_t i = 0; i < c->n; i++) {
        struct ddict_want *w = &c->want[i];
        bool waits = c->flags & DDICT_WAIT && c->timeout_ms != 0;
        if (c->here[i] == NULL || (w->status != -EAGAIN && (w->status != DDICT_ENOKEY || !waits)))
            continue;
        if (c->timeout_ms == 0) {
            w->status = no_time_to_ask();
            continue;
        }
        w->status =
            view_within(c->s, c->hash[i], w->key, w->klen, w->status, &w->view, c->flags, &c->w);
        if (w->status == DDICT_ENOKEY && waits)
            w->status = dd_error(-ETIMEDOUT, "the key did not appear within %.3g s",
                                 c->w.timeout_ms / 1000.0);
        else if (w->status == 0 && !waits)
            patience_renew(&c->w);
        c->found += w->status == 0;
    }
}

/* --- the call --- */

static __attribute__((noinline)) uint64_t any_hash(const struct ddict_want *w) {
    return key_hash(w->key, w->klen);
}
/* Inline for the common lengths. */
static inline uint64_t want_hash(const struct ddict_want *w) {
    return likely(w->klen - 9 < 8) ? key_hash(w->key, w->klen) : any_hash(w);
}

/* Where the wants from..from + n are; those of other nodes are asked for. Returns how many were. */
static __attribute__((flatten)) uint32_t wants_begin(struct get_call *c, uint32_t from, uint32_t n,
                                                     int *rc) {
    uint32_t far = 0;
    for (uint32_t i = from; i < from + n; i++) {
        struct ddict_want *w = &c->want[i];
        w->view.kind_ = 0;
        c->here[i] = NULL;
        if (unlikely(w->klen - 1 >= DDICT_KEY_MAX)) {
            w->status = key_check(w->klen);
            c->hash[i] = 0;
            continue;
        }
        uint64_t h = c->hash[i] = want_hash(w);
        struct node_manager *m = session_local(c->s, hash_owner(h, c->s->managers));
        w->status = -EINPROGRESS;
        c->here[i] = m;
        if (likely(m != NULL)) {
            __builtin_prefetch(find_bucket(&m->arena, find_segment(&m->arena, h), h));
            continue;
        }
        if (session_cache(c->s, h) != NULL &&
            cached_view(c->s, h, w->key, w->klen, &w->view) == 0) {
            w->status = 0;
            c->found++;
            continue;
        }
        far += far_begin(c, i, rc) == 0;
    }
    return far;
}

static void slab_get(struct get_call *c) {
    uint32_t far = 0, left = 0;
    int rc = 0;
    for (uint32_t at = 0; at < c->n; at += AHEAD) {
        uint32_t n = c->n - at < AHEAD ? c->n - at : AHEAD;
        far += wants_begin(c, at, n, &rc);
        left += here_take(c, at, n);
    }
    for (uint32_t i = 0; i < c->n && far > 0; i++) {
        if (c->here[i] != NULL || c->want[i].status != -EINPROGRESS)
            continue;
        far_collect(c, i);
        c->found += c->want[i].status == 0;
        far--;
    }
    if (left > 0)
        here_slow(c);
}

ssize_t ddict_get_many(ddict_t *d, struct ddict_want *wants, size_t n, unsigned flags,
                       int timeout_ms) {
    struct get_call c;
    int rc = session_enter(d, &c.s, timeout_ms);
    if (rc < 0)
        return rc;
    if (flags & ~DDICT_WAIT)
        return dd_error(-EINVAL, "get of many with unknown flags 0x%x", flags);
    c.r = NULL;
    c.slot = NULL;
    c.flags = flags;
    c.timeout_ms = timeout_ms;
    c.found = 0;
    patience_init(&c.w, c.s, timeout_ms);
    for (size_t at = 0; at < n; at += SLAB) {
        c.want = wants + at;
        c.n = n - at < SLAB ? (uint32_t)(n - at) : SLAB;
        slab_get(&c);
    }
    free(c.r);
    free(c.slot);
    return (ssize_t)c.found;
}
