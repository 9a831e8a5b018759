/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiters.c - requests that wait until their key exists. A put that is published finds them by the
 * key's hash. First come, first served. A HEAD with RULE_IF waits until its key has another version:
 * it is answered by a put as the others are, and when the key is removed.
 *
 * A put answers as many as there is time for in its turn. The others are taken off the list at that
 * moment, with a pin that keeps the value, and answered in the next turns with this value, whatever
 * is put or deleted meanwhile. They end at the first POP that takes the value; requests behind it
 * wait on.
 */
#include "waiters.h"

#include "anew.h"
#include "answers.h"
#include "manager.h"
#include "pending.h"
#include "replica_flight.h"
#include "requester.h"
#include <base/clock.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* short chains even with thousands of awaited keys */
#define WAITER_CHAINS 1024u

struct waiter {
    struct pending pending; /* first */
    struct awaited *key;
    struct waiter *next, **prev; /* of the key, in order of arrival */
};
/* A key with waiting requests; or, once woken, the requests that are to be answered with the value
 * that was put. */
struct awaited {
    struct awaited *next, **prev; /* in the chain, or in the list of all that are woken */
    struct waiter *first, **end;
    size_t pops; /* how many of the waiters are POPs */
    bool woken;
    struct store_ref value; /* of a woken one: pinned */
    uint64_t hash;
    uint32_t len;
    uint8_t bytes[];
};
struct waiters {
    uint64_t keys;
    struct awaited *woken, **woken_end;
    struct awaited *chain[WAITER_CHAINS];
};

int waiters_init(struct manager *m) {
    m->waiters = calloc(1, sizeof *m->waiters);
    if (!m->waiters)
        return -ENOMEM;
    m->waiters->woken_end = &m->waiters->woken;
    return 0;
}

void waiters_free(struct manager *m) {
    free(m->waiters);
}

/* --- keys --- */
static struct awaited *awaited_find(struct manager *m, const void *key, uint32_t len,
                                    uint64_t hash) {
    struct awaited *k = m->waiters->chain[hash % WAITER_CHAINS];
    while (k && (k->hash != hash || k->len != len || memcmp(k->bytes, key, len) != 0))
        k = k->next;
    return k;
}

static void awaited_link(struct manager *m, struct awaited *k) {
    k->prev = &m->waiters->chain[k->hash % WAITER_CHAINS];
    k->next = *k->prev;
    if (k->next)
        k->next->prev = &k->next;
    *k->prev = k;
    m->waiters->keys++;
}

static struct awaited *awaited_new(struct manager *m, const void *key, uint32_t len,
                                   uint64_t hash) {
    struct awaited *k = calloc(1, sizeof *k + len);
    if (!k)
        return NULL;
    k->end = &k->first;
    k->hash = hash;
    k->len = len;
    memcpy(k->bytes, key, len);
    awaited_link(m, k);
    return k;
}

static void awaited_unlink(struct manager *m, struct awaited *k) {
    *k->prev = k->next;
    if (k->next)
        k->next->prev = k->prev;
    else if (k->woken)
        m->waiters->woken_end = k->prev;
    if (!k->woken)
        m->waiters->keys--;
}

static void awaited_free(struct manager *m, struct awaited *k) {
    awaited_unlink(m, k);
    if (k->woken)
        store_unpin(m->store, k->value.off);
    free(k);
}

/* --- who waits --- */
static void waiter_enter(struct awaited *k, struct waiter *w) {
    w->key = k;
    w->next = NULL;
    w->prev = k->end;
    *k->end = w;
    k->end = &w->next;
    k->pops += w->pending.req.type == MSG_POP;
}

static void waiter_leave(struct waiter *w) {
    struct awaited *k = w->key;
    *w->prev = w->next;
    if (w->next)
        w->next->prev = w->prev;
    else
        k->end = w->prev;
    k->pops -= w->pending.req.type == MSG_POP;
}

static void waiter_free(struct waiter *w) { /* frees its key, too, with the last waiter */
    struct manager *m = w->pending.requester->m;
    struct awaited *k = w->key;
    pending_end(&w->pending);
    waiter_leave(w);
    free(w);
    if (!k->first)
        awaited_free(m, k);
}

static void waiter_answer(struct pending *p, int status, const char *text) {
    pending_answers(p);
    requester_reply(p->requester, &p->req, status, text);
    waiter_free((struct waiter *)(void *)p);
}

static void waiter_refuse(struct pending *p, int status) {
    waiter_answer(p, status, NULL);
}

static void waiter_late(struct pending *p) {
    const struct awaited *k = ((struct waiter *)(void *)p)->key;
    /* The value came in time; one of the next turns answers. */
    if (k->woken)
        return;
    if (p->req.type != MSG_HEAD)
        p->requester->m->count->misses++;
    const char *lost = anew_lost_text(p->requester->m, k->hash);
    waiter_answer(p, lost ? DDICT_EKEYLOST : -ETIMEDOUT, lost);
}

static const struct pending_ops waiter_ops = {.late = waiter_late, .refuse = waiter_refuse};

