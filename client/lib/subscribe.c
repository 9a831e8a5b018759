/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subscribe.c - subscriptions: each manager always has one EVENTS request of ours, which names the
 * first event wanted by its number (PROTOCOL 8). These numbers are the whole state, so a forked
 * child goes on from them with its own requests.
 */
#include "request.h"
#include <base/hidden_key.h>
#include <wire/event.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ASK_US 60000000u /* a manager without events answers after this time */
#define FLAGS  (DDICT_SUB_DELS | DDICT_SUB_VALUES | DDICT_SUB_THERE | DDICT_SUB_HIDDEN)

struct source { /* one for each manager */
    struct request r;
    uint64_t number;   /* number of its next event */
    bool asked, known; /* asked: an answer is awaited; known: number is valid */
};
struct ddict_sub {
    ddict_t *d;
    uint64_t session_id; /* session of the requests */
    unsigned flags, managers, nlocal;
    struct source *source;               /* [managers] */
    struct batch *batch;                 /* [nlocal] */
    struct client_lane **lane;           /* [nlocal] */
    struct batch **batches;              /* [nlocal]; pointers to batch */
    unsigned owners, known_n, unasked_n; /* owners: managers with keys, who alone have events */
    ddict_iter_t *existing;
    uint8_t *events; /* the answer being read */
    size_t len, at;
    unsigned from;   /* its manager */
    uint64_t missed; /* events that were lost before this answer */
    size_t prefix_len;
    uint8_t prefix[];
};

static void sources_forget(struct ddict_sub *sub) {
    for (unsigned m = 0; m < sub->managers; m++) {
        sub->source[m].asked = false;
        request_drop(&sub->source[m].r);
    }
    sub->unasked_n = sub->owners;
}

static int session_adopt(struct ddict_sub *sub, struct session *s) {
    if (sub->session_id == s->id)
        return 0;
    if (s->managers != sub->managers || s->nlocal != sub->nlocal)
        return dd_error(DDICT_EGONE, "the subscription is of another dictionary");
    sources_forget(sub);
    for (unsigned i = 0; i < s->nlocal; i++) {
        sub->batch[i] = (struct batch){0};
        sub->batches[i] = &sub->batch[i];
        sub->lane[i] = &s->local[i].lane;
    }
    sub->session_id = s->id;
    return 0;
}

/* Returns 0 also if there is no room to ask now. */
static int source_ask(struct ddict_sub *sub, struct session *s, unsigned m) {
    struct source *c = &sub->source[m];
    struct node_manager *l = session_route(s, m);
    struct outgoing out = {.head = {.type = MSG_EVENTS,
                                    .manager = m,
                                    .key_len = (uint32_t)sub->prefix_len,
                                    .version = c->known ? c->number : 0,
                                    .val_len = sub->flags & DDICT_SUB_VALUES ? DD_EVENT_INLINE : 0},
                           .key = sub->prefix};
    if (c->known) {
        out.head.flags = MSGF_WAIT;
        out.head.aux = ASK_US;
    }
    memset(&c->r, 0, sizeof c->r);
    c->r.sink = SINK_MEMORY;
    c->r.index = m;
    c->r.batch = &sub->batch[l - s->local];
    int rc = client_lane_try_send(&l->lane, &out, &c->r);
    if (rc <= 0)
        return rc;
    c->asked = true;
    sub->unasked_n--;
    return 0;
}

/* An answer that has arrived; NULL: none. */
static struct request *answer_take(struct ddict_sub *sub) {
    struct request *r = NULL;
    for (unsigned i = 0; !r && i < sub->nlocal; i++) {
        struct client_lane *p = sub->lane[i];
        client_lane_lock(p);
        if (client_lane_has_records(p))
            client_lane_drain(p);
        r = sub->batch[i].done;
        if (r)
            sub->batch[i].done = r->next;
        client_lane_unlock(p);
    }
    return r;
}

static int answer_read(struct ddict_sub *sub, struct session *s, struct request *r) {
    unsigned m = r->index;
    struct source *c = &sub->source[m];
    c->asked = false;
    sub->unasked_n++;
    if (r->status == -ESTALE) { /* it is asked again */
        request_drop(r);
        return 0;
    }
    if (r->status < 0)
        return request_error(s, session_route(s, m), r, r->status);
    if (!c->known)
        sub->known_n++;
    else
        sub->missed = r->reply.version;
    c->known = true;
    c->number = r->reply.aux;
    free(sub->events);
    sub->events = r->buf;
    sub->len = r->got;
    sub->at = 0;
    sub->from = m;
    r->buf = NULL;
    return 0;
}

