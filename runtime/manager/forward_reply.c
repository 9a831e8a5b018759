/* SPDX-License-Identifier: Apache-2.0 */
/* forward_reply.c - the owner's answers on their way to the requester. */
#include "forward_reply.h"

#include "forward_send.h"
#include "forward_table.h"
#include "ledger.h"
#include "manager.h"
#include "requester.h"
#include "rma_read.h"
#include "stream_in.h"
#include "stream_out.h"

#include <errno.h>

void reply_pass(struct forward *f, const struct msg *r, const uint8_t *payload) {
    struct msg out = *r;
    forward_answers(f);
    out.id = f->req.id;
    out.flags &= MSGF_STREAM;
    requester_send(f->requester, &out, payload, r->len - MSG_HEADER);
    forward_answered(f);
}

void reply_begin(struct forward *f) {
    struct msg out = f->reply;
    if (f->entry)
        ledger_passes(f->entry, &f->reply);
    forward_passes(f);
    out.id = f->req.id;
    out.flags &= MSGF_STREAM;
    requester_send(f->requester, &out, NULL, 0);
    forward_passed(f, false);
}

void reply_piece(struct forward *f, const struct msg *r, const uint8_t *payload, size_t len) {
    struct msg out = *r;
    out.id = f->req.id;
    out.aux = forward_at(f);
    out.flags &= MSGF_LAST;
    forward_passes(f);
    requester_send(f->requester, &out, payload, len);
    forward_passed(f, out.flags);
}

void forward_fail(struct forward *f, int status, const char *text) {
    if (f->state != FORWARD_PASSES && !f->begun) {
        forward_answers(f);
        requester_reply(f->requester, &f->req, status, text);
        forward_answered(f);
        return;
    }
    struct msg out = {.type = MSG_DATA,
                      .flags = MSGF_LAST,
                      .id = f->req.id,
                      .aux = forward_at(f),
                      .status = status,
                      .manager = f->from};
    forward_passes(f);
    requester_send(f->requester, &out, NULL, 0);
    forward_passed(f, true);
}

void forwards_took(struct requester *a) {
    uint64_t open = 0; /* bytes that may still come, of all streams of this requester */
    for (const struct forward *f = a->forwards; f; f = f->a_next)
        if (f->state == FORWARD_PASSES)
            open += (f->allowed < f->reply.val_len ? f->allowed : f->reply.val_len) - f->got;
    for (struct forward *f = a->forwards, *next; f && open < DD_STREAM_WINDOW; f = next) {
        next = f->a_next;
        if (f->state != FORWARD_PASSES || f->allowed >= f->reply.val_len ||
            f->allowed - f->got > DD_STREAM_WINDOW / 2)
            continue;
        open += f->got + DD_STREAM_WINDOW - f->allowed;
        f->allowed = f->got + DD_STREAM_WINDOW;
        if (f->rma_read)
            rma_read_more(f->rma_read, f->allowed);
        else
            forward_tell(f, MSG_CREDIT, f->allowed);
        forward_last(f); /* the others get credit first next time */
    }
}

static void unpin_done(struct manager *m, uint64_t off, void *ptr) {
    store_unpin(m->store, off);
}

static void block_answer(struct manager *m, const struct forward *f, const struct store_ref *at,
                         const struct msg *r) {
    struct msg out;
    bool view = f->req.flags & MSGF_VIEW, streams = !view && r->val_len > DD_MSG_INLINE;
    reply_init(&out, f->req.id, m->setup->id);
    out.val_len = r->val_len;
    out.tag = r->tag;
    out.version = r->version;
    if (!view && !streams) {
        requester_send(f->requester, &out, at->value, r->val_len);
        return;
    }
    int e = store_pin(m->store, at->off);
    if (e == 0 && streams &&
        (e = stream_out_begin(f->requester, &out, at->value, r->val_len, 0, unpin_done, at->off,
                              NULL)) < 0)
        store_unpin(m->store, at->off);
    if (e < 0 && f->req.type == MSG_POP)
        requester_reply(f->requester, &f->req, DDICT_ELOST,
                        "the value is lost: the manager of this node had no memory for it");
    else if (e < 0)
        requester_reply(f->requester, &f->req, -ENOMEM, NULL);
    if (e < 0 || streams)
        return;
    out.flags = MSGF_PLACED;
    out.aux = at->off;
    out.len = MSG_HEADER;
    requester_send_placed(f->requester, &out, at->off);
}

void block_give(struct manager *m, struct forward *f, const struct store_ref *at,
                const struct msg *r) {
    if (f->requester->kind == REQUESTER_SELF)
        return;
    forward_answers(f);
    block_answer(m, f, at, r);
    forward_answered(f);
}
