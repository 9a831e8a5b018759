/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get_many.c - many views in one call. Requests for values of other nodes are sent first; meanwhile
 * values of this node are read in place, a batch at a time: each step is done for the whole batch,
 * so cache misses overlap, and one fence serves all its leases.
 */
#include "cached_read.h"
#include "near.h"
#include "request.h"
#include "view.h"
#include "window.h"
#include <store/find.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLAB 1024u /* wants looked at together */
/* keys looked up together: about the number of cache misses that a core can have under way, times
 * the lines that a key touches */
#define AHEAD 32u

struct get_call {
    ddict_t *d;
    bool linked; /* some want is of a value that lies near who put it */
    struct session *s;
    struct ddict_want *want; /* wants of the slab */
    uint32_t n;
    uint64_t hash[SLAB];
    struct node_manager *local[SLAB]; /* NULL: on another node */
    size_t found;
    struct request *r; /* [SLAB], allocated with the first remote key */
    uint32_t *slot;
    /* [managers], allocated at the first timeout: a manager that did not answer in time is not
     * asked again */
    uint8_t *silent;
    /* number of wants of the slab whose manager is held (PROTOCOL 2); they are sent last */
    uint32_t put_off;
    unsigned flags;
    int timeout_ms;
    struct call_deadline w;
};

static int no_time_to_ask(void) {
    return dd_error(-ETIMEDOUT,
                    "a manager must be asked for this value, which a timeout of 0 does not allow");
}

/* --- values of other nodes --- */

static unsigned want_owner(const struct get_call *c, uint32_t i) {
    return deal_owner(&c->s->deal, c->want[i].key, c->want[i].klen, c->hash[i]);
}

static void silent_note(struct get_call *c, unsigned owner) {
    if (c->flags & DDICT_WAIT)
        return;
    if (!c->silent)
        c->silent = calloc(1, c->s->managers);
    if (c->silent)
        c->silent[owner] = 1;
}

/* Send the request for want i; request_slot() has prepared r. skips: if the manager is held, return
 * 1 and send nothing. */
static int remote_ask(struct get_call *c, struct node_manager *m, uint32_t i, bool skips) {
    struct ddict_want *w = &c->want[i];
    struct outgoing out = {
        .head = {.type = MSG_GET, .key_len = (uint32_t)w->klen, .manager = want_owner(c, i)},
        .key = w->key,
        .skips = skips};
    if (c->r[i].slot)
        out.head.flags = MSGF_VIEW;
    if (c->flags & DDICT_WAIT) {
        out.head.flags |= MSGF_WAIT;
        out.head.aux = call_deadline_left_us(&c->w);
    }
    return client_lane_send(&m->lane, &out, &c->r[i], &c->w);
}

static int remote_send(struct get_call *c, uint32_t i) {
    struct ddict_want *w = &c->want[i];
    unsigned owner = want_owner(c, i);
    struct node_manager *m = session_route(c->s, owner);
    struct request *r = &c->r[i];
    memset(r, 0, sizeof *r);
    r->sink = SINK_MEMORY;
    request_slot(c->s, r, &c->slot[i]);
    int rc = remote_ask(c, m, i, true);
    c->put_off += rc == 1;
    if (rc < 0) {
        request_view(c->s, m, r, c->slot[i], &w->view, &rc); /* this also gives the slot back */
        w->status = rc;
    }
    return rc;
}

static int remote_prepare(struct get_call *c) {
    if (c->r)
        return 0;
    c->r = malloc(SLAB * sizeof *c->r);
    c->slot = malloc(SLAB * sizeof *c->slot);
    return c->r && c->slot ? 0 : dd_error(-ENOMEM, "no memory for the requests of a get of many");
}

static void remote_collect(struct get_call *c, uint32_t i) {
    struct ddict_want *w = &c->want[i];
    unsigned owner = want_owner(c, i);
    struct node_manager *m = session_route(c->s, owner);
    bool waits = c->flags & DDICT_WAIT;
    int rc;
    for (;;) {
        if (waits)
            call_deadline_extend(&c->w, DD_GRACE_READ_MS);
        rc = client_lane_wait(&m->lane, &c->r[i], &c->w);
        if (waits)
            call_deadline_extend(&c->w, -DD_GRACE_READ_MS);
        else if (rc == 0)
            call_deadline_renew(&c->w);
        bool late = waits && request_was_late(&c->r[i]) && call_deadline_left_us(&c->w) > 0;
        if (rc < 0 || !(late || request_is_stale(&c->r[i], &c->w)))
            break;
        request_drop(&c->r[i]); /* ask again, as request_call_waiting() does */
        if ((rc = request_again(&c->r[i])) < 0 || (rc = remote_ask(c, m, i, false)) < 0)
            break;
    }
    if (rc == -ETIMEDOUT)
        silent_note(c, owner);
    if (rc == 0)
        rc = c->r[i].status < 0 ? request_error(c->s, m, &c->r[i], c->r[i].status) : 0;
    request_view(c->s, m, &c->r[i], c->slot[i], &w->view, &rc);
    w->status = rc;
    c->linked |= rc == DDICT_ELINK;
}

