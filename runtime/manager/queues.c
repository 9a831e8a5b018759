/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queues.c - keys with several values: PUT with APPEND. The store has the values (LAYOUT 12), their
 * order and the limit of their number. Here are values beyond that limit: each waits in a block of
 * its own, unanswered, until there is room, its time is over, or its sender is gone. First come,
 * first served.
 */
#include "queues.h"

#include "answers.h"
#include "freeze.h"
#include "manager.h"
#include "pending.h"
#include "replica_flight.h"
#include "requester.h"
#include "results.h"
#include "subscriptions.h"
#include "waiters.h"
#include <base/clock.h>
#include <base/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_CHAINS 256u
#define ADMIT_MAX    256u /* waiting values that are let in at a time */
#define QUEUE_FLIES  2    /* a change is in flight, and the request with it */

struct push {
    struct pending pending;    /* first */
    struct push *next, **prev; /* of the queue */
    struct queue *queue;
    struct store_ref ref;
    uint64_t began;
};
struct queue { /* a queue for which values wait */
    struct queue *next;
    struct manager *m;
    struct push *first, **end;
    struct timer more; /* lets further values in */
    uint64_t hash;
};
struct queues {
    uint64_t n;
    struct queue *chain[QUEUE_CHAINS];
};

int queues_init(struct manager *m) {
    m->queues = calloc(1, sizeof *m->queues);
    return m->queues ? 0 : -ENOMEM;
}

static const struct item *queue_item(const struct queue *q) {
    return q->first->ref.item;
}

static struct queue *queue_find(struct manager *m, const void *key, uint32_t key_len,
                                uint64_t hash) {
    if (m->queues->n == 0)
        return NULL;
    struct queue *q = m->queues->chain[hash % QUEUE_CHAINS];
    while (q && (q->hash != hash || queue_item(q)->key_len != key_len ||
                 memcmp(queue_item(q)->key, key, key_len) != 0))
        q = q->next;
    return q;
}

static void queue_admit_later(struct timer *t);

static struct queue *queue_new(struct manager *m, uint64_t hash) {
    struct queue *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->m = m;
    q->hash = hash;
    q->end = &q->first;
    q->more.fire = queue_admit_later;
    q->next = m->queues->chain[hash % QUEUE_CHAINS];
    m->queues->chain[hash % QUEUE_CHAINS] = q;
    m->queues->n++;
    return q;
}

static void queue_free_when_empty(struct queue *q) {
    if (q->first)
        return;
    struct queue **at = &q->m->queues->chain[q->hash % QUEUE_CHAINS];
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    q->m->queues->n--;
    timer_clear(&q->m->timers, &q->more);
    free(q);
}

/* Its block and its queue are left to the caller; the queue may be empty now. */
static void push_free(struct push *p) {
    struct queue *q = p->queue;
    pending_end(&p->pending);
    *p->prev = p->next;
    if (p->next)
        p->next->prev = p->prev;
    else
        q->end = p->prev;
    free(p);
}

static void push_refuse(struct pending *pending, int status) {
    struct push *p = (struct push *)(void *)pending;
    struct queue *q = p->queue;
    struct store_ref ref = p->ref;
    pending_answers(pending);
    requester_reply(pending->requester, &pending->req, status, NULL);
    push_free(p); /* before its block: the ledger names no free one */
    store_abort(q->m->store, &ref);
    queue_free_when_empty(q);
}

static void push_late(struct pending *p) {
    push_refuse(p, -ETIMEDOUT);
}

static const struct pending_ops push_ops = {.late = push_late, .refuse = push_refuse};

/* --- what is stored --- */
static void put_answer(struct requester *a, const struct msg *req, uint64_t began,
                       uint64_t version) {
    struct manager *m = a->m;
    struct msg r;
    reply_init(&r, req->id, m->setup->id);
    r.version = version;
    requester_send(a, &r, NULL, 0);
    m->count->puts++;
    m->count->bytes_in += req->val_len;
    m->now = clock_ns();
    count_latency(m, DDICT_LATENCY_PUT, began, m->now);
}

struct limit { /* of a queue, as a request wants it */
    const void *key;
    uint64_t hash;
    struct store_ref *ref; /* of a PUT */
    uint64_t began;
    bool behind;          /* with a backup: values wait, so who is let in first sets it */
    struct store_queue q; /* what it is */
};

/* Set the limit of the queue to that of req, unless that is 0. Negative with a sentence: it has
 * another limit. QUEUE_FLIES: the change is in flight, and req with it. */
