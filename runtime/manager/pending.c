/* SPDX-License-Identifier: Apache-2.0 */
/* pending.c - requests that are not answered yet, by their requester; and their deadlines. */
#include "pending.h"

#include "ledger.h"
#include "requester.h"
#include "results.h"
#include <base/clock.h>

#include <errno.h>

/* 35 years: a longer time is for ever, and sums do not wrap */
#define WAIT_US_MAX (1ull << 50)

static void pending_late(struct timer *t) {
    struct pending *p = (struct pending *)(void *)((char *)t - offsetof(struct pending, timer));
    p->ops->late(p);
}

static bool changes_for_proxy(const struct pending *p) {
    const struct requester *a = p->requester;
    return p->req.type != MSG_GET && p->req.type != MSG_HEAD && p->req.type != MSG_EVENTS &&
           a->kind == REQUESTER_PEER && a->m->setup->results;
}

uint64_t pending_ns(const struct msg *req) {
    return (req->aux < WAIT_US_MAX ? req->aux : WAIT_US_MAX) * 1000;
}

void pending_hand(struct pending *p, struct requester *to) {
    p->requester = to;
    p->next = to->pending;
    p->prev = &to->pending;
    if (p->next)
        p->next->prev = &p->next;
    to->pending = p;
}

static void pending_unlink(struct pending *p) {
    *p->prev = p->next;
    if (p->next)
        p->next->prev = p->prev;
}

void pending_move(struct pending *p, struct requester *to) {
    pending_unlink(p);
    pending_hand(p, to);
}

/* The entry of the request that is being answered, which waits on in another way; NULL: it has none. */
static struct ledger_entry *entry_take_over(struct manager *m) {
    struct ledger_entry *e = *m->answering;
    *m->answering = NULL;
    m->answering = NULL;
    return e;
}

void pending_add(struct pending *p, struct requester *a, const struct msg *req, const void *key,
                 uint64_t deadline, const struct pending_ops *ops) {
    struct manager *m = a->m;
    p->ops = ops;
    p->req = *req;
    pending_hand(p, a);
    p->entry = a->kind == REQUESTER_LANE && m->answering
                   ? entry_take_over(m)
                   : requester_enter(a, req, key, NULL, deadline);
}

int pending_begin(struct pending *p, struct requester *a, const struct msg *req, const void *key,
                  const struct pending_ops *ops) {
    uint64_t ns = pending_ns(req);
    p->timer.fire = pending_late;
    if (timer_after(&a->m->timers, &p->timer, ns) < 0)
        return -ENOMEM;
    p->ops = ops;
    p->req = *req;
    pending_hand(p, a);
    p->entry = requester_enter(a, req, key, NULL, clock_ns() + ns);
    return 0;
}

void pending_end(struct pending *p) {
    struct manager *m = p->requester->m;
    timer_clear(&m->timers, &p->timer);
    if (p->entry)
        requester_entry_end(m, &p->entry);
    else if (changes_for_proxy(p))
        store_begin(m->store, NULL); /* the next change is not its */
    if (m->answering == &p->entry)
        m->answering = NULL;
    pending_unlink(p);
}

void pending_answers(struct pending *p) {
    if (p->requester->gone)
        return;
    if (p->entry)
        requester_begin(p->requester, &p->entry);
    else if (changes_for_proxy(p))
        results_begin(p->requester, &p->req);
    else if (p->requester->kind == REQUESTER_LANE)
        p->requester->m->answering = &p->entry; /* it has none, and nor has who takes it over */
}

void pending_stays(struct pending *p) {
    if (p->entry || changes_for_proxy(p))
        store_begin(p->requester->m->store, NULL);
    p->requester->m->answering = NULL;
}

void pending_value(struct pending *p, uint64_t off) {
    if (p->entry)
        p->entry->value = off;
}

static struct pending *pending_find(const struct requester *a, uint64_t id) {
    struct pending *p = a->pending;
    while (p && p->req.id != id)
        p = p->next;
    return p;
}

bool pending_cancel(struct requester *a, uint64_t id, int status) {
    struct pending *p = pending_find(a, id);
    if (p)
        p->ops->refuse(p, status);
    return p;
}

bool pending_knows(const struct requester *a, uint64_t id) {
    return pending_find(a, id);
}

void pending_requester_end(struct requester *a) {
    while (a->pending)
        a->pending->ops->refuse(a->pending, -ECANCELED);
}