/* --- values of this node --- */

/* Look-ups done together, each with a slot in hand. */
struct find_batch {
    struct lease_thread *t;
    struct find_one one[AHEAD];
    uint32_t index[AHEAD], slot[AHEAD], n;
};

/* Do all look-ups of the batch, and empty it. Returns how many were not found in place. */
static __attribute__((noinline)) uint32_t local_find(struct get_call *c, struct find_batch *f) {
    uint32_t k = f->n, found = 0, left = 0;
    f->n = 0;
    reader_find_many(f->one, k);
    fork_gate(); /* after all leases are stored: a fork copies them, or we return after it */
    for (uint32_t j = 0; j < k; j++) {
        struct ddict_want *w = &c->want[f->index[j]];
        if (unlikely(!f->one[j].found)) {
            lease_return(f->t, f->slot[j]);
            continue;
        }
        local_count(f->t, c->local[f->index[j]], f->one[j].f.val_len);
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
        w->status = local_view(c->s, c->local[i], c->hash[i], w->key, w->klen, &w->view);
        left += w->status < 0;
        c->linked |= w->status == DDICT_ELINK;
        found += w->status == 0;
    }
    c->found += found;
    return left;
}

/* Look up the wants from..from + n that belong to this node; their buckets are being prefetched.
 * Returns how many were not found in place. */
