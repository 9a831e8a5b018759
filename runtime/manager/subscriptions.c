/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subscriptions.c - events of keys with a prefix, for clients that ask for them (EVENTS). A
 * subscription is a prefix and its last events, numbered; all clients that ask for the same prefix
 * share it, and each says from which number on. Nothing is kept for a client but its waiting
 * request, so a slow client costs nothing. It is told what it missed: where the first event that is
 * kept has a higher number than the client asked for, the difference.
 *
 * Without subscriptions a put reads one word. With any number of them it looks up its key's
 * beginning once for each length of prefix. A put answers as many waiting requests as there is time
 * for in its turn; the next turns answer the others in order, with all events until then.
 */
#include "subscriptions.h"

#include "manager.h"
#include "pending.h"
#include "requester.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/hash.h>
#include <base/vec.h>
#include <wire/event.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SUBSCRIPTION_EVENTS  4096u        /* of one subscription; a power of two */
#define SUBSCRIPTION_BYTES   (1u << 20)   /* of their keys, likewise */
#define NUMBERS_ANEW         (1ull << 48) /* more events than the first primary ever has, */
#define NUMBERS_OF_EPOCH     (1ull << 40) /* and than each that follows it */
#define RING_FIRST           4u /* events that a new subscription has room for; a power of two */
#define SUBSCRIPTION_KEEP_MS 60000u /* without a request, then the subscription ends */
#define REPLY_BYTES          65536u /* of one answer; more if one key is longer */

struct event {
    struct subscription *subscription;
    struct event *older, *newer; /* by age, of all subscriptions */
    uint64_t version, val_len;
    uint32_t key_len;
    uint8_t kind, tag;
    uint8_t key[];
};
struct listener {           /* a waiting EVENTS */
    struct pending pending; /* first */
    struct subscription *subscription;
    struct listener *next, **prev; /* of the subscription */
    uint64_t came;                 /* end of the subscription at that time */
};
struct subscription {
    struct subscription *next, **prev;
    struct subscription *chain; /* in its bucket */
    uint64_t hash;
    struct manager *m;
    struct listener *listeners, **listeners_end; /* in order of arrival */
    /* list of subscriptions with listeners to be answered; due_prev NULL: not in it */
    struct subscription *due_next, **due_prev;
    struct timer idle;
    uint64_t clears;     /* number of clears for which it has events */
    uint64_t first, end; /* numbers of the events that are kept: first .. end - 1 */
    size_t bytes;
    struct event **ring; /* [cap], by the event's number */
    uint32_t cap;
    uint32_t prefix_len;
    uint8_t prefix[];
};
struct length {
    uint32_t len, n;
}; /* how many prefixes have this length */
struct subscriptions {
    struct subscription *list;
    struct subscription **bucket; /* [buckets], power of two */
    size_t n, buckets;
    struct length *length; /* [lengths], the shortest first */
    size_t lengths, lengths_cap;
    struct event *oldest, *newest;
    uint64_t bytes, prefix_bytes; /* of events; of subscriptions */
    /* no event of a subscription that has ended had a number above this */
    uint64_t last;
    /* so far. Each subscription gets an event for each, before any later event */
    uint64_t clears;
    uint64_t telling; /* clears for which the subscriptions before `tell` have events */
    /* the next subscription to get events for clears; NULL: all have them */
    struct subscription *tell;
    struct subscription *due, **due_end;
};

int subscriptions_init(struct manager *m) {
    m->subscriptions = calloc(1, sizeof *m->subscriptions);
    if (!m->subscriptions)
        return -ENOMEM;
    m->subscriptions->due_end = &m->subscriptions->due;
    m->subscriptions->last = m->setup->page->events; /* of earlier lives */
    return 0;
}

/* --- the index --- */
static uint64_t prefix_hash(const uint8_t *prefix, uint32_t len) {
    return key_hash(prefix, len) ^ len * HASH_1;
}

