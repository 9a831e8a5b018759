/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feeds.c - what happens to keys with a prefix, for those that asked (EVENTS). A feed is a prefix and the last things that happened to its keys, numbered; all who ask for one
 * prefix share it and say from which number on. Nothing is kept for a single subscriber but a request that waits, so one that is slow or gone costs nothing and loses nothing
 * without being told: where the feed begins later than its number, the difference is what it missed. Without feeds a put looks at one word; with any number of them it looks
 * up its key's beginning once for each length that prefixes have.
 */
#include <base/clock.h>
#include <base/error.h>
#include <base/hash.h>
#include <manager/manager.h>
#include <wire/event.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FEED_EVENTS  4096u        /* power of two; of one feed */
#define FEED_BYTES   (1u << 20)   /* of their keys */
#define RING_FIRST   4u           /* events that a feed has room for at first; power of two */
#define FEED_KEEP_MS 60000u       /* a feed that nobody asks for */
#define REPLY_BYTES  65536u       /* of one answer, unless one key is longer */
#define WAIT_US_MAX  (1ull << 50) /* as in waiters.c */

struct happened {
    struct feed *feed;
    struct happened *older, *newer; /* of all feeds */
    uint64_t version, val_len;
    uint32_t key_len;
    uint8_t kind, tag;
    uint8_t key[];
};
struct listener { /* an EVENTS that waits */
    struct asker *asker;
    struct listener *a_next, **a_prev;
    struct feed *feed;
    struct listener *next, **prev;
    struct timer timer;
    struct msg req;
};
struct feed {
    struct feed *next, **prev;
    struct feed *chain; /* of its bucket */
    uint64_t hash;
    struct manager *m;
    struct listener *listeners;
    struct timer idle;
    uint64_t first, end; /* numbers of what is kept: first .. end - 1 */
    size_t bytes;
    struct happened **ring; /* [cap], by number */
    uint32_t cap;
    uint32_t prefix_len;
    uint8_t prefix[];
};
struct length {
    uint32_t len, n;
}; /* n prefixes have it */
struct feeds {
    struct feed *list;
    struct feed **bucket; /* [buckets], power of two */
    size_t n, buckets;
    struct length *length; /* [lengths], the shortest first */
    size_t lengths, lengths_cap;
    struct happened *oldest, *newest;
    uint64_t bytes, prefix_bytes; /* of events; of feeds */
    uint64_t last;                /* no feed that ended had a number beyond it */
};

int feeds_init(struct manager *m) {
    m->feeds = calloc(1, sizeof *m->feeds);
    return m->feeds ? 0 : -ENOMEM;
}

/* --- the index --- */
static uint64_t prefix_hash(const uint8_t *prefix, uint32_t len) {
    return key_hash(prefix, len) ^ len * HASH_1;
}

static struct feed *feed_find(const struct feeds *t, const uint8_t *prefix, uint32_t len) {
    uint64_t hash = prefix_hash(prefix, len);
    struct feed *f = t->buckets ? t->bucket[hash & (t->buckets - 1)] : NULL;
    while (f && (f->hash != hash || f->prefix_len != len || memcmp(f->prefix, prefix, len) != 0))
        f = f->chain;
    return f;
}

static bool buckets_grow(struct feeds *t) {
    if (t->n < t->buckets)
        return true;
    size_t n = t->buckets ? 2 * t->buckets : 64;
    struct feed **b = calloc(n, sizeof *b);
    if (!b)
        return t->buckets > 0; /* chains grow longer */
    for (struct feed *f = t->list; f; f = f->next) {
        f->chain = b[f->hash & (n - 1)];
        b[f->hash & (n - 1)] = f;
    }
    free(t->bucket);
    t->bucket = b;
    t->buckets = n;
    return true;
}

static bool length_add(struct feeds *t, uint32_t len) {
    size_t i = 0;
    while (i < t->lengths && t->length[i].len < len)
        i++;
    if (i < t->lengths && t->length[i].len == len) {
        t->length[i].n++;
        return true;
    }
    if (t->lengths == t->lengths_cap) {
        size_t cap = t->lengths_cap ? 2 * t->lengths_cap : 8;
        struct length *l = realloc(t->length, cap * sizeof *l);
        if (!l)
            return false;
        t->length = l;
        t->lengths_cap = cap;
    }
    memmove(t->length + i + 1, t->length + i, (t->lengths - i) * sizeof *t->length);
    t->length[i] = (struct length){len, 1};
    t->lengths++;
    return true;
}

static void length_remove(struct feeds *t, uint32_t len) {
    size_t i = 0;
    while (t->length[i].len != len)
        i++;
    if (--t->length[i].n > 0)
        return;
    t->lengths--;
    memmove(t->length + i, t->length + i + 1, (t->lengths - i) * sizeof *t->length);
}

