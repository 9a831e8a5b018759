/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requests.c - requests, of lanes and connections alike: one row for each type, at the end;
 * requests.h explains them. A key is copied before use, because a lane may change at any time. The
 * value of a put is copied once, from the lane into its block.
 */
#include "requests.h"

#include "alive.h"
#include "anew.h"
#include "answers.h"
#include "cache.h"
#include "forward.h"
#include "freeze.h"
#include "knows.h"
#include "manager.h"
#include "parked.h"
#include "peer_client.h"
#include "pending.h"
#include "prefetch.h"
#include "probe.h"
#include "queues.h"
#include "replica_flight.h"
#include "requester.h"
#include "results.h"
#include "rma_export.h"
#include "rules.h"
#include "stats.h"
#include "stream_in.h"
#include "stream_out.h"
#include "subscriptions.h"
#include "waiters.h"
#include <base/clock.h>
#include <base/deal.h>
#include <base/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* KEYS looks at so many bytes of keys in one turn, below a millisecond; */
#define KEYS_SEEN_BYTES (256u << 10)
/* each key counts for so many more, as it may be a cache miss or two */
#define KEY_SEEN 64u
/* a reply of KEYS gathers segments until it has so many bytes */
#define KEYS_REPLY_BYTES 32768u

struct request {
    const struct msg *m;
    const uint8_t *payload; /* of a lane: may change at any time */
    const uint8_t *key;     /* a copy, or of a connection */
    uint64_t hash;          /* of the key, if the key decides the owner */
};

/* --- sealed: an item that was put with LOADED is changed by those with LOADED alone --- */
static bool is_sealed(const struct manager *m, const struct msg *req, const void *key) {
    struct store_ref there;
    return m->setup->refill && !(req->flags & MSGF_LOADED) &&
           store_find(m->store, key, req->key_len, &there) == 0 && item_is_loaded(there.item);
}

/* --- links: the value of a key is that of another one, which its client knows about --- */
/* Whether the request is of a client that does not know yet that the key has a link. */
static bool is_linked(const struct manager *m, const struct msg *req, const void *key) {
    struct store_ref there;
    return m->linked && !(req->flags & MSGF_LINK) && req->rule != RULE_LINKED &&
           store_find(m->store, key, req->key_len, &there) == 0 && item_is_link(there.item);
}

/* A link is the only value of its key: what is popped then is known. And a hidden key has none: values
 * that links name have such keys, and are no links. */
static bool link_is_wrong(const struct manager *m, const struct msg *req, const void *key,
                          uint64_t hash) {
    struct store_queue q;
    if (!(req->flags & MSGF_LINK))
        return false;
    store_queue_look(m->store, key, req->key_len, hash, &q);
    return q.more > 0 || key_is_hidden(key, req->key_len);
}

/* --- with a backup: changes in flight --- */
/* It waits for a change of its key before it, or was refused for want of memory. */
static bool waits_behind(struct requester *a, const struct request *q) {
    int e = a->m->flights ? flight_order(a, q->m, q->key, q->hash, NULL, clock_ns()) : 0;
    if (e < 0)
        request_failed(a, q->m, e);
    return e != 0;
}

static void put_failed(struct requester *a, const struct msg *req, struct store_ref *ref, int e) {
    if (flight_fails(a->m, req))
        return;
    request_failed(a, req, e);
    request_given_up(a, req, ref);
}

static bool put_waits(struct requester *a, const struct msg *req, struct store_ref *ref,
                      uint64_t began) {
    int e = flight_order(a, req, ref->item->key, ref->item->hash, ref, began);
    if (e < 0)
        put_failed(a, req, ref, e);
    return e != 0;
}

