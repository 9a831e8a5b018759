/* SPDX-License-Identifier: Apache-2.0 */
/* forward_lost.c - what a lost connection does to the forwards on it. */
#include "forward_lost.h"

#include "forward_end.h"
#include "forward_followers.h"
#include "forward_reply.h"
#include "forward_route.h"
#include "forward_send.h"
#include "forward_table.h"
#include "ledger.h"
#include "manager.h"
#include "peer_client.h"
#include "requester.h"
#include "transit.h"
#include <base/clock.h>

#include <errno.h>

static void followers_fail(struct manager *m, struct forward *f, int status, const char *text) {
    while (f->followers) {
        forward_fail(f->followers, status, text);
        forward_free(m, f->followers);
    }
}

static bool forward_reads(const struct forward *f) {
    unsigned type = f->req.type;
    return type == MSG_GET || type == MSG_HEAD || type == MSG_KEYS || type == MSG_LEN ||
           type == MSG_STATS || type == MSG_EVENTS || type == MSG_ALIVE;
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
    if (f->state == FORWARD_PUTS || f->state == FORWARD_REWINDS)
        return forward_has_result(f); /* the client still has the value */
    return (f->state == FORWARD_ASKED || forward_has_block(f)) &&
           (forward_reads(f) || forward_has_result(f));
}

/* To the front of the list of those that are sent again. */
static void again_add(struct peer *p, struct forward *f) {
    struct forward **list = peer_again(p);
    f->peer = p; /* a later life has not sent it yet, but pieces of its value may come */
    f->p_prev = list;
    f->p_next = *list;
    if (f->p_next)
        f->p_next->p_prev = &f->p_next;
    *list = f;
}

/* It begins anew, with its id if the owner knows that. */
static void forward_renew(struct manager *m, struct forward *f, struct peer *p) {
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
    f->told = 0;
    again_add(p, f);
    if (a && requester_idle(a))
        forwards_took(a);
}

static void forward_lost(struct manager *m, struct forward *f, int status, const char *text) {
    struct requester *a = f->state == FORWARD_PASSES ? f->requester : NULL;
    followers_fail(m, f, status, text);
    if (f->requester)
        forward_fail(f, status, text);
    forward_free(m, f);
    if (a && requester_idle(a))
        forwards_took(a);
}

void forwards_lost(struct manager *m, struct peer *p, const char *text, bool again) {
    while (*peer_forwards(p)) { /* the newest is the first */
        struct forward *f = *peer_forwards(p);
        while (again && forwards_return(m) && f->followers) {
            struct forward *g = f->followers;
            follower_leave(g);
            forward_renew(m, g, p);
        }
        if (again && forward_repeats(m, f))
            forward_renew(m, f, p);
        else /* whose client has a part of what it reads asks once more */
            forward_lost(m, f,
                         again && forwards_return(m) && forward_reads(f) ? -ESTALE : DDICT_ELOST,
                         text);
    }
    if (!again)
        forwards_give_up(m, p, text);
}

/* --- again --- */
static const uint8_t *forward_payload(const struct forward *f) {
    static uint8_t bytes[DD_MSG_INLINE];
    if (f->kept)
        return f->key;
    ledger_payload(f->requester->m->setup->ledger, f->entry, bytes);
    return bytes;
}

static int forward_repeat(struct manager *m, struct forward *f) {
    uint64_t now = clock_ns(), us = (now - (f->again_ns ? f->again_ns : f->began)) / 1000;
    int e;
    if (!forward_busy(f))
        f->req.aux = us < f->req.aux ? f->req.aux - us : 1; /* 0 would not wait at all */
    f->again_ns = now;
    struct peer *p = peer_get(m, f->from, &e);
    forward_answers(f); /* if the manager ends by a fault here, it is that of this request */
    if (p)
        e = forward_send(f, p, forward_payload(f));
    forward_stays(f);
    if (e == 0)
        forward_route_keep(m, f);
    return e;
}

static void again_stays(struct peer *p, struct forward *list) {
    *peer_again(p) = list;
    list->p_prev = peer_again(p);
}

int forwards_again(struct manager *m, struct peer *p, unsigned values) {
    struct forward *list = *peer_again(p); /* linked by p_next */
    *peer_again(p) = NULL;
    while (list) {
        struct forward *f = list;
        if (put_streams(&f->req) && values-- == 0) {
            again_stays(p, list);
            return 0;
        }
        list = f->p_next;
        f->p_prev = NULL;
        if (f->begun && forward_has_result(f) && peer_is_refilling(m, f->from)) {
            forward_lost(m, f, DDICT_ELOST, /* not the next one */
                         "the rest of the value was lost with its node");
            continue;
        }
        int e = forward_repeat(m, f);
        if (e == 0)
            continue;
        forward_leave_peer(f);
        forward_become(f, FORWARD_NEW);
        again_add(p, f);
        f->p_next = list;
        if (list)
            list->p_prev = &f->p_next;
        return e;
    }
    return 0;
}

void forwards_resume(struct manager *m) {
    struct forwards *t = m->forward_table;
    while (t->resumed) { /* the newest is the first */
        struct forward *f = t->resumed;
        struct peer *p = peer_know(m, f->from);
        t->resumed = f->p_next;
        if (p)
            again_add(p, f);
        else
            forward_lost(m, f, DDICT_ELOST, "there is no memory to ask its owner again");
    }
    peers_again(m);
}

void forwards_give_up(struct manager *m, struct peer *p, const char *text) {
    while (*peer_again(p))
        forward_lost(m, *peer_again(p), DDICT_ELOST, text);
}
