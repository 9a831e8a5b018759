/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.c - the clients of this node. Each turn serves every watched lane, a bounded share of each,
 * and never waits for one. A request is begun only while CQ has room for its answer, and leaves SQ
 * when the answer stands there. What is answered later and does not fit into a full CQ is queued
 * here; meanwhile nothing is read from the client.
 *
 * A lane without work for a while is left (PROTOCOL 3, W1 to W5): it then costs nothing, and the
 * client writes its eventfd with the next request. A lane that is idle for longer gives its memory
 * back: lane_memory.c. What a later life does with requests of the one before: recovery.c.
 */
#include "lanes.h"

#include "answers.h"
#include "aside.h"
#include "forward_end.h"
#include "forward_reply.h"
#include "forward_table.h"
#include "lane_client.h"
#include "lane_memory.h"
#include "lane_placed.h"
#include "ledger.h"
#include "manager.h"
#include "peer_client.h"
#include "requester_end.h"
#include "requests.h"
#include "stats.h"
#include "stream_in.h"
#include "stream_out.h"
#include "supmsg.h"
#include <base/clock.h>
#include <base/log.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TURN_RECORDS 64u /* of one lane, before the next lane has its turn */
#define TURN_BYTES   (1u << 20)
/* of all lanes, both ways, before connections are served: a millisecond or two */
#define ALL_BYTES   (4u << 20)
#define ALL_RECORDS 1024u
#define PUMP_PIECES 16u /* of a lane's streams in one turn */
/* bytes: a ring with less room counts as full for a part of a piece */
#define PART_LEAST 8192u
/* bytes: the client is told at once when a record of this size has left SQ */
#define LARGE_RECORD 32768u
/* after which completions that the client may have consumed are looked at again */
#define SETTLE_MS 1000u
/* turns without work after which a lane is left: they cost about as much as waking the manager by
 * the eventfd */
#define LOOKS_MAX 256u
/* clients whose memory and counters are looked up for one STATS, in turn: each is a system call,
 * and at first a page fault and a page table; a millisecond or two together */
#define FIGURE_LOOKS 512u
/* so few watched lanes cost next to nothing, and are not left */
#define WATCHED_ALWAYS 8u

/* what is left in this turn */
struct lanes_share {
    size_t bytes, records;
};
/* the leases of a forked child, see LAYOUT 6 */
struct hold {
    struct hold *next;
    uint64_t id;
    const struct lease_chunk *leases;
};

static struct lane_client *lane_of(struct requester *a) {
    return (struct lane_client *)(void *)a;
}

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

