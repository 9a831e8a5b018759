/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.c - requests of this node's clients. Each turn serves every watched lane, a bounded share of
 * each, and never waits for one. A request is begun only while CQ has room for its answer, and leaves
 * SQ when the answer stands there. What is answered later and does not fit into a full CQ is queued
 * (lane_answers.c); meanwhile nothing is read from the client. lane_clients.c has who comes and goes.
 *
 * A lane without work for a while is left (PROTOCOL 3, W1 to W5): it then costs nothing, and the
 * client writes its eventfd with the next request. A lane that is idle for longer gives its memory
 * back: lane_memory.c. What a later life does with requests of the one before: recovery.c.
 */
#include "lanes.h"

#include "lane_answers.h"
#include "lane_memory.h"
#include "lane_placed.h"
#include "manager.h"
#include "requests.h"
#include "stream_in.h"
#include "stream_out.h"
#include <base/clock.h>
#include <base/log.h>

#include <errno.h>
#include <unistd.h>

#define TURN_RECORDS 64u /* of one lane, before the next lane has its turn */
#define TURN_BYTES   (1u << 20)
/* of all lanes, both ways, before connections are served: a millisecond or two */
#define ALL_BYTES   (4u << 20)
#define ALL_RECORDS 1024u
#define PUMP_PIECES 16u /* of a lane's streams in one turn */
/* bytes: the client is told at once when a record of this size has left SQ */
#define LARGE_RECORD 32768u
/* after which completions that the client may have consumed are looked at again */
#define SETTLE_MS 1000u
/* turns without work after which a lane is left: they cost about as much as waking the manager by
 * the eventfd */
#define LOOKS_MAX 256u
/* so few watched lanes cost next to nothing, and are not left */
#define WATCHED_ALWAYS 8u

/* what is left in this turn */
struct lanes_share {
    size_t bytes, records;
};

/* --- which lanes are looked at --- */
void lane_client_watch(struct lane_client *c) {
    struct manager *m = c->a.m;
    c->vain = 0;
    if (c->w_prev || c->a.gone)
        return;
    lane_watch(&c->lane);
    c->w_prev = &m->watched;
    c->w_next = m->watched;
    if (c->w_next)
        c->w_next->w_prev = &c->w_next;
    m->watched = c;
    m->watched_n++;
}

void lane_client_unwatch(struct lane_client *c) {
    if (!c->w_prev)
        return;
    if (c->a.m->lanes_at == c)
        c->a.m->lanes_at = c->w_next;
    *c->w_prev = c->w_next;
    if (c->w_next)
        c->w_next->w_prev = c->w_prev;
    c->w_prev = NULL;
    c->a.m->watched_n--;
}

/* --- requests --- */
static uint64_t lane_position(struct requester *a) {
    return lane_of(a)->lane.sq.pos;
}
/* Acquire pairs with ring_commit(): the ends of leases before it are visible. */
static uint64_t lane_filled(struct requester *a) {
    return __atomic_load_n(lane_of(a)->lane.sq.tail, __ATOMIC_ACQUIRE);
}
static bool lane_flush(struct lane_client *c) {
    bool worked = lane_backlog_flush(c);
    if (c->backlog.n == 0 && c->a.streams_out && !c->a.gone)
        worked |= streams_out_pump(&c->a);
    return worked;
}

static const uint8_t *lane_place(struct requester *a, uint64_t off, uint64_t len) {
    static uint8_t copy[DD_MSG_PIECE];
    struct lane *l = &lane_of(a)->lane;
    int code;
    const uint8_t *at = lane_window(l, off, len, &code);
    if (at || code == DDICT_EPROTO)
        return at;
    for (uint64_t got = 0; got < len;) { /* no address space for a window: read the file */
        ssize_t n = pread(l->fd, copy + got, len - got, (off_t)(LANE_RINGS_SIZE + off + got));
        if (n <= 0 && errno != EINTR)
            return NULL;
        if (n > 0)
            got += (uint64_t)n;
    }
    return copy;
}

