/* SPDX-License-Identifier: Apache-2.0 */
/* requester.c - who sends requests; answers go to its carrier. */
#include "requester.h"

#include "ledger.h"
#include <base/log.h>

#include <string.h>

void requester_init(struct requester *a, struct manager *m, enum requester_kind kind,
                    const struct carrier_ops *ops, uint64_t who) {
    memset(a, 0, sizeof *a);
    a->m = m;
    a->kind = kind;
    a->ops = ops;
    a->who = who;
    a->streams_out_end = &a->streams_out;
    a->forwards_end = &a->forwards;
}

void requester_send(struct requester *a, struct msg *r, const void *payload, size_t len) {
    if (a->gone)
        return;
    r->len = (uint32_t)(MSG_HEADER + len);
    a->ops->send(a, r, payload, len);
}

void requester_reply(struct requester *a, const struct msg *req, int status, const char *text) {
    struct msg r;
    reply_init(&r, req->id, a->m->setup->id);
    r.status = status;
    requester_send(a, &r, text, text ? strlen(text) : 0);
}

struct ledger_entry *requester_enter(struct requester *a, const struct msg *req, const void *key,
                                     const void *value, uint64_t deadline) {
    struct manager *m = a->m;
    struct ledger_entry *e = m->resumed;
    uint32_t n = value ? req->len - MSG_HEADER - req->key_len : 0;
    m->resumed = NULL;
    if (e && a->kind == REQUESTER_PEER) { /* its proxy sends it again */
        ledger_end(m->setup->ledger, e);
        return NULL;
    }
    if (e)
        e->deadline = deadline; /* of a value in pieces: it waits from now on */
    if (e || !m->setup->ledger || !key || a->kind != REQUESTER_LANE)
        return e;
    manager_ledger_look(m);
    /* what was parked has left SQ */
    uint64_t at = a->ops->position(a) - (a->unparks ? 1 : 0);
    return ledger_add(m->setup->ledger, a->who, at, deadline, req, key, value, n);
}

struct ledger_entry *requester_enter_rest(struct requester *a, const struct msg *req,
                                          const void *key) {
    struct manager *m = a->m;
    struct ledger_entry *e = m->answering ? *m->answering : NULL;
    if (!m->answering)
        return requester_enter(a, req, key, NULL, 0);
    if (!e || e->client != a->who || e->req.id != req->id)
        return NULL;
    *m->answering = NULL;
    m->answering = NULL;
    return e;
}

void requester_begin(struct requester *a, struct ledger_entry **e) {
    struct store_source from = {.at = LEDGER_SOURCE | (*e)->seq, .id = (*e)->req.id};
    a->ops->source(a, &from);
    a->m->answering = e;
    store_begin(a->m->store, &from);
    if (faults.on)
        faults_step(STEP_BEGUN);
}

void requester_entry_end(struct manager *m, struct ledger_entry **e) {
    if (faults.on)
        faults_step(STEP_ANSWERED);
    ledger_end(m->setup->ledger, *e);
    if (faults.on)
        faults_step(STEP_TAKEN);
    *e = NULL;
}

void requester_entry_taken(struct requester *a, uint64_t id) {
    struct ledger_entry **e = a->m->answering;
    if (*e && (*e)->client == a->who && (*e)->req.id == id)
        requester_entry_end(a->m, e);
}

void requester_drop(struct requester *a, const char *why) {
    if (a->gone)
        return;
    a->gone = true;
    a->m->reap = true;
    log_warn("%s %llu is dropped: %s", a->ops->name, (unsigned long long)(a->who & ~(1ull << 63)),
             why);
}
