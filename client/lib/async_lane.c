/* SPDX-License-Identifier: Apache-2.0 */
/* async_lane.c - ops of sets on their lanes: they are sent when there is room, and given to their
 * sets when they are answered or ended. async.h has the rules. */
#include "async.h"
#include "client_lane_inside.h"
#include "request.h"
#include "view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* The most ops under way on one lane: [1] of those that wait for their keys, [0] of the others.
 * Half of what a manager takes from one lane (forward_table.c); the rest is left to other calls. */
static const uint32_t sent_max[2] = {256, 2048};
/* bytes of one value sent in a turn, so that the polling thread soon returns */
#define PUSH_BYTES (2u << 20)
#define ROUNDS     8 /* rounds of receiving and sending in a turn */

static void async_op_deliver(struct client_lane *p, struct async_op *op) {
    uint64_t len;
    if (op->counted)
        p->sent[op->waits]--;
    __atomic_store_n(&p->ops, p->ops - 1, __ATOMIC_RELAXED);
    if (unlikely(op->leads) && !async_op_refused(op, &len))
        async_op_lead_on(p, op);
    async_add_done(op->q, op);
}

void async_op_complete(struct client_lane *p, struct request *r) {
    struct async_op *op = (struct async_op *)r;
    if (!op->queued)
        async_op_deliver(p, op);
}

/* Before what was submitted behind it. */
void async_op_again(struct client_lane *p, struct request *r) {
    struct async_op *op = (struct async_op *)r;
    struct client_lane_ops *l = &p->unsent[op->waits];
    if (op->queued)
        return;
    op->next = l->first;
    op->prev = &l->first;
    if (op->next)
        op->next->prev = &op->next;
    else
        l->end = &op->next;
    l->first = op;
    op->queued = true;
    r->need = NEED_GO; /* it was not tried yet */
    __atomic_store_n(&p->unsent_n, p->unsent_n + 1, __ATOMIC_RELAXED);
}

bool async_op_send(struct async_op *op, uint64_t *ticket) {
    struct client_lane *p = &op->m->lane;
    client_lane_lock(p);
    if (op->pub.ticket != 0) {
        async_add_again(op->q, op);
    } else if (!async_add(op->q, op)) {
        client_lane_unlock(p);
        return false;
    }
    *ticket = op->pub.ticket;
    op->counted = false;
    async_op_queue(p, op);
    __atomic_store_n(&p->ops, p->ops + 1, __ATOMIC_RELAXED);
    client_lane_unlock(p);
    return true;
}

/* Send ops while there is room. True: there is room left, but the turn is over. */
static bool lane_send_ops(struct client_lane *p) {
    for (unsigned w = 0; w < 2; w++) {
        /* an answer that comes meanwhile may append followers */
        for (struct async_op **at = &p->unsent[w].first, *op; (op = *at);) {
            if (unlikely(p->nheld > 0) && !op->r.done &&
                client_lane_manager_is_held(p, op->out.head.manager)) {
                at = &op->next; /* ops for other managers go on */
                continue;
            }
            if (!op->counted && p->sent[w] >= sent_max[w])
                break;
            op->r.need = 0;
            op->out.pause = op->out.sent + PUSH_BYTES;
            int rc = client_lane_push(p, &op->out, &op->r);
            if (!op->counted && op->out.begun) {
                op->counted = true;
                p->sent[w]++;
            }
            if (rc == 0 && op->r.need == NEED_GO) {
                at = &op->next;
                continue;
            }
            if (rc == 0)
                return op->r.need == 0;
            async_op_unqueue(p, op);
            if (rc < 0) {
                request_give_up(p, &op->r);
                op->r.status = rc;
                op->r.text = strdup(dd_errmsg());
                async_op_deliver(p, op);
            } else if (op->r.done) { /* the manager refused it in the middle */
                async_op_deliver(p, op);
            }
        }
    }
    return false;
}

static bool lane_can_go_on(struct client_lane *p) {
    if (client_lane_has_records(p))
        return true;
    for (unsigned w = 0; w < 2; w++) {
        struct async_op *op = p->unsent[w].first;
        while (op && p->nheld > 0 && client_lane_manager_is_held(p, op->out.head.manager))
            op = op->next;
        if (op && op->r.need != 0 && (op->r.need == NEED_GO || client_lane_room(p, op->r.need)))
            return true;
    }
    return false;
}

bool client_lane_turn(struct client_lane *p) {
    bool more = false;
    client_lane_lock(p);
    p->turns = true;
    for (unsigned i = 0; i < ROUNDS; i++) {
        int n = client_lane_drain(p);
        more = lane_send_ops(p) || n < 0;
        if (p->ops == 0) {
            if (__atomic_load_n(&p->lane.page->client_sleeps, __ATOMIC_RELAXED) & LANE_POLLS)
                __atomic_fetch_and(&p->lane.page->client_sleeps, ~LANE_POLLS, __ATOMIC_RELAXED);
            more = false;
            break;
        }
        lane_poll_announce(&p->lane);
        if (n < 0 || more)
            break;
        more = lane_can_go_on(p);
        if (!more)
            break;
    }
    more = more && p->broken == 0;
    p->turns = false;
    client_lane_unlock(p);
    client_lane_wake(p);
    return more;
}

