/* SPDX-License-Identifier: Apache-2.0 */
/* forward_lost.c - what a lost connection does to the forwards on it. */
#include "forward_lost.h"

#include "forward_end.h"
#include "forward_followers.h"
#include "forward_reply.h"
#include "forward_route.h"
#include "forward_send.h"
#include "forward_table.h"
#include "manager.h"
#include "peer_client.h"
#include "requester.h"
#include "results.h"
#include "transit.h"
#include <base/clock.h>

static void followers_fail(struct manager *m, struct forward *f, int status, const char *text) {
    while (f->followers) {
        requester_reply(f->followers->requester, &f->followers->req, status, text);
        forward_free(m, f->followers);
    }
}

/* It changes something, and the owner keeps what became of it. */
static bool forward_has_result(const struct forward *f) {
    return forward_changes(f) && result_fits(f->id);
}

static bool forward_reads(const struct forward *f) {
    unsigned type = f->req.type;
    return type == MSG_GET || type == MSG_HEAD || type == MSG_KEYS || type == MSG_LEN ||
           type == MSG_STATS || type == MSG_EVENTS;
}

/* It may be sent again: its payload was kept, and it changes nothing, or nothing twice. */
static bool forward_repeats(const struct manager *m, const struct forward *f) {
    unsigned type = f->req.type;
    if (!f->requester)
        return false;
    if (!forwards_return(m))
        return (type == MSG_GET || type == MSG_HEAD) && !f->again_ns && f->state == FORWARD_ASKED;
    if (f->rma_read)
        return false;
    if (f->state == FORWARD_PASSES)
        return type == MSG_GET || forward_has_result(f); /* the same value goes on where it was */
    return (f->state == FORWARD_ASKED || forward_has_block(f)) &&
           (forward_reads(f) || forward_has_result(f));
}

/* It begins anew, with its id if the owner knows that; linked by p_next. */
static void forward_renew(struct manager *m, struct forward *f, struct forward **repeat) {
    if (forward_has_block(f))
        transit_abort(m, &f->block);
    struct requester *a = f->state == FORWARD_PASSES ? f->requester : NULL;
    if (a) {
        a->streams_n--;
        f->passed = forward_at(f);
        f->begun = true;
    }
    forward_route_end(m, f);
    leader_close(f);
    forward_leave_peer(f);
    if (f->id && !forward_has_result(f))
        forward_delist(m, f);
    forward_become(f, FORWARD_NEW);
    f->via = 0;
    f->caches = false;
    f->got = 0;
    f->p_next = *repeat;
    *repeat = f;
    if (a && requester_idle(a))
        forwards_took(a);
}

static void forward_lost(struct manager *m, struct forward *f, const char *text) {
    struct requester *a = f->state == FORWARD_PASSES ? f->requester : NULL;
    followers_fail(m, f, DDICT_ELOST, text);
    if (f->requester)
        forward_fail(f, DDICT_ELOST, text);
    forward_free(m, f);
    if (a && requester_idle(a))
        forwards_took(a);
}

static void forward_repeat(struct manager *m, struct forward *f, const char *text) {
    uint64_t now = clock_ns(), us = (now - (f->again_ns ? f->again_ns : f->began)) / 1000;
    int e;
    if (!forward_busy(f))
        f->req.aux = us < f->req.aux ? f->req.aux - us : 1; /* 0 would not wait at all */
    f->again_ns = now;
    struct peer *p = peer_get(m, f->from, &e);
    if (p)
        e = forward_send(f, p, f->key);
    if (e == 0)
        forward_route_keep(m, f);
    if (e == 0)
        return;
    followers_fail(m, f, DDICT_ELOST, text);
    forward_fail(f, DDICT_ELOST, text);
    forward_free(m, f);
}

void forwards_lost(struct manager *m, struct peer *p, const char *text, bool again) {
    struct forward *repeat = NULL; /* linked by p_next */
    while (*peer_forwards(p)) {
        struct forward *f = *peer_forwards(p);
        if (again && forward_repeats(m, f)) {
            forward_renew(m, f, &repeat);
            continue;
        }
        while (again && forwards_return(m) && f->followers) {
            struct forward *g = f->followers;
            follower_leave(g);
            forward_renew(m, g, &repeat);
        }
        forward_lost(m, f, text);
    }
    while (repeat) {
        struct forward *f = repeat;
        repeat = f->p_next;
        forward_repeat(m, f, text);
    }
}
