/* SPDX-License-Identifier: Apache-2.0 */
/* results.c - what became of the changes that managers of other nodes asked for. */
#include "results.h"

#include "answers.h"
#include "manager.h"
#include "replica_flight.h"
#include "requester.h"
#include "requests.h"
#include "rules.h"
#include "stream_in.h"
#include "stream_out.h"

#include <errno.h>
#include <stdlib.h>

#define OF_PROXY  (1ull << 63) /* in store_source.client, and requester.who */
#define ITEM_LOST UINT64_MAX   /* there was no memory to keep it */
#define LIFE_OVER UINT64_MAX   /* of a proxy whose node is lost */

static struct results *results_of(const struct manager *m, uint64_t who) {
    return &m->setup->results[(uint32_t)who];
}

static void id_set(struct result *r, uint64_t id) {
    __atomic_store_n(&r->id, id, __ATOMIC_RELEASE);
}

static void item_drop(struct manager *m, struct result *r) {
    if (r->item && r->item != ITEM_LOST)
        store_unpin(m->store, r->item);
    r->item = 0;
}

/* The result of this request, or NULL. */
static struct result *result_find(const struct manager *m, uint64_t who, uint64_t id) {
    struct result *r = result_fits(id) ? &results_of(m, who)->at[(uint32_t)id] : NULL;
    return r && id && r->id == id ? r : NULL;
}

bool result_is_there(const struct manager *m, uint64_t who, uint64_t id) {
    return m->setup->results && result_find(m, who, id);
}

static void result_write(struct results *p, struct result *r, uint64_t id, uint64_t version,
                         uint64_t item) {
    if (p->top <= (uint32_t)id)
        p->top = (uint32_t)id + 1;
    r->version = version;
    r->item = item;
    r->asked = 1; /* over this connection; results_connect() ends that */
    id_set(r, id);
}

void results_enter(struct manager *m, uint32_t proxy, uint64_t id, uint64_t version,
                   const struct store_ref *popped) {
    if (!result_fits(id))
        return;
    struct results *p = results_of(m, proxy);
    struct result *r = &p->at[(uint32_t)id];
    id_set(r, 0);
    item_drop(m, r);
    bool kept = popped && p->life != LIFE_OVER && store_pin(m->store, popped->off) == 0;
    result_write(p, r, id, version, kept ? popped->off : popped ? ITEM_LOST : 0);
}

void results_add(struct requester *a, uint64_t id, uint64_t version,
                 const struct store_ref *popped) {
    results_enter(a->m, (uint32_t)a->who, id, version, popped);
}

/* --- a later life --- */

/* What the record of the last change says (LAYOUT I24), if a proxy had asked for that. */
static void fate_enter(struct manager *m) {
    struct store_fate f;
    if (!store_fate(m->store, &f) || !(f.from.client & OF_PROXY) || !f.happened ||
        (uint32_t)f.from.client >= m->setup->managers || !result_fits(f.from.id) ||
        result_find(m, f.from.client, f.from.id))
        return;
    struct results *p = results_of(m, f.from.client);
    struct result *r = &p->at[(uint32_t)f.from.id];
    id_set(r, 0);
    uint64_t version = f.put ? rule_version((unsigned)f.from.at, f.put, f.version) : f.version;
    result_write(p, r, f.from.id, version, f.item && p->life == LIFE_OVER ? ITEM_LOST : f.item);
}

void results_open(struct manager *m) {
    if (!m->setup->results)
        return;
    fate_enter(m);
    for (uint32_t i = 0; i < m->setup->managers; i++) {
        struct results *p = results_of(m, i);
        for (uint64_t k = 0; k < p->top; k++) {
            struct result *r = &p->at[k];
            if (r->id == 0)
                r->item = 0; /* its last owner had ended it */
            else if (r->item && r->item != ITEM_LOST && store_keep(m->store, r->item) < 0)
                r->item = ITEM_LOST;
        }
    }
}

/* --- connections --- */
bool results_connect(struct manager *m, uint32_t proxy, uint32_t life) {
    if (!m->setup->results)
        return true;
    struct results *p = results_of(m, proxy);
    if (life < p->life)
        return false;
    p->life = life;
    for (uint64_t k = 0; k < p->top; k++)
        p->at[k].asked = 0;
    return true;
}

void results_proxy_lost(struct manager *m, uint32_t proxy) {
    if (!m->setup->results)
        return;
    struct results *p = results_of(m, proxy);
    p->life = LIFE_OVER;
    for (uint64_t k = 0; k < p->top; k++)
        if (m->knows)
            item_drop(m, &p->at[k]);
        else
            p->at[k].item = 0; /* this life has pinned nothing yet */
}

void results_settle(struct manager *m, uint32_t proxy, uint64_t id) {
    struct results *p = results_of(m, proxy);
    for (uint64_t k = 0; k < p->top; k++)
        if (!p->at[k].asked && id_is_before(p->at[k].id, id)) {
            if (p->at[k].item && m->flights)
                flight_took(m, proxy, p->at[k].id);
            item_drop(m, &p->at[k]);
        }
    puts_settle(m, OF_PROXY | proxy, id);
}