/* 0: publish it. 1: it is in flight. Negative: refuse it. */
static int put_sent(struct requester *a, const struct msg *req, struct store_ref *ref,
                    uint64_t began, enum store_mode mode) {
    const struct item *it = ref->item;
    struct store_ref there;
    if (mode != STORE_ANY && !flight_commits(a->m, req)) {
        bool is = store_find(a->m->store, it->key, it->key_len, &there) == 0;
        if (is != (mode == STORE_EXISTING))
            return is ? DDICT_EEXISTS : DDICT_ENOKEY;
    }
    return flight_send(a, req, req->flags & MSGF_APPEND ? REPL_APPEND : REPL_PUT, it->key, it->hash,
                       ref, began, 0);
}

/* --- put --- */
/* Why its key, as it is now, lets no such value in; or 0. */
static int put_judge(const struct manager *m, const struct msg *req, const void *key,
                     uint64_t hash) {
    if (request_is_refill(m, req))
        return anew_is_awaited(m, hash) ? 0 : DDICT_EEXISTS;
    bool wants_new = req->flags & MSGF_NEW || rule_wants_absent(req);
    if (!wants_new && is_sealed(m, req, key))
        return DDICT_ESEALED;
    if (link_is_wrong(m, req, key, hash))
        return -EINVAL;
    return is_linked(m, req, key) ? DDICT_ELINK : 0;
}

/* NEW, and whether its key was there is not known yet. */
static bool new_waits(struct requester *a, const struct msg *req, struct store_ref *ref,
                      uint64_t began) {
    const struct item *it = ref->item;
    struct store_ref there;
    return (req->flags & MSGF_NEW || rule_wants_absent(req)) && !request_is_refill(a->m, req) &&
           anew_is_awaited(a->m, it->hash) &&
           store_find(a->m->store, it->key, it->key_len, &there) == DDICT_ENOKEY &&
           anew_hold(a, req, it->key, it->hash, ref, began);
}

/* False: make it. */
static bool rule_stops(struct requester *a, const struct msg *req, struct store_ref *ref,
                       uint64_t began) {
    const struct item *it = ref->item;
    bool missing = anew_lost_text(a->m, it->hash);
    int e = rule_judge(a->m, req, it->key, missing, ref);
    if (e == 0 || (e == DDICT_ENOKEY && a->m->anew &&
                   anew_hold_or_refuse(a, req, it->key, it->hash, ref, began)))
        return e != 0;
    rule_refuse(a, req, it->key, e);
    request_given_up(a, req, ref);
    return true;
}

void request_commit(struct requester *a, const struct msg *req, struct store_ref *ref,
                    uint64_t began) {
    struct manager *m = a->m;
    if (freeze_refuses_end(m) && !flight_is_own(m, req) && !request_is_refill(m, req) &&
        !request_is_restore(m, req)) {
        freeze_refuse(a, req);
        request_given_up(a, req, ref);
        return;
    }
    if (m->flights && put_waits(a, req, ref, began))
        return;
    bool judged = m->flights && flight_commits(m, req);
    int e = judged ? 0 : put_judge(m, req, ref->item->key, ref->item->hash);
    if (e < 0) {
        put_failed(a, req, ref, e);
        return;
    }
    if (!judged && new_waits(a, req, ref, began))
        return;
    if (req->rule && !judged && rule_stops(a, req, ref, began))
        return;
    if (req->flags & MSGF_APPEND && queue_append(a, req, ref, began))
        return;
    uint64_t version = 0, hash = ref->item->hash;
    enum store_mode mode = req->flags & MSGF_NEW        ? STORE_NEW
                           : req->flags & MSGF_EXISTING ? STORE_EXISTING
                                                        : STORE_ANY;
    if (m->flights && (e = put_sent(a, req, ref, began, mode)) > 0)
        return;
    if (e == 0)
        e = store_commit(m->store, ref, mode, &version);
    if (e == DDICT_ENOKEY && m->anew &&
        anew_hold_or_refuse(a, req, ref->item->key, hash, ref, began))
        return;
    if (e < 0) {
        put_failed(a, req, ref, e);
        return;
    }
    m->count->puts++;
    m->count->bytes_in += req->val_len;
    if (faults.on)
        faults_put();
    if (faults.on)
        faults_step(STEP_CHANGED);
    struct msg r;
    reply_init(&r, req->id, m->setup->id);
    r.version = rule_version(req->rule, ref->item, version);
    requester_changed(a, req->id, r.version, NULL);
    requester_send(a, &r, NULL, 0);
    requester_taken(a, req->id);
    subscriptions_put(m, ref->item, version);
    if (m->waiters)
        waiters_wake(m, ref->item->key, ref->item->key_len, hash);
    m->now = clock_ns();
    count_latency(m, DDICT_LATENCY_PUT, began, m->now);
}