/* Read the next event of the present answer: 1, or 0 at its end. */
static int event_read(struct ddict_sub *sub, struct ddict_event *e) {
    struct event_record v;
    if (sub->missed > 0) {
        *e = (struct ddict_event){
            .kind = DDICT_EVENT_MISSED, .manager = sub->from, .missed = sub->missed};
        sub->missed = 0;
        return 1;
    }
    while (sub->at < sub->len) {
        size_t left = sub->len - sub->at - sizeof v;
        if (sub->len - sub->at < sizeof v)
            break;
        memcpy(&v, sub->events + sub->at, sizeof v);
        size_t got = v.got == EVENT_NO_VALUE ? 0 : v.got;
        if (v.key_len > left || got > left - v.key_len)
            break;
        const uint8_t *key = sub->events + sub->at + sizeof v;
        sub->at += sizeof v + v.key_len + got;
        if (v.kind < EVENT_PUT || v.kind > EVENT_CLEAR ||
            (v.kind != EVENT_PUT && !(sub->flags & DDICT_SUB_DELS)) ||
            (v.kind != EVENT_CLEAR && !(sub->flags & DDICT_SUB_HIDDEN) &&
             key_is_hidden(key, v.key_len)))
            continue;
        *e = (struct ddict_event){.kind = v.kind,
                                  .manager = sub->from,
                                  .version = v.version,
                                  .vlen = v.val_len,
                                  .tag = v.tag};
        if (v.kind != EVENT_CLEAR) {
            e->key = key;
            e->klen = v.key_len;
        }
        if (v.got != EVENT_NO_VALUE)
            e->val = key + v.key_len;
        return 1;
    }
    int rc = sub->at == sub->len
                 ? 0
                 : dd_error(DDICT_EPROTO, "the events of manager %u are malformed", sub->from);
    sub->at = sub->len = 0;
    return rc;
}

static int existing_read(struct ddict_sub *sub, struct ddict_event *e, struct session *s,
                         struct call_deadline *w) {
    *e = (struct ddict_event){.kind = DDICT_EVENT_PUT};
    int rc = iter_next_within(sub->existing, &e->key, &e->klen, s, w, false);
    if (rc == -ETIMEDOUT)
        return rc; /* the next call goes on with it */
    if (rc == 1) {
        e->manager = ddict_owner(sub->d, e->key, e->klen);
        return 1;
    }
    ddict_iter_close(sub->existing);
    sub->existing = NULL;
    return rc;
}

/* Until all numbers are known, ask only managers whose number is not: a subscription that is not
 * read yet has no request under way. */
