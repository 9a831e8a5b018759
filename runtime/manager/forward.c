/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.c - requests for keys of other managers. A request is passed on with an id of our own,
 * and the answer is passed back. When its requester goes, the forward stays in the table until the
 * owner is done with it, so each id that comes back is known.
 *
 *          a get of the same key is on its way
 *     NEW ----------------------------------------> FOLLOWS
 *      |  \                                            | the leader's answer: over;
 *      |   `--> PUTS <-- REWINDS                       | not for followers: sent itself
 *      |         |  last piece, ABORT, requester gone  |
 *      v         v                                     |
 *      +-----> ASKED <---------------------------------'
 *                |
 *                |--- answer ---> over, and so are the followers
 *                |
 *                |--- answer that goes into a block ---> LANDS --- all received ---> over
 *                |
 *                |    a value in pieces
 *                |--- for a block -------> FILLS <----> PIECE   a piece is being received
 *                |                           |            |     (not of an RMA read)
 *                |                           | requester gone   (once the piece is received)
 *                |                           v            |
 *                |--- for nobody --------> DROPS <--------+
 *                |                           ^
 *                |                           | requester gone
 *                '--- for a lane --------> PASSES
 *
 * The last piece, or an error in its place, ends FILLS, PASSES and DROPS. When the connection is
 * lost all forwards end, except gets and heads in ASKED, which become NEW again, and with --restarts
 * all but keys that are passed on and values that are read by RMA. A put in pieces becomes REWINDS when
 * it is sent again, until the owner says how much it has, or answers.
 * What the life before had asked begins in NEW, too, with the id that it had.
 * The rows at the end of this file have a handler for each message that a state allows; any other
 * message is a breach of the protocol. forward_send.c and forward_put.c speak with the owner,
 * forward_reply.c with the requester; forward_lost.c has what a lost connection does.
 *
 * Two things do not depend on the state:
 *     requester   a lane, or the prefetch, which takes no answer. NULL: gone; possible in ASKED,
 *                 LANDS, PIECE, and FILLS with rma_read, and always so in DROPS
 *     rma_read    reads the value out of the owner's memory. NULL: the value comes in messages
 *
 * The block is in our arena: a transit block for a view, or a cached item while FROZEN. A value in
 * PASSES is received into the ring of the lane, at most DD_STREAM_WINDOW ahead of the client.
 */
#include "forward.h"

#include "cache.h"
#include "forward_end.h"
#include "forward_followers.h"
#include "forward_lost.h"
#include "forward_put.h"
#include "forward_reply.h"
#include "forward_route.h"
#include "forward_send.h"
#include "forward_table.h"
#include "ledger.h"
#include "manager.h"
#include "peer_client.h"
#include "requester.h"
#include "rma_read.h"
#include "stream_in.h"
#include "transit.h"
#include <base/error.h>

#include <errno.h>
#include <string.h>

/* Handles a message of the owner. 0 or DDICT_EPROTO. */
typedef int message_handler(struct manager *m, struct forward *f, const struct msg *r,
                            const uint8_t *payload);
/* The handlers of one state; NULL: not allowed. */
struct state_row {
    message_handler *answer;                       /* REPLY without DATA to follow */
    message_handler *stream;                       /* REPLY whose value comes in pieces */
    message_handler *piece;                        /* DATA, in order */
    message_handler *broken;                       /* DATA with an error: no more comes */
    message_handler *rewind;                       /* REWIND */
    void (*leave)(struct forward *f, bool cancel); /* the requester is gone, or was answered */
};
static const struct state_row rows[FORWARD_STATE_N];

/* --- requests --- */

/* Answer with an error. The pieces that come of a put are dropped: held before its answer, as a later
 * life would not know of them. */
static int forward_refuse(struct requester *a, const struct msg *req, int e, const char *text) {
    int rc = put_streams(req) ? put_in_pass(a, req, NULL) : TAKE_DONE;
    if (rc >= 0)
        requester_reply(a, req, e, text);
    return rc;
}

static int forward_first(struct forward *f, struct peer *p, const uint8_t *payload) {
    struct requester *a = f->requester;
    struct manager *m = a->m;
    bool joins = f->req.type == MSG_GET && forward_busy(f);
    int e = forward_send(f, p, f->kept ? f->key : payload);
    if (e < 0) {
        struct msg req = f->req;
        bool known = f->id != 0; /* otherwise no put_in knows the pieces that will come */
        forward_free(m, f);
        if (e == DDICT_ELOST && forwards_return(m) && !put_streams(&req))
            return TAKE_STALL; /* nothing was sent */
        if (e == DDICT_EPROTO)
            return e;
        if (!known)
            return forward_refuse(a, &req, e, dd_strerror(e));
        requester_reply(a, &req, e, dd_strerror(e));
        return TAKE_DONE;
    }
    if (joins && f->via == 0)
        leader_open(m, f);
    forward_route_keep(m, f);
    return TAKE_DONE;
}

/* The life before has asked this already: it is asked again, when all of these are known. */
static int forward_resume(struct requester *a, const struct msg *req, const uint8_t *payload,
                          const uint8_t *key, uint64_t hash, uint32_t to) {
    struct forward *f = forward_new(a, req, key, payload + req->key_len, hash, to);
    if (f && put_streams(req))
        forward_put_resume(f);
    if (f)
        forward_resumed(f);
    else if (put_streams(req))
        requester_drop(a, "no memory for its request");
    else
        requester_reply(a, req, DDICT_ELOST, "there is no memory to ask its owner again");
    return TAKE_DONE;
}

/* As forward_begin(), but nothing is done so that a stalled lane is tried again. */
static int forward_try(struct requester *a, const struct msg *req, const uint8_t *payload,
                       const uint8_t *key, uint64_t hash, uint32_t to) {
    struct manager *m = a->m;
    bool waits = req->flags & MSGF_WAIT, get = req->type == MSG_GET;
    int e = 0;
    if (m->resumed)
        return forward_resume(a, req, payload, key, hash, to);
    if (waits && forward_waits_full(a, req))
        return forward_refuse(
            a, req, DDICT_EBUSY,
            "as many requests of this process wait at managers of other nodes as may");
    if (forwards_full(a, req, to))
        return TAKE_STALL;
    struct forward *leader = get && !waits ? leader_find(m, to, key, req->key_len, hash) : NULL;
    struct peer *p = leader ? NULL : peer_get(m, to, &e);
    /* until those that were under way are sent again; with --replicas until it can be reached */
    if (!leader && !p && forwards_return(m) && !peer_is_gone(m, to) &&
        (e == DDICT_ELOST || (m->setup->survives && e != -ENOMEM))) {
        if (forward_put_awaits(a, to)) /* its pieces may be behind this in the lane */
            peer_hurry(m, to);
        return TAKE_STALL;
    }
    if (!leader && !p)
        return forward_refuse(a, req, e, dd_strerror(e));
    unsigned via = p ? forward_route(m, p, req, hash) : 0;
    if (p && peer_full(p, via))
        return TAKE_STALL;
    bool returns = forwards_return(m), keeps = get || req->type == MSG_HEAD || returns;
    struct forward *f =
        forward_new(a, req, keeps ? key : NULL, returns ? payload + req->key_len : NULL, hash, to);
    if (!f)
        return forward_refuse(a, req, -ENOMEM, dd_strerror(-ENOMEM));
    f->via = via;
    if (!leader)
        return forward_first(f, p, payload);
    follower_join(f, leader);
    forward_become(f, FORWARD_FOLLOWS);
    return TAKE_DONE;
}

int forward_begin(struct requester *a, const struct msg *req, const uint8_t *payload,
                  const uint8_t *key, uint64_t hash, uint32_t to) {
    int e = forward_try(a, req, payload, key, hash, to);
    if (e == TAKE_STALL)
        manager_stalls(a->m);
    return e;
}

/* --- followers --- */

/* The answer of f is for f alone: send the requests of its followers. */
static void followers_send(struct manager *m, struct forward *f) {
    while (f->followers) {
        struct forward *g = f->followers;
        int e;
        follower_leave(g);
        struct peer *p = peer_get(m, g->from, &e);
        if (p)
            e = forward_send(g, p, g->key);
        if (e == 0)
            continue;
        forward_fail(g, e, dd_strerror(e));
        forward_free(m, g);
    }
}

/* The owner was not asked, so it does not count this read. */
static void follower_count(struct manager *m, const struct forward *f, const struct msg *r) {
    if (f->requester->kind == REQUESTER_SELF)
        return;
    m->count->gets_remote += r->status == 0;
    m->count->misses += r->status == DDICT_ENOKEY;
}

/* --- the block --- */
static bool wants_block(const struct forward *f, const struct msg *r) {
    return f->requester && f->req.flags & MSGF_VIEW && r->status == 0 &&
           r->val_len > DD_VIEW_INLINE;
}

/* A block for the value of reply r; false: it does not go into a block. */
static bool block_reserve(struct manager *m, struct forward *f, const struct msg *r) {
    if (f->begun) /* the requester has a reply, and a part of the value */
        return false;
    f->caches = f->requester && f->epoch &&
                cache_reserve(m, f->epoch, f->key, f->req.key_len, r, &f->block);
    return f->caches ||
           (wants_block(f, r) && transit_reserve(m, r->val_len, r->tag, r->version, &f->block));
}

/* The whole value is in the block: give it to the requester, the followers, the cache. */
static void block_done(struct manager *m, struct forward *f, const struct msg *r) {
    if (!f->requester && !f->followers)
        return; /* forward_free() drops the block */
    if (f->requester)
        block_give(m, f, &f->block, r);
    while (f->followers) {
        follower_count(m, f->followers, r);
        block_give(m, f->followers, &f->block, r);
        forward_end(m, f->followers);
    }
    if (f->caches)
        cache_publish(m, f->epoch, &f->block);
    else
        store_retire(m->store, f->block.off);
    forward_become(f, FORWARD_OVER);
}

static void block_drop(struct manager *m, struct forward *f) {
    transit_abort(m, &f->block);
    forward_become(f, FORWARD_DROPS);
}

/* Where the connection is to receive the payload of r; NULL: anywhere. */
static void *forward_place(struct manager *m, uint32_t peer, const struct msg *r) {
    struct forward *f = forward_find(m, r->id);
    uint64_t len = r->len - MSG_HEADER;
    if (!f || f->from != peer)
        return NULL;
    if (r->type == MSG_REPLY) {
        if (f->state != FORWARD_ASKED || r->flags & MSGF_STREAM || len != r->val_len ||
            !block_reserve(m, f, r))
            return NULL;
        forward_become(f, FORWARD_LANDS);
        return f->block.value;
    }
    if (f->state != FORWARD_FILLS || f->rma_read || r->aux != f->got ||
        len > f->reply.val_len - f->got)
        return NULL;
    forward_become(f, FORWARD_PIECE);
    return f->block.value + f->got;
}

/* --- answers --- */
static int puts_answer(struct manager *m, struct forward *f, const struct msg *r,
                       const uint8_t *payload) {
    reply_pass(f, r, payload);
    /* it was refused halfway: ABORT frees its id at the owner */
    forward_tell(f, MSG_ABORT, 0);
    forward_end(m, f);
    return 0;
}

static int puts_rewind(struct manager *m, struct forward *f, const struct msg *r,
                       const uint8_t *payload) {
    if (r->aux > f->req.val_len)
        return DDICT_EPROTO;
    forward_put_rewind(f, r);
    return 0;
}

/* It was given up before this came. */
static int asked_rewind(struct manager *m, struct forward *f, const struct msg *r,
                        const uint8_t *payload) {
    return put_streams(&f->req) && f->again_ns ? 0 : DDICT_EPROTO;
}

static int lands_answer(struct manager *m, struct forward *f, const struct msg *r,
                        const uint8_t *payload) {
    block_done(m, f, r);
    forward_end(m, f);
    return 0;
}

/* A part of a value is with the client, and the rest cannot come: a GET is asked by it once more. */
static void rest_lost(struct forward *f, int status) {
    int replaced = f->req.type == MSG_GET ? -ESTALE : DDICT_ELOST;
    forward_fail(f, status < 0 ? status : replaced,
                 "the value was replaced while it was on its way");
}

static int asked_answer(struct manager *m, struct forward *f, const struct msg *r,
                        const uint8_t *payload) {
    if (r->val_len == 0 && r->len == MSG_HEADER && block_reserve(m, f, r)) {
        forward_become(f, FORWARD_LANDS); /* an empty value for the cache */
        return lands_answer(m, f, r, payload);
    }
    if (f->requester && f->begun)
        rest_lost(f, r->status);
    else if (f->requester)
        reply_pass(f, r, payload);
    if (r->status == -ECANCELED)
        followers_send(m, f);
    while (f->followers) {
        follower_count(m, f->followers, r);
        reply_pass(f->followers, r, payload);
        forward_end(m, f->followers);
    }
    forward_end(m, f);
    return 0;
}

/* --- a value begins to come in pieces --- */
static rma_read_piece forward_pulled;

static bool rma_begin(struct manager *m, struct forward *f, const struct msg *r,
                      const uint8_t *places) {
    if (r->flags & MSGF_REMOTE)
        f->rma_read = rma_read_new(m, f, forward_pulled, f->peer, f->id,
                                   f->state == FORWARD_FILLS ? f->block.value : NULL, r, places);
    return f->rma_read || !(r->flags & MSGF_REMOTE);
}

static int stream_fills(struct manager *m, struct forward *f, const struct msg *r,
                        const uint8_t *payload) {
    bool remote = r->flags & MSGF_REMOTE;
    forward_become(f, FORWARD_FILLS);
    if (!remote && r->val_len > f->allowed)
        forward_tell(f, MSG_CREDIT, UINT64_MAX);
    f->allowed = UINT64_MAX;
    if (!rma_begin(m, f, r, payload))
        return DDICT_EPROTO;
    if (remote)
        rma_read_more(f->rma_read, f->allowed);
    return 0;
}

static int stream_drops(struct manager *m, struct forward *f) {
    if (f->requester)
        forward_detach(f);
    forward_become(f, FORWARD_DROPS);
    forward_tell(f, MSG_CANCEL, f->id);
    leader_close(f);
    followers_send(m, f);
    return 0;
}

static int stream_passes(struct manager *m, struct forward *f, const struct msg *r,
                         const uint8_t *payload) {
    f->requester->streams_n++;
    forward_become(f, FORWARD_PASSES);
    if (!forward_goes_on(f))
        forward_answered(f); /* no later life would know what of it the client has */
    if (!rma_begin(m, f, r, payload))
        return DDICT_EPROTO;
    leader_close(f);
    followers_send(m, f);
    reply_begin(f);
    if (f->rma_read)
        rma_read_more(f->rma_read, f->allowed);
    if (requester_idle(f->requester))
        forwards_took(f->requester);
    return 0;
}

/* What a requester has the beginning of comes again, or another value in its place. */
static int stream_goes_on(struct manager *m, struct forward *f, const struct msg *r) {
    bool same = r->val_len == f->reply.val_len && r->version == f->reply.version &&
                r->tag == f->reply.tag && !(r->flags & MSGF_REMOTE);
    if (!same) {
        f->reply = *r;
        rest_lost(f, 0);
        return stream_drops(m, f);
    }
    f->requester->streams_n++;
    forward_become(f, FORWARD_PASSES);
    if (requester_idle(f->requester))
        forwards_took(f->requester);
    return 0;
}

static int asked_stream(struct manager *m, struct forward *f, const struct msg *r,
                        const uint8_t *payload) {
    if (f->begun && f->requester)
        return stream_goes_on(m, f, r);
    f->reply = *r;
    f->reply.len = MSG_HEADER;
    f->reply.flags = MSGF_STREAM;
    if (!(r->flags & MSGF_REMOTE))
        peer_more(f->peer);
    if (block_reserve(m, f, r))
        return stream_fills(m, f, r, payload);
    if (f->requester && f->requester->kind != REQUESTER_SELF)
        return stream_passes(m, f, r, payload);
    return stream_drops(m, f);
}

/* --- pieces --- */

/* After a piece, or the end of the stream: credit that it did not use goes to the other streams. */
static void pass_done(struct manager *m, struct forward *f, bool last) {
    struct requester *a = f->requester;
    if (f->peer && f->got > f->passed)
        peer_advances(f->peer);
    if (last)
        forward_end(m, f);
    if (requester_idle(a))
        forwards_took(a);
}

static int passes_data(struct manager *m, struct forward *f, const struct msg *r,
                       const uint8_t *payload) {
    uint64_t len = r->len - MSG_HEADER, known = forward_at(f) - f->got;
    if (known < len || r->status < 0)
        reply_piece(f, r, payload + (len ? known : 0), len ? len - known : 0);
    f->got += len;
    pass_done(m, f, r->flags & MSGF_LAST);
    return 0;
}

static int drops_data(struct manager *m, struct forward *f, const struct msg *r,
                      const uint8_t *payload) {
    f->got += r->len - MSG_HEADER;
    if (r->flags & MSGF_LAST)
        forward_end(m, f);
    return 0;
}

static int fills_piece(struct manager *m, struct forward *f, const struct msg *r,
                       const uint8_t *payload) {
    uint64_t len = r->len - MSG_HEADER;
    if (payload != f->block.value + f->got)
        memcpy(f->block.value + f->got, payload, len);
    f->got += len;
    if (r->flags & MSGF_LAST) {
        block_done(m, f, &f->reply);
        forward_end(m, f);
    } else if (!f->requester && !f->rma_read)
        block_drop(m, f);
    else if (f->state == FORWARD_PIECE)
        forward_become(f, FORWARD_FILLS);
    return 0;
}

static int fills_broken(struct manager *m, struct forward *f, const struct msg *r,
                        const uint8_t *payload) {
    if (f->requester)
        forward_fail(f, r->status, "the value could not be sent to its end");
    followers_send(m, f);
    forward_end(m, f);
    return 0;
}

/* --- the requester leaves --- */
/* The owner was not asked, or its connection is lost. */
static void unsent_leave(struct forward *f, bool cancel) {
    forward_free(f->requester->m, f);
}

/* The answer may still be for followers. */
static void asked_leave(struct forward *f, bool cancel) {
    if (cancel || !forward_busy(f))
        forward_tell(f, MSG_CANCEL, f->id);
    forward_detach(f);
}

static void passes_leave(struct forward *f, bool cancel) {
    forward_tell(f, MSG_CANCEL, f->id);
    forward_detach(f);
    if (f->rma_read)
        rma_read_stop(f->rma_read);
    forward_become(f, FORWARD_DROPS);
}

/* The network or the connection may still write into the block, which stays until that is done. */
static void fills_leave(struct forward *f, bool cancel) {
    struct manager *m = f->requester->m;
    forward_tell(f, MSG_CANCEL, f->id);
    forward_detach(f);
    if (f->rma_read)
        rma_read_stop(f->rma_read);
    else if (f->state == FORWARD_FILLS)
        block_drop(m, f);
    leader_close(f);
    followers_send(m, f);
}

/* The requester is gone, or has its answer: drop the rest. */
static void forward_leave(struct forward *f, bool cancel) {
    rows[f->state].leave(f, cancel);
}

static void forward_give_up(struct forward *f, int status, const char *text) {
    struct requester *a = f->requester;
    forward_fail(f, status, text);
    forward_leave(f, true);
    /* credit that it did not use goes to the other streams */
    if (a->streams_n && !a->gone && requester_idle(a))
        forwards_took(a);
}

static struct forward *forward_of(const struct requester *a, uint64_t id) {
    struct forward *f = a->forwards;
    while (f && f->req.id != id)
        f = f->a_next;
    return f;
}

bool forward_cancel(struct requester *a, uint64_t id) {
    struct forward *f = forward_of(a, id);
    if (f)
        forward_give_up(f, -ECANCELED, NULL);
    return f;
}

bool forward_knows(const struct requester *a, uint64_t id) {
    return forward_of(a, id);
}

static bool part_late(const struct forward_places *p) {
    bool more = false;
    for (uint32_t i = 0; i < p->n; i++) {
        struct forward *f = p->slot[i];
        /* streams have deadlines of their own */
        if (!f || !f->requester || !f->req.patience_ms ||
            (f->state != FORWARD_ASKED && f->state != FORWARD_LANDS && f->state != FORWARD_NEW &&
             f->state != FORWARD_REWINDS))
            continue;
        f->age_ms += DD_LATE_MS;
        if (f->age_ms > (uint64_t)f->req.patience_ms + DD_LATE_MS)
            forward_give_up(f, -ETIMEDOUT, "the manager of this key has not answered in time");
        else
            more = true;
    }
    return more;
}

bool forwards_late(struct manager *m) {
    bool changes = part_late(&m->forward_table->changes);
    return part_late(&m->forward_table->others) || changes;
}

void forwards_end(struct requester *a) {
    while (a->forwards)
        forward_leave(a->forwards, false);
}

/* --- the table --- */
static const struct state_row rows[FORWARD_STATE_N] = {
    [FORWARD_NEW] = {.leave = unsent_leave},
    [FORWARD_FOLLOWS] = {.leave = unsent_leave},
    [FORWARD_REWINDS] = {.answer = puts_answer, .rewind = puts_rewind, .leave = forward_put_leave},
    [FORWARD_PUTS] = {.answer = puts_answer, .leave = forward_put_leave},
    [FORWARD_ASKED] = {.answer = asked_answer,
                       .stream = asked_stream,
                       .rewind = asked_rewind,
                       .leave = asked_leave},
    [FORWARD_LANDS] = {.answer = lands_answer, .leave = asked_leave},
    [FORWARD_PASSES] = {.piece = passes_data, .broken = passes_data, .leave = passes_leave},
    [FORWARD_FILLS] = {.piece = fills_piece, .broken = fills_broken, .leave = fills_leave},
    [FORWARD_PIECE] = {.piece = fills_piece, .broken = fills_broken, .leave = fills_leave},
    [FORWARD_DROPS] = {.piece = drops_data, .broken = drops_data},
};

/* A value in pieces is allowed for this type of request. A payload is allowed only with REMOTE. */
static bool stream_good(const struct manager *m, const struct forward *f, const struct msg *r) {
    bool remote = r->flags & MSGF_REMOTE, value = f->req.type == MSG_GET || f->req.type == MSG_POP;
    if (r->status < 0 || (r->len != MSG_HEADER) != remote || (remote && !m->setup->rma))
        return false;
    return value || (f->req.type == MSG_KEYS && !remote);
}

static int reply_in(struct manager *m, struct forward *f, const struct msg *r,
                    const uint8_t *payload) {
    const struct state_row *row = &rows[f->state];
    if (r->flags & MSGF_STREAM)
        return row->stream && stream_good(m, f, r) ? row->stream(m, f, r, payload) : DDICT_EPROTO;
    return row->answer && !(r->flags & MSGF_REMOTE) ? row->answer(m, f, r, payload) : DDICT_EPROTO;
}

static int data_in(struct manager *m, struct forward *f, const struct msg *r,
                   const uint8_t *payload) {
    const struct state_row *row = &rows[f->state];
    uint64_t len = r->len - MSG_HEADER;
    bool last = r->flags & MSGF_LAST;
    if (!row->piece || r->aux != f->got || len > f->reply.val_len - f->got)
        return DDICT_EPROTO;
    if (r->status < 0)
        return last && !len ? row->broken(m, f, r, payload) : DDICT_EPROTO;
    if (last != (f->got + len == f->reply.val_len))
        return DDICT_EPROTO;
    return row->piece(m, f, r, payload);
}

static int forward_answer(struct manager *m, uint32_t from, const struct msg *r,
                          const uint8_t *payload) {
    struct forward *f = forward_find(m, r->id);
    if (!f || f->from != from)
        return DDICT_EPROTO;
    if (faults.on && f->entry && f->entry->id)
        faults_step(STEP_HEARD);
    if (r->type == MSG_REPLY)
        return reply_in(m, f, r, payload);
    if (r->type == MSG_REWIND)
        return rows[f->state].rewind ? rows[f->state].rewind(m, f, r, payload) : DDICT_EPROTO;
    return f->rma_read ? rma_read_heard(f->rma_read, r) : data_in(m, f, r, payload);
}

static void forward_pulled(struct manager *m, struct forward *f, const struct msg *r,
                           const uint8_t *payload) {
    data_in(m, f, r, payload);
}

static void *forward_part_to(struct manager *m, uint32_t from, const struct msg *r, uint32_t got,
                             uint32_t *room) {
    struct forward *f = forward_find(m, r->id);
    if (r->type != MSG_DATA || r->status < 0 || !f || f->from != from ||
        f->state != FORWARD_PASSES || f->rma_read || r->aux + got != f->got || f->got < f->passed)
        return NULL;
    uint64_t whole = r->aux + r->len - MSG_HEADER;
    bool last = r->flags & MSGF_LAST;
    /* data_in() will refuse it as a message */
    if (whole > f->reply.val_len || last != (whole == f->reply.val_len))
        return NULL;
    return f->requester->ops->part(f->requester, room);
}

static int forward_part(struct manager *m, const struct msg *r, uint32_t got, const void *at,
                        uint32_t n) {
    struct forward *f = forward_find(m, r->id);
    if (!f)
        return DDICT_EPROTO;
    bool last = r->flags & MSGF_LAST && got + n == r->len - MSG_HEADER;
    if (f->state == FORWARD_PASSES) {
        struct msg out = *r;
        out.id = f->req.id;
        out.aux = f->got;
        out.flags = last ? MSGF_LAST : 0;
        forward_passes(f);
        f->requester->ops->part_done(f->requester, &out, at, n);
        forward_passed(f, last);
        f->got += n;
        pass_done(m, f, last);
        return 0;
    }
    f->got += n;
    if (last)
        forward_end(m, f);
    return 0;
}

const struct peer_ops forward_peer_ops = {.place = forward_place,
                                          .part_to = forward_part_to,
                                          .part = forward_part,
                                          .answer = forward_answer,
                                          .lost = forwards_lost,
                                          .again = forwards_again,
                                          .give_up = forwards_give_up};
