/* SPDX-License-Identifier: Apache-2.0 */
/* forward_put.c - the pieces of a put that goes on to its owner: PUTS and REWINDS in the picture of
 * forward.c. */
#include "forward_put.h"

#include "forward_end.h"
#include "forward_reply.h"
#include "forward_send.h"
#include "forward_table.h"
#include "ledger.h"
#include "manager.h"
#include "peer_client.h"
#include "requester.h"
#include "stream_in.h"

#include <errno.h>

uint32_t forward_put_owner(const struct forward *f) {
    return f->from;
}

bool forward_put_takes(const struct forward *f) {
    return f->state == FORWARD_PUTS;
}

bool forward_put_awaits(const struct requester *a, uint32_t owner) {
    const struct forward *f = a->forwards;
    while (f && (f->from != owner || !f->again_ns || !put_streams(&f->req) ||
                 (f->state != FORWARD_REWINDS && f->state != FORWARD_PUTS)))
        f = f->a_next;
    return f;
}

bool forward_put_full(const struct forward *f) {
    return peer_full(f->peer, f->via);
}

int forward_put_data(struct forward *f, const struct msg *m, const uint8_t *payload) {
    struct msg r = *m;
    r.id = f->id;
    r.flags |= MSGF_HOP;
    r.manager = f->from;
    r.rewind = f->told;
    if (m->flags & MSGF_LAST)
        forward_become(f, FORWARD_ASKED);
    int e = peer_send(f->peer, f->via, &r, payload, m->len - MSG_HEADER);
    return e == -ENOMEM ? e : 0;
}

void forward_put_last(struct forward *f, bool newest) {
    struct ledger_entry *e = f->entry;
    struct requester *a = f->requester;
    if (!e)
        return;
    e->end = a->ops->position(a) - (a->unparks ? 1 : 0); /* what was parked has left the ring */
    if (newest)
        ledger_rewind(e, f->rewind, true);
}

void forward_put_resume(struct forward *f) {
    struct requester *a = f->requester;
    const struct ledger_entry *e = f->entry;
    bool closed = ledger_closed(e, a->ops->position(a));
    f->rewind = ledger_rewound(e);
    if (!ledger_pieces_come(e, a->ops->position(a)))
        return;
    if (put_in_return(a, &f->req, f, f->rewind, closed) < 0)
        requester_drop(a, "no memory for its request");
}

void forward_put_abort(struct forward *f) {
    struct manager *m = f->requester->m;
    forward_fail(f, -ECANCELED, "put was given up by its sender");
    if (f->state == FORWARD_NEW) /* it was not sent again yet */
        forward_free(m, f);
    else
        forward_put_leave(f, true);
}

void forward_put_leave(struct forward *f, bool cancel) {
    forward_tell(f, MSG_ABORT, 0);
    if (f->state == FORWARD_REWINDS) /* the owner may have it all: it waits for room */
        forward_tell(f, MSG_CANCEL, f->id);
    forward_become(f, FORWARD_ASKED);
    forward_detach(f);
}

void forward_put_rewind(struct forward *f, const struct msg *r) {
    struct requester *a = f->requester;
    struct store_source cq;
    struct msg out = {.type = MSG_REWIND,
                      .id = f->req.id,
                      .aux = r->aux,
                      .manager = f->from,
                      .rewind = ++f->rewind};
    forward_become(f, FORWARD_PUTS);
    f->told = r->rewind;
    if (r->aux > f->owner_had) {
        f->owner_had = r->aux;
        peer_advances(f->peer);
    }
    if (put_in_rewind(a, &f->req, f, r->aux, f->rewind) < 0) {
        forward_fail(f, -ENOMEM, NULL);
        forward_put_leave(f, true);
        return;
    }
    if (f->entry) { /* before it is sent: no life gives a number twice */
        a->ops->source(a, &cq);
        ledger_rewinds(f->entry, cq.before, f->rewind);
    }
    requester_send(a, &out, NULL, 0);
}

/* Pieces of it will come that the owner has lost. A queue has no order between calls. */
static bool comes_again(const struct forward *f) {
    return put_streams(&f->req) && !(f->req.flags & MSGF_APPEND) && f->again_ns &&
           (f->state == FORWARD_REWINDS || f->state == FORWARD_PUTS);
}

void forward_puts_overtaken(struct forward *by) {
    struct forward **bucket = by->requester->m->forward_table->write, *next;
    for (struct forward *f = bucket[by->hash % FORWARD_BUCKETS]; f; f = next) {
        next = f->same_next;
        if (f->requester != by->requester || f->hash != by->hash || f->from != by->from ||
            !comes_again(f))
            continue;
        forward_fail(f, DDICT_ELOST,
                     "a later change of its key was made while its value was sent again");
        forward_put_leave(f, true);
    }
}