static int sources_ask(struct ddict_sub *sub, struct session *s) {
    bool all = sub->known_n == sub->owners;
    for (unsigned m = 0; m < sub->managers && sub->unasked_n > 0; m++) {
        const struct source *c = &sub->source[m];
        int rc =
            c->asked || (c->known && !all) || !deal_owns(&s->deal, m) ? 0 : source_ask(sub, s, m);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Wait until an answer was read or the deadline ends. A manager that cannot be asked now does not
 * delay the others. */
static int answer_await(struct ddict_sub *sub, struct session *s, struct call_deadline *w) {
    for (;;) {
        int rc = sources_ask(sub, s);
        if (rc < 0)
            return rc;
        struct request *r = answer_take(sub);
        if (r)
            return answer_read(sub, s, r);
        int slice = call_deadline_slice(w);
        if (slice < 0)
            return slice;
        if (sub->unasked_n > 0 && slice > DD_WAIT_SLICE_MS)
            slice = DD_WAIT_SLICE_MS; /* no wake-up comes when the ring has room */
        if ((slice = client_lanes_wait_any(sub->lane, sub->batches, sub->nlocal, slice)) < 0)
            return slice;
    }
}

int ddict_next_event(ddict_sub_t *sub, struct ddict_event *e, int timeout_ms) {
    struct session *s;
    struct call_deadline w;
    int rc = session_enter(sub->d, &s, timeout_ms);
    if (rc == 0)
        rc = session_adopt(sub, s);
    if (rc < 0)
        return rc == -ETIMEDOUT ? 0 : rc; /* after a fork: the next call goes on with the attach */
    call_deadline_init(&w, s, timeout_ms);
    while (rc == 0) {
        if ((rc = sub->at < sub->len || sub->missed > 0 ? event_read(sub, e) : 0) != 0)
            return rc;
        if (sub->existing && (rc = existing_read(sub, e, s, &w)) != 0)
            return rc == -ETIMEDOUT ? 0 : rc;
        rc = answer_await(sub, s, &w);
    }
    return rc == -ETIMEDOUT ? 0 : rc;
}

static void sources_give_up(struct ddict_sub *sub, struct session *s) {
    for (unsigned m = 0; m < sub->managers; m++) {
        struct source *c = &sub->source[m];
        if (c->asked)
            client_lane_cancel(&session_route(s, m)->lane, &c->r);
    }
}

void ddict_unsubscribe(ddict_sub_t *sub) {
    if (!sub)
        return;
    struct session *s = __atomic_load_n(&sub->d->session, __ATOMIC_ACQUIRE);
    if (s && s->id == sub->session_id)
        sources_give_up(sub, s);
    for (unsigned m = 0; m < sub->managers; m++)
        request_drop(&sub->source[m].r);
    ddict_iter_close(sub->existing);
    free(sub->events);
    free(sub->source);
    free(sub->batch);
    free(sub->batches);
    free(sub->lane);
    free(sub);
}

static struct ddict_sub *sub_new(ddict_t *d, struct session *s, const void *prefix, size_t plen,
                                 unsigned flags) {
    struct ddict_sub *sub = calloc(1, sizeof *sub + plen);
    if (!sub)
        return NULL;
    sub->d = d;
    sub->flags = flags | (plen > 0 && key_is_hidden(prefix, plen) ? DDICT_SUB_HIDDEN : 0);
    sub->managers = s->managers;
    sub->owners = s->deal.owners;
    sub->nlocal = s->nlocal;
    sub->source = calloc(s->managers, sizeof *sub->source);
    sub->batch = calloc(s->nlocal, sizeof *sub->batch);
    sub->batches = calloc(s->nlocal, sizeof *sub->batches);
    sub->lane = calloc(s->nlocal, sizeof *sub->lane);
    sub->prefix_len = plen;
    if (plen > 0)
        memcpy(sub->prefix, prefix, plen);
    if (sub->source && sub->batch && sub->batches && sub->lane)
        return sub;
    sub->managers = 0;
    ddict_unsubscribe(sub);
    return NULL;
}

int ddict_subscribe(ddict_t *d, const void *prefix, size_t plen, unsigned flags, ddict_sub_t **out,
                    int timeout_ms) {
    struct session *s;
    struct call_deadline w;
    *out = NULL;
    int rc = session_enter(d, &s, timeout_ms);
    if (rc < 0)
        return rc;
    if (flags & ~FLAGS)
        return dd_error(-EINVAL, "subscribe with unknown flags 0x%x", flags);
    if (plen > DDICT_KEY_MAX)
        return dd_error(DDICT_EKEYSIZE, "a prefix of %zu bytes: it may have %u", plen,
                        DDICT_KEY_MAX);
    if (unlikely(s->working_set) && !(plen > 0 && key_is_hidden(prefix, plen)))
        return dd_error(-EOPNOTSUPP,
                        "a dictionary with a working set has subscriptions to hidden keys alone");
    if (timeout_ms == 0)
        return dd_error(-ETIMEDOUT,
                        "the managers must be asked, which a timeout of 0 does not allow");
    struct ddict_sub *sub = sub_new(d, s, prefix, plen, flags);
    if (!sub)
        return dd_error(-ENOMEM, "no memory for a subscription to %u managers", s->managers);
    call_deadline_init(&w, s, timeout_ms);
    rc = session_adopt(sub, s);
    while (rc == 0 && sub->known_n < sub->owners)
        rc = answer_await(sub, s, &w);
    sub->len = sub->at = 0;
    if (rc == 0 && flags & DDICT_SUB_THERE)
        rc = ddict_iter_open_flags(d, -1, prefix, plen,
                                   flags & DDICT_SUB_HIDDEN ? DDICT_ITER_HIDDEN : 0, &sub->existing,
                                   timeout_ms);
    if (rc < 0) {
        ddict_unsubscribe(sub);
        return rc;
    }
    *out = sub;
    return 0;
}

int ddict_ending(ddict_t *d) {
    struct session *s;
    int rc = session_enter(d, &s, -1);
    return rc < 0 ? rc
                  : (__atomic_load_n(&s->status_page->state, __ATOMIC_ACQUIRE) & ~STATUS_BITS) ==
                        STATUS_DRAINING;
}
