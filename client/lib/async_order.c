/* SPDX-License-Identifier: Apache-2.0 */
/* async_order.c - ops of one key in the order of their submission: what follows one that may have to
 * be sent again (async.h, Q4). All is to be called under lane.lock. */
#include "async.h"
#include "client_lane_inside.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* --- lists of ops --- */

static void ops_append(struct client_lane_ops *l, struct async_op *op) {
    op->next = NULL;
    op->prev = l->end;
    *op->prev = op;
    l->end = &op->next;
    op->queued = true;
}

static void ops_remove(struct client_lane_ops *l, struct async_op *op) {
    *op->prev = op->next;
    if (op->next)
        op->next->prev = op->prev;
    else
        l->end = op->prev;
    op->queued = false;
}

static void unsent_add(struct client_lane *p, struct async_op *op) {
    ops_append(&p->unsent[op->waits], op);
    /* written only under lock, but read without it */
    __atomic_store_n(&p->unsent_n, p->unsent_n + 1, __ATOMIC_RELAXED);
}

/* --- ops that others follow --- */

static bool is_same_key(const struct async_op *a, const struct async_op *b) {
    size_t len = a->out.head.key_len;
    return a->hash == b->hash && a->q == b->q && len == b->out.head.key_len &&
           memcmp(a->key, b->key, len) == 0;
}

static struct async_op **leaders_bucket(struct client_lane *p, uint64_t hash) {
    return p->leaders ? &p->leaders[hash % p->leaders_cap]
                      : &p->few_leaders[hash % CLIENT_LANE_LEADERS];
}

static void leader_add(struct async_op **bucket, struct async_op *op) {
    op->chain = *bucket;
    *bucket = op;
}

static void leaders_grow(struct client_lane *p) {
    struct async_op **from = p->leaders ? p->leaders : p->few_leaders;
    uint32_t n = p->leaders ? p->leaders_cap : CLIENT_LANE_LEADERS, cap = 4 * n;
    struct async_op **to = p->leaders_n > n ? calloc(cap, sizeof *to) : NULL;
    if (!to) /* without memory the chains become longer */
        return;
    for (uint32_t i = 0; i < n; i++)
        for (struct async_op *op = from[i], *next; op; op = next) {
            next = op->chain;
            leader_add(&to[op->hash % cap], op);
        }
    free(p->leaders);
    p->leaders = to;
    p->leaders_cap = cap;
}

/* The place in the table of the op that leads the ops of this key and set. */
static struct async_op **leader_at(struct client_lane *p, const struct async_op *op) {
    struct async_op **at = leaders_bucket(p, op->hash);
    while (*at && !is_same_key(*at, op))
        at = &(*at)->chain;
    return at;
}

/* From now on it leads. rest: ops that follow it already, or NULL; end: of that list. */
static void lead(struct client_lane *p, struct async_op *op, struct async_op *rest,
                 struct async_op **end) {
    leaders_grow(p);
    leader_add(leaders_bucket(p, op->hash), op);
    op->leads = true;
    p->leaders_n++;
    op->followers.first = rest;
    op->followers.end = rest ? end : &op->followers.first;
    if (rest)
        rest->prev = &op->followers.first;
}

void async_op_queue(struct client_lane *p, struct async_op *op) {
    struct async_op *leader = NULL;
    bool again = op->leads; /* it is sent again, and its place was kept */
    if (unlikely(p->leaders_n > 0) && op->ordered && !again)
        leader = *leader_at(p, op);
    op->follows = leader != NULL;
    if (leader) {
        ops_append(&leader->followers, op);
        return;
    }
    unsent_add(p, op);
    if (op->repeats && !again)
        lead(p, op, NULL, NULL);
}

void async_op_unqueue(struct client_lane *p, struct async_op *op) {
    if (op->follows) {
        ops_remove(&(*leader_at(p, op))->followers, op);
        op->follows = false;
        return;
    }
    ops_remove(&p->unsent[op->waits], op);
    __atomic_store_n(&p->unsent_n, p->unsent_n - 1, __ATOMIC_RELAXED);
}

bool async_op_refused(const struct async_op *op, uint64_t *len) {
    return op->r.status == DDICT_ESMALL && op->out.head.type == MSG_POP &&
           request_pop_refused(&op->r, len);
}

void async_op_lead_on(struct client_lane *p, struct async_op *op) {
    struct async_op *next = op->followers.first;
    bool any = next != NULL;
    *leader_at(p, op) = op->chain;
    op->leads = false;
    p->leaders_n--;
    while (next) {
        struct async_op *f = next;
        next = f->next;
        f->follows = false;
        unsent_add(p, f);
        if (f->repeats) {
            lead(p, f, next, op->followers.end);
            break;
        }
    }
    if (any && !p->turns)
        eventfd_write(op->q->session->client_eventfd, 1); /* Q1: whoever polls sends them */
}
