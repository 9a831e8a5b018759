/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recovery.c - requests that the life before had taken and not ended. Each has a source from which
 * it can be taken again: its record in SQ, or once it waits its entry in the ledger. The one at
 * hand when the life before died is named by the record of the arena (LAYOUT I24), by which its
 * fate is told; all others were not begun.
 *
 *     fate                        its source is a record           its source is an entry
 *     not answered,               stays: the first turn takes it   is taken again, in its turn
 *       the index not changed
 *     not answered,               is answered by what the change   is answered likewise, then the
 *       the index changed         left, then SQ head passes it     entry ends
 *     answered: a REPLY in CQ     SQ head passes it                the entry ends
 *
 * A request that was begun LEDGER_LIVES times and ended its life by a fault each time is not begun
 * again: it is answered DDICT_ELOST, as if that had been the answer.
 *
 * A value that comes in pieces has an entry, too, until SQ head has passed its last piece: it goes on
 * where it was. One that came over a connection waits until its proxy asks for it again.
 *
 * An entry whose record SQ head has not passed was about to be made: it ends, and the record stays.
 * But the entry of a change at another manager that has its id is the source from then on: nobody
 * knows whether the owner was asked. SQ head passes its record, and the owner is asked again with
 * this id, before anything new.
 *
 * The entry of a value that comes in pieces from another manager says what of it stands in CQ. The
 * owner is asked for it again, and what is there is dropped.
 *
 * A further death at any step finds one of these again.
 */
#include "recovery.h"

#include "answers.h"
#include "forward_lost.h"
#include "forward_table.h"
#include "lane_client.h"
#include "lane_clients.h"
#include "lanes.h"
#include "ledger.h"
#include "queues.h"
#include "replica_primary.h"
#include "requester.h"
#include "results.h"
#include "rules.h"
#include "stream_in.h"
#include "stream_out.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* in ledger_entry.value: there is no such block, or there was no memory to keep it */
#define VALUE_LOST UINT64_MAX

/* All requests that wait, in their order; from recovery_begin() to recovery_go_on(). */
static struct ledger_entry **waiting;
static size_t waiting_n;

/* --- the request that was at hand --- */
/* Whether request id has an answer behind `before` in CQ, consumed or not. */
static bool is_answer_there(const struct ring *cq, uint64_t before, uint64_t id) {
    struct msg r;
    /* a REPLY and its pieces, which were read as they came; the one that was just being written may
     * stand in the place of the REPLY */
    if (cq->pos - before > LANE_ROOM_ALWAYS)
        return true;
    while (ring_look(cq, &before, &r) > 0)
        if (r.type == MSG_REPLY && r.id == id)
            return true;
    return false;
}

/* Make the answer to a change again, from what the change has left in the arena (I24). */
static void fate_answer(struct lane_client *c, struct msg *req, const struct store_fate *f) {
    struct manager *m = c->a.m;
    struct msg r;
    if (f->item == 0) {
        reply_init(&r, f->from.id, m->setup->id);
        r.version = f->put ? rule_version(req->rule, f->put, f->version) : f->version;
        requester_send(&c->a, &r, NULL, 0);
        return;
    }
    struct store_ref ref;
    if (store_keep(m->store, f->item) < 0) {
        requester_drop(&c->a, "no memory to keep its value");
        return;
    }
    /* only a client that set SQ head back gets to a record of long ago */
    if (store_item_at(m->store, f->item, &ref) < 0) {
        requester_drop(&c->a, "SQ head of its lane went back");
        return;
    }
    req->type = MSG_POP; /* the client may have written another */
    req->id = f->from.id;
    request_found(&c->a, req, &ref, true, NULL, clock_ns());
}

/* Of an entry that was ended already: what it named. */
static void value_drop(struct manager *m, uint64_t off, bool reserved) {
    struct store_ref ref;
    if (!off || off == VALUE_LOST)
        return;
    if (!reserved)
        store_unpin(m->store, off);
    else if (store_item_at(m->store, off, &ref) == 0)
        store_abort(m->store, &ref);
}

/* Whether it ended the last lives, and must not be begun again. */
static bool is_fatal(struct manager *m, const struct store_source *from) {
    struct ledger_fatal *f = m->setup->ledger ? &m->setup->ledger->fatal : NULL;
    if (!f || !m->setup->page->fell)
        return false;
    if (f->client != from->client || f->at != from->at || f->id != from->id)
        *f = (struct ledger_fatal){.client = from->client, .at = from->at, .id = from->id};
    return ++f->lives >= LEDGER_LIVES;
}