static void lane_consume(struct lane_client *c) {
    const struct msg *m = c->at_hand;
    if (c->a.m->resumed) /* of a value in pieces, this is the last */
        requester_entry_end(c->a.m, &c->a.m->resumed);
    if (faults.on)
        faults_step(STEP_ANSWERED);
    ring_consume(&c->lane.sq, m);
    if (faults.on)
        faults_step(STEP_TAKEN);
    c->at_hand = NULL;
    c->served = true;
    /* so that the client writes on while the manager reads */
    if (m->len >= LARGE_RECORD)
        lane_wake_for_room(&c->lane, c->served_from);
}

static void lane_taken(struct requester *a, uint64_t id) {
    struct lane_client *c = lane_of(a);
    if (c->at_hand && c->at_hand->id == id && !a->gone)
        lane_consume(c);
}

static void lane_source(const struct requester *a, struct store_source *from) {
    const struct lane_client *c = (const struct lane_client *)(const void *)a;
    from->client = c->id;
    from->before = c->lane.cq.pos;
}

static bool lane_unread(const struct requester *a) {
    const struct lane_client *c = (const struct lane_client *)(const void *)a;
    return c->starved || c->backlog.n > 0;
}

const struct carrier_ops lane_carrier = {.name = "client",
                                         .pieces_max = PUMP_PIECES,
                                         .send = lane_send,
                                         .idle = lane_idle,
                                         .piece = lane_piece,
                                         .send_placed = lane_send_placed,
                                         .taken = lane_taken,
                                         .source = lane_source,
                                         .unread = lane_unread,
                                         .position = lane_position,
                                         .filled = lane_filled,
                                         .place = lane_place,
                                         .part = lane_part,
                                         .part_done = lane_part_done};

static void share_take(struct lanes_share *left, size_t bytes, size_t records) {
    left->bytes -= bytes < left->bytes ? bytes : left->bytes;
    left->records -= records < left->records ? records : left->records;
}

/* Whether the next record may be begun. */
static bool lane_takes(const struct lane_client *c) {
    return c->backlog.n == 0 && !c->stalled && !c->paused && !c->a.gone;
}

/* Whether CQ has room for any answer; else a stream must not take what becomes free. */
static bool lane_answers(struct lane_client *c) {
    bool bad = false;
    c->starved = !ring_has_room(&c->lane.cq, &bad);
    if (bad)
        requester_drop(&c->a, "impossible head of its completion ring");
    return !c->starved;
}

/* Records without an answer: they let streams go on, which the room may be waiting for. */
static bool is_answered(const struct msg *m) {
    return m->type != MSG_CREDIT && (m->type != MSG_DATA || m->flags & MSGF_LAST);
}

static void lane_begin(struct lane_client *c, const struct msg *m) {
    struct store_source from = {.at = c->lane.sq.pos, .id = m->id};
    lane_source(&c->a, &from);
    c->at_hand = m;
    store_begin(c->a.m->store, &from);
    if (faults.on)
        faults_step(STEP_BEGUN);
}