static struct subscription *subscription_find(const struct subscriptions *t, const uint8_t *prefix,
                                              uint32_t len) {
    uint64_t hash = prefix_hash(prefix, len);
    struct subscription *f = t->buckets ? t->bucket[hash & (t->buckets - 1)] : NULL;
    while (f && (f->hash != hash || f->prefix_len != len || memcmp(f->prefix, prefix, len) != 0))
        f = f->chain;
    return f;
}

static bool buckets_grow(struct subscriptions *t) {
    if (t->n < t->buckets)
        return true;
    size_t n = t->buckets ? 2 * t->buckets : 64;
    struct subscription **b = calloc(n, sizeof *b);
    if (!b)
        return t->buckets > 0; /* longer chains do no harm */
    for (struct subscription *f = t->list; f; f = f->next) {
        f->chain = b[f->hash & (n - 1)];
        b[f->hash & (n - 1)] = f;
    }
    free(t->bucket);
    t->bucket = b;
    t->buckets = n;
    return true;
}

static bool length_add(struct subscriptions *t, uint32_t len) {
    size_t i = 0;
    while (i < t->lengths && t->length[i].len < len)
        i++;
    if (i < t->lengths && t->length[i].len == len) {
        t->length[i].n++;
        return true;
    }
    if (VEC_ROOM(&t->length, &t->lengths_cap, t->lengths + 1, 8) < 0)
        return false;
    memmove(t->length + i + 1, t->length + i, (t->lengths - i) * sizeof *t->length);
    t->length[i] = (struct length){len, 1};
    t->lengths++;
    return true;
}

static void length_remove(struct subscriptions *t, uint32_t len) {
    size_t i = 0;
    while (t->length[i].len != len)
        i++;
    if (--t->length[i].n > 0)
        return;
    t->lengths--;
    memmove(t->length + i, t->length + i + 1, (t->lengths - i) * sizeof *t->length);
}

void subscriptions_anew(struct manager *m, uint64_t epoch) {
    struct subscriptions *t = m->subscriptions;
    uint64_t from = NUMBERS_ANEW + epoch * NUMBERS_OF_EPOCH;
    if (t->last < from)
        t->last = m->setup->page->events = from;
}

/* --- events that are kept --- */
/* In memory that outlives the manager: numbers only grow. */
static void number_keep(const struct subscription *f) {
    struct manager_page *page = f->m->setup->page;
    if (f->end > page->events)
        page->events = f->end;
}

static size_t event_bytes(const struct event *h) {
    return sizeof *h + h->key_len;
}

static bool ring_resize(struct subscription *f, uint32_t cap) {
    struct event **r = malloc(cap * sizeof *r);
    if (!r)
        return false;
    for (uint64_t n = f->first; n < f->end; n++)
        r[n & (cap - 1)] = f->ring[n & (f->cap - 1)];
    free(f->ring);
    f->m->subscriptions->prefix_bytes += ((uint64_t)cap - f->cap) * sizeof *r;
    f->ring = r;
    f->cap = cap;
    return true;
}

static void subscription_drop_first(struct subscription *f) {
    struct subscriptions *t = f->m->subscriptions;
    struct event *h = f->ring[f->first++ & (f->cap - 1)];
    f->bytes -= h->key_len;
    t->bytes -= event_bytes(h);
    *(h->older ? &h->older->newer : &t->oldest) = h->newer;
    *(h->newer ? &h->newer->older : &t->newest) = h->older;
    free(h);
    /* its last burst of events is long ago */
    if (f->cap > RING_FIRST && f->end - f->first < f->cap / 8)
        ring_resize(f, f->cap / 2);
}

static void subscription_due(struct subscription *f) {
    struct subscriptions *t = f->m->subscriptions;
    if (f->due_prev)
        return;
    f->due_next = NULL;
    f->due_prev = t->due_end;
    *t->due_end = f;
    t->due_end = &f->due_next;
}

static void subscription_not_due(struct subscription *f) {
    if (!f->due_prev)
        return;
    *f->due_prev = f->due_next;
    if (f->due_next)
        f->due_next->due_prev = f->due_prev;
    else
        f->m->subscriptions->due_end = f->due_prev;
    f->due_prev = NULL;
}