/* The entry of the value in pieces to which a record of this request belongs, or NULL. */
static struct ledger_entry *filling_find(const struct lane_client *c, uint64_t id) {
    struct ledger *l = c->a.m->setup->ledger;
    struct ledger_entry *e = NULL;
    while (l && (e = ledger_next(l, e)))
        if (e->client == c->id && e->req.id == id && !e->id && e->req.type == MSG_PUT &&
            e->req.flags & MSGF_STREAM && (int64_t)(c->lane.sq.pos - e->at) > 0)
            return e;
    return NULL;
}

/* Records that belong to a request under way have no answer of their own. Each life is asked anew what
 * it knows. */
static bool is_request(const struct msg *m) {
    return m->type != MSG_DATA && m->type != MSG_ABORT && m->type != MSG_CREDIT &&
           m->type != MSG_CANCEL && m->type != MSG_KNOWS;
}

/* Of a put in pieces those still come. of: its entry, or NULL. */
static int pieces_drop(struct lane_client *c, const struct msg *req,
                       const struct ledger_entry *of) {
    uint64_t head = c->lane.sq.pos;
    if (req->type != MSG_PUT || !(req->flags & MSGF_STREAM))
        return 0;
    if (!of)
        return put_in_pass(&c->a, req, NULL);
    if (!of->id)
        return 0; /* it waits for room with its whole value */
    return ledger_pieces_come(of, head)
               ? put_in_return(&c->a, req, NULL, ledger_rewound(of), ledger_closed(of, head))
               : 0;
}

/* The client has the beginning of its value, and gets no second REPLY. */
static void passing_break(struct lane_client *c, const struct ledger_entry *e, int status) {
    struct msg r = {.type = MSG_DATA,
                    .flags = MSGF_LAST,
                    .id = e->req.id,
                    .aux = e->pass.upto - 1,
                    .status = status,
                    .manager = c->a.m->setup->id};
    if (e->pass.upto != LEDGER_OVER)
        requester_send(&c->a, &r, NULL, 0);
}

/* of: the value in pieces to which req belongs, or NULL; or the entry of req */
static void fatal_refuse(struct lane_client *c, const struct msg *req,
                         const struct ledger_entry *of) {
    struct manager *m = c->a.m;
    char text[160];
    log_warn("%s of client %llu ended %u lives and is not taken again", msg_name(req->type),
             (unsigned long long)c->id, LEDGER_LIVES);
    snprintf(text, sizeof text, "manager %u on node %s ended %u times at this request",
             m->setup->id, m->setup->node, LEDGER_LIVES);
    if (pieces_drop(c, req, of) < 0)
        requester_drop(&c->a, "malformed record in its lane");
    else if (of && of->pass.upto)
        passing_break(c, of, DDICT_ELOST);
    else if (of || is_request(req))
        requester_reply(&c->a, of ? &of->req : req, DDICT_ELOST, text);
}

/* It is answered by a value in pieces that this entry names. */
static bool is_streaming(const struct ledger_entry *e) {
    return e->req.type != MSG_PUT && e->value && e->pass.val_len > 0;
}

static void entry_end(struct manager *m, struct ledger_entry *e) {
    uint64_t value = e->value, id = e->id;
    bool put = e->req.type == MSG_PUT;
    ledger_end(m->setup->ledger, e);
    value_drop(m, value, put);
    if (id)
        forward_place_over(m, id);
}

/* It is answered, at the record req, which leaves SQ. */
static void filling_end(struct lane_client *c, struct ledger_entry *e, const struct msg *req) {
    struct msg put = e->req;
    if (req->type == MSG_DATA && !(req->flags & MSGF_LAST) && put_in_pass(&c->a, &put, NULL) < 0)
        requester_drop(&c->a, "no memory for its request");
    entry_end(c->a.m, e);
}

static void waiting_remove(const struct ledger_entry *e) {
    size_t i = 0;
    while (waiting[i] != e)
        i++;
    memmove(waiting + i, waiting + i + 1, (--waiting_n - i) * sizeof(struct ledger_entry *));
}