static int put_inline(struct requester *a, const struct request *q) {
    struct msg sized = rule_sized(q->m);
    const struct msg *m = &sized;
    struct store_ref ref;
    uint64_t began = clock_ns();
    int e = request_reserve(a, m, q->key, &ref);
    if (e > 0)
        return e;
    if (e < 0) {
        request_failed(a, m, e);
        return TAKE_DONE;
    }
    memcpy(ref.value, q->payload + m->key_len, q->m->val_len);
    int full = store_fill(a->m->store, &ref, m->val_len);
    if (full == -EAGAIN)
        return put_in_await(a, m, &ref, began);
    if (full < 0) {
        request_failed(a, m, full);
        store_abort(a->m->store, &ref);
        return TAKE_DONE;
    }
    request_commit(a, m, &ref, began);
    return TAKE_DONE;
}

/*
 * It is refused: drop the pieces that still come. Before the answer: after it a later life would not
 * know of them.
 */
static int put_refused(struct requester *a, const struct msg *m) {
    return m->flags & MSGF_STREAM ? put_in_pass(a, m, NULL) : TAKE_DONE;
}

/* A stream that is refused already, with what is known before its value comes. */
static bool stream_judge(struct requester *a, const struct request *q, int *e) {
    struct manager *m = a->m;
    bool busy = m->flights && flights_busy(m, q->key, q->m->key_len, q->hash);
    int why = busy || put_in_is_kept(a, q->m) ? 0 : put_judge(m, q->m, q->key, q->hash);
    if (why == 0)
        return false;
    *e = put_refused(a, q->m);
    if (*e >= 0)
        request_failed(a, q->m, why);
    return true;
}

static int take_put(struct requester *a, const struct request *q) {
    int e;
    if (!(q->m->flags & MSGF_STREAM))
        return put_inline(a, q);
    if (stream_judge(a, q, &e))
        return e;
    return q->m->flags & MSGF_AGAIN && a->kind == REQUESTER_PEER ? put_in_again(a, q->m, q->key)
                                                                 : put_in_begin(a, q->m, q->key);
}

/* --- get, pop, head --- */
/*
 * Everything that needs memory is done before the value is removed: the requester must have room
 * for it (else DDICT_ESMALL and its length), and *ready must be there to send it. 0, or
 * DDICT_ENOKEY. *over: the request was answered.
 */
static int pop_ready(struct requester *a, const struct msg *req, const void *key,
                     struct stream_out **ready, bool *over) {
    struct store_ref ref;
    int e = store_find(a->m->store, key, req->key_len, &ref);
    if (e == 0 && (item_is_loaded(ref.item) || item_is_link(ref.item))) {
        request_failed(a, req, item_is_link(ref.item) ? DDICT_ELINK : DDICT_ESEALED);
        *over = true;
        return 0;
    }
    if (e < 0 || request_placed(a, req) || flight_for_nobody(a))
        return e;
    if (!request_takes(a, req, &ref)) {
        request_pop_small(a, req, &ref);
        *over = true;
    } else if (!item_goes_whole(ref.item) &&
               !(*ready = stream_out_new(a->m, item_away(ref.item) ? &ref : NULL))) {
        if (!flight_fails(a->m, req))
            request_failed(a, req, -ENOMEM);
        *over = true;
    }
    return 0;
}

