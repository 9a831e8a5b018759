/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer_server.c - connections that managers of other nodes have opened for their requests. Several
 * of one manager (a struct peer_server each) are one requester, the first; large values use the
 * others. A piece of a streamed put is received straight into its block. While more than
 * ANSWERS_MAX bytes of answers are queued, nothing is read from the connection. Pieces of streams
 * alone are never so many, so requests behind them are read: a small value need not wait for the
 * end of large ones.
 */
#include "peer_server.h"

#include "ledger.h"
#include "manager.h"
#include "record_rate.h"
#include "requester.h"
#include "requester_end.h"
#include "requests.h"
#include "results.h"
#include "stream_in.h"
#include "stream_out.h"
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWERS_MAX (2 * (size_t)DD_PEER_INFLIGHT)
_Static_assert(DD_PEER_INFLIGHT > DD_MSG_PIECE + MSG_HEADER,
               "a piece beyond a full queue is below ANSWERS_MAX");
#define REFUSED_LOG_MS 60000u /* between log messages about strangers */

/* a request that waits for room, or for the next turn */
struct later {
    struct msg m;
    uint8_t payload[];
};

struct peer_server {
    struct requester a;  /* first */
    struct later *later; /* a request that waits for room */
    struct peer_server *next;
    struct link *link;
    bool up, paused;
    bool settled;    /* something else than what its manager asks again has come */
    bool room_waits; /* until the spill makes progress; `later` is not tried before */
    int down;        /* why it ended; 0: it is up */
    /* of a further connection: the first one of its manager; when one ends so does the other */
    struct peer_server *first;
    /* of a first connection: the further ones, linked by more_next, in turn */
    struct peer_server *more;
    struct peer_server *more_next;
};

static struct peer_server *peer_server_of(struct requester *a) {
    return (struct peer_server *)(void *)a;
}

static struct peer_server *first_find(struct peer_server *in) {
    for (struct peer_server *i = in->a.m->peer_servers; i; i = i->next)
        if (i != in && i->up && !i->a.gone && !i->first && i->a.who == in->a.who &&
            link_group(i->link) == link_group(in->link))
            return i;
    return NULL;
}

static void peer_server_up(struct link *l, void *arg, uint32_t peer) {
    struct peer_server *in = arg;
    in->a.who = 1ull << 63 | peer;
    if (link_is_more(l) && (in->first = first_find(in))) {
        in->more_next = in->first->more;
        in->first->more = in;
    }
    if (peer >= in->a.m->setup->managers || (link_is_more(l) && !in->first))
        in->a.gone = in->a.m->reap = true;
    else
        in->up = true;
    if (!in->up || in->first)
        return;
    if (!results_connect(in->a.m, peer, link_life(l))) {
        in->a.gone = in->a.m->reap = true;
        return;
    }
    /* The manager has lost its earlier connections, and its clients know, or with --restarts it asks
     * again. Requests still in those must not be done after newer ones. */
    for (struct peer_server *i = in->a.m->peer_servers; i; i = i->next)
        if (i != in && i->up && i->a.who == in->a.who &&
            link_group(i->link) != link_group(in->link))
            i->a.gone = in->a.m->reap = true;
}

static void *peer_server_payload_to(struct link *l, void *arg, const struct msg *m) {
    struct peer_server *in = arg;
    return m->type == MSG_DATA && !in->a.gone ? put_in_place(&in->a, m) : NULL;
}

/* Keep the request until there is room; nothing else of this connection is taken meanwhile. */
static int later_keep(struct peer_server *in, const struct msg *m, const void *payload) {
    in->later = malloc(sizeof *in->later + m->len - MSG_HEADER);
    if (!in->later)
        return -ENOMEM;
    in->later->m = *m;
    memcpy(in->later->payload, payload, m->len - MSG_HEADER);
    in->a.m->laters++;
    link_pause(in->link, true);
    return 0;
}

static void room_wait(struct peer_server *in) {
    in->room_waits = true;
    if (in->later)
        in->a.m->laters--;
}

static void later_free(struct peer_server *in) {
    if (!in->later)
        return;
    free(in->later);
    in->later = NULL;
    if (!in->room_waits)
        in->a.m->laters--;
}

/* Not about a request that was made before. */
static bool is_asking(unsigned type) {
    return type != MSG_CANCEL && type != MSG_DATA && type != MSG_ABORT && type != MSG_CREDIT &&
           type != MSG_TOOK;
}

/* What an older connection has of its value is kept when that is freed, at the end of the turn. */
static bool is_early(const struct peer_server *in, const struct msg *m) {
    return m->type == MSG_PUT && m->flags & MSGF_STREAM && m->flags & MSGF_AGAIN && in->a.m->reap;
}