/* As fate_answer(). *e: the entry of the request; NULL when a value in pieces goes on with it. */
static void fate_answer_from(struct lane_client *c, struct msg *req, const struct store_fate *f,
                             struct ledger_entry **e) {
    struct manager *m = c->a.m;
    struct ledger_entry *had = *e;
    uint64_t kept = had ? had->value : 0;
    bool reserved = had && had->req.type == MSG_PUT;
    if (had)
        had->value = 0;
    m->answering = had ? e : NULL;
    fate_answer(c, req, f);
    m->answering = NULL;
    value_drop(m, kept, reserved);
    if (had && !*e)
        waiting_remove(had);
}

/* What was at hand had waited. */
static void fate_of_entry(struct lane_client *c, const struct store_fate *f) {
    struct ledger *l = c->a.m->setup->ledger;
    struct ledger_entry *e = l ? ledger_find(l, f->from.at & ~LEDGER_SOURCE) : NULL;
    struct msg req;
    if (!e || e->client != c->id)
        return;
    bool answered = is_answer_there(&c->lane.cq, f->from.before, f->from.id);
    if (!answered && !f->happened && !is_fatal(c->a.m, &f->from))
        return; /* it is taken again */
    if (answered && is_streaming(e))
        return; /* the rest is still to come */
    req = e->req;
    if (!answered && f->happened)
        fate_answer_from(c, &req, f, &e);
    else if (!answered)
        fatal_refuse(c, &req, e);
    if (e)
        entry_end(c->a.m, e);
}

/* The entry of the request at hand, if its owner may have been asked, or NULL. */
static struct ledger_entry *asked_find(const struct lane_client *c) {
    struct ledger *l = c->a.m->setup->ledger;
    struct ledger_entry *e = NULL;
    while (l && (e = ledger_next(l, e)))
        if (e->client == c->id && e->id && e->at == c->lane.sq.pos)
            return e;
    return NULL;
}

/* The record of such a request leaves SQ. */
static bool record_pass(struct lane_client *c, const struct ledger_entry *e) {
    struct msg req;
    const uint8_t *payload;
    if (ring_peek(&c->lane.sq, &req, &payload) <= 0 || c->lane.sq.pos != e->at ||
        req.id != e->req.id || req.len != e->req.len) {
        requester_drop(&c->a, "its lane has another record than it had");
        return false;
    }
    c->served_from = c->lane.sq.pos;
    ring_consume(&c->lane.sq, &req);
    c->served = true;
    lane_client_watch(c);
    return true;
}

/* The entry that the record at hand has got already, or NULL. */
static struct ledger_entry *entry_of_record(const struct lane_client *c, uint64_t id) {
    for (size_t i = 0; i < waiting_n; i++)
        if (waiting[i]->seq && waiting[i]->client == c->id && waiting[i]->req.id == id &&
            waiting[i]->at == c->lane.sq.pos)
            return waiting[i];
    return NULL;
}

static void fate_end(struct manager *m) {
    struct store_fate f;
    struct lane_client *c;
    struct msg req;
    const uint8_t *payload;
    if (!store_fate(m->store, &f) || !(c = lane_client_find(m, f.from.client)) || c->a.gone)
        return;
    if (f.from.at & LEDGER_SOURCE) {
        fate_of_entry(c, &f);
        return;
    }
    if (ring_peek(&c->lane.sq, &req, &payload) <= 0 || c->lane.sq.pos != f.from.at)
        return; /* it has left SQ, so it is over */
    struct ledger_entry *asked = asked_find(c);
    if (asked) {
        f.from.at = LEDGER_SOURCE | asked->seq;
        if (record_pass(c, asked))
            fate_of_entry(c, &f);
        return;
    }
    bool answered = is_answer_there(&c->lane.cq, f.from.before, f.from.id);
    if (!answered && !f.happened && !is_fatal(m, &f.from))
        return; /* the first turn takes it */
    struct ledger_entry *of = filling_find(c, f.from.id), *e = entry_of_record(c, f.from.id);
    c->served_from = c->lane.sq.pos;
    lane_client_watch(c);
    if (!answered && f.happened)
        fate_answer_from(c, &req, &f, &e);
    else if (!answered)
        fatal_refuse(c, &req, of);
    if (of)
        filling_end(c, of, &req);
    if (e && !(answered && is_streaming(e)))
        entry_end(m, e); /* behind SQ head it would be taken again */
    ring_consume(&c->lane.sq, &req);
    c->served = true;
}

/* --- requests that wait --- */
static void value_lost(struct lane_client *c, const struct msg *req) {
    requester_reply(&c->a, req, DDICT_ELOST, "the value was lost with the manager");
}