static void subscription_free(struct subscription *f) {
    struct subscriptions *t = f->m->subscriptions;
    struct subscription **at = &t->bucket[f->hash & (t->buckets - 1)];
    while (*at != f)
        at = &(*at)->chain;
    *at = f->chain;
    if (t->tell == f)
        t->tell = f->next;
    subscription_not_due(f);
    *f->prev = f->next;
    if (f->next)
        f->next->prev = f->prev;
    t->n--;
    length_remove(t, f->prefix_len);
    if (f->end > t->last)
        t->last = f->end;
    timer_clear(&f->m->timers, &f->idle);
    while (f->first < f->end)
        subscription_drop_first(f);
    t->prefix_bytes -= sizeof *f + f->prefix_len + f->cap * sizeof *f->ring;
    free(f->ring);
    free(f);
}

void subscriptions_free(struct manager *m) {
    if (!m->subscriptions)
        return;
    while (m->subscriptions->list)
        subscription_free(m->subscriptions->list);
    free(m->subscriptions->bucket);
    free(m->subscriptions->length);
    free(m->subscriptions);
}

static void subscription_idle(struct timer *t) {
    subscription_free(
        (struct subscription *)(void *)((char *)t - offsetof(struct subscription, idle)));
}

static struct subscription *subscription_get(struct manager *m, const uint8_t *prefix,
                                             uint32_t len) {
    struct subscriptions *t = m->subscriptions;
    struct subscription *f = subscription_find(t, prefix, len);
    if (f)
        return f;
    if (t->prefix_bytes + sizeof *f + len > DD_FEEDS_PREFIXES || !buckets_grow(t) ||
        !(f = calloc(1, sizeof *f + len)))
        return NULL;
    if (!length_add(t, len)) {
        free(f);
        return NULL;
    }
    f->m = m;
    f->listeners_end = &f->listeners;
    f->clears = t->clears;
    f->idle.fire = subscription_idle;
    /* A client that read an earlier subscription to its end has a lower number, and learns that it
     * missed events in between. */
    f->first = f->end = t->last + 2;
    number_keep(f);
    f->prefix_len = len;
    memcpy(f->prefix, prefix, len);
    f->hash = prefix_hash(prefix, len);
    f->chain = t->bucket[f->hash & (t->buckets - 1)];
    t->bucket[f->hash & (t->buckets - 1)] = f;
    f->prev = &t->list;
    f->next = t->list;
    if (f->next)
        f->next->prev = &f->next;
    t->list = f;
    t->n++;
    t->prefix_bytes += sizeof *f + len;
    return f;
}

static void listener_free(struct listener *l) {
    struct subscription *f = l->subscription;
    pending_end(&l->pending);
    *l->prev = l->next;
    if (l->next)
        l->next->prev = l->prev;
    else
        f->listeners_end = l->prev;
    if (!f->listeners)
        timer_after(&f->m->timers, &f->idle, SUBSCRIPTION_KEEP_MS * 1000000ull);
    free(l);
}

static void clears_add(struct subscription *f);

/* --- answers --- */
static size_t event_write(struct manager *m, uint8_t *to, size_t room, const struct event *h,
                          uint64_t inline_max) {
    struct event_record r = {.version = h->version,
                             .val_len = h->val_len,
                             .key_len = h->key_len,
                             .got = EVENT_NO_VALUE,
                             .kind = h->kind,
                             .tag = h->tag};
    struct store_ref ref;
    size_t len = sizeof r + h->key_len;
    if (len > room)
        return 0;
    if (h->kind == EVENT_PUT && h->val_len <= inline_max && h->val_len <= room - len &&
        store_find(m->store, h->key, h->key_len, &ref) == 0 &&
        /* not from the spill: who wants it reads it */
        ref.item->version == h->version && ref.value && ref.item->val_len == h->val_len &&
        !item_is_link(ref.item)) {
        r.got = (uint32_t)h->val_len;
        memcpy(to + len, ref.value, h->val_len);
    }
    memcpy(to, &r, sizeof r);
    memcpy(to + sizeof r, h->key, h->key_len);
    return len + (r.got == EVENT_NO_VALUE ? 0 : r.got);
}