/* 0: take the value. 1: it is in flight. Negative: refuse it. */
static int pop_sent(struct requester *a, const struct msg *req, const void *key,
                    struct stream_out **ready, uint64_t began) {
    int e = flight_send(a, req, REPL_POP, key, key_hash(key, req->key_len), NULL, began, 0);
    if (e == 0)
        return 0;
    stream_out_drop(*ready);
    *ready = NULL;
    return e;
}

/* Of a HEAD that waits for another version: as request_look(). */
static int look_changed(struct requester *a, const struct msg *req, const void *key) {
    struct msg r;
    reply_init(&r, req->id, a->m->setup->id);
    if (!rule_is_met(a->m, req, key, key_hash(key, req->key_len), &r.version))
        return DDICT_ENOKEY;
    requester_send(a, &r, NULL, 0);
    return 0;
}

int request_look(struct requester *a, const struct msg *req, const void *key) {
    if (req->rule)
        return look_changed(a, req, key);
    struct manager *m = a->m;
    struct store_ref ref, next;
    uint64_t began = clock_ns();
    struct stream_out *ready = NULL;
    bool pop = req->type == MSG_POP, over = false;
    int e =
        pop ? pop_ready(a, req, key, &ready, &over) : store_find(m->store, key, req->key_len, &ref);
    if (e == DDICT_ENOKEY || over)
        return e;
    if (req->type == MSG_GET && e == 0 && item_is_link(ref.item)) {
        request_failed(a, req, DDICT_ELINK);
        return 0;
    }
    if (faults.on && e == 0)
        faults_found(req->type);
    if (pop && e == 0 && m->flights)
        e = pop_sent(a, req, key, &ready, began);
    if (e > 0)
        return 0;
    if (pop && e == 0)
        e = store_pop(m->store, key, req->key_len, &ref, &next);
    if (faults.on && pop)
        faults_step(STEP_CHANGED);
    if (e < 0) {
        stream_out_drop(ready);
        if (!flight_fails(m, req))
            request_failed(a, req, e);
        return 0;
    }
    if (pop)
        requester_changed(a, req->id, 0, &ref);
    uint64_t hash = ref.item->hash; /* the item may be gone with its answer */
    if (flight_for_nobody(a))
        store_unpin(m->store, ref.off);
    else
        request_found(a, req, &ref, pop, ready, began);
    if (!pop)
        return 0;
    m->count->deletes++;
    if (m->anew)
        anew_note_removed(m, hash);
    requester_taken(a, req->id);
    subscriptions_del(m, key, req->key_len);
    if (next.item)
        subscriptions_put(m, next.item, next.item->version);
    queue_next(m, key, req->key_len, hash);
    waiters_changed(m, key, req->key_len, hash);
    return 0;
}

static int take_get(struct requester *a, const struct request *q) {
    const struct msg *m = q->m;
    if (waits_behind(a, q))
        return TAKE_DONE;
    if (m->type == MSG_HEAD && m->flags & MSGF_APPEND) {
        queue_open(a, m, q->key, q->hash);
        return TAKE_DONE;
    }
    if (request_look(a, m, q->key) == 0)
        return TAKE_DONE;
    if (m->flags & MSGF_WAIT && m->aux > 0) {
        if (waiter_add(a, m, q->key, q->hash) < 0)
            requester_reply(a, m, -ENOMEM, NULL);
        return TAKE_DONE;
    }
    if (m->rule) {
        requester_reply(a, m, -ETIMEDOUT, NULL);
        return TAKE_DONE;
    }
    if (a->m->anew && anew_hold_or_refuse(a, m, q->key, q->hash, NULL, clock_ns()))
        return TAKE_DONE;
    if (m->type != MSG_HEAD)
        a->m->count->misses++;
    requester_reply(a, m, DDICT_ENOKEY, NULL);
    return TAKE_DONE;
}

