/* SPDX-License-Identifier: Apache-2.0 */
/* forward_put.c - the pieces of a put that goes on to its owner: PUTS in the picture of forward.c. */
#include "forward_put.h"

#include "forward_table.h"
#include "manager.h"
#include "peer_client.h"

#include <errno.h>

uint32_t forward_put_owner(const struct forward *f) {
    return f->from;
}

bool forward_put_full(const struct forward *f) {
    return peer_full(f->peer, f->via);
}

static void put_ended(struct forward *f) {
    if (f->state == FORWARD_PUTS)
        forward_become(f, FORWARD_ASKED);
}

int forward_put_data(struct forward *f, const struct msg *m, const uint8_t *payload) {
    struct msg r = *m;
    r.id = f->id;
    r.flags |= MSGF_HOP;
    r.manager = f->from;
    if (m->flags & MSGF_LAST)
        put_ended(f);
    int e = peer_send(f->peer, f->via, &r, payload, m->len - MSG_HEADER);
    return e == -ENOMEM ? e : 0;
}

void forward_put_abort(struct forward *f) {
    if (f->state == FORWARD_PUTS)
        forward_tell(f, MSG_ABORT, 0);
    put_ended(f);
}
