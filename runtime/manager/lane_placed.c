/* SPDX-License-Identifier: Apache-2.0 */
/* lane_placed.c - pins of what answers with PLACED name. */
#include "lane_placed.h"

#include "manager.h"
#include "requester.h"

#include <errno.h>
#include <stdlib.h>

static void lane_unsettled(struct lane_client *c) {
    if (c->u_prev)
        return;
    c->u_prev = &c->a.m->unsettled;
    c->u_next = c->a.m->unsettled;
    if (c->u_next)
        c->u_next->u_prev = &c->u_next;
    c->a.m->unsettled = c;
}

void lane_settled(struct lane_client *c) {
    if (!c->u_prev)
        return;
    *c->u_prev = c->u_next;
    if (c->u_next)
        c->u_next->u_prev = c->u_prev;
    c->u_prev = NULL;
}

bool placed_add(struct lane_client *c, uint64_t pos, uint64_t off) {
    if (c->placed_n == c->placed_cap) {
        size_t cap = c->placed_cap ? 2 * c->placed_cap : 64;
        struct placed *p = malloc(cap * sizeof *p);
        if (!p)
            return false;
        for (size_t i = 0; i < c->placed_n; i++)
            p[i] = c->placed[(c->placed_first + i) % c->placed_cap];
        free(c->placed);
        c->placed = p;
        c->placed_first = 0;
        c->placed_cap = cap;
    }
    c->placed[(c->placed_first + c->placed_n++) % c->placed_cap] = (struct placed){pos, off};
    lane_unsettled(c);
    return true;
}

static void placed_drop(struct lane_client *c) {
    store_unpin(c->a.m->store, c->placed[c->placed_first].off);
    c->placed_first = (c->placed_first + 1) % c->placed_cap;
    c->placed_n--;
}

void lane_settle(struct lane_client *c) {
    if (c->placed_n == 0)
        return;
    /* Acquire pairs with the release of head in ring_consume(): the client has stored its lease
     * before. */
    uint64_t head = __atomic_load_n(c->lane.cq.head, __ATOMIC_ACQUIRE);
    if (c->lane.cq.pos - head > DD_LANE_RING) {
        requester_drop(&c->a, "impossible head of its completion ring");
        return;
    }
    while (c->placed_n > 0 && (int64_t)(head - c->placed[c->placed_first].pos) >= 0)
        placed_drop(c);
    if (c->placed_n == 0)
        lane_settled(c);
}

void lanes_settle(struct manager *m) {
    for (struct lane_client *c = m->unsettled, *next; c; c = next) {
        next = c->u_next;
        if (!c->a.gone)
            lane_settle(c);
    }
}

int placed_find(struct lane_client *c) {
    uint64_t at = c->lane.cq.seen;
    struct msg r;
    int e;
    while ((e = ring_look(&c->lane.cq, &at, &r)) > 0) {
        if (r.type != MSG_REPLY || !(r.flags & MSGF_PLACED))
            continue;
        if ((e = store_keep(c->a.m->store, r.aux)) < 0)
            break;
        if (!placed_add(c, at, r.aux))
            return -ENOMEM;
    }
    return e;
}

void placed_forget(struct lane_client *c) {
    lane_settled(c);
    free(c->placed);
    c->placed = NULL;
    c->placed_n = c->placed_cap = 0;
}

void placed_end(struct lane_client *c) {
    while (c->placed_n > 0)
        placed_drop(c);
    placed_forget(c);
}