/* --- the rest --- */
/* 0: remove it. 1: it is in flight. Negative: refuse it. */
static int del_sent(struct requester *a, const struct request *q, uint64_t began) {
    struct store_ref there;
    int e = flight_commits(a->m, q->m) ? 0 : store_find(a->m->store, q->key, q->m->key_len, &there);
    return e < 0 ? e : flight_send(a, q->m, REPL_DEL, q->key, q->hash, NULL, began, 0);
}

static void del_failed(struct requester *a, const struct request *q, int e) {
    if (q->m->rule && (e == DDICT_ECHANGED || e == DDICT_ENOKEY))
        rule_refuse(a, q->m, q->key, e);
    else
        request_failed(a, q->m, e);
}

static int del_judge(struct requester *a, const struct request *q) {
    if (is_sealed(a->m, q->m, q->key))
        return DDICT_ESEALED;
    if (is_linked(a->m, q->m, q->key))
        return DDICT_ELINK;
    bool judged = !q->m->rule || (a->m->flights && flight_commits(a->m, q->m));
    return judged ? 0 : rule_judge(a->m, q->m, q->key, true, NULL);
}

static int take_del(struct requester *a, const struct request *q) {
    const struct msg *m = q->m;
    uint64_t began = clock_ns();
    if (waits_behind(a, q))
        return TAKE_DONE;
    /* else it could come back when its source is read */
    if (m->flags & MSGF_LOADED && anew_hold(a, m, q->key, q->hash, NULL, began))
        return TAKE_DONE;
    int e = del_judge(a, q);
    if (e == 0 && a->m->flights)
        e = del_sent(a, q, began);
    if (e == 0)
        e = store_remove(a->m->store, q->key, m->key_len, NULL);
    if (e == DDICT_ENOKEY && a->m->anew && anew_hold_or_refuse(a, m, q->key, q->hash, NULL, began))
        return TAKE_DONE;
    if (e < 0 && !flight_fails(a->m, m))
        del_failed(a, q, e);
    if (e != 0)
        return TAKE_DONE;
    a->m->count->deletes++;
    if (a->m->anew)
        anew_note_removed(a->m, q->hash);
    if (faults.on)
        faults_step(STEP_CHANGED);
    requester_changed(a, m->id, 0, NULL);
    requester_reply(a, m, 0, NULL);
    requester_taken(a, m->id);
    subscriptions_del(a->m, q->key, m->key_len);
    queue_next(a->m, q->key, m->key_len, q->hash);
    waiters_changed(a->m, q->key, m->key_len, q->hash);
    a->m->now = clock_ns();
    count_latency(a->m, DDICT_LATENCY_DEL, began, a->m->now);
    return TAKE_DONE;
}

struct key_list {
    uint8_t *bytes;
    size_t len, cap, seen;
    const uint8_t *prefix;
    uint32_t prefix_len;
};

static int key_list_add(void *arg, const void *key, uint32_t key_len) {
    struct key_list *l = arg;
    l->seen += key_len + KEY_SEEN;
    if (l->prefix_len > key_len || memcmp(l->prefix, key, l->prefix_len) != 0)
        return 0;
    if (l->cap - l->len < key_len + sizeof key_len) {
        size_t cap = 2 * (l->len + key_len + KEYS_REPLY_BYTES);
        uint8_t *bytes = realloc(l->bytes, cap);
        if (!bytes)
            return -ENOMEM;
        l->bytes = bytes;
        l->cap = cap;
    }
    memcpy(l->bytes + l->len, &key_len, sizeof key_len);
    memcpy(l->bytes + l->len + sizeof key_len, key, key_len);
    l->len += sizeof key_len + key_len;
    return 0;
}

static void free_done(struct manager *m, uint64_t arg, void *ptr) {
    free(ptr);
}

