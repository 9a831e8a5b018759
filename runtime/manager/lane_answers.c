/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane_answers.c - answers to the clients of this node, by CQ of their lanes. What does not fit into a
 * full CQ is queued, and goes as the client reads: see lane_answers.h.
 */
#include "lane_answers.h"

#include "forward_end.h"
#include "forward_reply.h"
#include "forward_table.h"
#include "lane_placed.h"
#include "lanes.h"
#include "ledger.h"
#include "peer_client.h"

#include <string.h>

/* bytes: a ring with less room counts as full for a part of a piece */
#define PART_LEAST 8192u

static void *lane_room(struct lane_client *c, uint32_t len) {
    bool bad = false;
    void *at = ring_reserve(&c->lane.cq, len, &bad);
    if (bad)
        requester_drop(&c->a, "impossible head of its completion ring");
    return bad ? NULL : at;
}

/*
 * A piece in the middle of a value does not wake a sleeping client, which would only sleep again
 * for the rest. Half a full ring does: the client then reads while the manager writes. (seen is an
 * old head: this wakes too early, never too late.)
 */
_Static_assert(DD_LANE_RING - 2 * ((LANE_RECORD_MAX + 63) & ~63ull) >= DD_LANE_RING / 2,
               "a client that sleeps before a CQ in which no answer has room was woken");
static bool worth_waking(const struct lane_client *c, const struct msg *r) {
    return r->type != MSG_DATA || r->flags & MSGF_LAST ||
           c->lane.cq.pos - c->lane.cq.seen >= DD_LANE_RING / 2;
}

/* Write r where there is room for it. */
static void room_fill(struct lane_client *c, uint8_t *at, const struct msg *r, const void *payload,
                      size_t len, uint64_t off) {
    memcpy(at, r, sizeof *r);
    if (len)
        memcpy(at + MSG_HEADER, payload, len);
    ring_commit(&c->lane.cq);
    c->wake |= worth_waking(c, r);
    if (r->flags & MSGF_PLACED && !placed_add(c, c->lane.cq.pos, off)) {
        store_unpin(c->a.m->store, off);
        requester_drop(&c->a, "no memory to keep its value");
    }
}

/* The entry of the request that r answers, or NULL. */
static struct ledger_entry *entry_of(const struct lane_client *c, const struct msg *r) {
    struct ledger_entry **at = c->a.m->answering, *e = at ? *at : NULL;
    return e && e->client == c->id && e->req.id == r->id ? e : NULL;
}

/* ... if a later life can answer it again: this one has changed nothing for it. */
static struct ledger_entry *entry_again(const struct lane_client *c, const struct msg *r) {
    struct ledger_entry *e = entry_of(c, r);
    bool changes = e && (e->req.type == MSG_POP || e->req.type == MSG_PUT);
    return e && (c->a.m->passing || (r->type == MSG_REPLY && (!changes || e->id))) ? e : NULL;
}

/* r, a part of a value with len bytes of it, is published next. */
static void pass_note(struct lane_client *c, struct ledger_entry *e, const struct msg *r,
                      size_t len) {
    bool piece = r->type == MSG_DATA;
    ledger_note(e, c->lane.cq.pos,
                piece && r->flags & MSGF_LAST ? LEDGER_OVER : 1 + (piece ? r->aux + len : 0));
    if (faults.on)
        faults_step(STEP_NOTED);
}

/* Its entry goes with the answer, and ends when that stands in CQ. */
static void entry_queued(struct manager *m) {
    (*m->answering)->value = 0; /* its answer keeps what it names, or has a copy */
    *m->answering = NULL;
    store_begin(m->store, NULL); /* the next change is not its */
}

static bool answer_write(struct lane_client *c, const struct msg *r, const void *payload,
                         size_t len, uint64_t off) {
    struct ledger_entry *e = c->a.m->passing ? entry_of(c, r) : NULL;
    uint8_t *at = lane_room(c, r->len);
    if (at && e)
        pass_note(c, e, r, len);
    if (at)
        room_fill(c, at, r, payload, len, off);
    return at;
}

static void lane_queue(struct lane_client *c, const struct msg *r, const void *payload, size_t len,
                       uint64_t off) {
    struct manager *m = c->a.m;
    lane_client_watch(c);
    if (c->a.gone || (c->backlog.n == 0 && answer_write(c, r, payload, len, off)))
        return;
    struct backlog_answer a = {.msg = *r,
                               .payload = payload,
                               .off = off,
                               .entry = entry_again(c, r),
                               .passes = m->passing};
    /* a write that fails may have dropped the client */
    if (!c->a.gone && backlog_add(&c->backlog, &a) == 0) {
        if (backlog_ends(&a))
            entry_queued(m);
        return;
    }
    if (r->flags & MSGF_PLACED)
        store_unpin(c->a.m->store, off);
    requester_drop(&c->a, "no memory to keep its answers");
}

void lane_send(struct requester *a, struct msg *r, const void *payload, size_t len) {
    lane_queue(lane_of(a), r, payload, len, 0);
}

void lane_send_placed(struct requester *a, const struct msg *r, uint64_t off) {
    if (a->gone)
        store_unpin(a->m->store, off);
    else
        lane_queue(lane_of(a), r, NULL, 0, off);
}