static int queue_limit(struct requester *a, const struct msg *req, struct limit *l) {
    struct manager *m = a->m;
    uint64_t most = req->version;
    if (most == 0 || most == l->q.most)
        return 0;
    if (l->q.most)
        return dd_error(-EINVAL, "the queue was made for at most %llu values, not for %llu",
                        (unsigned long long)l->q.most, (unsigned long long)most);
    if (l->behind)
        return 0;
    int e =
        m->flights ? flight_send(a, req, REPL_LIMIT, l->key, l->hash, l->ref, l->began, most) : 0;
    if (e > 0)
        return QUEUE_FLIES;
    if (e == 0)
        e = store_queue_limit(m->store, l->key, req->key_len, most);
    if (e == 0)
        l->q.most = most;
    if (e == 0 && m->flights)
        flight_made(m, req);
    return e < 0 && flight_fails(m, req) ? QUEUE_FLIES : e;
}

/* Whether the queue has room for the value in ref. 1: behind other values, or with *first as the
 * first; 0: no; QUEUE_FLIES: its limit is in flight first; or negative. */
static int queue_room(struct requester *a, const struct msg *req, struct store_ref *ref,
                      uint64_t began, bool behind, bool *first) {
    struct manager *m = a->m;
    const struct item *it = ref->item;
    struct limit l = {
        .key = it->key, .hash = it->hash, .ref = ref, .began = began, .behind = behind};
    struct store_ref there;
    store_queue_look(m->store, it->key, it->key_len, it->hash, &l.q);
    int e = queue_limit(a, req, &l);
    if (e != 0)
        return e;
    *first = store_find(m->store, it->key, it->key_len, &there) == DDICT_ENOKEY;
    return l.q.most == 0 || (*first ? 0 : 1) + l.q.more < l.q.most;
}

/* There is room (1): with a backup it is in flight first. As queue_room(). */
static int queue_sent(struct requester *a, const struct msg *req, struct store_ref *ref,
                      uint64_t began) {
    if (!a->m->flights)
        return 1;
    int e = flight_send(a, req, REPL_APPEND, ref->item->key, ref->item->hash, ref, began, 0);
    return e == 0 ? 1 : e > 0 ? QUEUE_FLIES : e;
}

/* As queue_room(), for a value that waited. */
static int push_judge(struct push *p, struct store_ref *ref, bool *first) {
    struct requester *a = p->pending.requester;
    struct manager *m = a->m;
    const struct msg *req = &p->pending.req;
    const struct item *it = ref->item;
    if (a->gone)
        return -ECANCELED;
    if (!m->flights)
        return queue_room(a, req, ref, p->began, false, first);
    if (flights_busy(m, it->key, it->key_len, it->hash))
        return 0;
    pending_answers(&p->pending);
    int rc = queue_room(a, req, ref, p->began, false, first);
    if (rc == 1)
        rc = queue_sent(a, req, ref, p->began);
    if (rc == 0)
        pending_stays(&p->pending);
    return rc;
}

/* Let the value in if there is room, or refuse it. False: there is none. */
static bool push_admit(struct push *p) {
    struct requester *a = p->pending.requester;
    struct manager *m = a->m;
    const struct msg *req = &p->pending.req;
    struct store_ref ref = p->ref;
    uint64_t version = 0;
    bool first = false;
    int rc = push_judge(p, &ref, &first);
    if (rc == 0)
        return false;
    if (rc == QUEUE_FLIES) { /* with its block and its entry */
        push_free(p);
        return true;
    }
    pending_answers(&p->pending);
    if (rc > 0)
        rc = first ? store_commit(m->store, &ref, STORE_NEW, &version)
                   : store_queue_push(m->store, &ref);
    if (rc < 0) {
        requester_reply(a, req, rc, request_full_text(m, rc, req->val_len));
        push_free(p);
        store_abort(m->store, &ref);
        return true;
    }
    if (faults.on)
        faults_step(STEP_CHANGED);
    requester_changed(a, req->id, version, NULL);
    put_answer(a, req, p->began, version);
    push_free(p); /* before what follows, as a record leaves SQ */
    if (first)
        subscriptions_put(m, ref.item, version);
    return true;
}

/* Let waiting values in while there is room. */
static void queue_admit(struct queue *q) {
    struct manager *m = q->m;
    unsigned n = 0;
    while (q->first && n < ADMIT_MAX && push_admit(q->first))
        n++;
    /* no memory for the timer: when the next value is removed */
    if (q->first && n == ADMIT_MAX && timer_after(&m->timers, &q->more, 0) == 0)
        return;
    queue_free_when_empty(q);
}

/* By timer, not for a request: the key may have been absent meanwhile, so its waiters are woken
 * here. */