void results_leave(struct manager *m, uint32_t proxy, uint64_t id) {
    struct result *r = m->setup->results ? result_find(m, proxy, id) : NULL;
    if (r)
        item_drop(m, r);
}

void results_took(struct requester *a, uint64_t id) {
    if (a->m->flights)
        flight_took(a->m, (uint32_t)a->who, id);
    results_leave(a->m, (uint32_t)a->who, id);
}

/* --- a backup that is filled --- */
const struct result *results_next(struct manager *m, uint32_t *proxy, uint64_t *place) {
    for (; m->setup->results && *proxy < m->setup->managers; ++*proxy, *place = 0) {
        struct results *p = results_of(m, *proxy);
        while (*place < p->top)
            if (p->at[(*place)++].id)
                return &p->at[*place - 1];
    }
    return NULL;
}

int result_popped(struct manager *m, const struct result *r, struct store_ref *item) {
    if (!r->item)
        return 0;
    return r->item != ITEM_LOST && store_item_at(m->store, r->item, item) == 0 ? 1 : -ENOENT;
}

void results_copy(struct manager *m, uint32_t proxy, const struct result *r,
                  const struct store_ref *popped, bool lost) {
    if (!result_fits(r->id))
        return;
    struct result *to = &results_of(m, proxy)->at[(uint32_t)r->id];
    if (to->id && to->id != r->id && !id_is_before(to->id, r->id))
        return;
    results_enter(m, proxy, r->id, r->version, popped);
    if (lost)
        to->item = ITEM_LOST;
}

void results_empty(struct manager *m) {
    for (uint32_t i = 0; m->setup->results && i < m->setup->managers; i++) {
        struct results *p = results_of(m, i);
        for (uint64_t k = 0; k < p->top; k++) {
            id_set(&p->at[k], 0);
            item_drop(m, &p->at[k]);
        }
        p->top = 0;
    }
}

/* --- requests --- */

/* Answer with the value that was popped. */
static void popped_give(struct requester *a, const struct msg *req, uint64_t off) {
    struct manager *m = a->m;
    struct stream_out *ready = NULL;
    struct store_ref ref;
    if (!off || off == ITEM_LOST || store_item_at(m->store, off, &ref) < 0 ||
        store_pin(m->store, off) < 0) {
        requester_reply(a, req, DDICT_ELOST, "the value is lost: there was no memory to keep it");
        return;
    }
    if (!item_goes_whole(ref.item) &&
        !(ready = stream_out_new(m, item_away(ref.item) ? &ref : NULL))) {
        store_unpin(m->store, off);
        requester_reply(a, req, DDICT_ELOST, "the value is lost: there is no memory to send it");
        return;
    }
    request_give(a, req, &ref, true, ready);
}

/* False: it was not carried out, and is to be now. */
static bool result_answer(struct requester *a, const struct msg *req) {
    struct result *r;
    struct msg answer;
    if (!a->m->setup->results) { /* ddictd of this node has other options than that of the proxy */
        if (req->flags & MSGF_AGAIN)
            requester_reply(a, req, DDICT_ELOST, "nobody knows whether it was done");
        return req->flags & MSGF_AGAIN;
    }
    if (!(r = result_find(a->m, a->who, req->id)))
        return false;
    r->asked = 1;
    if (req->type == MSG_POP) {
        popped_give(a, req, r->item);
        return true;
    }
    reply_init(&answer, req->id, a->m->setup->id);
    answer.version = r->version;
    requester_send(a, &answer, NULL, 0);
    return true;
}

void results_note(struct manager *m, uint32_t proxy, uint64_t id, unsigned rule) {
    struct store_source from = {.client = OF_PROXY | proxy, .at = rule, .id = id};
    store_begin(m->store, id ? &from : NULL);
    if (faults.on)
        faults_step(STEP_BEGUN);
}

void results_begin(struct requester *a, const struct msg *req) {
    results_note(a->m, (uint32_t)a->who, req->id, req->rule);
}

/* Of its last piece: a put in pieces has the id of its beginning. */
static bool is_change(const struct msg *m) {
    return m->type == MSG_PUT || m->type == MSG_POP || m->type == MSG_DEL || m->type == MSG_CLEAR ||
           (m->type == MSG_DATA && m->flags & MSGF_LAST);
}

/* Pieces of its value follow: only what is asked again waits to be told from where. */
static bool is_first_part(const struct msg *m) {
    return m->type == MSG_PUT && m->flags & MSGF_STREAM && !(m->flags & MSGF_AGAIN);
}

int results_take(struct requester *a, const struct msg *m, const uint8_t *payload) {
    if (!is_change(m))
        return request_take(a, m, payload);
    /* without AGAIN, too: the connection may be older than one by which it was asked again */
    if (m->type != MSG_DATA && (result_answer(a, m) || (a->m->flights && flight_attach(a, m))))
        return is_first_part(m) ? put_in_pass(a, m, NULL) : TAKE_DONE;
    results_begin(a, m);
    int e = request_take(a, m, payload);
    store_begin(a->m->store, NULL); /* no other change is its */
    return e;
}