static void answer_fill(struct lane_client *c, uint8_t *at, const struct backlog_answer *r) {
    struct manager *m = c->a.m;
    struct ledger_entry *e = r->entry;
    size_t len = r->msg.len - MSG_HEADER;
    bool whole = e && !r->passes;
    if (whole)
        requester_begin(&c->a, &e);
    else if (e)
        pass_note(c, e, &r->msg, len);
    room_fill(c, at, &r->msg, r->payload, len, r->off);
    if (backlog_ends(r))
        forward_entry_over(m, e);
    if (!whole)
        return;
    m->answering = NULL;
    store_begin(m->store, NULL);
}

bool lane_backlog_flush(struct lane_client *c) {
    struct backlog_answer r;
    bool worked = false;
    while (!c->a.gone && backlog_first(&c->backlog, &r)) {
        uint8_t *at = lane_room(c, r.msg.len);
        if (!at)
            break;
        answer_fill(c, at, &r);
        backlog_drop(&c->backlog);
        worked = true;
    }
    if (c->backlog.n == 0)
        c->part_late = false;
    if (worked && c->backlog.n == 0 && c->a.streams_n)
        forwards_took(&c->a);
    return worked;
}

/* --- popped values that only this life has --- */
struct popped {
    struct manager *m;
    uint32_t owner;
};

static bool is_popped(void *arg, const struct ledger_entry *e) {
    const struct popped *p = arg;
    return e->id && e->to == p->owner && e->req.type == MSG_POP && !forward_asks(p->m, e);
}

static void popped_alone(void *arg, const struct backlog_answer *r) {
    if (backlog_ends(r))
        forward_entry_over(((struct popped *)arg)->m, r->entry);
}

void lanes_popped_alone(struct manager *m, uint32_t owner) {
    struct popped p = {.m = m, .owner = owner};
    for (struct lane_client *c = m->setup->ledger ? m->clients : NULL; c; c = c->next)
        backlog_forget(&c->backlog, is_popped, popped_alone, &p);
}

bool lane_idle(struct requester *a) {
    return lane_of(a)->backlog.n == 0;
}
static void piece_commit(struct lane_client *c, const struct msg *r) {
    ring_commit(&c->lane.cq);
    lane_client_watch(c);
    c->wake |= worth_waking(c, r);
}

bool lane_piece(struct requester *a, struct msg *r, const void *data, uint32_t n,
                void (*done)(void *arg), void *arg) {
    struct lane_client *c = lane_of(a);
    uint8_t *at = c->starved ? NULL : lane_room(c, r->len);
    struct ledger_entry *e = a->m->passing ? entry_of(c, r) : NULL;
    if (!at)
        return false;
    memcpy(at, r, sizeof *r);
    memcpy(at + MSG_HEADER, data, n);
    if (e)
        pass_note(c, e, r, n);
    piece_commit(c, r);
    done(arg);
    return true;
}

void lane_parts_go_on(struct lane_client *c) {
    c->part_waits = false;
    timer_clear(&c->a.m->timers, &c->part_timer);
    peers_resume(c->a.m);
}

void lane_part_late(struct timer *t) {
    struct lane_client *c =
        (struct lane_client *)(void *)((char *)t - offsetof(struct lane_client, part_timer));
    c->part_late = true;
    lane_parts_go_on(c);
}

/* Whether there is room enough to go on. */
bool lane_parts_look(struct lane_client *c) {
    /* Relaxed: a hint. Whoever takes the room reads the head anew. */
    if (!c->part_waits ||
        c->lane.cq.pos - __atomic_load_n(c->lane.cq.head, __ATOMIC_RELAXED) > DD_LANE_RING / 2)
        return false;
    lane_parts_go_on(c);
    return true;
}

void *lane_part(struct requester *a, uint32_t *room) {
    struct lane_client *c = lane_of(a);
    bool bad = false;
    uint32_t least = *room < PART_LEAST ? *room : PART_LEAST;
    if (c->backlog.n > 0 || a->gone)
        return NULL;
    /* what becomes free is for the record that waits, at first */
    uint8_t *at =
        c->starved && !c->part_late ? NULL : ring_reserve_some(&c->lane.cq, least, room, &bad);
    if (bad)
        requester_drop(a, "impossible head of its completion ring");
    c->part = at && !bad ? at + MSG_HEADER : NULL;
    c->part_room = *room;
    if (!c->part && !bad && !c->part_late &&
        (c->part_waits ||
         timer_after(&a->m->timers, &c->part_timer, DD_PART_WAIT_US * 1000ull) == 0)) {
        c->part_waits = true;
        lane_client_watch(c);
        *room = 0;
    }
    return c->part;
}

void lane_part_done(struct requester *a, struct msg *r, const void *at, uint32_t n) {
    struct lane_client *c = lane_of(a);
    r->len = MSG_HEADER + n;
    if (at != c->part) { /* it was received elsewhere, for want of room */
        lane_send(a, r, at, n);
        return;
    }
    memcpy(c->part - MSG_HEADER, r, sizeof *r);
    ring_trim(&c->lane.cq, MSG_HEADER + c->part_room, r->len);
    c->part = NULL;
    struct ledger_entry *e = a->m->passing ? entry_of(c, r) : NULL;
    if (e)
        pass_note(c, e, r, n);
    piece_commit(c, r);
}
