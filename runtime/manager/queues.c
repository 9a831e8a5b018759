/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queues.c - keys with more than one value: PUT with APPEND. The first value is the key's as any other's; those behind it are blocks that
 * were reserved and not published, kept here in their order. Whoever pops or deletes the first publishes the next. A value beyond the limit
 * that its sender named waits here, too, without an answer, until there is room, its time is over or its sender is gone.
 *
 * While a key is absent nothing of it is here, unless the index could not grow when the next was to be published: then the next look tries again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <manager/manager.h>

#define QUEUE_CHAINS 256u
#define WAIT_US_MAX (1ull << 50) /* as in waiters.c */

struct entry {
    struct entry *next;
    struct queue *queue;
    struct asker *asker;             /* NULL: it is answered */
    struct entry *a_next, **a_prev;  /* of the asker, until it is answered */
    struct timer timer;
    struct msg req;
    struct store_ref ref;
    uint64_t began;
};
struct queue {
    struct queue *next;
    struct manager *m;
    struct entry *first, **end;
    uint64_t hash, answered;         /* entries that are answered */
};
struct queues {
    uint64_t n;
    struct queue *chain[QUEUE_CHAINS];
};

int queues_init(struct manager *m) {
    m->queues = calloc(1, sizeof *m->queues);
    return m->queues ? 0 : -ENOMEM;
}

static const struct item *queue_item(const struct queue *q) { return q->first->ref.item; }

static struct queue *queue_find(struct manager *m, const void *key, uint32_t key_len, uint64_t hash) {
    if (m->queues->n == 0) return NULL;
    struct queue *q = m->queues->chain[hash % QUEUE_CHAINS];
    while (q && (q->hash != hash || queue_item(q)->key_len != key_len || memcmp(queue_item(q)->key, key, key_len) != 0)) q = q->next;
    return q;
}

static struct queue *queue_new(struct manager *m, uint64_t hash) {
    struct queue *q = calloc(1, sizeof *q);
    if (!q) return NULL;
    q->m = m;
    q->hash = hash;
    q->end = &q->first;
    q->next = m->queues->chain[hash % QUEUE_CHAINS];
    m->queues->chain[hash % QUEUE_CHAINS] = q;
    m->queues->n++;
    return q;
}

static void queue_free_when_empty(struct queue *q) {
    if (q->first) return;
    struct queue **at = &q->m->queues->chain[q->hash % QUEUE_CHAINS];
    while (*at != q) at = &(*at)->next;
    *at = q->next;
    q->m->queues->n--;
    free(q);
}

/* Its asker has, or needs, no answer any more. */
static void entry_answered(struct entry *e) {
    timer_clear(&e->queue->m->timers, &e->timer);
    *e->a_prev = e->a_next;
    if (e->a_next) e->a_next->a_prev = e->a_prev;
    e->asker = NULL;
}

static void entry_free(struct entry *e) { /* the block is somebody else's */
    struct queue *q = e->queue;
    struct entry **at = &q->first;
    if (e->asker) entry_answered(e);
    else q->answered--;
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    if (!*at) q->end = at;
    free(e);
}

static void entry_refuse(struct entry *e, int status) {
    struct queue *q = e->queue;
    asker_reply(e->asker, &e->req, status, NULL);
    store_abort(q->m->store, &e->ref);
    entry_free(e);
    queue_free_when_empty(q);
}

static void entry_late(struct timer *t) { entry_refuse((struct entry *)(void *)((char *)t - offsetof(struct entry, timer)), -ETIMEDOUT); }

static void entry_accept(struct manager *m, struct asker *a, const struct msg *req, uint64_t began, uint64_t version) {
    struct msg r;
    reply_init(&r, req->id, m->setup->id);
    r.version = version;
    asker_send(a, &r, NULL, 0);
    m->count->puts++;
    m->count->bytes_in += req->val_len;
    m->now = clock_ns();
    count_latency(m, DDICT_OP_PUT, began, m->now);
}

/* The key is absent: its next value. False when there is none, or no room in the index. */
static bool queue_publish(struct queue *q) {
    struct manager *m = q->m;
    struct entry *e = q->first;
    while (e && e->asker && q->answered) e = e->next;
    if (!e) return false;
    uint64_t version;
    struct store_request who = {.client = e->asker ? e->asker->who : 0, .request = e->req.id};
    int rc = store_commit(m->store, &e->ref, STORE_NEW, who, &version);
    if (rc < 0) {
        log_warn("a queue has values that can not be published now: %s", dd_strerror(rc));
        return false;
    }
    if (e->asker) entry_accept(m, e->asker, &e->req, e->began, version);
    feeds_put(m, e->ref.item, version);
    entry_free(e);
    return true;
}