static void queue_admit_later(struct timer *t) {
    struct queue *q = (struct queue *)(void *)((char *)t - offsetof(struct queue, more));
    struct manager *m = q->m;
    uint32_t key_len = queue_item(q)->key_len;
    uint64_t hash = q->hash;
    memcpy(m->key, queue_item(q)->key, key_len);
    queue_admit(q);
    waiters_wake(m, m->key, key_len, hash);
}

void queue_next(struct manager *m, const void *key, uint32_t key_len, uint64_t hash) {
    struct queue *q = queue_find(m, key, key_len, hash);
    if (q)
        queue_admit(q);
}

void queues_clear(struct manager *m) {
    for (unsigned i = 0; i < QUEUE_CHAINS && m->queues->n; i++)
        for (struct queue *q = m->queues->chain[i], *next; q; q = next) {
            next = q->next;
            timer_after(&m->timers, &q->more, 0);
        }
}

static int push_add(struct requester *a, const struct msg *req, const struct store_ref *ref,
                    uint64_t began, struct queue *q) {
    struct manager *m = a->m;
    struct push *p = calloc(1, sizeof *p);
    bool fresh = !q;
    if (p && !q)
        q = queue_new(m, ref->item->hash);
    /* a value in the spill is held: what else is known of it dies with the manager */
    const void *key = ref->fill ? NULL : ref->item->key;
    if (!p || !q || pending_begin(&p->pending, a, req, key, &push_ops) < 0) {
        if (q && fresh)
            queue_free_when_empty(q);
        free(p);
        return -ENOMEM;
    }
    pending_value(&p->pending, ref->off);
    p->queue = q;
    p->ref = *ref;
    p->began = began;
    p->prev = q->end;
    *q->end = p;
    q->end = &p->next;
    return 0;
}

bool queue_append(struct requester *a, const struct msg *req, struct store_ref *ref,
                  uint64_t began) {
    struct manager *m = a->m;
    const struct item *it = ref->item;
    struct queue *q = queue_find(m, it->key, it->key_len, it->hash);
    bool first = false;
    bool behind = q && !flight_commits(m, req);
    int e = queue_room(a, req, ref, began, behind && m->flights, &first);
    if (e == 1 && behind)
        e = 0; /* it goes behind the values that wait */
    if (e == 1 && first)
        return false;
    if (e == 1)
        e = queue_sent(a, req, ref, began);
    if (e == QUEUE_FLIES)
        return true;
    if (e > 0 && (e = store_queue_push(m->store, ref)) == 0) {
        if (faults.on)
            faults_step(STEP_CHANGED);
        requester_changed(a, req->id, 0, NULL);
        put_answer(a, req, began, 0);
        requester_taken(a, req->id);
        return true;
    }
    if (e == 0)
        e = req->flags & MSGF_WAIT && req->aux > 0 && !flight_for_nobody(a)
                ? push_add(a, req, ref, began, q)
                : -EAGAIN;
    if (e == 0 || flight_fails(m, req))
        return true;
    request_failed(a, req, e);
    request_given_up(a, req, ref);
    return true;
}

bool queue_resume(struct requester *a, const struct msg *req, const struct store_ref *ref) {
    const struct item *it = ref->item;
    struct queue *q = queue_find(a->m, it->key, it->key_len, it->hash);
    return push_add(a, req, ref, clock_ns(), q) == 0;
}

void queues_go_on(struct manager *m) {
    for (unsigned i = 0; i < QUEUE_CHAINS && m->queues->n; i++)
        for (struct queue *q = m->queues->chain[i], *next; q; q = next) {
            next = q->next;
            queue_admit_later(&q->more);
        }
}

void queue_open(struct requester *a, const struct msg *req, const void *key, uint64_t hash) {
    struct manager *m = a->m;
    struct limit l = {.key = key, .hash = hash, .began = clock_ns()};
    struct store_ref there;
    struct msg r;
    store_queue_look(m->store, key, req->key_len, hash, &l.q);
    if (m->shut && req->version && !l.q.most && !flight_is_own(m, req)) {
        freeze_refuse(a, req);
        return;
    }
    int e = queue_limit(a, req, &l);
    if (e < 0)
        request_failed(a, req, e);
    if (e != 0)
        return;
    reply_init(&r, req->id, m->setup->id);
    r.aux = l.q.more + (store_find(m->store, key, req->key_len, &there) == 0 ? 1 : 0);
    r.version = l.q.most;
    requester_send(a, &r, NULL, 0);
}

void queues_free(struct manager *m) {
    if (!m->queues)
        return;
    for (unsigned i = 0; i < QUEUE_CHAINS; i++)
        while (m->queues->chain[i]) {
            struct queue *q = m->queues->chain[i];
            while (q->first)
                push_free(q->first);
            queue_free_when_empty(q);
        }
    free(m->queues);
}