void client_lanes_turn(struct session *s, bool all) {
    bool more = false;
    for (unsigned i = 0; i < s->nlocal; i++) {
        struct client_lane *p = &s->local[i].lane;
        if (__atomic_load_n(&p->ops, __ATOMIC_RELAXED) > 0 &&
            (all || client_lane_has_records(p) ||
             __atomic_load_n(&p->unsent_n, __ATOMIC_RELAXED) > 0))
            more |= client_lane_turn(p);
    }
    if (more)
        eventfd_write(s->client_eventfd, 1); /* Q1: the polling thread turns again */
}

/* --- ends --- */

static struct async_op *async_op_find(struct ddict_async *q, uint64_t ticket) {
    uint32_t i = (uint32_t)ticket;
    struct async_op *op = i < q->cap ? q->op_table[i] : NULL;
    return op && op->pub.ticket == ticket && !op->done ? op : NULL;
}

bool async_op_end(struct ddict_async *q, uint64_t ticket, int code, const char *text) {
    pthread_mutex_lock(&q->lock);
    struct async_op *op = async_op_find(q, ticket);
    struct client_lane *p = op ? &op->m->lane : NULL;
    pthread_mutex_unlock(&q->lock);
    if (!p)
        return false;
    client_lane_lock(p);
    pthread_mutex_lock(&q->lock);
    bool mine = async_op_find(q, ticket) == op; /* and as we hold lane.lock it stays so */
    pthread_mutex_unlock(&q->lock);
    if (mine) {
        if (op->queued)
            async_op_unqueue(p, op);
        if (op->r.done) { /* refused, but LAST was not sent yet */
            if (op->r.sending)
                client_lane_notice_add(p, &op->r, MSG_ABORT, op->out.head.id);
        } else {
            request_give_up(p, &op->r);
            op->r.status = code;
            op->r.text = text ? strdup(text) : NULL;
        }
        async_op_deliver(p, op);
    }
    client_lane_unlock(p);
    client_lane_wake(p);
    return mine;
}

void async_op_settle(struct async_op *op) {
    client_lane_lock(&op->m->lane);
    async_op_lead_on(&op->m->lane, op);
    client_lane_unlock(&op->m->lane);
}

static int async_get_finish(struct async_op *op, int rc) {
    struct ddict_op *o = &op->pub;
    if (rc < 0 && rc != DDICT_ESMALL)
        return rc;
    o->vlen = op->r.reply.val_len;
    o->tag = op->r.reply.tag;
    if (o->vlen <= o->len)
        return rc;
    return dd_error(DDICT_ESMALL, "the value has %zu bytes, the buffer %zu", o->vlen, o->len);
}

static bool async_is_shut(struct ddict_async *q) {
    pthread_mutex_lock(&q->lock);
    bool shut = q->shut;
    pthread_mutex_unlock(&q->lock);
    return shut;
}

/* The value of the key lies near who put it (near.h): go on in this thread, which polls. */
static int async_link_finish(struct async_op *op) {
    struct ddict_op *o = &op->pub;
    if (async_is_shut(op->q))
        return dd_error(-ECANCELED, "these asynchronous requests were ended");
    o->key = op->key;
    o->timeout_ms = op->timeout_ms;
    int rc = async_op_at_once(__atomic_load_n(&op->q->d, __ATOMIC_RELAXED), o);
    o->key = NULL;
    return rc;
}

void async_op_finish(struct session *s, struct async_op *op) {
    struct ddict_op *o = &op->pub;
    /* the handle was detached before the pop could be repeated: the value was not removed */
    if (op->r.status == DDICT_ESMALL && o->what == DDICT_OP_POP) {
        op->r.status = -ECANCELED;
        op->r.text = strdup("the handle was detached");
    }
    bool linked = op->r.status == DDICT_ELINK;
    int rc = op->r.status < 0 ? request_error(s, op->m, &op->r, op->r.status) : 0;
    if (o->what == DDICT_OP_VIEW || o->what == DDICT_OP_POP)
        request_view(s, op->m, &op->r, op->slot, &o->view, &rc);
    else if (o->what == DDICT_OP_GET)
        rc = async_get_finish(op, rc);
    if (linked)
        rc = async_link_finish(op);
    o->status = rc;
    if (rc < 0 && rc != DDICT_ENOKEY && rc != DDICT_EEXISTS)
        o->text = strdup(dd_errmsg());
    op->finished = true;
}
