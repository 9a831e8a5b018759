/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_many.c - many puts under way at once. The pairs are distributed to the lanes of their
 * managers, and each ring is filled without waiting for the others. Pairs of one owner keep their
 * order, so the later of two puts of one key wins. Pairs for an owner that is held (PROTOCOL 2) are
 * put off, and pairs for other owners overtake them.
 */
#include "client_lane_inside.h"
#include "near.h"
#include "request.h"
#include "window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLAB 65536u /* pairs distributed at a time: bounds the memory of a call */
/* requests under way on one lane: more than a full ring of 1 KiB values */
#define WINDOW 1024u
/* pairs sent before the lock is released and the manager is woken */
#define TURN 64u

struct request_pool {
    struct request_pool *next;
    uint32_t n;
    struct request r[];
};
/* a pair of which only some pieces are sent, because its owner is held, or has lost what was sent */
struct put_aside {
    struct put_aside *next;
    struct request *r;
    struct outgoing out;
    struct iovec iov;
};
struct put_lane {
    struct node_manager *m;
    struct batch batch;
    /* all requests of the lane; pool_n of them, at first at most WINDOW */
    struct request_pool *pool;
    struct request *idle; /* those not under way */
    uint32_t pool_n;
    /* the pairs of this lane in order; the entries before `next` are reused: they begin with the
     * put_off pairs that are put off */
    uint32_t *order;
    uint32_t count, next, put_off, under_way;
    uint32_t holds;      /* lane.holds when it was last looked at */
    struct request *now; /* the pair being sent, perhaps in pieces; NULL: none */
    struct outgoing out;
    struct iovec iov;
    struct put_aside *put_aside;
};

struct put_call {
    struct session *s;
    struct ddict_pair *pairs; /* pairs of the slab */
    unsigned *owner;
    struct put_lane *lane; /* [nlocal] */
    size_t sent, stored;
    bool linked;   /* a pair is of a key whose value lies near who put it */
    bool progress; /* more was sent or answered, besides what was sent before */
    struct call_deadline w;
};

/* --- distribution to the lanes --- */

/* The index of the pair's lane, or -1 with the pair's status set. */
static int pair_lane(struct put_call *c, uint32_t i) {
    struct ddict_pair *p = &c->pairs[i];
    struct msg head;
    p->status = key_check(p->klen);
    if (p->status == 0)
        p->status = put_head(&head, 0, p->klen, p->vlen, p->flags);
    if (p->status < 0)
        return -1;
    uint64_t h = key_hash(p->key, p->klen);
    c->owner[i] = deal_owner(&c->s->deal, p->key, p->klen, h);
    return (int)(session_route(c->s, c->owner[i]) - c->s->local);
}

