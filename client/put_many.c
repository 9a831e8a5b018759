/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_many.c - many puts under way at once. The pairs are dealt out to the lanes of their managers; each ring is filled as far as it
 * goes without waiting for another. Pairs of one lane keep their order, so of two puts of one key the later one wins.
 */
#include "ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLAB   65536u /* pairs dealt out at a time: bounds the memory of a call */
#define WINDOW 1024u  /* requests under way on one lane: more than a full ring of 1 KiB values */
#define TURN \
    64u /* pairs sent under the lock before another thread may have it, and before the manager is woken */

struct put_lane {
    struct node_manager *m;
    struct batch batch;
    struct request *pool, *idle; /* pool_n requests, at most WINDOW; those not under way */
    uint32_t pool_n;
    uint32_t *order; /* pairs of this lane in order */
    uint32_t count, next, under_way;
    struct request *now; /* the pair that is going out, perhaps in pieces; NULL */
    struct outgoing out;
    struct iovec iov;
};

struct put_call {
    struct session *s;
    struct ddict_pair *pairs; /* of the slab */
    unsigned *owner;
    struct put_lane *lane; /* [nlocal] */
    size_t sent, stored;
    struct patience w;
};

/* --- dealing out --- */

/* Which lane, or -1 with the pair's status set. */
static int pair_lane(struct put_call *c, uint32_t i) {
    struct ddict_pair *p = &c->pairs[i];
    struct msg head;
    p->status = key_check(p->klen);
    if (p->status == 0)
        p->status = put_head(&head, 0, p->klen, p->vlen, p->flags);
    if (p->status < 0)
        return -1;
    uint64_t h = key_hash(p->key, p->klen);
    c->owner[i] = hash_owner(h, c->s->managers);
    return (int)(session_ask(c->s, c->owner[i]) - c->s->local);
}

static int deal(struct put_call *c, uint32_t *order, int16_t *lane_of, uint32_t n) {
    uint32_t at = 0;
    for (unsigned l = 0; l < c->s->nlocal; l++)
        c->lane[l].count = c->lane[l].next = 0;
    for (uint32_t i = 0; i < n; i++) {
        lane_of[i] = (int16_t)pair_lane(c, i);
        if (lane_of[i] >= 0)
            c->lane[lane_of[i]].count++;
    }
    for (unsigned l = 0; l < c->s->nlocal; l++) {
        c->lane[l].order = order + at;
        at += c->lane[l].count;
        c->lane[l].count = 0;
    }
    for (uint32_t i = 0; i < n; i++)
        if (lane_of[i] >= 0)
            c->lane[lane_of[i]].order[c->lane[lane_of[i]].count++] = i;
    return (int)at;
}

/* Before a slab, when nothing is under way. */
static int lane_ready(struct put_lane *l, struct node_manager *m) {
    uint32_t want = l->count < WINDOW ? l->count : WINDOW;
    l->m = m;
    if (l->pool_n >= want)
        return 0;
    free(l->pool);
    l->pool = calloc(want, sizeof *l->pool);
    l->pool_n = l->pool != NULL ? want : 0;
    l->idle = NULL;
    for (uint32_t i = 0; i < l->pool_n; i++) {
        l->pool[i].next = l->idle;
        l->idle = &l->pool[i];
    }
    return l->pool != NULL ? 0 : dd_error(-ENOMEM, "no memory for the requests of a put of many");
}

/* --- sending and collecting, under the port's lock --- */

/* 1 the current pair is out, 0 no room, or a negative code. */
static int lane_push(struct put_call *c, struct put_lane *l) {
    if (l->now == NULL) {
        uint32_t i = l->order[l->next];
        struct ddict_pair *p = &c->pairs[i];
        struct request *r = l->idle;
        l->idle = r->next;
        memset(r, 0, sizeof *r);
        r->batch = &l->batch;
        r->index = i;
        l->iov = (struct iovec){.iov_base = (void *)(uintptr_t)p->val, .iov_len = p->vlen};
        l->out = (struct outgoing){.key = p->key, .iov = &l->iov, .niov = 1};
        put_head(&l->out.head, c->owner[i], p->klen, p->vlen, p->flags);
        l->now = r;
        l->next++;
        l->under_way++;
    }
    int rc = port_push(&l->m->port, &l->out, l->now);
    if (rc > 0) {
        l->now = NULL;
        c->sent++;
    }
    return rc;
}

/* Take over the answers that have come; returns how many. */
static unsigned lane_collect(struct put_call *c, struct put_lane *l) {
    unsigned n = 0;
    struct request *keep = NULL;
    for (struct request *r = l->batch.done, *next; r != NULL; r = next) {
        next = r->next;
        if (r == l->now) { /* refused while its pieces are going out: port_push() ends it first */
            r->next = keep;
            keep = r;
            continue;
        }
        struct ddict_pair *p = &c->pairs[r->index];
        p->status = r->status < 0 ? request_error(c->s, l->m, r, r->status) : 0;
        c->stored += p->status == 0;
        r->next = l->idle;
        l->idle = r;
        l->under_way--;
        n++;
    }
    l->batch.done = keep;
    return n;
}