static int take_keys(struct requester *a, const struct request *q) {
    const struct msg *m = q->m;
    struct key_list l = {.prefix = q->key, .prefix_len = m->key_len};
    uint64_t cursor = m->aux;
    int e;
    do
        e = store_keys(a->m->store, &cursor, key_list_add, &l);
    while (e >= 0 && cursor != 0 && l.len < KEYS_REPLY_BYTES && l.seen < KEYS_SEEN_BYTES);
    if (e < 0) {
        free(l.bytes);
        request_failed(a, m, e);
        return TAKE_DONE;
    }
    struct msg r;
    reply_init(&r, m->id, a->m->setup->id);
    r.aux = cursor;
    r.val_len = l.len;
    a->m->now = clock_ns();
    if (l.len <= DD_MSG_INLINE) {
        requester_send(a, &r, l.bytes, l.len);
        free(l.bytes);
    } else if (stream_out_begin(a, &r, l.bytes, l.len, m->val_len, free_done, 0, l.bytes) < 0) {
        free(l.bytes);
        requester_reply(a, m, -ENOMEM, NULL);
    }
    return TAKE_DONE;
}

static int stats_reply(struct requester *a, const struct request *q,
                       const struct manager_stats *s) {
    struct msg r;
    reply_init(&r, q->m->id, a->m->setup->id);
    r.val_len = sizeof *s;
    requester_send(a, &r, s, sizeof *s);
    return TAKE_DONE;
}

static int take_stats(struct requester *a, const struct request *q) {
    struct manager_stats s;
    manager_figures(a->m, &s);
    int e = stats_reply(a, q, &s);
    a->m->now = clock_ns();
    return e;
}

/* Of a manager that is gone with its node. */
static int take_stats_of(struct requester *a, const struct request *q, uint32_t gone) {
    struct manager_stats s;
    figures_of_gone(a->m, gone, &s);
    return stats_reply(a, q, &s);
}

static int take_len(struct requester *a, const struct request *q) {
    struct msg r;
    reply_init(&r, q->m->id, a->m->setup->id);
    r.aux = a->m->header->num_keys;
    requester_send(a, &r, NULL, 0);
    return TAKE_DONE;
}

static int take_clear(struct requester *a, const struct request *q) {
    if (waits_behind(a, q))
        return TAKE_DONE;
    int e = a->m->flights ? flight_send(a, q->m, REPL_CLEAR, NULL, 0, NULL, clock_ns(), 0) : 0;
    if (e == 0)
        e = anew_clear(a->m);
    if (e < 0 && !flight_fails(a->m, q->m))
        request_failed(a, q->m, e);
    if (e != 0)
        return TAKE_DONE;
    if (faults.on)
        faults_step(STEP_CHANGED);
    requester_changed(a, q->m->id, 0, NULL);
    requester_reply(a, q->m, 0, NULL);
    requester_taken(a, q->m->id);
    subscriptions_clear(a->m);
    queues_clear(a->m);
    waiters_cleared(a->m);
    a->m->now = clock_ns();
    return TAKE_DONE;
}

static int take_events(struct requester *a, const struct request *q) {
    subscription_ask(a, q->m, q->key);
    return TAKE_DONE;
}

static int take_probe(struct requester *a, const struct request *q) {
    probe_take(a, q->m);
    return TAKE_DONE;
}

static int take_alive(struct requester *a, const struct request *q) {
    alive_ask(a, q->m);
    a->m->now = clock_ns(); /* the search may have gone through thousands */
    return TAKE_DONE;
}

static int take_freeze(struct requester *a, const struct request *q) {
    freeze_ask(a, q->m);
    return TAKE_DONE;
}

static int take_prefetch(struct requester *a, const struct request *q) {
    return prefetch_take(a, q->m, q->payload);
}

/* --- of a request that is under way --- */

/* A piece in the area of the lane: as one in its ring. */
static int data_of_area(struct requester *a, const struct msg *m) {
    struct msg piece = *m;
    const uint8_t *at = a->ops->place ? a->ops->place(a, m->version, m->val_len) : NULL;
    if (!at)
        return DDICT_EPROTO;
    piece.flags &= (uint16_t)~MSGF_AREA;
    piece.len = MSG_HEADER + (uint32_t)m->val_len;
    piece.val_len = piece.version = 0;
    return put_in_data(a, &piece, at);
}