static bool lane_serve(struct lane_client *c, struct lanes_share *left) {
    unsigned n = 0;
    size_t bytes = 0;
    c->served_from = c->lane.sq.pos;
    while (n < TURN_RECORDS && bytes < TURN_BYTES && !share_over(c->a.m) && lane_takes(c)) {
        const uint8_t *payload = NULL;
        struct msg m;
        int e = ring_peek(&c->lane.sq, &m, &payload);
        if (e == 0)
            break;
        if (e > 0 && is_answered(&m) && !lane_answers(c))
            break;
        if (e > 0) {
            lane_begin(c, &m);
            e = request_take(&c->a, &m, payload);
        }
        if (e == TAKE_STALL || e == TAKE_LATER || e < 0)
            store_begin(c->a.m->store, NULL); /* it stays in SQ: no other change is its */
        if (e == TAKE_STALL || e == TAKE_LATER) {
            c->stalled = e == TAKE_STALL;
            break;
        }
        if (e == TAKE_PAUSE)
            c->paused = true;
        if (e < 0) {
            requester_drop(&c->a, e == -ENOMEM ? "no memory for its request"
                                               : "malformed record in its lane");
            break;
        }
        if (c->at_hand)
            lane_consume(c);
        if (m.len >= LARGE_RECORD || m.flags & MSGF_AREA)
            c->a.m->now = clock_ns();
        bytes += m.flags & MSGF_AREA ? m.val_len : m.len;
        n++;
    }
    c->at_hand = NULL;
    share_take(left, bytes, n);
    return n > 0;
}

static bool lane_turn(struct lane_client *c, struct lanes_share *left) {
    bool worked = false;
    uint64_t out = c->lane.cq.pos;
    if (c->part_waits)
        worked |= lane_parts_look(c);
    if (c->backlog.n > 0 || c->a.streams_out)
        worked |= lane_flush(c);
    if (ring_ready(&c->lane.sq))
        worked |= lane_serve(c, left);
    if (c->placed_n)
        lane_settle(c);
    if (c->wake)
        lane_wake_client(&c->lane);
    else if (c->served)
        lane_wake_for_room(&c->lane, c->served_from);
    if (c->wake || c->served) {
        c->vain = 0;
        lane_used(c);
    }
    c->wake = c->served = false;
    share_take(left, c->lane.cq.pos - out, 0);
    return worked;
}

bool lanes_turn(struct manager *m) {
    struct lanes_share left = {ALL_BYTES, ALL_RECORDS};
    struct lane_client *c = m->lanes_at ? m->lanes_at : m->watched, *next;
    bool worked = false;
    unsigned n = m->watched_n;
    for (; n > 0 && left.bytes > 0 && left.records > 0 && !share_over(m);
         n--, c = next ? next : m->watched) {
        next = c->w_next;
        bool vain = ++c->vain > LOOKS_MAX && m->watched_n > WATCHED_ALWAYS && lane_quiet(c);
        if (c->a.gone || (vain && lane_leave(&c->lane)))
            lane_client_unwatch(c);
        else
            worked |= lane_turn(c, &left);
        if (n % 32 == 0)
            m->now = clock_ns();
    }
    m->lanes_at = n > 0 ? c : NULL; /* the next turn begins with the others */
    return worked;
}

bool lanes_ready(struct manager *m) {
    bool found = false;
    for (struct lane_client *c = m->watched; c; c = c->w_next) {
        if (c->a.gone)
            continue;
        if (c->backlog.n > 0 || c->a.streams_out) {
            lane_want_space(&c->lane);
            found |= lane_flush(c);
            if (c->wake) {
                c->wake = false;
                lane_used(c);
                lane_wake_client(&c->lane);
            }
        }
        if (c->part_waits) {
            lane_want_space(&c->lane);
            found |= lane_parts_look(c);
        }
        if (lane_takes(c) && ring_ready(&c->lane.sq)) {
            if (c->starved)
                lane_want_space(&c->lane);
            found |= !c->starved || lane_answers(c);
        }
    }
    if (m->unsettled && !m->settle.pos)
        timer_after(&m->timers, &m->settle, SETTLE_MS * 1000000ull);
    return found || m->reap;
}

void lanes_unstall(struct manager *m) {
    m->unparks = true;
    /* Stalled lanes are watched: see lane_quiet(). */
    for (struct lane_client *c = m->watched; c; c = c->w_next)
        c->stalled = false;
}

void lanes_look(struct manager *m) {
    for (struct lane_client *c = m->watched; c; c = c->w_next)
        if ((c->stalled || c->paused) && !c->a.gone && puts_look(&c->a))
            c->stalled = c->paused = false;
}
