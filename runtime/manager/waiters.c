/* SPDX-License-Identifier: Apache-2.0 */
/* waiters.c - requests that wait until their key exists, found by the key's hash when a put is published. First come, first served. */
#include <base/clock.h>
#include <manager/manager.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAITER_CHAINS 1024u /* a rank or two wait at a time; thousands are still short chains */
#define WAIT_US_MAX   (1ull << 50) /* 35 years: what is longer is for ever, and sums do not wrap */

struct waiter {
    struct asker *asker;
    struct waiter *a_next, **a_prev; /* of the asker */
    struct waiter *next, **prev;     /* of the chain */
    struct timer timer;
    struct msg req;
    uint64_t hash;
    uint8_t key[];
};
struct waiters {
    uint64_t n;
    struct waiter *chain[WAITER_CHAINS];
};

int waiters_init(struct manager *m) {
    m->waiters = calloc(1, sizeof *m->waiters);
    return m->waiters ? 0 : -ENOMEM;
}

void waiters_free(struct manager *m) {
    free(m->waiters);
}

static void waiter_free(struct waiter *w) {
    struct manager *m = w->asker->m;
    timer_clear(&m->timers, &w->timer);
    *w->a_prev = w->a_next;
    if (w->a_next)
        w->a_next->a_prev = w->a_prev;
    *w->prev = w->next;
    if (w->next)
        w->next->prev = w->prev;
    m->waiters->n--;
    free(w);
}

static void waiter_late(struct timer *t) {
    struct waiter *w = (struct waiter *)(void *)((char *)t - offsetof(struct waiter, timer));
    if (w->req.type != MSG_HEAD)
        w->asker->m->count->misses++;
    asker_reply(w->asker, &w->req, -ETIMEDOUT, NULL);
    waiter_free(w);
}

int waiter_add(struct asker *a, const struct msg *req, const void *key, uint64_t hash) {
    struct manager *m = a->m;
    struct waiter *w = calloc(1, sizeof *w + req->key_len);
    if (!w)
        return -ENOMEM;
    w->asker = a;
    w->req = *req;
    w->hash = hash;
    memcpy(w->key, key, req->key_len);
    w->timer.fire = waiter_late;
    uint64_t us = req->aux < WAIT_US_MAX ? req->aux : WAIT_US_MAX;
    if (timer_after(&m->timers, &w->timer, us * 1000) < 0) {
        free(w);
        return -ENOMEM;
    }
    w->a_next = a->waits;
    w->a_prev = &a->waits;
    if (w->a_next)
        w->a_next->a_prev = &w->a_next;
    a->waits = w;
    struct waiter **at = &m->waiters->chain[hash % WAITER_CHAINS];
    while (*at)
        at = &(*at)->next; /* to the end: first come, first served */
    *at = w;
    w->prev = at;
    m->waiters->n++;
    return 0;
}

void waiters_wake(struct manager *m, const void *key, uint32_t key_len, uint64_t hash) {
    if (m->waiters->n == 0)
        return;
    for (struct waiter *w = m->waiters->chain[hash % WAITER_CHAINS], *next; w; w = next) {
        next = w->next;
        if (w->asker->gone || w->hash != hash || w->req.key_len != key_len ||
            memcmp(w->key, key, key_len) != 0)
            continue;
        if (request_look(w->asker, &w->req, w->key) == DDICT_ENOKEY)
            return; /* a pop before us took it */
        waiter_free(w);
    }
}

bool waiter_cancel(struct asker *a, uint64_t id, int status) {
    for (struct waiter *w = a->waits; w; w = w->a_next) {
        if (w->req.id != id)
            continue;
        asker_reply(a, &w->req, status, NULL);
        waiter_free(w);
        return true;
    }
    return false;
}

void waiters_end(struct asker *a) {
    while (a->waits)
        waiter_free(a->waits);
}