static int take_data(struct requester *a, const struct request *q) {
    int e;
    if (parked_data(a, q->m, q->payload, &e))
        return e;
    return q->m->flags & MSGF_AREA ? data_of_area(a, q->m) : put_in_data(a, q->m, q->payload);
}

static int take_abort(struct requester *a, const struct request *q) {
    if (put_in_abort(a, q->m->id) && a->parkings)
        parked_drop(a, q->m->id);
    return TAKE_DONE;
}

static int take_credit(struct requester *a, const struct request *q) {
    if (!rma_export_more(a, q->m->id, q->m->aux))
        stream_out_more(a, q->m->id, q->m->aux);
    return TAKE_DONE;
}

static int take_took(struct requester *a, const struct request *q) {
    results_took(a, q->m->id);
    return TAKE_DONE;
}

/* The request is parked, or is a put of which pieces may be parked. */
static bool cancel_parked(struct requester *a, uint64_t id) {
    if (!put_in_cancel(a, id))
        return parked_cancel(a, id, -ECANCELED);
    parked_drop(a, id);
    return true;
}

static int take_cancel(struct requester *a, const struct request *q) {
    uint64_t id = q->m->aux;
    if (a->parkings && cancel_parked(a, id))
        return TAKE_DONE;
    if (!pending_cancel(a, id, -ECANCELED) && !forward_cancel(a, id) && !freeze_cancel(a, id) &&
        !rma_export_cancel(a, id, -ECANCELED))
        stream_out_cancel(a, id, -ECANCELED);
    if (a->puts)
        put_in_over(a, id);
    a->m->now = clock_ns(); /* the search may have gone through thousands */
    return TAKE_DONE;
}

static int take_knows(struct requester *a, const struct request *q) {
    struct msg r = {.type = MSG_FORGOT, .id = q->m->id, .manager = a->m->setup->id};
    if (!requester_knows(a, q->m->id))
        requester_send(a, &r, NULL, 0);
    a->m->now = clock_ns(); /* the search may have gone through thousands */
    return TAKE_DONE;
}

/* --- the table --- */
enum { OF_LANES = 1u << REQUESTER_LANE, OF_PEERS = 1u << REQUESTER_PEER, OF_ALL = 3 };

static const struct request_row {
    uint8_t of; /* who may send it; 0: not a request */
    /* the manager of the key's hash, or `manager` of the header */
    enum { HERE, BY_KEY, BY_NUMBER } whose;
    bool writes; /* refused unless the dictionary is OPEN */
    /* results as of request_take() */
    int (*take)(struct requester *a, const struct request *q);
} rows[MSG_TYPE_N] = {
    [MSG_PUT] = {OF_ALL, BY_KEY, true, take_put},
    [MSG_GET] = {OF_ALL, BY_KEY, false, take_get},
    [MSG_POP] = {OF_ALL, BY_KEY, true, take_get},
    [MSG_HEAD] = {OF_ALL, BY_KEY, false, take_get},
    [MSG_DEL] = {OF_ALL, BY_KEY, true, take_del},
    [MSG_CLEAR] = {OF_ALL, BY_NUMBER, true, take_clear},
    [MSG_LEN] = {OF_ALL, BY_NUMBER, false, take_len},
    [MSG_KEYS] = {OF_ALL, BY_NUMBER, false, take_keys},
    [MSG_STATS] = {OF_ALL, BY_NUMBER, false, take_stats},
    [MSG_EVENTS] = {OF_ALL, BY_NUMBER, false, take_events},
    [MSG_PROBE] = {OF_ALL, BY_NUMBER, false, take_probe},
    [MSG_ALIVE] = {OF_ALL, BY_NUMBER, false, take_alive},
    [MSG_DATA] = {OF_ALL, HERE, false, take_data},
    [MSG_ABORT] = {OF_ALL, HERE, false, take_abort},
    [MSG_CREDIT] = {OF_ALL, HERE, false, take_credit},
    [MSG_CANCEL] = {OF_ALL, HERE, false, take_cancel},
    [MSG_TOOK] = {OF_PEERS, HERE, false, take_took},
    [MSG_KNOWS] = {OF_LANES, HERE, false, take_knows},
    [MSG_FREEZE] = {OF_LANES, HERE, false, take_freeze},
    [MSG_PREFETCH] = {OF_LANES, HERE, false, take_prefetch},
};