int waiter_add(struct requester *a, const struct msg *req, const void *key, uint64_t hash) {
    struct manager *m = a->m;
    struct waiter *w = calloc(1, sizeof *w);
    struct awaited *k = w ? awaited_find(m, key, req->key_len, hash) : NULL;
    if (w && !k)
        k = awaited_new(m, key, req->key_len, hash);
    /* an entry is made, or taken over, when nothing else can fail: it ends behind the answer */
    if (!k || pending_begin(&w->pending, a, req, key, &waiter_ops) < 0) {
        if (k && !k->first)
            awaited_free(m, k);
        free(w);
        return -ENOMEM;
    }
    waiter_enter(k, w);
    return 0;
}

/* --- the key was put --- */
/* Answer the first waiter. Returns k if others are left to be answered, else NULL. */
static struct awaited *wake_first(struct manager *m, struct awaited *k) {
    struct waiter *w = k->first;
    struct requester *a = w->pending.requester;
    if (faults.on)
        faults_sleep(faults.wake_ms);
    /* an earlier pop took the value: the others wait on */
    pending_answers(&w->pending);
    if (!a->gone && m->up->again(a, &w->pending.req, k->bytes) == DDICT_ENOKEY) {
        pending_stays(&w->pending);
        return NULL;
    }
    bool last = !w->next;
    waiter_free(w);
    return last ? NULL : k;
}

static struct waiter *first_taker(const struct awaited *k, const struct store_ref *value) {
    struct waiter *w = k->pops ? k->first : NULL;
    while (w && (w->pending.requester->gone ||
                 !request_takes(w->pending.requester, &w->pending.req, value)))
        w = w->next;
    return w;
}

/* The turn has no time left: put off all waiters before the first POP that takes the value, or
 * answer that POP if it is the first. Returns the waiters that are left, as wake_first(). */
static struct awaited *wake_later(struct manager *m, struct awaited *k) {
    struct store_ref value;
    if (store_find(m->store, k->bytes, k->len, &value) < 0)
        return NULL;
    struct waiter *taker = first_taker(k, &value);
    /* without memory for a pin they are answered now */
    if (k->first == taker || store_pin(m->store, value.off) < 0)
        return wake_first(m, k);
    awaited_unlink(m, k);
    struct awaited *rest = taker ? awaited_new(m, k->bytes, k->len, k->hash) : NULL;
    if (taker && !rest) {
        awaited_link(m, k);
        store_unpin(m->store, value.off);
        return wake_first(m, k);
    }
    for (struct waiter *w = taker, *next; w; w = next) {
        next = w->next;
        waiter_leave(w);
        waiter_enter(rest, w);
    }
    for (struct waiter *w = k->first; w; w = w->next)
        pending_value(&w->pending, value.off);
    k->woken = true;
    k->value = value;
    k->next = NULL;
    k->prev = m->waiters->woken_end;
    *m->waiters->woken_end = k;
    m->waiters->woken_end = &k->next;
    return rest;
}

void waiters_wake(struct manager *m, const void *key, uint32_t key_len, uint64_t hash) {
    struct awaited *k = m->waiters->keys ? awaited_find(m, key, key_len, hash) : NULL;
    while (k && !(m->flights && flights_busy(m, key, key_len, hash)))
        k = share_spent(m) ? wake_later(m, k) : wake_first(m, k);
    if (m->anew)
        anew_wake_key(m, key, key_len, hash);
}

static void awaited_changed(struct manager *m, struct awaited *k) {
    for (struct waiter *w = k->first, *next; w; w = next) {
        struct requester *a = w->pending.requester;
        next = w->next;
        if (!w->pending.req.rule || a->gone)
            continue;
        pending_answers(&w->pending);
        if (m->up->again(a, &w->pending.req, k->bytes) == DDICT_ENOKEY)
            pending_stays(&w->pending);
        else
            waiter_free(w);
    }
}

void waiters_changed(struct manager *m, const void *key, uint32_t key_len, uint64_t hash) {
    struct awaited *k = m->waiters->keys ? awaited_find(m, key, key_len, hash) : NULL;
    if (k)
        awaited_changed(m, k);
}

void waiters_cleared(struct manager *m) {
    for (unsigned i = 0; i < WAITER_CHAINS && m->waiters->keys; i++)
        for (struct awaited *k = m->waiters->chain[i], *next; k; k = next) {
            next = k->next;
            awaited_changed(m, k);
        }
}

bool waiters_turn(struct manager *m) {
    const struct awaited *k = m->waiters->woken;
    if (!k)
        return false;
    share_for(m, DD_WAKE_NS);
    do {
        struct waiter *w = k->first;
        struct requester *a = w->pending.requester;
        if (faults.on)
            faults_sleep(faults.wake_ms);
        pending_answers(&w->pending);
        if (!a->gone)
            request_value(a, &w->pending.req, &k->value);
        waiter_free(w);
    } while ((k = m->waiters->woken) && !share_spent(m));
    return true;
}
