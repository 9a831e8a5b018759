/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alive.c - whether a client of this node lives. Who asks takes over what a dead client had, so a client
 * is dead only when none of its changes can be made any more. A change of a client that is gone may
 *
 *     be in the air, on its way to the backup       replica_flight.c
 *     have been asked of another manager, which     forward_table.c
 *       has not answered
 *     the same, over a connection that has ended:   the owner reads nothing more of that once it has
 *       this one's, or that of the life before      taken a message of the next one (PROTOCOL 12), but
 *                                                   what it has read may be in the air there
 *
 * For the last one we ask such an owner: ALIVE of client 0 is whether something of ours is in the air
 * there that nobody of ours awaits.
 */
#include "alive.h"

#include "forward.h"
#include "peer_client.h"
#include "replica_flight.h"
#include "replica_primary.h"
#include "requester.h"

#include <errno.h>
#include <stdlib.h>

/* how long an owner may take to answer before it is asked again */
#define SETTLE_MS 1000u

struct alive {
    struct requester self; /* who asks the owners */
    uint64_t asked;        /* so often */
};

/* The id of what an owner is asked names it. */
static void owner_said(struct requester *a, struct msg *r, const void *payload, size_t len) {
    if (r->type == MSG_REPLY && r->status == 0 && r->aux == 0)
        peer_settle(a->m, (uint32_t)(r->id % a->m->setup->managers));
}
static bool self_idle(struct requester *a) {
    return true;
}
static const struct carrier_ops self_ops = {.name = "alive", .send = owner_said, .idle = self_idle};

int alive_init(struct manager *m) {
    m->alive = calloc(1, sizeof *m->alive);
    if (!m->alive)
        return -ENOMEM;
    requester_init(&m->alive->self, m, REQUESTER_SELF, &self_ops, 0);
    return 0;
}

void alive_free(struct manager *m) {
    if (!m->alive)
        return;
    m->alive->self.gone = true;
    forwards_end(&m->alive->self);
    free(m->alive);
    m->alive = NULL;
}

static void owner_ask(struct manager *m, uint32_t owner) {
    static const uint8_t none[1];
    struct msg req = {.len = MSG_HEADER,
                      .type = MSG_ALIVE,
                      .id = ++m->alive->asked * m->setup->managers + owner,
                      .manager = owner,
                      .patience_ms = SETTLE_MS};
    /* if it fails, the next ALIVE asks */
    forward_begin(&m->alive->self, &req, none, none, 0, owner);
}

/* False: what was sent to an owner over a connection that has ended may still be made. It was asked. */
static bool owners_settled(struct manager *m) {
    const struct deal *deal = &m->setup->deal;
    bool settled = true, asks = m->alive->self.forwards_n == 0;
    for (uint32_t i = 0; m->peers && i < m->setup->managers; i++) {
        if (i % deal->nodes == m->setup->node_id || !deal_owns(deal, i) || peer_is_settled(m, i))
            continue;
        settled = false;
        if (asks)
            owner_ask(m, i);
    }
    return settled;
}

/* It is here, or something that it has asked for may still be done. */
static bool client_lives(struct manager *m, uint64_t client) {
    if (m->setup->shadow) /* its node is lost, else it would not be asked here */
        return false;
    return m->up->has_client(m, client) || flights_of_gone(m, client) ||
           replica_primary_doubts(m) || forwards_of_gone(m, client) || !owners_settled(m);
}

void alive_ask(struct requester *a, const struct msg *req) {
    struct msg r;
    reply_init(&r, req->id, a->m->setup->id);
    if (req->aux == 0 && a->kind == REQUESTER_PEER)
        r.aux = flights_of_none(a->m, a->who) || replica_primary_doubts(a->m);
    else
        r.aux = client_lives(a->m, req->aux);
    requester_send(a, &r, NULL, 0);
}