bool request_allowed(const struct requester *a, unsigned type) {
    return rows[type].of & 1u << a->kind;
}

static uint32_t owner_of(struct manager *m, const struct request_row *row, struct request *q) {
    if (row->whose == HERE)
        return m->setup->id;
    if (row->whose == BY_NUMBER)
        return q->m->manager;
    q->hash = key_hash(q->key, q->m->key_len);
    return deal_owner(&m->setup->deal, q->key, q->m->key_len, q->hash);
}

/* Its owner is manager `to`. */
static int take_elsewhere(struct requester *a, const struct request *q, uint32_t to) {
    struct manager *m = a->m;
    /* of a later life a part of the value may stand in CQ: its owner goes on behind that */
    if (m->frozen && !m->resumed && q->m->type == MSG_GET && cache_look(a, q->m, q->key))
        return TAKE_DONE;
    bool known = a->kind == REQUESTER_LANE && m->setup->peers && to < m->setup->managers;
    if (known && q->m->type == MSG_STATS && peer_is_gone(m, to))
        return take_stats_of(a, q, to);
    if (known && q->m->type == MSG_ALIVE && peer_is_gone(m, to)) {
        requester_reply(a, q->m, 0, NULL); /* with its clients */
        return TAKE_DONE;
    }
    if (known)
        return parked_begin(a, q->m, q->payload, q->key, q->hash, to);
    int e = put_refused(a, q->m);
    if (e >= 0)
        requester_reply(a, q->m, DDICT_EPROTO, "this key belongs to another manager");
    return e;
}

int request_take(struct requester *a, const struct msg *m, const uint8_t *payload) {
    struct manager *mg = a->m;
    const struct request_row *row = &rows[m->type];
    struct request q = {.m = m, .payload = payload, .key = payload};
    if (!request_allowed(a, m->type))
        return DDICT_EPROTO;
    if (m->key_len > 0 && a->kind == REQUESTER_LANE) {
        memcpy(mg->key, payload, m->key_len);
        q.key = mg->key;
    }
    uint32_t to = owner_of(mg, row, &q);
    if (faults.on && m->type != MSG_DATA && faults_request(m->type))
        return TAKE_DONE;
    if (to != mg->setup->id)
        return take_elsewhere(a, &q, to);
    if (mg->shut && row->writes && !mg->resumed && !put_in_is_kept(a, m)) {
        if (request_is_refill(mg, m))
            return freeze_keeps_out(mg) ? TAKE_LATER : row->take(a, &q);
        if (request_is_restore(mg, m))
            return row->take(a, &q);
        int e = put_refused(a, m);
        if (e >= 0)
            freeze_refuse(a, m);
        return e;
    }
    return row->take(a, &q);
}

void request_run(struct requester *a, const struct msg *req, const uint8_t *key, uint64_t hash,
                 struct store_ref *ref, uint64_t began) {
    struct request q = {.m = req, .key = key, .hash = hash};
    if (req->type == MSG_PUT)
        request_commit(a, req, ref, began);
    else
        rows[req->type].take(a, &q);
}

void request_key_next(struct manager *m, const void *key, uint32_t key_len, uint64_t hash) {
    if (!key) {
        queues_clear(m);
        return;
    }
    queue_next(m, key, key_len, hash);
    waiters_wake(m, key, key_len, hash);
}