/* The key was put in the life before, and the request was to be answered with that value. */
static void entry_answer(struct lane_client *c, const struct ledger_entry *e) {
    struct manager *m = c->a.m;
    struct store_ref ref;
    uint64_t value = e->value;
    if (value == VALUE_LOST || store_item_at(m->store, value, &ref) < 0)
        value_lost(c, &e->req);
    else
        request_value(&c->a, &e->req, &ref);
    if (!m->resumed) /* its answer waits for room */
        value_drop(m, value, false);
}

/* A push waits for room again. */
static void entry_push(struct lane_client *c, const struct ledger_entry *e, const struct msg *req) {
    struct store_ref ref;
    if (!e->value || e->value == VALUE_LOST || store_item_at(c->a.m->store, e->value, &ref) < 0)
        value_lost(c, req);
    else if (!queue_resume(&c->a, req, &ref))
        requester_reply(&c->a, req, -ENOMEM, NULL);
}

/* It was in flight, or waited for what was, or for room. */
static void entry_commit(struct lane_client *c, const struct ledger_entry *e,
                         const struct msg *req) {
    struct store_ref ref;
    if (!e->value || e->value == VALUE_LOST || store_item_at(c->a.m->store, e->value, &ref) < 0)
        value_lost(c, req);
    else
        c->a.m->up->commit(&c->a, req, &ref, clock_ns());
}

/* Whether it is a value in pieces of which the last has not left SQ. */
static bool is_filling(const struct lane_client *c, const struct ledger_entry *e) {
    return e->req.type == MSG_PUT && e->req.flags & MSGF_STREAM && !e->id &&
           (e->end == 0 || (int64_t)(c->lane.sq.pos - e->end) <= 0);
}

static void entry_fill(struct lane_client *c, struct ledger_entry *e) {
    struct manager *m = c->a.m;
    struct store_ref ref;
    struct msg req = e->req;
    if (e->value && e->value != VALUE_LOST && store_item_at(m->store, e->value, &ref) == 0) {
        if (put_in_resume(&c->a, e, &ref) == 0)
            return;
        requester_drop(&c->a, "no memory for its request");
    } else {
        value_lost(c, &req);
        if (put_in_pass(&c->a, &req, NULL) < 0)
            requester_drop(&c->a, "no memory for its request");
    }
    entry_end(m, e);
}

/* The rest of a value. */
static void entry_stream(struct lane_client *c, struct ledger_entry *e) {
    struct manager *m = c->a.m;
    struct store_ref ref;
    bool there = e->value != VALUE_LOST && store_item_at(m->store, e->value, &ref) == 0;
    int status = e->req.type == MSG_GET ? -ESTALE : DDICT_ELOST;
    if (there && stream_out_resume(&c->a, e, &ref) == 0) {
        lane_client_watch(c);
        return;
    }
    if (e->pass.upto)
        passing_break(c, e, status);
    else
        requester_reply(&c->a, &e->req, status, "the value was lost with the manager");
    entry_end(m, e);
}

static void entry_take(struct lane_client *c, const struct ledger_entry *e) {
    struct manager *m = c->a.m;
    struct msg req = e->req;
    static uint8_t payload[DD_MSG_INLINE];
    uint64_t now = clock_ns();
    if (req.type != MSG_FREEZE && e->deadline) /* otherwise it has no time */
        req.aux = e->deadline > now + 1000 ? (e->deadline - now) / 1000 : 1;
    if (req.type == MSG_PUT && !e->id && (m->setup->copies || !(req.flags & MSGF_APPEND))) {
        entry_commit(c, e, &req);
        return;
    }
    if (req.type == MSG_PUT && !e->id) {
        entry_push(c, e, &req);
        return;
    }
    ledger_payload(m->setup->ledger, e, payload);
    if (m->up->take(&c->a, &req, payload) < 0)
        requester_drop(&c->a, "a request that waited is not allowed any more");
}

/* Whether the entry is the source of its request. */
static bool entry_counts(struct lane_client *c, const struct ledger_entry *e) {
    if (!c || c->a.gone || e->pass.upto == LEDGER_OVER || (e->req.type != MSG_PUT && e->got))
        return false;
    /* not behind SQ head: the life before died before it passed the record, which is there still */
    return (int64_t)(c->lane.sq.pos - e->at) > 0 || (e->id && record_pass(c, e));
}