static void lane_client_unwatch(struct lane_client *c) {
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

static void lane_on_eventfd(struct io_handler *h, uint32_t events) {
    lane_client_watch(
        (struct lane_client *)(void *)((char *)h - offsetof(struct lane_client, eventfd)));
}

/* --- answers --- */
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

static void lane_send(struct requester *a, struct msg *r, const void *payload, size_t len) {
    lane_queue(lane_of(a), r, payload, len, 0);
}

static void lane_send_placed(struct requester *a, const struct msg *r, uint64_t off) {
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

static bool backlog_flush(struct lane_client *c) {
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

static uint64_t lane_position(struct requester *a) {
    return lane_of(a)->lane.sq.pos;
}
/* Acquire pairs with ring_commit(): the ends of leases before it are visible. */
static uint64_t lane_filled(struct requester *a) {
    return __atomic_load_n(lane_of(a)->lane.sq.tail, __ATOMIC_ACQUIRE);
}
static bool lane_idle(struct requester *a) {
    return lane_of(a)->backlog.n == 0;
}
static void piece_commit(struct lane_client *c, const struct msg *r) {
    ring_commit(&c->lane.cq);
    lane_client_watch(c);
    c->wake |= worth_waking(c, r);
}

static bool lane_piece(struct requester *a, struct msg *r, const void *data, uint32_t n,
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

static void parts_go_on(struct lane_client *c) {
    c->part_waits = false;
    timer_clear(&c->a.m->timers, &c->part_timer);
    peers_resume(c->a.m);
}

static void part_late(struct timer *t) {
    struct lane_client *c =
        (struct lane_client *)(void *)((char *)t - offsetof(struct lane_client, part_timer));
    c->part_late = true;
    parts_go_on(c);
}

/* Whether there is room enough to go on. */
static bool parts_look(struct lane_client *c) {
    /* Relaxed: a hint. Whoever takes the room reads the head anew. */
    if (!c->part_waits ||
        c->lane.cq.pos - __atomic_load_n(c->lane.cq.head, __ATOMIC_RELAXED) > DD_LANE_RING / 2)
        return false;
    parts_go_on(c);
    return true;
}

static void *lane_part(struct requester *a, uint32_t *room) {
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

static void lane_part_done(struct requester *a, struct msg *r, const void *at, uint32_t n) {
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

/* --- requests --- */
static bool lane_flush(struct lane_client *c) {
    bool worked = backlog_flush(c);
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

static const struct carrier_ops lane_carrier = {.name = "client",
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
        worked |= parts_look(c);
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
            found |= parts_look(c);
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

/* --- who is there --- */
static const struct lease_chunk *leases_map(int fd) {
    void *map = mmap(NULL, LEASE_FILE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

static void reads_add(struct lease_counters *sum, const struct lease_counters *r) {
    sum->gets += r->gets;
    sum->misses += r->misses;
    sum->bytes += r->bytes;
    sum->cached += r->cached;
}

static void reads_take(struct lease_counters *sum, const struct lease_counters *r) {
    sum->gets -= r->gets;
    sum->misses -= r->misses;
    sum->bytes -= r->bytes;
    sum->cached -= r->cached;
}

static void reads_look(struct manager *m, const struct lease_chunk *leases,
                       struct lease_counters *sum) {
    lease_reads(leases, m->setup->local_index, sum);
}

/* Exact at the end; before, only some clients are looked up at a time. */
void lanes_figures(struct manager *m, struct lease_counters *reads, uint64_t *bytes) {
    struct lane_client *c = m->ending ? m->clients : m->figures_at;
    unsigned most = m->ending ? m->clients_now : FIGURE_LOOKS;
    for (unsigned n = m->clients_now < most ? m->clients_now : most; n > 0; n--, c = c->next) {
        if (!c)
            c = m->clients;
        bytes_look(c);
        reads_take(&m->lane_reads, &c->reads);
        c->reads = (struct lease_counters){0};
        reads_look(m, c->leases, &c->reads);
        reads_add(&m->lane_reads, &c->reads);
    }
    m->figures_at = c;
    *bytes = m->lane_bytes;
    *reads = m->setup->page->departed;
    reads_add(reads, &m->lane_reads);
    for (struct hold *h = m->holds; h; h = h->next)
        reads_look(m, h->leases, reads);
}

struct lane_client *lane_client_find(const struct manager *m, uint64_t id) {
    struct lane_client *c = m->clients;
    while (c && c->id != id)
        c = c->next;
    return c;
}

bool client_is_served(const struct manager *m, uint64_t id) {
    const struct lane_client *c = lane_client_find(m, id);
    return c && !c->a.gone;
}

int client_add(struct manager *m, uint64_t id, uint32_t pid, const int fds[4]) {
    struct lane_client *c = calloc(1, sizeof *c);
    int e = -ENOMEM;
    if (!c)
        return e;
    requester_init(&c->a, m, REQUESTER_LANE, &lane_carrier, id);
    c->part_timer.fire = part_late;
    c->id = id;
    c->pid = pid;
    c->leases = leases_map(fds[0]);
    if (!c->leases)
        goto no_leases;
    e = lane_map(&c->lane, fds[1], false);
    if (e < 0)
        goto no_lane;
    e = store_leases_add(m->store, id, c->leases, pid);
    if (e < 0)
        goto no_store;
    c->eventfd = (struct io_handler){.fd = fds[3], .ready = lane_on_eventfd};
    /* edge-triggered: each write is an event, and nothing has to be read */
    e = io_add(m->epoll_fd, &c->eventfd, EPOLLIN | EPOLLET);
    if (e < 0)
        goto no_eventfd;
    if (!m->knows && (e = placed_find(c)) < 0)
        goto no_placed;
    c->lane.client_eventfd = fds[2];
    c->next = m->clients;
    m->clients = c;
    if (!lane_leave(&c->lane))
        lane_client_watch(c);
    bytes_look(c);
    if (!m->knows) { /* an earlier life has served it */
        lane_resume(&c->lane);
        lane_used(c);
    }
    if (++m->clients_now > m->count->clients_peak)
        m->count->clients_peak = m->clients_now;
    return 0;
no_placed:
    io_remove(m->epoll_fd, &c->eventfd);
    placed_forget(c); /* what was pinned stays: nobody says when it is not read any more */
no_eventfd:
    store_leases_remove(m->store, id);
no_store:
    lane_unmap(&c->lane);
no_lane:
    munmap((void *)(uintptr_t)c->leases, LEASE_FILE_SIZE);
no_leases:
    free(c);
    return e;
}

static void answer_drop(void *client, const struct backlog_answer *r) {
    struct manager *m = ((struct lane_client *)client)->a.m;
    if (r->msg.flags & MSGF_PLACED)
        store_unpin(m->store, r->off);
    if (backlog_ends(r))
        forward_entry_over(m, r->entry);
}

/* Undo all its requests. A client that is banned ends long before it is freed. */
static void client_end(struct lane_client *c) {
    requester_end(&c->a);
    if (c->part_waits)
        parts_go_on(c);
    lane_client_unwatch(c);
    lane_settled(c);
    lane_small(c);
    if (c->eventfd.fd >= 0) {
        io_remove(c->a.m->epoll_fd, &c->eventfd);
        close(c->eventfd.fd);
        c->eventfd.fd = -1;
    }
    backlog_end(&c->backlog, answer_drop, c);
    aside_backlog(c->a.m, &c->backlog);
}

static void client_free(struct lane_client *c) {
    struct manager *m = c->a.m;
    client_end(c);
    placed_end(c);
    reads_take(&m->lane_reads, &c->reads);
    reads_look(m, c->leases, &m->setup->page->departed);
    store_leases_remove(m->store, c->id);
    close(c->lane.client_eventfd);
    aside_free(m, &c->lane, c->leases);
    m->clients_now--;
    m->lane_bytes -= c->bytes;
    if (m->figures_at == c)
        m->figures_at = c->next;
    free(c);
}

void client_del(struct manager *m, uint64_t id) {
    for (struct lane_client **at = &m->clients; *at; at = &(*at)->next) {
        if ((*at)->id != id)
            continue;
        struct lane_client *c = *at;
        *at = c->next;
        client_free(c);
        return;
    }
}

/* The process lives on and reads in place, so its leases and the values placed in its CQ stay. */
void client_ban(struct manager *m, uint64_t id) {
    for (struct lane_client *c = m->clients; c; c = c->next) {
        if (c->id != id)
            continue;
        client_end(c);
        c->told = true;
    }
}

int hold_add(struct manager *m, uint64_t id, uint32_t pid, int fd) {
    struct hold *h = calloc(1, sizeof *h);
    int e = -ENOMEM;
    if (!h)
        return e;
    h->id = id;
    h->leases = leases_map(fd);
    if (h->leases)
        e = store_leases_add(m->store, id, h->leases, pid);
    if (e < 0) {
        if (h->leases)
            munmap((void *)(uintptr_t)h->leases, LEASE_FILE_SIZE);
        free(h);
        return e;
    }
    h->next = m->holds;
    m->holds = h;
    return 0;
}

void hold_del(struct manager *m, uint64_t id) {
    for (struct hold **at = &m->holds; *at; at = &(*at)->next) {
        if ((*at)->id != id)
            continue;
        struct hold *h = *at;
        *at = h->next;
        reads_look(m, h->leases, &m->setup->page->departed);
        store_leases_remove(m->store, id);
        munmap((void *)(uintptr_t)h->leases, LEASE_FILE_SIZE);
        free(h);
        return;
    }
}

void lanes_reap(struct manager *m) {
    for (struct lane_client *c = m->clients; c; c = c->next) {
        if (!c->a.gone || c->told)
            continue;
        struct sup_msg s = {.type = SUP_CLIENT_BAD, .id = c->id, .status = DDICT_EPROTO};
        c->told = sup_send(m->setup->sup_fd, &s, NULL, 0) == 0;
        if (!c->told)
            m->reap = true; /* the socket is full: try again */
    }
}

void lanes_end(struct manager *m) {
    while (m->clients)
        client_del(m, m->clients->id);
    while (m->holds)
        hold_del(m, m->holds->id);
}
