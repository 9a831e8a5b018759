/* SPDX-License-Identifier: Apache-2.0 */
/* pending.c - requests that are not answered yet, by their requester; and their deadlines. */
#include "pending.h"

#include "requester.h"

#include <errno.h>

/* 35 years: a longer time is for ever, and sums do not wrap */
#define WAIT_US_MAX (1ull << 50)

static void pending_late(struct timer *t) {
    struct pending *p = (struct pending *)(void *)((char *)t - offsetof(struct pending, timer));
    p->ops->late(p);
}

int pending_begin(struct pending *p, struct requester *a, const struct msg *req,
                  const struct pending_ops *ops) {
    uint64_t us = req->aux < WAIT_US_MAX ? req->aux : WAIT_US_MAX;
    p->timer.fire = pending_late;
    if (timer_after(&a->m->timers, &p->timer, us * 1000) < 0)
        return -ENOMEM;
    p->ops = ops;
    p->requester = a;
    p->req = *req;
    p->next = a->pending;
    p->prev = &a->pending;
    if (p->next)
        p->next->prev = &p->next;
    a->pending = p;
    manager_holds(a->m, 1);
    return 0;
}

void pending_end(struct pending *p) {
    timer_clear(&p->requester->m->timers, &p->timer);
    manager_holds(p->requester->m, -1);
    *p->prev = p->next;
    if (p->next)
        p->next->prev = p->prev;
}

bool pending_cancel(struct requester *a, uint64_t id, int status) {
    struct pending *p = a->pending;
    while (p && p->req.id != id)
        p = p->next;
    if (p)
        p->ops->refuse(p, status);
    return p;
}

void pending_requester_end(struct requester *a) {
    while (a->pending)
        a->pending->ops->refuse(a->pending, -ECANCELED);
}
