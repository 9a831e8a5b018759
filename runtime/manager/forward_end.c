/* SPDX-License-Identifier: Apache-2.0 */
/* forward_end.c - the end of a forward. */
#include "forward_end.h"

#include "forward_followers.h"
#include "forward_route.h"
#include "forward_table.h"
#include "ledger.h"
#include "manager.h"
#include "peer_client.h"
#include "results.h"
#include "rma_read.h"
#include "stream_in.h"
#include "transit.h"
#include <base/clock.h>

#include <stdlib.h>

void forward_detach(struct forward *f) {
    if (f->req.type == MSG_PUT)
        put_in_forget(f->requester, f);
    forward_unlink(f);
}

void forward_free(struct manager *m, struct forward *f) {
    if (f->requester)
        forward_detach(f);
    if (f->rma_read)
        rma_read_forget(f->rma_read, forward_has_block(f) ? &f->block : NULL);
    else if (forward_has_block(f))
        transit_abort(m, &f->block);
    forward_route_end(m, f);
    leader_close(f);
    if (f->leader)
        follower_leave(f);
    forward_leave_peer(f);
    if (f->id)
        forward_delist(m, f);
    if (forward_busy(f))
        m->peers_busy--;
    free(f);
}

void forward_end(struct manager *m, struct forward *f) {
    if (f->peer) /* a follower has none */
        peer_answered(f->peer);
    if (f->req.type == MSG_POP && forwards_return(m) && result_fits(f->id) && !f->queued)
        forward_tell(f, MSG_TOOK, 0); /* the owner need not keep the value any more */
    if ((f->req.type == MSG_GET || f->req.type == MSG_POP) && forward_busy(f))
        count_latency(m, DDICT_LATENCY_FETCH, f->began, clock_ns());
    forward_free(m, f);
}

void forward_entry_over(struct manager *m, struct ledger_entry *e) {
    struct msg took = {.type = MSG_TOOK, .flags = MSGF_HOP, .id = e->id};
    struct peer *p = e->id && e->req.type == MSG_POP ? m->peers[e->to] : NULL;
    requester_entry_end(m, &e);
    if (took.id)
        forward_place_over(m, took.id);
    if (p)
        peer_tell(p, &took);
}
