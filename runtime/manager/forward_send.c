/* SPDX-License-Identifier: Apache-2.0 */
/* forward_send.c - a forward is sent to the owner. */
#include "forward_send.h"

#include "forward_table.h"
#include "ledger.h"
#include "manager.h"
#include "peer_client.h"
#include "stream_in.h"

#include <errno.h>

/* bytes that may come of a stream that the client does not read yet: 512 such streams may be open
 * for one client */
#define WINDOW_FIRST (2 * DD_MSG_PIECE)

static struct msg request_of(const struct forward *f) {
    struct msg r = f->req;
    bool value = r.type == MSG_GET || r.type == MSG_POP;
    r.id = f->id;
    r.manager = f->from;
    r.flags = (uint16_t)((r.flags & ~(MSGF_VIEW | MSGF_REMOTE | MSGF_AGAIN)) | MSGF_HOP);
    if (f->again_ns && forwards_return(f->requester->m))
        r.flags |= MSGF_AGAIN;
    if (value || r.type == MSG_KEYS)
        r.val_len = f->allowed;
    if (value && f->requester->m->setup->rma && !f->begun)
        r.flags |= MSGF_REMOTE;
    return r;
}

/* A large payload that its entry has is sent from there, instead of being copied once more. */
static int payload_send(struct forward *f, struct peer *p, struct msg *r, const uint8_t *payload) {
    size_t len = f->req.len - MSG_HEADER;
    struct ledger_lent lent;
    if (!f->entry || f->entry->bytes != len ||
        !ledger_lend(f->requester->m->setup->ledger, f->entry, &lent))
        return peer_send(p, f->via, r, payload, len);
    int e = peer_send_body(p, f->via, r, payload, len - lent.n, lent.bytes, lent.n, ledger_back,
                           lent.arg);
    if (e < 0)
        ledger_back(lent.arg);
    return e;
}

int forward_send(struct forward *f, struct peer *p, const uint8_t *payload) {
    struct manager *m = f->requester->m;
    const struct msg *req = &f->req;
    int e = 0;
    if (!forward_enlist(f, p))
        return -ENOMEM;
    if (req->patience_ms && !m->late.pos)
        timer_after(&m->timers, &m->late, DD_LATE_MS * 1000000ull);
    if (req->type == MSG_GET || req->type == MSG_POP || req->type == MSG_KEYS)
        f->allowed = WINDOW_FIRST;
    if (req->type == MSG_GET)
        f->epoch = m->frozen;
    struct msg r = request_of(f);
    forward_become(f, !put_streams(req) ? FORWARD_ASKED
                      : f->again_ns     ? FORWARD_REWINDS
                                        : FORWARD_PUTS);
    if (f->state == FORWARD_PUTS)
        e = put_in_pass(f->requester, req, f);
    if (e == 0)
        e = payload_send(f, p, &r, payload);
    if (faults.on && f->entry && f->entry->id)
        faults_step(STEP_SENT);
    f->position = peer_position(p);
    if (e == 0 || e == -ENOMEM || e == DDICT_EPROTO)
        return e;
    /* its pieces are known: with what else was sent over that connection it is sent again */
    return f->state == FORWARD_PUTS && forwards_return(m) && forward_has_result(f) ? 0
                                                                                   : DDICT_ELOST;
}
