/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feeds.c - what happens to keys with a prefix, for those that asked (EVENTS). A feed is a prefix and the last things that happened to its keys, numbered; all who ask for one
 * prefix share it and say from which number on. Nothing is kept for a single subscriber but a request that waits, so one that is slow or gone costs nothing and loses nothing
 * without being told: where the feed begins later than its number, the difference is what it missed. Without feeds a put looks at one word.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/error.h>
#include <manager/manager.h>
#include <wire/event.h>

#define FEED_EVENTS 4096u         /* power of two; of one feed */
#define FEED_BYTES (1u << 20)     /* of their keys */
#define FEEDS_MAX 64u             /* each put compares its key with every prefix */
#define FEED_KEEP_MS 60000u       /* a feed that nobody asks for */
#define REPLY_BYTES 65536u        /* of one answer, unless one key is longer */
#define WAIT_US_MAX (1ull << 50)  /* as in waiters.c */

struct happened {
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
    struct feed *next;
    struct manager *m;
    struct listener *listeners;
    struct timer idle;
    uint64_t first, end;    /* numbers of what is kept: first .. end - 1 */
    size_t bytes;
    struct happened *ring[FEED_EVENTS];
    uint32_t prefix_len;
    uint8_t prefix[];
};
struct feeds {
    struct feed *list;
    unsigned n;
    uint64_t last;          /* no feed that ended had a number beyond it */
};

int feeds_init(struct manager *m) {
    m->feeds = calloc(1, sizeof *m->feeds);
    return m->feeds ? 0 : -ENOMEM;
}

static void feed_free(struct feed *f) {
    struct feeds *t = f->m->feeds;
    struct feed **at = &t->list;
    while (*at != f) at = &(*at)->next;
    *at = f->next;
    t->n--;
    if (f->end > t->last) t->last = f->end;
    timer_clear(&f->m->timers, &f->idle);
    for (; f->first < f->end; f->first++) free(f->ring[f->first % FEED_EVENTS]);
    free(f);
}

void feeds_free(struct manager *m) {
    if (!m->feeds) return;
    while (m->feeds->list) feed_free(m->feeds->list);
    free(m->feeds);
}

static void feed_idle(struct timer *t) { feed_free((struct feed *)(void *)((char *)t - offsetof(struct feed, idle))); }

static struct feed *feed_get(struct manager *m, const uint8_t *prefix, uint32_t len) {
    struct feeds *t = m->feeds;
    for (struct feed *f = t->list; f; f = f->next)
        if (f->prefix_len == len && memcmp(f->prefix, prefix, len) == 0) return f;
    struct feed *f = t->n < FEEDS_MAX ? calloc(1, sizeof *f + len) : NULL;
    if (!f) return NULL;
    f->m = m;
    f->idle.fire = feed_idle;
    f->first = f->end = t->last + 2; /* whoever read an earlier feed to its end has a lower number: it missed what came between */
    f->prefix_len = len;
    memcpy(f->prefix, prefix, len);
    f->next = t->list;
    t->list = f;
    t->n++;
    return f;
}

static void listener_free(struct listener *l) {
    struct feed *f = l->feed;
    timer_clear(&f->m->timers, &l->timer);
    *l->a_prev = l->a_next;
    if (l->a_next) l->a_next->a_prev = l->a_prev;
    *l->prev = l->next;
    if (l->next) l->next->prev = l->prev;
    if (!f->listeners) timer_after(&f->m->timers, &f->idle, FEED_KEEP_MS * 1000000ull);
    free(l);
}