/* A value in pieces of a proxy: it is there until that asks again. */
static void entry_revive(struct manager *m, struct ledger_entry *e) {
    struct store_ref ref;
    bool there = e->value && e->value != VALUE_LOST && !result_is_there(m, e->client, e->req.id) &&
                 store_item_at(m->store, e->value, &ref) == 0;
    if (!there || put_in_revive(m, e, &ref) < 0)
        entry_end(m, e);
}

/* Take a request that waited again, with what is left of its time. */
static void entry_resume(struct manager *m, struct ledger_entry *e) {
    if (e->client & LEDGER_PROXY) {
        entry_revive(m, e);
        return;
    }
    struct lane_client *c = lane_client_find(m, e->client);
    if (!entry_counts(c, e)) {
        entry_end(m, e);
        return;
    }
    if (is_filling(c, e)) {
        entry_fill(c, e);
        return;
    }
    if (is_streaming(e)) {
        entry_stream(c, e);
        return;
    }
    m->resumed = e;
    requester_begin(&c->a, &m->resumed);
    if (e->value && e->req.type != MSG_PUT)
        entry_answer(c, e);
    else
        entry_take(c, e);
    if (m->resumed) { /* it is answered, and does not wait again */
        if (faults.on)
            faults_step(STEP_ANSWERED);
        entry_end(m, e);
    }
    m->resumed = NULL;
    m->answering = NULL;
    store_begin(m->store, NULL); /* until the entry has ended the record says that it is answered */
}

/* What the entry names stays what it was: pinned, or reserved. */
static void entry_keep(struct manager *m, struct ledger_entry *e) {
    if (!e->value)
        return;
    int rc = faults.on && faults_keep() ? -ENOMEM
             : e->req.type == MSG_PUT   ? store_keep_reserved(m->store, e->value)
                                        : store_keep(m->store, e->value);
    if (rc != 0)
        e->value = rc < 0 ? VALUE_LOST : 0; /* 0: it has been let in */
}

/* Changes that were sent to the backup are replica_primary.c's to settle. */
static void notes_give(struct manager *m) {
    size_t n = 0;
    for (size_t i = 0; i < waiting_n; i++)
        if (waiting[i]->client == LEDGER_FLIGHT)
            replica_primary_note(m, waiting[i]);
        else
            waiting[n++] = waiting[i];
    waiting_n = n;
}

int recovery_begin(struct manager *m) {
    struct ledger *l = m->setup->ledger;
    if (!l)
        return 0;
    ledger_open(l);
    if (!m->setup->page->fell)
        l->fatal.lives = 0; /* those that count end one behind the other */
    waiting = faults.list_refused ? NULL : ledger_list(l, &waiting_n);
    if (waiting)
        notes_give(m);
    if (waiting)
        for (size_t i = 0; i < waiting_n; i++)
            entry_keep(m, waiting[i]);
    if (!waiting || !forwards_claim(m, waiting, waiting_n)) /* without them it must not go on */
        return dd_error(-ENOMEM, "no memory for the requests that wait");
    return 0;
}

/* What of its value is in CQ; whether the last REWIND is. */
static void entry_settle(struct manager *m, struct ledger_entry *e) {
    struct lane_client *c = e->pass.upto || e->pass.pos ? lane_client_find(m, e->client) : NULL;
    if (c)
        ledger_settle(e, c->lane.cq.pos);
}

/* Each client asks for what it misses an answer to: there may be requests of which this life knows
 * nothing, as they had no entry. */
static void life_tell(struct manager *m) {
    struct msg r = {.type = MSG_LIFE, .manager = m->setup->id};
    for (struct lane_client *c = m->clients; c; c = c->next)
        requester_send(&c->a, &r, NULL, 0);
}

void recovery_go_on(struct manager *m) {
    for (size_t i = 0; i < waiting_n; i++)
        entry_settle(m, waiting[i]);
    fate_end(m);
    replica_primary_go_on(m);
    store_begin(m->store, NULL); /* it is decided: no later change is taken for that one */
    for (size_t i = 0; i < waiting_n; i++)
        if (waiting[i]->seq)
            entry_resume(m, waiting[i]);
    free(waiting);
    waiting = NULL;
    waiting_n = 0;
    forwards_resume(m);
    queues_go_on(m);
    if (manager_has_lived(m))
        life_tell(m);
    if (m->setup->ledger)
        manager_ledger_look(m);
}