static int pairs_deal(struct put_call *c, uint32_t *order, int16_t *lane_of, uint32_t n) {
    uint32_t at = 0;
    for (unsigned l = 0; l < c->s->nlocal; l++)
        c->lane[l].count = c->lane[l].next = c->lane[l].put_off = 0;
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

/* Add n requests to the pool. */
static bool pool_grow(struct put_lane *l, uint32_t n) {
    struct request_pool *p = calloc(1, sizeof *p + n * sizeof p->r[0]);
    if (!p)
        return false;
    p->n = n;
    p->next = l->pool;
    l->pool = p;
    l->pool_n += n;
    for (uint32_t i = 0; i < n; i++) {
        p->r[i].next = l->idle;
        l->idle = &p->r[i];
    }
    return true;
}

/* Prepare the lane for a slab; nothing is under way. */
static int lane_ready(struct put_lane *l, struct node_manager *m) {
    uint32_t want = l->count < WINDOW ? l->count : WINDOW;
    l->m = m;
    return l->pool_n >= want || pool_grow(l, want - l->pool_n)
               ? 0
               : dd_error(-ENOMEM, "no memory for the requests of a put of many");
}

/* All requests are under way. If most of them wait for held owners, add more. Nothing more is sent
 * to held owners, so this happens rarely. */
static void pool_collect(struct put_lane *l) {
    uint32_t stuck = 0;
    for (const struct request_pool *p = l->pool; p; p = p->next)
        for (uint32_t i = 0; i < p->n; i++)
            stuck += !p->r[i].done && client_lane_manager_is_held(&l->m->lane, p->r[i].to);
    if (stuck >= l->pool_n / 2)
        pool_grow(l, WINDOW); /* without memory the lane waits until requests return */
}

/* --- sending and collecting, under the lane's lock --- */

/* Whether pairs for this owner have to wait now. */
static bool owner_waits(const struct put_lane *l, unsigned owner) {
    const struct put_aside *a = l->put_aside;
    while (a && a->out.head.manager != owner)
        a = a->next;
    return a || client_lane_manager_is_held(&l->m->lane, owner);
}

/* Choose the next pair that may go out; pairs before it are put off. */
static bool lane_next(struct put_call *c, struct put_lane *l, uint32_t *i) {
    struct client_lane *p = &l->m->lane;
    /* an owner may have been released: put all pairs that were put off in front again, in their
     * order */
    if (unlikely(l->put_off > 0) && l->holds != p->holds) {
        l->next -= l->put_off;
        memmove(l->order + l->next, l->order, l->put_off * sizeof *l->order);
        l->put_off = 0;
    }
    l->holds = p->holds;
    if (unlikely(!l->idle) && p->nheld > 0 && l->next < l->count)
        pool_collect(l);
    while (l->next < l->count && l->idle) {
        *i = l->order[l->next++];
        if (likely(p->nheld == 0 && !l->put_aside) || !owner_waits(l, c->owner[*i]))
            return true;
        l->order[l->put_off++] = *i;
    }
    return false;
}

static void pair_outgoing(const struct put_call *c, uint32_t i, struct outgoing *out,
                          struct iovec *iov) {
    const struct ddict_pair *p = &c->pairs[i];
    *iov = (struct iovec){.iov_base = (void *)(uintptr_t)p->val, .iov_len = p->vlen};
    *out = (struct outgoing){.key = p->key, .iov = iov, .niov = 1};
    put_head(&out->head, c->owner[i], p->klen, p->vlen, p->flags);
}

/* Make sure that a pair is in hand (l->now). False: none may go out now. */
static bool lane_begin(struct put_call *c, struct put_lane *l) {
    struct put_aside **at = &l->put_aside, *a;
    while ((a = *at) && !a->r->done &&
           client_lane_manager_is_held(&l->m->lane, a->out.head.manager))
        at = &a->next;
    if (unlikely(a != NULL)) {
        *at = a->next;
        l->out = a->out;
        l->iov = a->iov;
        l->out.iov = &l->iov;
        l->now = a->r;
        l->holds--; /* makes lane_next() look again at pairs put off behind this one */
        free(a);
        return true;
    }
    uint32_t i;
    if (!lane_next(c, l, &i))
        return false;
    struct request *r = l->idle;
    l->idle = r->next;
    memset(r, 0, sizeof *r);
    r->batch = &l->batch;
    r->index = i;
    pair_outgoing(c, i, &l->out, &l->iov);
    l->now = r;
    l->under_way++;
    return true;
}

/* The owner of the pair in hand is held: make way for other owners. False: no memory, so the pair
 * stays in hand. */
static bool lane_yield(struct put_lane *l) {
    if (l->out.begun) {
        struct put_aside *a = malloc(sizeof *a);
        if (!a)
            return false;
        *a = (struct put_aside){.next = l->put_aside, .r = l->now, .out = l->out, .iov = l->iov};
        l->put_aside = a;
    } else {
        /* In front: where it is to be sent from its header on, others of its key are put off. */
        memmove(l->order + 1, l->order, l->put_off++ * sizeof *l->order);
        l->order[0] = l->now->index;
        l->now->next = l->idle;
        l->idle = l->now;
        l->under_way--;
    }
    l->now = NULL;
    return true;
}

/* 1: the pair is sent; 2: it was put off or aside; 0: no room; or a negative code. */
static int lane_push(struct put_call *c, struct put_lane *l) {
    int rc = client_lane_push(&l->m->lane, &l->out, l->now);
    if (rc == 0 && l->now->need == NEED_GO)
        return lane_yield(l) ? 2 : 0;
    if (rc > 0) {
        l->now = NULL;
        c->sent++;
    }
    return rc;
}

static bool pair_goes_out(const struct put_lane *l, const struct request *r) {
    const struct put_aside *a = l->put_aside;
    while (a && a->r != r)
        a = a->next;
    return r == l->now || a;
}

/* Values that were sent are to be sent again. */
static void pairs_again(struct put_call *c, struct put_lane *l) {
    l->batch.rewound = false;
    for (struct request_pool *q = l->pool; q; q = q->next) {
        for (uint32_t k = 0; k < q->n; k++) {
            struct request *r = &q->r[k];
            if (!r->rewound || pair_goes_out(l, r))
                continue;
            struct put_aside *a = malloc(sizeof *a);
            l->batch.rewound |= !a; /* in the next turn */
            if (!a)
                continue;
            *a = (struct put_aside){.next = l->put_aside, .r = r};
            pair_outgoing(c, r->index, &a->out, &a->iov);
            a->out.head.id = r->id;
            a->out.begun = true;
            l->put_aside = a;
        }
    }
}

/* Take the answers that have arrived; returns their number. */
static unsigned lane_collect(struct put_call *c, struct put_lane *l) {
    unsigned n = 0;
    struct request *keep = NULL;
    for (struct request *r = l->batch.done, *next; r; r = next) {
        next = r->next;
        /* refused before all pieces were sent: client_lane_push() has to end it first */
        if (unlikely(pair_goes_out(l, r))) {
            r->next = keep;
            keep = r;
            continue;
        }
        struct ddict_pair *p = &c->pairs[r->index];
        p->status = r->status < 0 ? request_error(c->s, l->m, r, r->status) : 0;
        c->stored += p->status == 0;
        c->linked |= p->status == DDICT_ELINK;
        r->next = l->idle;
        l->idle = r;
        l->under_way--;
        n++;
    }
    l->batch.done = keep;
    return n;
}

/* Do one turn on a lane. 1: something moved, 0: nothing, or a negative code. */
static int lane_turn(struct put_call *c, struct put_lane *l) {
    struct client_lane *p = &l->m->lane;
    unsigned moved = 0;
    client_lane_lock(p);
    int rc = client_lane_drain(p);
    if (rc >= 0) {
        if (unlikely(l->batch.rewound))
            pairs_again(c, l);
        moved += lane_collect(c, l);
        c->progress |= moved > 0;
        rc = 0;
        for (unsigned k = 0; k < TURN; k++) {
            bool fresh = !l->now;
            if (fresh && !lane_begin(c, l))
                break;
            uint64_t before = l->out.sent;
            bool again = l->now->rewind != 0;
            rc = lane_push(c, l);
            bool more = rc == 1 || (rc == 0 && !fresh && l->out.sent != before);
            moved += more;
            c->progress |= more && !again;
            if (rc <= 0)
                break;
        }
    }
    client_lane_unlock(p);
    client_lane_wake(p);
    return rc < 0 ? rc : moved > 0;
}

static bool lane_over(const struct put_lane *l) {
    return l->next == l->count && l->put_off == 0 && l->under_way == 0;
}

/* --- the call --- */

/* Nothing moved on any lane: wait on the lane with the most pairs under way. */
static int call_wait(struct put_call *c) {
    struct put_lane *most = NULL;
    unsigned busy = 0;
    for (unsigned i = 0; i < c->s->nlocal; i++) {
        struct put_lane *l = &c->lane[i];
        if (lane_over(l))
            continue;
        busy++;
        if (!most || l->under_way > most->under_way)
            most = l;
    }
    int slice = call_deadline_slice(&c->w);
    if (slice < 0)
        return slice;
    uint32_t need = most->now && most->now->need != NEED_GO ? most->now->need : 0;
    return client_lane_wait_any(&most->m->lane, &most->batch, need, busy > 1 ? 1 : slice);
}

/* Give up all pairs under way. A pair that was sent completely may or may not be stored: its status
 * is code. The others are not stored, and keep -EINPROGRESS. */
static void lane_abandon(struct put_call *c, struct put_lane *l, int code) {
    struct client_lane *p = &l->m->lane;
    client_lane_lock(p);
    while (l->now || l->put_aside) {
        if (l->now && l->now->done) /* refused in the middle: tell its manager */
            client_lane_push(p, &l->out, l->now);
        l->now = NULL;
        struct put_aside *a = l->put_aside;
        if (!a)
            break;
        l->put_aside = a->next;
        l->out = a->out;
        l->now = a->r;
        free(a);
    }
    lane_collect(c, l);
    for (struct request_pool *q = l->pool; q; q = q->next) {
        for (uint32_t k = 0; k < q->n; k++) {
            struct request *r = &q->r[k];
            if (r->id == 0)
                continue;
            if (!r->sending)
                c->pairs[r->index].status = code;
            request_give_up(p, r);
        }
    }
    client_lane_unlock(p);
    client_lane_wake(p);
}

static void call_abandon(struct put_call *c, int code) {
    for (unsigned i = 0; i < c->s->nlocal; i++)
        if (c->lane[i].m)
            lane_abandon(c, &c->lane[i], code);
}

static int slab_put(struct put_call *c) {
    for (;;) {
        bool over = true, moved = false;
        c->progress = false;
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
        if (c->progress) { /* the timeout counts time without */
            c->w.started = false;
            continue;
        }
        int rc = moved ? call_deadline_slice(&c->w) : call_wait(c);
        if (rc < 0)
            return rc;
    }
}

/* Put the first n pairs of the slab that are to replace links, one by one. */
static void links_replace(struct put_call *c, ddict_t *d, uint32_t n, int timeout_ms) {
    for (uint32_t i = 0; i < n; i++) {
        struct ddict_pair *p = &c->pairs[i];
        struct iovec v = {.iov_base = (void *)(uintptr_t)p->val, .iov_len = p->vlen};
        if (p->status != DDICT_ELINK)
            continue;
        p->status = near_put(d, p->key, p->klen, &v, 1, p->flags, timeout_ms);
        c->stored += p->status == 0;
    }
    c->linked = false;
}

static int call_begin(struct put_call *c, uint32_t n, uint32_t **order, int16_t **lane_of) {
    c->lane = calloc(c->s->nlocal, sizeof *c->lane);
    c->owner = malloc(n * sizeof *c->owner);
    *order = malloc(n * sizeof **order);
    *lane_of = malloc(n * sizeof **lane_of);
    return c->lane && c->owner && *order && *lane_of
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
    for (size_t i = 0; i < n; i++)
        if (unlikely(pairs[i].flags & DDICT_NEAR) || window_has(c.s, pairs[i].key, pairs[i].klen))
            return window_put_many(d, pairs, n, timeout_ms); /* one by one */
    uint32_t *order = NULL;
    int16_t *lane_of = NULL;
    rc = call_begin(&c, n < SLAB ? (uint32_t)n : SLAB, &order, &lane_of);
    call_deadline_init(&c.w, c.s, timeout_ms);
    for (size_t at = 0; rc == 0 && at < n; at += SLAB) {
        uint32_t k = n - at < SLAB ? (uint32_t)(n - at) : SLAB;
        c.pairs = pairs + at;
        pairs_deal(&c, order, lane_of, k);
        for (uint32_t i = 0; i < k; i++)
            if (c.pairs[i].status == 0)
                c.pairs[i].status = -EINPROGRESS;
        for (unsigned l = 0; rc == 0 && l < c.s->nlocal; l++)
            if (c.lane[l].count > 0)
                rc = lane_ready(&c.lane[l], &c.s->local[l]);
        if (rc == 0)
            rc = slab_put(&c);
        if (unlikely(c.linked))
            links_replace(&c, d, k, timeout_ms);
        if (rc < 0) {
            call_abandon(&c, rc);
            for (size_t i = at; i < n; i++)
                if (i >= at + k || pairs[i].status == -EINPROGRESS)
                    pairs[i].status = -ECANCELED;
        }
    }
    for (unsigned l = 0; c.lane && l < c.s->nlocal; l++) {
        for (struct request_pool *p = c.lane[l].pool, *next; p; p = next) {
            next = p->next;
            free(p);
        }
    }
    free(c.lane);
    free(c.owner);
    free(order);
    free(lane_of);
    return rc < 0 && c.sent == 0 ? rc : (ssize_t)c.stored;
}