/* One turn on one lane: 1 something happened, 0 nothing, or a negative code. */
static int lane_turn(struct put_call *c, struct put_lane *l) {
    struct port *p = &l->m->port;
    unsigned moved = 0;
    port_lock(p);
    int rc = port_drain(p);
    if (rc >= 0) {
        moved += lane_collect(c, l);
        rc = 0;
        for (unsigned k = 0;
             k < TURN && (l->now != NULL || (l->next < l->count && l->idle != NULL)); k++) {
            uint64_t before = l->out.sent;
            bool fresh = l->now == NULL;
            rc = lane_push(c, l);
            moved += rc > 0 || (!fresh && l->out.sent != before);
            if (rc <= 0)
                break;
        }
    }
    port_unlock(p);
    port_wake(p);
    return rc < 0 ? rc : moved > 0;
}

static bool lane_over(const struct put_lane *l) {
    return l->next == l->count && l->under_way == 0;
}

/* --- the call --- */

/* Nothing moved on any lane: wait for the one with the most under way. */
static int call_wait(struct put_call *c) {
    struct put_lane *most = NULL;
    unsigned busy = 0;
    for (unsigned i = 0; i < c->s->nlocal; i++) {
        struct put_lane *l = &c->lane[i];
        if (lane_over(l))
            continue;
        busy++;
        if (most == NULL || l->under_way > most->under_way)
            most = l;
    }
    int slice = patience_slice(&c->w);
    if (slice < 0)
        return slice;
    uint32_t need = most->now != NULL && most->now->need != NEED_GO ? most->now->need : 0;
    return port_nap(&most->m->port, &most->batch, need, busy > 1 ? 1 : slice);
}

/* What is still under way is given up, what was not sent is marked. */
static void call_abandon(struct put_call *c, int code) {
    for (unsigned i = 0; i < c->s->nlocal; i++) {
        struct put_lane *l = &c->lane[i];
        if (l->m == NULL)
            continue;
        port_lock(&l->m->port);
        if (l->now != NULL && l->now->done) { /* refused in the middle: its manager is told */
            port_push(&l->m->port, &l->out, l->now);
            l->now = NULL;
        } else if (l->now != NULL && l->now->id == 0) { /* not even its header is out */
            c->pairs[l->now->index].status = code;
        }
        lane_collect(c, l);
        port_unlock(&l->m->port);
        for (uint32_t k = 0; k < l->pool_n && l->pool != NULL; k++) {
            struct request *r = &l->pool[k];
            if (r->batch == NULL || (r->id == 0 && !r->done))
                continue;
            port_give_up(&l->m->port, r);
        }
        port_lock(&l->m->port);
        lane_collect(c, l);
        port_unlock(&l->m->port);
    }
}

static int slab_put(struct put_call *c) {
    for (;;) {
        bool over = true, moved = false;
        for (unsigned i = 0; i < c->s->nlocal; i++) {
            struct put_lane *l = &c->lane[i];
            if (lane_over(l))
                continue;
            over = false;
            int rc = lane_turn(c, l);
            if (rc < 0)
                return rc;
            moved |= rc > 0;
        }
        if (over)
            return 0;
        if (moved) {
            c->w.started = false; /* the time allowed is time without progress */
            continue;
        }
        int rc = call_wait(c);
        if (rc < 0)
            return rc;
    }
}

static int call_begin(struct put_call *c, uint32_t n, uint32_t **order, int16_t **lane_of) {
    c->lane = calloc(c->s->nlocal, sizeof *c->lane);
    c->owner = malloc(n * sizeof *c->owner);
    *order = malloc(n * sizeof **order);
    *lane_of = malloc(n * sizeof **lane_of);
    return c->lane != NULL && c->owner != NULL && *order != NULL && *lane_of != NULL
               ? 0
               : dd_error(-ENOMEM, "no memory for a put of many");
}

ssize_t ddict_put_many(ddict_t *d, struct ddict_pair *pairs, size_t n, int timeout_ms) {
    struct put_call c = {0};
    int rc = session_enter(d, &c.s, timeout_ms);
    if (rc < 0)
        return rc;
    if (n == 0)
        return 0;
    if (timeout_ms == 0)
        return dd_error(-ETIMEDOUT, "managers must be asked, which a timeout of 0 does not allow");
    uint32_t *order = NULL;
    int16_t *lane_of = NULL;
    rc = call_begin(&c, n < SLAB ? (uint32_t)n : SLAB, &order, &lane_of);
    patience_init(&c.w, c.s, timeout_ms);
    for (size_t at = 0; rc == 0 && at < n; at += SLAB) {
        uint32_t k = n - at < SLAB ? (uint32_t)(n - at) : SLAB;
        c.pairs = pairs + at;
        deal(&c, order, lane_of, k);
        for (uint32_t i = 0; i < k; i++)
            if (c.pairs[i].status == 0)
                c.pairs[i].status = -EINPROGRESS;
        for (unsigned l = 0; rc == 0 && l < c.s->nlocal; l++)
            if (c.lane[l].count > 0)
                rc = lane_ready(&c.lane[l], &c.s->local[l]);
        if (rc == 0)
            rc = slab_put(&c);
        if (rc < 0) {
            call_abandon(&c, rc);
            for (size_t i = at; i < n; i++)
                if (i >= at + k || pairs[i].status == -EINPROGRESS)
                    pairs[i].status = rc;
        }
    }
    for (unsigned l = 0; c.lane != NULL && l < c.s->nlocal; l++)
        free(c.lane[l].pool);
    free(c.lane);
    free(c.owner);
    free(order);
    free(lane_of);
    return rc < 0 && c.sent == 0 ? rc : (ssize_t)c.stored;
}