/* request_take() of a message. */
static int peer_server_take(struct peer_server *in, const struct msg *m, const uint8_t *payload) {
    if (is_early(in, m))
        return TAKE_LATER;
    if (!in->a.m->setup->results && !(m->flags & MSGF_AGAIN))
        return request_take(&in->a, m, payload);
    if (!in->first && !in->settled && !(m->flags & MSGF_AGAIN) && is_asking(m->type)) {
        in->settled = true;
        results_settle(in->a.m, (uint32_t)in->a.who, m->id);
    }
    return results_take(&in->a, m, payload);
}

bool peer_servers_later(struct manager *m) {
    if (m->laters == 0 || !manager_may_serve(m))
        return false;
    unsigned left = 0;
    struct peer_server *in = m->later_at ? m->later_at : m->peer_servers;
    for (const struct peer_server *i = m->peer_servers; i; i = i->next)
        left++;
    share_later(m);
    for (; left > 0 && !share_over(m); left--, in = m->later_at) {
        /* the next turn begins with the others */
        m->later_at = in->next ? in->next : m->peer_servers;
        if (!in->later || in->room_waits || in->a.gone)
            continue;
        int e = peer_server_take(in, &in->later->m, in->later->payload);
        if (e == TAKE_STALL)
            room_wait(in);
        if (e == TAKE_LATER || e == TAKE_STALL)
            continue;
        later_free(in);
        if (e == TAKE_PAUSE)
            room_wait(in);
        if (e == TAKE_PAUSE)
            continue;
        if (e < 0)
            in->a.gone = m->reap = true;
        else if (!in->paused)
            link_pause(in->link, false);
    }
    return true;
}

static int peer_server_message(struct link *l, void *arg, const struct msg *m, void *payload) {
    struct peer_server *in = arg;
    if (in->a.gone || !request_allowed(&in->a, m->type))
        return DDICT_EPROTO;
    if (faults.on && ((in->first && faults_cut()) || faults_cut_each()))
        return -ECONNRESET;
    int e = TAKE_LATER;
    if (manager_may_serve(in->a.m) && (m->type == MSG_DATA || !share_over(in->a.m)))
        e = peer_server_take(in, m, payload);
    if (e == TAKE_LATER || e == TAKE_STALL) {
        int kept = later_keep(in, m, payload);
        if (kept == 0 && e == TAKE_STALL)
            room_wait(in);
        return kept;
    }
    if (e < 0)
        return e;
    if (e == TAKE_PAUSE) {
        room_wait(in);
        link_pause(l, true);
    }
    if (!in->paused && link_queued(l) > ANSWERS_MAX) {
        in->paused = true;
        link_pause(l, true);
    }
    return in->a.gone ? DDICT_EPROTO : 0;
}

static void peer_server_drained(struct link *l, void *arg) {
    struct peer_server *in = arg;
    streams_out_pump(&in->a);
    if (in->first)
        streams_out_pump(&in->first->a);
    if (in->paused && link_queued(l) <= ANSWERS_MAX) {
        in->paused = false;
        if (!in->later && !in->room_waits)
            link_pause(l, false);
    }
}

void peer_servers_look(struct manager *m) {
    for (struct peer_server *in = m->peer_servers; in; in = in->next) {
        if (in->a.gone || !in->up)
            continue;
        streams_out_pump(&in->a); /* values that are read from the spill */
        if (!in->room_waits || !puts_look(&in->a))
            continue;
        in->room_waits = false;
        if (in->later)
            m->laters++; /* in the next turn */
        else if (!in->paused)
            link_pause(in->link, false);
    }
}

static void peer_server_down(struct link *l, void *arg, int code) {
    struct peer_server *in = arg;
    in->down = code ? code : -ECONNRESET;
    if (code == DDICT_EAUTH || code == DDICT_EPROTO || !in->up) {
        static uint64_t said;
        struct manager *m = in->a.m;
        if (said == 0 || m->now - said > REFUSED_LOG_MS * 1000000ull)
            log_warn("a connection was refused: %s", dd_strerror(code));
        said = m->now;
    }
    note_refused(in->a.m, in->down);
    in->a.gone = in->a.m->reap = true;
}

static const struct link_ops peer_server_ops = {peer_server_up, peer_server_payload_to,
                                                peer_server_message, peer_server_drained,
                                                peer_server_down};

/* --- carrier --- */
static void peer_server_send(struct requester *a, struct msg *r, const void *payload, size_t len) {
    if (link_send(peer_server_of(a)->link, r, payload, len, NULL, 0, NULL, NULL) < 0)
        requester_drop(a, "no memory for its answer");
}

/* A connection is pumped when it was full and has drained. */
static bool peer_server_idle(struct requester *a) {
    return true;
}