/* There may be room for those that wait. */
static void queue_admit(struct queue *q) {
    for (struct entry *e = q->first; e; e = e->next) {
        if (!e->asker) continue;
        if (1 + q->answered >= e->req.version) break; /* first come, first served */
        struct asker *a = e->asker;
        entry_answered(e);
        q->answered++;
        entry_accept(q->m, a, &e->req, e->began, 0);
    }
}

static bool queue_go_on(struct queue *q) {
    bool found = queue_publish(q);
    queue_admit(q);
    queue_free_when_empty(q);
    return found;
}

bool queue_next(struct manager *m, const void *key, uint32_t key_len, uint64_t hash) {
    struct queue *q = queue_find(m, key, key_len, hash);
    return q && queue_go_on(q);
}

static void queue_empty(struct queue *q) {
    for (struct entry *e = q->first, *next; e; e = next) {
        next = e->next;
        if (e->asker) continue;
        store_abort(q->m->store, &e->ref);
        entry_free(e);
    }
    if (q->first) queue_go_on(q);
    else queue_free_when_empty(q);
}

void queue_drop(struct manager *m, const void *key, uint32_t key_len, uint64_t hash) {
    struct queue *q = queue_find(m, key, key_len, hash);
    if (q) queue_empty(q);
}

void queues_clear(struct manager *m) {
    for (unsigned i = 0; i < QUEUE_CHAINS && m->queues->n; i++)
        for (struct queue *q = m->queues->chain[i], *next; q; q = next) {
            next = q->next;
            queue_empty(q);
        }
}

uint64_t queue_more(struct manager *m, const struct item *it) {
    struct queue *q = queue_find(m, it->key, it->key_len, it->hash);
    return q ? q->answered : 0;
}

static int entry_add(struct asker *a, const struct msg *req, const struct store_ref *ref, uint64_t began, bool waits, struct queue *q) {
    struct manager *m = a->m;
    struct entry *e = calloc(1, sizeof *e);
    bool fresh = !q;
    if (e && !q) q = queue_new(m, ref->item->hash);
    if (e) e->timer.fire = entry_late;
    uint64_t us = req->aux < WAIT_US_MAX ? req->aux : WAIT_US_MAX;
    if (!e || !q || (waits && timer_after(&m->timers, &e->timer, us * 1000) < 0)) {
        if (q && fresh) queue_free_when_empty(q);
        free(e);
        return -ENOMEM;
    }
    e->queue = q;
    e->req = *req;
    e->ref = *ref;
    e->began = began;
    *q->end = e;
    q->end = &e->next;
    if (!waits) {
        q->answered++;
        entry_accept(m, a, req, began, 0);
        return 0;
    }
    e->asker = a;
    e->a_next = a->appends;
    e->a_prev = &a->appends;
    if (e->a_next) e->a_next->a_prev = &e->a_next;
    a->appends = e;
    return 0;
}

void queue_append(struct asker *a, const struct msg *req, struct store_ref *ref, uint64_t began) {
    struct manager *m = a->m;
    const struct item *it = ref->item;
    struct store_ref there;
    struct queue *q = queue_find(m, it->key, it->key_len, it->hash);
    bool present = store_find(m->store, it->key, it->key_len, &there) == 0;
    if (!present && !q) {
        struct msg first = *req;
        first.flags &= (uint16_t)~(MSGF_APPEND | MSGF_WAIT);
        request_commit(a, &first, ref, began);
        return;
    }
    uint64_t n = (present ? 1 : 0) + (q ? q->answered : 0);
    bool fits = req->version == 0 || n < req->version, waits = !fits && req->flags & MSGF_WAIT && req->aux > 0;
    int e = fits || waits ? entry_add(a, req, ref, began, waits, q) : -EAGAIN;
    if (e < 0) {
        asker_reply(a, req, e, NULL);
        store_abort(m->store, ref);
    } else if (!present) queue_next(m, it->key, it->key_len, it->hash);
}

bool queue_cancel(struct asker *a, uint64_t id, int status) {
    for (struct entry *e = a->appends; e; e = e->a_next) {
        if (e->req.id != id) continue;
        entry_refuse(e, status);
        return true;
    }
    return false;
}

void queue_asker_end(struct asker *a) {
    while (a->appends) entry_refuse(a->appends, -ECANCELED);
}

void queues_free(struct manager *m) {
    if (!m->queues) return;
    for (unsigned i = 0; i < QUEUE_CHAINS; i++)
        while (m->queues->chain[i]) {
            struct queue *q = m->queues->chain[i];
            while (q->first) entry_free(q->first);
            queue_free_when_empty(q);
        }
    free(m->queues);
}