static uint32_t local_take(struct get_call *c, uint32_t from, uint32_t n) {
    struct find_batch f;
    uint32_t left = 0;
    struct lease_thread *t = f.t = lease_thread(c->s);
    bool reads = status_page_reads(c->s->status_page);
    f.n = 0;
    for (uint32_t i = from; i < from + n; i++) {
        struct ddict_want *w = &c->want[i];
        struct node_manager *m = c->local[i];
        if (!m)
            continue;
        if (unlikely(!reads)) {
            w->status = -EAGAIN;
            left++;
            continue;
        }
        if (unlikely(!t) || unlikely(*t->top == LEASE_NONE)) {
            /* the stack may be refilled only while no slot is in hand: L1 */
            left += local_find(c, &f);
            if (!t || (*t->top == LEASE_NONE && lease_refill(t) < 0)) {
                /* it sets the code and the sentence */
                w->status = local_view(c->s, m, c->hash[i], w->key, w->klen, &w->view);
                c->found += w->status == 0;
                left += w->status < 0;
                c->linked |= w->status == DDICT_ELINK;
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
    return left + local_find(c, &f);
}

/* Ask for a value of another node. 0: the request is sent, or put off. */
static __attribute__((noinline)) int remote_begin(struct get_call *c, uint32_t i, int *rc) {
    if (*rc == 0 && c->timeout_ms == 0)
        *rc = no_time_to_ask();
    if (*rc == 0)
        *rc = remote_prepare(c);
    unsigned owner = want_owner(c, i);
    if (*rc == 0 && c->silent && c->silent[owner])
        return c->want[i].status =
                   dd_error(-ETIMEDOUT, "manager %u has not answered in time", owner);
    if (*rc < 0)
        return c->want[i].status = *rc;
    int sent = remote_send(c, i);
    if (sent == -ETIMEDOUT) /* other managers may answer */
        silent_note(c, owner);
    else if (sent < 0)
        *rc = sent;
    return sent < 0 ? sent : 0;
}

/* Send the requests that were put off, waiting where the manager is still held. Returns how many
 * are under way then. */
static uint32_t remote_resume(struct get_call *c) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n && c->put_off > 0; i++) {
        struct ddict_want *w = &c->want[i];
        if (c->local[i] || w->status != -EINPROGRESS)
            continue;
        unsigned owner = want_owner(c, i);
        struct node_manager *m = session_route(c->s, owner);
        c->r[i].need = 0;
        int rc = remote_ask(c, m, i, false);
        c->put_off--;
        n += rc == 0;
        if (rc == 0)
            continue;
        if (rc == -ETIMEDOUT)
            silent_note(c, owner);
        request_view(c->s, m, &c->r[i], c->slot[i], &w->view, &rc);
        w->status = rc;
    }
    return n;
}

static void remote_collect_all(struct get_call *c, uint32_t remote) {
    for (uint32_t i = 0; i < c->n && remote > 0; i++) {
        if (c->local[i] || c->want[i].status != -EINPROGRESS || c->r[i].need == NEED_GO)
            continue;
        remote_collect(c, i);
        c->found += c->want[i].status == 0;
        remote--;
    }
}

/* Finish wants that could not be decided in place: ask the manager, or wait for the key. All share
 * the call's deadline. */
static void local_finish(struct get_call *c) {
    for (uint32_t i = 0; i < c->n; i++) {
        struct ddict_want *w = &c->want[i];
        bool waits = c->flags & DDICT_WAIT && c->timeout_ms != 0;
        if (!c->local[i] || (w->status != -EAGAIN && (w->status != DDICT_ENOKEY || !waits)))
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
            call_deadline_renew(&c->w);
        c->found += w->status == 0;
        c->linked |= w->status == DDICT_ELINK;
    }
}

/* Read those whose values lie near who put them, one by one. */
static void links_finish(struct get_call *c) {
    for (uint32_t i = 0; i < c->n; i++) {
        struct ddict_want *w = &c->want[i];
        if (w->status != DDICT_ELINK)
            continue;
        uint64_t left = call_deadline_left_us(&c->w) / 1000;
        int ms = c->timeout_ms == 0 ? 0 : left < INT32_MAX ? (int)left : INT32_MAX;
        w->status = near_view(c->d, w->key, w->klen, &w->view, c->flags, ms);
        c->found += w->status == 0;
        if (w->status == 0 && !(c->flags & DDICT_WAIT))
            call_deadline_renew(&c->w);
    }
}

/* --- the call --- */

static __attribute__((noinline)) uint64_t any_hash(const struct ddict_want *w) {
    return key_hash(w->key, w->klen);
}
/* Inline for the most common key lengths. */
static inline uint64_t want_hash(const struct ddict_want *w) {
    return likely(w->klen - 9 < 8) ? key_hash(w->key, w->klen) : any_hash(w);
}

/* Find where the wants from..from + n are, and ask for those of other nodes. Returns how many were
 * asked for. */
static __attribute__((flatten)) uint32_t wants_begin(struct get_call *c, uint32_t from, uint32_t n,
                                                     int *rc) {
    uint32_t remote = 0;
    for (uint32_t i = from; i < from + n; i++) {
        struct ddict_want *w = &c->want[i];
        w->view.kind_ = 0;
        c->local[i] = NULL;
        if (unlikely(w->klen - 1 >= DDICT_KEY_MAX)) {
            w->status = key_check(w->klen);
            c->hash[i] = 0;
            continue;
        }
        uint64_t h = c->hash[i] = want_hash(w);
        unsigned owner = deal_owner(&c->s->deal, w->key, w->klen, h);
        struct node_manager *m = session_local(c->s, owner);
        w->status = -EINPROGRESS;
        c->local[i] = m;
        if (likely(m != NULL)) {
            __builtin_prefetch(find_bucket(&m->arena, find_segment(&m->arena, h), h));
            continue;
        }
        if (session_cache(c->s, owner) && cached_view(c->s, h, w->key, w->klen, &w->view) == 0) {
            w->status = 0;
            c->found++;
            continue;
        }
        remote += remote_begin(c, i, rc) == 0;
    }
    return remote;
}

static void slab_get(struct get_call *c) {
    uint32_t remote = 0, left = 0;
    int rc = 0;
    c->put_off = 0;
    /* time spent on a silent manager is not taken from the next slab */
    if (unlikely(c->silent != NULL))
        call_deadline_renew(&c->w);
    for (uint32_t at = 0; at < c->n; at += AHEAD) {
        uint32_t n = c->n - at < AHEAD ? c->n - at : AHEAD;
        remote += wants_begin(c, at, n, &rc);
        left += local_take(c, at, n);
    }
    remote_collect_all(c, remote - c->put_off);
    if (unlikely(c->put_off > 0))
        remote_collect_all(c, remote_resume(c));
    if (left > 0)
        local_finish(c);
    if (unlikely(c->linked))
        links_finish(c);
}

static __attribute__((noinline)) bool any_in_window(const struct session *s,
                                                    const struct ddict_want *wants, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (window_has(s, wants[i].key, wants[i].klen))
            return true;
    return false;
}

ssize_t ddict_get_many(ddict_t *d, struct ddict_want *wants, size_t n, unsigned flags,
                       int timeout_ms) {
    struct get_call c;
    int rc = session_enter(d, &c.s, timeout_ms);
    if (rc < 0)
        return rc;
    if (flags & ~DDICT_WAIT)
        return dd_error(-EINVAL, "get of many with unknown flags 0x%x", flags);
    if (unlikely(c.s->working_set) && any_in_window(c.s, wants, n))
        return window_get_many(d, wants, n, flags, timeout_ms);
    c.d = d;
    c.linked = false;
    c.r = NULL;
    c.slot = NULL;
    c.silent = NULL;
    c.flags = flags;
    c.timeout_ms = timeout_ms;
    c.found = 0;
    call_deadline_init(&c.w, c.s, session_wait_ms(c.s, flags, timeout_ms));
    for (size_t at = 0; at < n; at += SLAB) {
        c.want = wants + at;
        c.n = n - at < SLAB ? (uint32_t)(n - at) : SLAB;
        slab_get(&c);
    }
    free(c.r);
    free(c.slot);
    free(c.silent);
    return (ssize_t)c.found;
}