/* --- answers --- */
static size_t record_write(struct manager *m, uint8_t *to, size_t room, const struct happened *h, uint64_t inline_max) {
    struct event_record r = {.version = h->version, .val_len = h->val_len, .key_len = h->key_len, .got = EVENT_NO_VALUE, .kind = h->kind, .tag = h->tag};
    struct store_ref ref;
    size_t len = sizeof r + h->key_len;
    if (len > room) return 0;
    if (h->kind == EVENT_PUT && h->val_len <= inline_max && h->val_len <= room - len && store_find(m->store, h->key, h->key_len, &ref) == 0 &&
        ref.item->version == h->version && ref.value && ref.item->val_len == h->val_len) { /* not from the spill: who wants it reads it */
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
    uint64_t inline_max = req->val_len < DD_EVENT_INLINE ? req->val_len : DD_EVENT_INLINE, at = req->version;
    reply_init(&r, req->id, m->setup->id);
    if (at == 0) at = f->end;
    if (at < f->first) {
        r.version = f->first - at;
        at = f->first;
    }
    if (at > f->end) at = f->end; /* never given to anybody */
    for (size_t n; at < f->end && len < REPLY_BYTES; at++, len += n)
        if ((n = record_write(m, buf + len, sizeof buf - len, f->ring[at % FEED_EVENTS], inline_max)) == 0) break;
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
    if (!l) return -ENOMEM;
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
    if (l->a_next) l->a_next->a_prev = &l->a_next;
    a->listens = l;
    l->next = f->listeners;
    l->prev = &f->listeners;
    if (l->next) l->next->prev = &l->next;
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
    if (news || !(m->flags & MSGF_WAIT) || m->aux == 0) feed_answer(a, m, f);
    else if (listener_add(a, m, f) < 0) asker_reply(a, m, -ENOMEM, NULL);
    if (!f->listeners) timer_after(&a->m->timers, &f->idle, FEED_KEEP_MS * 1000000ull);
}

bool feed_cancel(struct asker *a, uint64_t id, int status) {
    for (struct listener *l = a->listens; l; l = l->a_next) {
        if (l->req.id != id) continue;
        asker_reply(a, &l->req, status, NULL);
        listener_free(l);
        return true;
    }
    return false;
}

void feeds_asker_end(struct asker *a) {
    while (a->listens) listener_free(a->listens);
}

/* --- what happens --- */
static void feed_drop_first(struct feed *f) {
    struct happened *h = f->ring[f->first++ % FEED_EVENTS];
    if (h) f->bytes -= h->key_len;
    free(h);
}

static void feed_add(struct feed *f, uint8_t kind, const void *key, uint32_t key_len, uint64_t version, uint64_t val_len, uint8_t tag) {
    while (f->first < f->end && (f->end - f->first == FEED_EVENTS || f->bytes + key_len > FEED_BYTES)) feed_drop_first(f);
    struct happened *h = malloc(sizeof *h + key_len);
    if (!h) { /* all who have not read so far are told that they missed something */
        while (f->first < f->end) feed_drop_first(f);
        f->first = ++f->end;
        return;
    }
    *h = (struct happened){.version = version, .val_len = val_len, .key_len = key_len, .kind = kind, .tag = tag};
    if (key_len) memcpy(h->key, key, key_len);
    f->ring[f->end++ % FEED_EVENTS] = h;
    f->bytes += key_len;
}

static void feed_wake(struct feed *f) {
    while (f->listeners) {
        struct listener *l = f->listeners;
        feed_answer(l->asker, &l->req, f);
        listener_free(l);
    }
}

static void happens(struct manager *m, uint8_t kind, const void *key, uint32_t key_len, uint64_t version, uint64_t val_len, uint8_t tag) {
    for (struct feed *f = m->feeds->list; f; f = f->next) {
        if (key && (f->prefix_len > key_len || memcmp(f->prefix, key, f->prefix_len) != 0)) continue;
        feed_add(f, kind, key, key_len, version, val_len, tag);
        feed_wake(f);
    }
}

void feeds_put(struct manager *m, const struct item *it, uint64_t version) {
    if (m->feeds->list) happens(m, EVENT_PUT, it->key, it->key_len, version, item_len(it), it->tag);
}

void feeds_del(struct manager *m, const void *key, uint32_t key_len) {
    if (m->feeds->list) happens(m, EVENT_DEL, key, key_len, 0, 0, 0);
}

void feeds_clear(struct manager *m) {
    if (m->feeds->list) happens(m, EVENT_CLEAR, NULL, 0, 0, 0, 0);
}