/* --- events that are kept --- */
static size_t happened_bytes(const struct happened *h) {
    return sizeof *h + h->key_len;
}

static bool ring_resize(struct feed *f, uint32_t cap) {
    struct happened **r = malloc(cap * sizeof *r);
    if (!r)
        return false;
    for (uint64_t n = f->first; n < f->end; n++)
        r[n & (cap - 1)] = f->ring[n & (f->cap - 1)];
    free(f->ring);
    f->m->feeds->prefix_bytes += ((uint64_t)cap - f->cap) * sizeof *r;
    f->ring = r;
    f->cap = cap;
    return true;
}

static void feed_drop_first(struct feed *f) {
    struct feeds *t = f->m->feeds;
    struct happened *h = f->ring[f->first++ & (f->cap - 1)];
    f->bytes -= h->key_len;
    t->bytes -= happened_bytes(h);
    *(h->older ? &h->older->newer : &t->oldest) = h->newer;
    *(h->newer ? &h->newer->older : &t->newest) = h->older;
    free(h);
    if (f->cap > RING_FIRST && f->end - f->first < f->cap / 8)
        ring_resize(f, f->cap / 2); /* a burst was long ago */
}

static void feed_free(struct feed *f) {
    struct feeds *t = f->m->feeds;
    struct feed **at = &t->bucket[f->hash & (t->buckets - 1)];
    while (*at != f)
        at = &(*at)->chain;
    *at = f->chain;
    *f->prev = f->next;
    if (f->next)
        f->next->prev = f->prev;
    t->n--;
    length_remove(t, f->prefix_len);
    if (f->end > t->last)
        t->last = f->end;
    timer_clear(&f->m->timers, &f->idle);
    while (f->first < f->end)
        feed_drop_first(f);
    t->prefix_bytes -= sizeof *f + f->prefix_len + f->cap * sizeof *f->ring;
    free(f->ring);
    free(f);
}

void feeds_free(struct manager *m) {
    if (!m->feeds)
        return;
    while (m->feeds->list)
        feed_free(m->feeds->list);
    free(m->feeds->bucket);
    free(m->feeds->length);
    free(m->feeds);
}

static void feed_idle(struct timer *t) {
    feed_free((struct feed *)(void *)((char *)t - offsetof(struct feed, idle)));
}

static struct feed *feed_get(struct manager *m, const uint8_t *prefix, uint32_t len) {
    struct feeds *t = m->feeds;
    struct feed *f = feed_find(t, prefix, len);
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
    f->idle.fire = feed_idle;
    f->first = f->end =
        t->last +
        2; /* whoever read an earlier feed to its end has a lower number: it missed what came between */
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
    struct feed *f = l->feed;
    timer_clear(&f->m->timers, &l->timer);
    *l->a_prev = l->a_next;
    if (l->a_next)
        l->a_next->a_prev = l->a_prev;
    *l->prev = l->next;
    if (l->next)
        l->next->prev = l->prev;
    if (!f->listeners)
        timer_after(&f->m->timers, &f->idle, FEED_KEEP_MS * 1000000ull);
    free(l);
}

/* --- answers --- */
static size_t record_write(struct manager *m, uint8_t *to, size_t room, const struct happened *h,
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
        store_find(m->store, h->key, h->key_len, &ref) == 0 && ref.item->version == h->version &&
        ref.value &&
        ref.item->val_len == h->val_len) { /* not from the spill: who wants it reads it */
        r.got = (uint32_t)h->val_len;
        memcpy(to + len, ref.value, h->val_len);
    }
    memcpy(to, &r, sizeof r);
    memcpy(to + sizeof r, h->key, h->key_len);
    return len + (r.got == EVENT_NO_VALUE ? 0 : r.got);
}

static void feed_answer(struct asker *a, const struct msg *req, const struct feed *f) {
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
        at = f->end; /* never given to anybody */
    for (size_t n; at < f->end && len < REPLY_BYTES; at++, len += n)
        if ((n = record_write(m, buf + len, sizeof buf - len, f->ring[at & (f->cap - 1)],
                              inline_max)) == 0)
            break;
    r.aux = at;
    r.val_len = len;
    asker_send(a, &r, buf, len);
}

static void listener_late(struct timer *t) {
    struct listener *l = (struct listener *)(void *)((char *)t - offsetof(struct listener, timer));
    feed_answer(l->asker, &l->req, l->feed); /* nothing, and the number */
    listener_free(l);
}