static bool peer_server_piece(struct requester *a, struct msg *r, const void *data, uint32_t len,
                              void (*done)(void *), void *arg) {
    if (a->gone || link_full(peer_server_of(a)->link))
        return false;
    if (link_send(peer_server_of(a)->link, r, NULL, 0, data, len, done, arg) == 0)
        return true;
    requester_drop(a, "no memory for its answer");
    done(arg);
    return true;
}

static struct requester *peer_server_bulk(struct requester *a) {
    struct peer_server *in = peer_server_of(a), **best = &in->more;
    if (!in->more)
        return a;
    for (struct peer_server **at = &in->more; *at; at = &(*at)->more_next)
        if (link_queued((*at)->link) < link_queued((*best)->link))
            best = at;
    struct peer_server *found = *best, **end = best;
    *best = found->more_next; /* to the end: of equal ones another is next */
    while (*end)
        end = &(*end)->more_next;
    *end = found;
    found->more_next = NULL;
    return &found->a;
}

static const struct link *peer_server_link(const struct requester *a) {
    return ((const struct peer_server *)(const void *)a)->link;
}

/* The entry of a value in pieces ends, before what may take its block. */
static void peer_server_taken(struct requester *a, uint64_t id) {
    struct manager *m = a->m;
    const struct ledger_entry *e = m->resumed;
    if (faults.on && m->setup->results)
        faults_step(STEP_ANSWERED);
    if (!e || e->client != a->who || e->req.id != id)
        return;
    ledger_end(m->setup->ledger, m->resumed); /* it has a result */
    m->resumed = NULL;
}

static const struct carrier_ops peer_server_carrier = {.name = "connection of manager",
                                                       .pieces_max = UINT_MAX,
                                                       .send = peer_server_send,
                                                       .idle = peer_server_idle,
                                                       .piece = peer_server_piece,
                                                       .bulk = peer_server_bulk,
                                                       .taken = peer_server_taken,
                                                       .link = peer_server_link};

/* --- who is there --- */
static void peer_server_accept(struct io_handler *h, uint32_t events) {
    struct manager *m = (struct manager *)(void *)((char *)h - offsetof(struct manager, listener));
    for (unsigned i = 0; i < 64; i++) {
        int fd = conn_take(h->fd);
        if (fd < 0)
            return;
        struct peer_server *in = calloc(1, sizeof *in);
        if (!in) {
            close(fd);
            return;
        }
        requester_init(&in->a, m, REQUESTER_PEER, &peer_server_carrier, 0);
        if (link_accept(&in->link, &m->links, fd, &peer_server_ops, in) < 0) {
            free(in);
            continue;
        }
        in->next = m->peer_servers;
        m->peer_servers = in;
        manager_ticks(m);
    }
}

void peer_server_take_over(struct manager *m) {
    m->listener.ready = peer_server_accept;
}

int peer_server_listen(struct manager *m) {
    if (m->setup->listen_fd < 0)
        return 0;
    m->listener = (struct io_handler){.fd = m->setup->listen_fd, .ready = peer_server_accept};
    return io_add(m->epoll_fd, &m->listener, EPOLLIN);
}

uint64_t peer_servers_links(const struct manager *m) {
    uint64_t n = 0;
    for (const struct peer_server *in = m->peer_servers; in; in = in->next)
        n += in->up;
    return n;
}

bool peer_servers_tick(struct manager *m) {
    bool more = false;
    for (struct peer_server *in = m->peer_servers; in; in = in->next) {
        if (in->up || in->down || in->a.gone)
            continue;
        link_tick(in->link, m->now);
        more |= !in->up && !in->down;
    }
    return more;
}

static void peer_server_free(struct peer_server *in) {
    if (in->a.m->later_at == in)
        in->a.m->later_at = NULL;
    in->a.gone = true;
    later_free(in);
    /* calls done() of the pieces under way; then nothing reads the bytes */
    link_free(in->link);
    requester_end(&in->a);
    free(in);
}

void peer_servers_reap(struct manager *m) {
    for (struct peer_server *in = m->peer_servers; in; in = in->next)
        if (in->first && in->a.gone)
            in->first->a.gone = true;
    for (struct peer_server *in = m->peer_servers; in; in = in->next)
        if (in->first && in->first->a.gone)
            in->a.gone = true;
    for (struct peer_server **at = &m->peer_servers; *at;) {
        struct peer_server *in = *at;
        if (!in->a.gone) {
            at = &in->next;
            continue;
        }
        *at = in->next;
        peer_server_free(in);
    }
}

void peer_servers_end(struct manager *m) {
    while (m->peer_servers) {
        struct peer_server *in = m->peer_servers;
        m->peer_servers = in->next;
        peer_server_free(in);
    }
}