static void subscription_answer(struct requester *a, const struct msg *req,
                                const struct subscription *f) {
    static uint8_t buf[DD_MSG_INLINE];
    struct manager *m = a->m;
    struct msg r;
    size_t len = 0;
    uint64_t inline_max = req->val_len < DD_EVENT_INLINE ? req->val_len : DD_EVENT_INLINE,
             at = req->version;
    reply_init(&r, req->id, m->setup->id);
    if (at == 0)
        at = f->end;
    if (at < f->first) {
        r.version = f->first - at;
        at = f->first;
    }
    if (at > f->end)
        at = f->end; /* no client was given this number */
    for (size_t n; at < f->end && len < REPLY_BYTES; at++, len += n)
        if ((n = event_write(m, buf + len, sizeof buf - len, f->ring[at & (f->cap - 1)],
                             inline_max)) == 0)
            break;
    r.aux = at;
    r.val_len = len;
    requester_send(a, &r, buf, len);
}

/* Answer with the events since, or with just the number. */
static void listener_answer(struct listener *l) {
    pending_answers(&l->pending);
    subscription_answer(l->pending.requester, &l->pending.req, l->subscription);
    listener_free(l);
}

static void listener_late(struct pending *p) {
    listener_answer((struct listener *)(void *)p);
}

static void listener_refuse(struct pending *p, int status) {
    pending_answers(p);
    requester_reply(p->requester, &p->req, status, NULL);
    listener_free((struct listener *)(void *)p);
}

static const struct pending_ops listener_ops = {.late = listener_late, .refuse = listener_refuse};

static int listener_add(struct requester *a, const struct msg *m, struct subscription *f) {
    struct listener *l = calloc(1, sizeof *l);
    if (!l)
        return -ENOMEM;
    if (pending_begin(&l->pending, a, m, f->prefix, &listener_ops) < 0) {
        free(l);
        return -ENOMEM;
    }
    timer_clear(&a->m->timers, &f->idle);
    l->subscription = f;
    l->came = f->end;
    l->prev = f->listeners_end;
    *f->listeners_end = l;
    f->listeners_end = &l->next;
    return 0;
}

void subscription_ask(struct requester *a, const struct msg *m, const uint8_t *prefix) {
    struct subscription *f = subscription_get(a->m, prefix, m->key_len);
    if (!f) {
        requester_reply(a, m, -ENOMEM,
                        "too many prefixes are subscribed to, or manager has no memory");
        return;
    }
    clears_add(f);
    bool news = m->version == 0 || m->version < f->end;
    if (news || !(m->flags & MSGF_WAIT) || m->aux == 0)
        subscription_answer(a, m, f);
    else if (listener_add(a, m, f) < 0)
        requester_reply(a, m, -ENOMEM, NULL);
    if (!f->listeners)
        timer_after(&a->m->timers, &f->idle, SUBSCRIPTION_KEEP_MS * 1000000ull);
}

/* --- what happens --- */
static void subscription_add(struct subscription *f, uint8_t kind, const void *key,
                             uint32_t key_len, uint64_t version, uint64_t val_len, uint8_t tag) {
    struct subscriptions *t = f->m->subscriptions;
    while (f->first < f->end &&
           (f->end - f->first == SUBSCRIPTION_EVENTS || f->bytes + key_len > SUBSCRIPTION_BYTES))
        subscription_drop_first(f);
    bool room = f->end - f->first < f->cap || ring_resize(f, f->cap ? 2 * f->cap : RING_FIRST);
    struct event *h = room ? malloc(sizeof *h + key_len) : NULL;
    if (!h) { /* no memory: all listeners learn that they missed events */
        while (f->first < f->end)
            subscription_drop_first(f);
        f->first = ++f->end;
        number_keep(f);
        return;
    }
    *h = (struct event){.subscription = f,
                        .older = t->newest,
                        .version = version,
                        .val_len = val_len,
                        .key_len = key_len,
                        .kind = kind,
                        .tag = tag};
    if (key_len)
        memcpy(h->key, key, key_len);
    *(t->newest ? &t->newest->newer : &t->oldest) = h;
    t->newest = h;
    f->ring[f->end++ & (f->cap - 1)] = h;
    number_keep(f);
    f->bytes += key_len;
    t->bytes += event_bytes(h);
    /* h itself is the first of its subscription */
    while (t->bytes > DD_FEEDS_EVENTS && t->oldest != h)
        subscription_drop_first(t->oldest->subscription);
}

