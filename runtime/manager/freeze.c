/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze.c - a manager's part in freeze and unfreeze (PROTOCOL 9). ddictd orders the next state;
 * the manager reports when it has reached it. CLOSED takes a while: streamed puts may end first,
 * and cached items are removed some at a time, between requests.
 */
#include "freeze.h"

#include "manager.h"
#include "prefetch.h"
#include "replica_flight.h"
#include "requester.h"
#include "supmsg.h"
#include <base/error.h>

#include <errno.h>
#include <stdlib.h>

#define DROP_ITEMS 2048u /* cached items removed at a time: about half a millisecond */

struct freeze_ask {
    struct freeze_ask *next;
    struct requester *requester;
    struct msg req;
    uint64_t id;
    struct ledger_entry *entry; /* NULL: it has none, or that goes with its answer */
};
struct freeze {
    struct manager *m;
    struct freeze_ask *asks;
    uint64_t next_id;
    bool closing;    /* CLOSED was ordered and is not reported yet */
    bool completing; /* while closing: streamed puts may end */
    uint64_t epoch;
    struct timer late;
};

int freeze_init(struct manager *m) {
    uint64_t was = m->header->freeze;
    m->freeze = calloc(1, sizeof *m->freeze);
    if (!m->freeze)
        return -ENOMEM;
    m->freeze->m = m;
    /* what an ask of an earlier life is told is no answer to one of this */
    m->freeze->next_id = (uint64_t)m->setup->page->lives << 32;
    /* A manager before this one on the same arena left its state there. */
    m->shut = FREEZE_STATE(was) != FREEZE_OPEN;
    m->frozen = FREEZE_STATE(was) == FREEZE_FROZEN ? FREEZE_EPOCH(was) : 0;
    m->restoring = FREEZE_STATE(was) == FREEZE_RESTORING;
    return 0;
}

void freeze_free(struct manager *m) {
    if (!m->freeze)
        return;
    while (m->freeze->asks) {
        struct freeze_ask *q = m->freeze->asks;
        m->freeze->asks = q->next;
        free(q);
    }
    timer_clear(&m->timers, &m->freeze->late);
    free(m->freeze);
    m->freeze = NULL;
}

/* --- what clients ask --- */
void freeze_ask(struct requester *a, const struct msg *req) {
    struct freeze *f = a->m->freeze;
    if (req->aux > WANT_RESTORING) {
        requester_reply(a, req, DDICT_EPROTO, "no such state of a dictionary");
        return;
    }
    struct freeze_ask *q = malloc(sizeof *q);
    if (!q) {
        requester_reply(a, req, -ENOMEM, NULL);
        return;
    }
    *q = (struct freeze_ask){.next = f->asks, .requester = a, .req = *req, .id = ++f->next_id};
    q->entry = requester_enter(a, req, "", NULL, 0);
    f->asks = q;
    struct sup_msg s = {.type = SUP_FREEZE_ASK, .id = q->id, .status = (int32_t)req->aux};
    manager_tell(a->m, &s);
}

/* Take it out of the list. */
static void ask_end(struct manager *m, struct freeze_ask **at) {
    struct freeze_ask *q = *at;
    *at = q->next;
    if (q->entry)
        requester_entry_end(m, &q->entry);
    m->answering = NULL;
    free(q);
}

static void ask_answer(struct manager *m, struct freeze_ask **at, int status, const char *text) {
    struct freeze_ask *q = *at;
    if (q->entry && !q->requester->gone)
        requester_begin(q->requester, &q->entry);
    requester_reply(q->requester, &q->req, status, text);
    ask_end(m, at);
}

bool freeze_cancel(struct requester *a, uint64_t id) {
    for (struct freeze_ask **at = &a->m->freeze->asks; *at; at = &(*at)->next) {
        if ((*at)->requester != a || (*at)->req.id != id)
            continue;
        ask_answer(a->m, at, -ECANCELED, NULL);
        return true;
    }
    return false;
}

bool freeze_knows(const struct requester *a, uint64_t id) {
    const struct freeze_ask *q = a->m->freeze->asks;
    while (q && (q->requester != a || q->req.id != id))
        q = q->next;
    return q;
}

void freeze_asks_end(struct requester *a) {
    struct freeze *f = a->m->freeze;
    for (struct freeze_ask **at = f ? &f->asks : NULL; at && *at;) {
        if ((*at)->requester == a)
            ask_end(a->m, at);
        else
            at = &(*at)->next;
    }
}

static void ask_done(struct manager *m, uint64_t id, int status) {
    for (struct freeze_ask **at = &m->freeze->asks; *at; at = &(*at)->next) {
        if ((*at)->id != id)
            continue;
        ask_answer(m, at, status, status < 0 ? "as many freezes wait as may" : NULL);
        return;
    }
}

void freeze_refuse(struct requester *a, const struct msg *req) {
    requester_reply(a, req, DDICT_EFROZEN, dd_strerror(DDICT_EFROZEN));
}
bool freeze_refuses_end(const struct manager *m) {
    return m->shut && !m->freeze->completing;
}
static bool puts_may_end(const struct manager *m) {
    return m->freeze->completing && m->puts_open > 0;
}
bool freeze_keeps_out(const struct manager *m) {
    return m->freeze->closing && !puts_may_end(m);
}

/* --- what ddictd says --- */
static void state_tell(struct manager *m, enum freeze_state state) {
    struct sup_msg s = {.type = SUP_FREEZE_AT, .id = m->freeze->epoch, .status = (int32_t)state};
    m->freeze->closing = false;
    manager_tell(m, &s);
}

static void late_fire(struct timer *t) {
    struct freeze *f = (struct freeze *)(void *)((char *)t - offsetof(struct freeze, late));
    f->completing = false; /* freeze_turn() does the rest */
}

void freeze_take(struct manager *m, const struct sup_msg *s) {
    struct freeze *f = m->freeze;
    if (s->type == SUP_FREEZE_SAID) {
        ask_done(m, s->id, s->status);
        return;
    }
    f->epoch = s->id;
    m->shut = s->status != FREEZE_OPEN;
    m->frozen = s->status == FREEZE_FROZEN ? f->epoch : 0;
    m->restoring = s->status == FREEZE_RESTORING;
    store_freeze(m->store, f->epoch, (enum freeze_state)s->status);
    if (s->status != FREEZE_CLOSED) {
        state_tell(m, (enum freeze_state)s->status);
        return;
    }
    prefetch_end(m);
    f->closing = true;
    f->late.fire = late_fire;
    f->completing =
        m->puts_open > 0 && timer_after(&m->timers, &f->late, DD_FREEZE_MS * 1000000ull) == 0;
}

bool freeze_turn(struct manager *m) {
    struct freeze *f = m->freeze;
    if (!f->closing || puts_may_end(m) || flights_open(m))
        return false;
    f->completing = false;
    timer_clear(&m->timers, &f->late);
    if (!store_cache_drop(m->store, DROP_ITEMS))
        state_tell(m, FREEZE_CLOSED);
    return true;
}