static int listener_add(struct asker *a, const struct msg *m, struct feed *f) {
    struct listener *l = calloc(1, sizeof *l);
    uint64_t us = m->aux < WAIT_US_MAX ? m->aux : WAIT_US_MAX;
    if (!l)
        return -ENOMEM;
    l->timer.fire = listener_late;
    if (timer_after(&a->m->timers, &l->timer, us * 1000) < 0) {
        free(l);
        return -ENOMEM;
    }
    timer_clear(&a->m->timers, &f->idle);
    l->asker = a;
    l->feed = f;
    l->req = *m;
    l->a_next = a->listens;
    l->a_prev = &a->listens;
    if (l->a_next)
        l->a_next->a_prev = &l->a_next;
    a->listens = l;
    l->next = f->listeners;
    l->prev = &f->listeners;
    if (l->next)
        l->next->prev = &l->next;
    f->listeners = l;
    return 0;
}

void feed_ask(struct asker *a, const struct msg *m, const uint8_t *prefix) {
    struct feed *f = feed_get(a->m, prefix, m->key_len);
    if (!f) {
        asker_reply(a, m, -ENOMEM, "too many prefixes are subscribed to, or manager has no memory");
        return;
    }
    bool news = m->version == 0 || m->version < f->end;
    if (news || !(m->flags & MSGF_WAIT) || m->aux == 0)
        feed_answer(a, m, f);
    else if (listener_add(a, m, f) < 0)
        asker_reply(a, m, -ENOMEM, NULL);
    if (!f->listeners)
        timer_after(&a->m->timers, &f->idle, FEED_KEEP_MS * 1000000ull);
}

bool feed_cancel(struct asker *a, uint64_t id, int status) {
    for (struct listener *l = a->listens; l; l = l->a_next) {
        if (l->req.id != id)
            continue;
        asker_reply(a, &l->req, status, NULL);
        listener_free(l);
        return true;
    }
    return false;
}

void feeds_asker_end(struct asker *a) {
    while (a->listens)
        listener_free(a->listens);
}

/* --- what happens --- */
static void feed_add(struct feed *f, uint8_t kind, const void *key, uint32_t key_len,
                     uint64_t version, uint64_t val_len, uint8_t tag) {
    struct feeds *t = f->m->feeds;
    while (f->first < f->end &&
           (f->end - f->first == FEED_EVENTS || f->bytes + key_len > FEED_BYTES))
        feed_drop_first(f);
    bool room = f->end - f->first < f->cap || ring_resize(f, f->cap ? 2 * f->cap : RING_FIRST);
    struct happened *h = room ? malloc(sizeof *h + key_len) : NULL;
    if (!h) { /* all who have not read so far are told that they missed something */
        while (f->first < f->end)
            feed_drop_first(f);
        f->first = ++f->end;
        return;
    }
    *h = (struct happened){.feed = f,
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
    f->bytes += key_len;
    t->bytes += happened_bytes(h);
    while (t->bytes > DD_FEEDS_EVENTS && t->oldest != h)
        feed_drop_first(t->oldest->feed); /* it is the first of its feed */
}

static void feed_wake(struct feed *f) {
    while (f->listeners) {
        struct listener *l = f->listeners;
        feed_answer(l->asker, &l->req, f);
        listener_free(l);
    }
}

static void tell(struct feed *f, uint8_t kind, const void *key, uint32_t key_len, uint64_t version,
                 uint64_t val_len, uint8_t tag) {
    feed_add(f, kind, key, key_len, version, val_len, tag);
    feed_wake(f);
}

static void happens(struct manager *m, uint8_t kind, const void *key, uint32_t key_len,
                    uint64_t version, uint64_t val_len, uint8_t tag) {
    const struct feeds *t = m->feeds;
    for (size_t i = 0; i < t->lengths && t->length[i].len <= key_len; i++) {
        struct feed *f = feed_find(t, key, t->length[i].len);
        if (f)
            tell(f, kind, key, key_len, version, val_len, tag);
    }
}

void feeds_put(struct manager *m, const struct item *it, uint64_t version) {
    if (m->feeds->list)
        happens(m, EVENT_PUT, it->key, it->key_len, version, item_len(it), it->tag);
}

void feeds_del(struct manager *m, const void *key, uint32_t key_len) {
    if (m->feeds->list)
        happens(m, EVENT_DEL, key, key_len, 0, 0, 0);
}

void feeds_clear(struct manager *m) {
    for (struct feed *f = m->feeds->list; f; f = f->next)
        tell(f, EVENT_CLEAR, NULL, 0, 0, 0, 0);
}

void feeds_figures(const struct manager *m, struct ddict_manager_stats *out) {
    out->prefixes = m->feeds->n;
    out->events_bytes = m->feeds->bytes + m->feeds->prefix_bytes;
}