/* Listeners are in order of arrival: if the first came after the last event so did all. */
static bool subscription_has_news(const struct subscription *f) {
    return f->listeners && f->listeners->came != f->end;
}

static void subscription_wake(struct subscription *f) {
    while (subscription_has_news(f) && !share_spent(f->m))
        listener_answer(f->listeners);
    if (subscription_has_news(f))
        subscription_due(f);
}

/* Add events for clears since the last event. */
static void clears_add(struct subscription *f) {
    uint64_t n = f->m->subscriptions->clears - f->clears;
    f->clears += n;
    for (n = n < SUBSCRIPTION_EVENTS ? n : SUBSCRIPTION_EVENTS; n > 0; n--)
        subscription_add(f, EVENT_CLEAR, NULL, 0, 0, 0, 0);
}

static void subscription_tell(struct subscription *f, uint8_t kind, const void *key,
                              uint32_t key_len, uint64_t version, uint64_t val_len, uint8_t tag) {
    clears_add(f);
    subscription_add(f, kind, key, key_len, version, val_len, tag);
    subscription_wake(f);
}

static void event_tell(struct manager *m, uint8_t kind, const void *key, uint32_t key_len,
                       uint64_t version, uint64_t val_len, uint8_t tag) {
    const struct subscriptions *t = m->subscriptions;
    for (size_t i = 0; i < t->lengths && t->length[i].len <= key_len; i++) {
        struct subscription *f = subscription_find(t, key, t->length[i].len);
        if (f)
            subscription_tell(f, kind, key, key_len, version, val_len, tag);
    }
}

void subscriptions_put(struct manager *m, const struct item *it, uint64_t version) {
    if (m->subscriptions->list)
        event_tell(m, EVENT_PUT, it->key, it->key_len, version, item_read_len(it), it->tag);
}

void subscriptions_del(struct manager *m, const void *key, uint32_t key_len) {
    if (m->subscriptions->list)
        event_tell(m, EVENT_DEL, key, key_len, 0, 0, 0);
}

void subscriptions_clear(struct manager *m) {
    struct subscriptions *t = m->subscriptions;
    t->clears++;
    if (t->tell)
        return; /* it starts again when it is through */
    t->tell = t->list;
    t->telling = t->clears;
}

/* Some work of each kind, however much there is of the other. */
bool subscriptions_turn(struct manager *m) {
    struct subscriptions *t = m->subscriptions;
    if (!t->due && !t->tell)
        return false;
    share_for(m, DD_WAKE_NS);
    do {
        if (!t->due)
            break;
        if (subscription_has_news(t->due))
            listener_answer(t->due->listeners);
        else
            subscription_not_due(t->due);
    } while (!share_spent(m));
    do {
        struct subscription *f = t->tell;
        if (!f)
            break;
        t->tell = f->next;
        clears_add(f);
        subscription_wake(f);
    } while (!share_spent(m));
    if (!t->tell && t->telling != t->clears) {
        t->tell = t->list;
        t->telling = t->clears;
    }
    return true;
}

void subscriptions_figures(const struct manager *m, struct manager_stats *out) {
    out->prefixes = m->subscriptions->n;
    out->events_bytes = m->subscriptions->bytes + m->subscriptions->prefix_bytes;
}
