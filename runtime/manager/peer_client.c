/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer_client.c - connections to managers of other nodes, for our requests. A peer has one
 * connection, opened at the first need, and more for large values, opened with the first of these.
 * When one of them ends all end, and each open request is sent again over a new one or gets
 * DDICT_ELOST (forward_lost.c); the next request connects anew. Whether the node is lost is for ddictd to decide.
 */
#include "peer_client.h"

#include "manager.h"
#include "peer_address.h"
#include <base/error.h>
#include <base/log.h>
#include <base/shadow.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct peer_link { /* one of its connections */
    struct peer *peer;
    struct link *link;
    bool up;
    bool waits; /* paused: a lane has no room for its bytes */
    int down;   /* why it ended; freed at the end of the turn */
};

struct peer {
    struct manager *m;
    uint32_t id;
    /* connections, including those that did not come up; 0: none */
    unsigned n;
    unsigned turn;
    uint32_t where; /* number of the process that is asked: the primary of its keys */
    uint16_t port;  /* likewise; 0: as the node infos say */
    bool moved;     /* that has changed: the connections to the one before end */
    /* with --replicas: since when it can not be reached, or has not answered since; 0: it can */
    uint64_t away_ns;
    bool heard;    /* the peer has said something on the first: more may be opened */
    bool advances; /* since the last loss a request was answered, to its end, or a value came on */
    unsigned vain; /* losses in a row between which that was not so */
    /* values in pieces that are sent again at once: all, or few after losses in vain */
    unsigned pace;
    /* nothing that it was asked over a connection before this one can be made any more: it has said
     * so, or there was none */
    bool settled;
    /* why the peer is lost: its first connection ended, or one that was up; all are freed at the
     * end of the turn */
    int down;
    struct forward *forwards; /* without an answer */
    struct forward *again;    /* to be sent again, before any other */
    struct timer retry;       /* when that is tried */
    /* the last time that bytes came from it or were written to it, or that it got its first
     * request; bytes written until then */
    uint64_t moved_ns, written;
    struct peer_link link[DD_CONNECTIONS_MAX];
};

static const struct peer_ops *peers_use; /* of peers_init() */

struct forward **peer_forwards(struct peer *p) {
    return &p->forwards;
}

struct forward **peer_again(struct peer *p) {
    return &p->again;
}

static bool link_serves(const struct peer_link *l) {
    return l->link && !l->down;
}

bool peer_full(struct peer *p, unsigned via) {
    return !p->down && link_serves(&p->link[via]) && link_full(p->link[via].link);
}

static void peer_up(struct link *l, void *arg, uint32_t peer) {
    ((struct peer_link *)arg)->up = true;
}

static void *peer_payload_to(struct link *l, void *arg, const struct msg *m) {
    struct peer *p = ((struct peer_link *)arg)->peer;
    return peers_use->place(p->m, p->id, m);
}

static int peer_message(struct link *l, void *arg, const struct msg *m, void *payload) {
    struct peer *p = ((struct peer_link *)arg)->peer;
    p->moved_ns = p->m->now;
    p->away_ns = 0;
    if (m->type != MSG_REPLY && m->type != MSG_DATA && m->type != MSG_REWIND)
        return DDICT_EPROTO;
    if (faults.on && faults_cut_each())
        return -ECONNRESET;
    bool heard = p->heard;
    p->heard = true; /* what answer() does may want more connections */
    int e = peers_use->answer(p->m, p->id, m, payload);
    if (e < 0)
        p->heard = heard;
    return e;
}

static void *peer_part_to(struct link *l, void *arg, const struct msg *m, uint32_t got,
                          uint32_t *room) {
    struct peer_link *pl = arg;
    void *at = peers_use->part_to(pl->peer->m, pl->peer->id, m, got, room);
    if (!at && *room == 0) {
        pl->waits = true;
        link_pause(l, true);
    }
    return at;
}

static int peer_part(struct link *l, void *arg, const struct msg *m, uint32_t got, const void *at,
                     uint32_t n) {
    struct peer *p = ((struct peer_link *)arg)->peer;
    p->moved_ns = p->m->now;
    if (faults.on && faults_cut_each())
        return -ECONNRESET;
    return peers_use->part(p->m, m, got, at, n);
}

static void peer_drained(struct link *l, void *arg) {
    struct manager *m = ((struct peer_link *)arg)->peer->m;
    m->up->unstall(m);
}

static void peer_down(struct link *l, void *arg, int code) {
    struct peer_link *pl = arg;
    struct peer *p = pl->peer;
    pl->down = code ? code : -ECONNRESET;
    if ((pl == p->link || pl->up) && !p->down)
        p->down = pl->down;
    p->m->reap = true;
}

static const struct link_ops peer_link_ops = {
    peer_up, peer_payload_to, peer_message, peer_drained, peer_down, peer_part_to, peer_part};

int peers_init(struct manager *m, const struct peer_ops *use) {
    peers_use = use;
    if (!m->setup->peers)
        return 0;
    m->peers = calloc(m->setup->managers, sizeof(struct peer *));
    m->primaries = calloc(m->setup->managers, sizeof *m->primaries);
    for (uint32_t i = 0; m->primaries && i < m->setup->managers; i++)
        m->primaries[i] = i; /* at the start */
    m->primary_ports = calloc(m->setup->managers, sizeof *m->primary_ports);
    m->refilling = calloc(m->setup->managers, sizeof *m->refilling);
    return m->peers && m->primaries && m->primary_ports && m->refilling ? 0 : -ENOMEM;
}

/* --- to be asked again --- */
static void peer_text(const struct peer *p, bool was_up, int code, char *text, size_t cap) {
    snprintf(text, cap, "manager %u on %s %s: %s", p->id, peer_node(p->m->setup, p->where),
             was_up ? "is lost" : "can not be reached",
             code == -EBADMSG ? "what it sent was changed on its way" : dd_strerror(code));
}

/* Try it later; what ends if it was tried too often is answered with this code. */
static void peer_retry_later(struct peer *p, int code) {
    struct manager *m = p->m;
    char text[256];
    bool patient = p->where != SHADOW_NONE && (m->setup->survives || p->vain <= DD_PEER_TRIES);
    if (m->setup->ledger && patient &&
        timer_after(&m->timers, &p->retry, DD_PEER_TRY_MS * 1000000ull) == 0)
        return;
    peer_text(p, false, code, text, sizeof text);
    peers_use->give_up(m, p, text);
}

/* Values in pieces that were lost in vain go slowly: the owner says of each how much it has, before any
 * other answer, and a connection that ends soon might bring nothing else. The more often that was so, the
 * longer: a client that is slow needs the time to send of its value what the owner has not got. */
static int peer_send_again(struct peer *p) {
    struct manager *m = p->m;
    int e = p->again ? peers_use->again(m, p, p->pace) : 0;
    if (e < 0 || !p->again)
        return e;
    p->pace *= 2;
    unsigned times = p->vain < DD_PEER_TRIES ? p->vain : DD_PEER_TRIES;
    if (timer_after(&m->timers, &p->retry, times * DD_PEER_TRY_MS * 1000000ull) == 0)
        return 0;
    return peers_use->again(m, p, UINT_MAX);
}

static void peer_retry(struct peer *p) {
    struct manager *m = p->m;
    timer_clear(&m->timers, &p->retry);
    int e = peer_send_again(p);
    p->vain += e < 0 && p->n == 0; /* it could not even be opened */
    if (e < 0)
        peer_retry_later(p, e);
    m->up->unstall(m);
}

static void retry_fire(struct timer *t) {
    peer_retry((struct peer *)(void *)((char *)t - offsetof(struct peer, retry)));
}

struct peer *peer_know(struct manager *m, uint32_t id) {
    struct peer *p = m->peers[id];
    if (p || !(p = calloc(1, sizeof *p)))
        return p;
    p->m = m;
    p->id = id;
    p->where = m->primaries[id];
    p->port = m->primary_ports[id];
    p->retry.fire = retry_fire;
    p->settled = !manager_has_lived(m);
    p->pace = UINT_MAX;
    return m->peers[id] = p;
}

void peer_moved(struct manager *m, uint32_t id, uint32_t where, uint16_t port) {
    struct peer *p;
    if (!m->primaries || id >= m->setup->managers ||
        (m->primaries[id] == where && m->primary_ports[id] == port))
        return;
    m->primaries[id] = where;
    m->primary_ports[id] = port;
    if (!(p = m->peers[id]))
        return;
    p->where = where;
    p->port = port;
    p->moved = m->reap = true;
    if (!p->down)
        p->down = -ECONNRESET;
}

void peer_refills(struct manager *m, uint32_t id, bool refilling) {
    if (m->refilling && id < m->setup->managers)
        m->refilling[id] = refilling;
}

bool peer_is_refilling(const struct manager *m, uint32_t id) {
    return m->refilling && m->refilling[id];
}

bool peer_is_gone(const struct manager *m, uint32_t id) {
    return m->primaries && m->primaries[id] == SHADOW_NONE;
}

bool peer_is_settled(const struct manager *m, uint32_t id) {
    const struct peer *p = m->peers[id];
    return peer_is_gone(m, id) || (p ? p->settled : !manager_has_lived(m));
}

void peer_settle(struct manager *m, uint32_t id) {
    if (m->peers[id])
        m->peers[id]->settled = true;
}

void peers_again(struct manager *m) {
    for (uint32_t i = 0; m->peers && i < m->setup->managers; i++)
        if (m->peers[i] && m->peers[i]->again)
            peer_retry(m->peers[i]);
}

/* What is asked of it waits. */
static void peer_is_away(struct peer *p) {
    if (p->m->setup->survives && !p->away_ns)
        p->away_ns = p->m->now;
}

struct peer *peer_get(struct manager *m, uint32_t id, int *code) {
    struct peer *p = peer_know(m, id);
    *code = -ENOMEM;
    if (!p)
        return NULL;
    /* it ended in this turn, and open requests are not answered yet, or not sent again */
    if (p->down || p->again || p->where == SHADOW_NONE) {
        *code = DDICT_ELOST;
        return NULL;
    }
    if (p->n == 0) {
        struct peer_address at;
        struct peer_link *first = p->link;
        peer_address_find(m->setup, p->where, p->port, &at);
        *first = (struct peer_link){.peer = p};
        *code =
            link_open(&first->link, &m->links, p->where, at.addr, at.naddr, &peer_link_ops, first);
        if (*code < 0) {
            peer_is_away(p);
            return NULL;
        }
        p->n = 1;
        p->heard = false;
        p->moved_ns = m->now;
        p->written = 0;
        manager_ticks(m);
    }
    *code = 0;
    return p;
}

/* A further connection did not come up: go on without it. */
static void link_reap(struct peer *p, struct peer_link *l) {
    log_line(LOG_LVL_WARN, "one more connection to manager %u on %s can not be opened: %s", p->id,
             peer_node(p->m->setup, p->where), dd_strerror(l->down));
    link_free(l->link);
    l->link = NULL;
}

void peer_more(struct peer *p) {
    struct manager *m = p->m;
    struct peer_address at;
    if (p->n != 1 || !p->heard || p->down || m->setup->connections < 2 ||
        !link_more_is_faster(p->link[0].link))
        return;
    peer_address_find(m->setup, p->where, p->port, &at);
    for (p->n = 1; p->n < m->setup->connections; p->n++) {
        struct peer_link *l = &p->link[p->n];
        *l = (struct peer_link){.peer = p};
        l->down = link_open_more(&l->link, p->link[0].link, &m->links, p->where, at.addr, at.naddr,
                                 &peer_link_ops, l);
        if (l->down < 0)
            link_reap(p, l);
    }
    manager_ticks(m);
}

unsigned peer_via(struct peer *p) {
    unsigned best = 0;
    peer_more(p);
    for (unsigned i = 0; i + 1 < p->n; i++) {
        unsigned k = 1 + (p->turn + i) % (p->n - 1);
        const struct peer_link *l = &p->link[k];
        if (link_serves(l) && l->up &&
            (best == 0 || link_queued(l->link) < link_queued(p->link[best].link)))
            best = k;
    }
    p->turn = best; /* of equal ones the next is used next time */
    return best;
}

int peer_send_body(struct peer *p, unsigned via, struct msg *r, const void *payload, size_t len,
                   const void *body, size_t body_len, void (*done)(void *arg), void *done_arg) {
    if (p->down || !link_serves(&p->link[via]))
        return DDICT_ELOST;
    return link_send(p->link[via].link, r, payload, len, body, body_len, done, done_arg);
}

int peer_send(struct peer *p, unsigned via, struct msg *r, const void *payload, size_t len) {
    return peer_send_body(p, via, r, payload, len, NULL, 0, NULL, NULL);
}

void peer_tell(struct peer *p, struct msg *r) {
    r->manager = p->id;
    if (p->n > 0)
        peer_send(p, 0, r, NULL, 0);
}

int peer_read(struct peer *p, void *to, const struct fabric_place *from,
              void (*done)(void *arg, int code), void *arg) {
    if (p->down || p->n == 0 || !link_serves(p->link))
        return DDICT_ELOST;
    return link_read(p->link->link, to, from, done, arg);
}

void peer_asked(struct peer *p) {
    if (!p->forwards)
        p->moved_ns = p->m->now;
}

void peer_advances(struct peer *p) {
    p->advances = true;
}

static void peer_soon(struct peer *p) {
    if (p->again && p->n > 0 && !p->down && p->retry.pos)
        timer_after(&p->m->timers, &p->retry, 0);
}

void peer_answered(struct peer *p) {
    peer_advances(p);
    peer_soon(p);
}

void peer_hurry(struct manager *m, uint32_t id) {
    struct peer *p = m->peers[id];
    if (!p || !p->again || p->pace == UINT_MAX)
        return;
    p->pace = UINT_MAX;
    peer_soon(p);
}

bool peer_stuck(struct manager *m, uint32_t id) {
    struct peer *p = m->peers[id];
    uint64_t written = 0;
    if (p && p->away_ns)
        return m->now > p->away_ns + DD_PEER_STUCK_MS * 1000000ull;
    if (!p || p->n == 0 || p->down)
        return false;
    for (unsigned k = 0; k < p->n; k++)
        if (link_serves(&p->link[k]))
            written += link_position(p->link[k].link) - link_queued(p->link[k].link);
    if (written != p->written) {
        p->written = written;
        p->moved_ns = m->now;
    }
    return m->now > p->moved_ns + DD_PEER_STUCK_MS * 1000000ull;
}

uint64_t peer_position(struct peer *p) {
    return p->n > 0 && !p->down ? link_position(p->link[0].link) : 0;
}
bool peer_unsent(struct peer *p, uint64_t position) {
    return p->n > 0 && !p->down && link_unsent(p->link[0].link, position);
}

void peers_resume(struct manager *m) {
    for (uint32_t i = 0; m->peers && i < m->setup->managers; i++) {
        struct peer *p = m->peers[i];
        for (unsigned k = 0; p && k < p->n; k++) {
            if (!p->link[k].waits)
                continue;
            p->link[k].waits = false;
            if (link_serves(&p->link[k]))
                link_pause(p->link[k].link, false);
        }
    }
}

uint64_t peers_links(const struct manager *m) {
    uint64_t n = 0;
    for (uint32_t i = 0; m->peers && i < m->setup->managers; i++)
        if (m->peers[i])
            n += m->peers[i]->n;
    return n;
}

bool peers_tick(struct manager *m) {
    bool more = false;
    for (uint32_t i = 0; m->peers && i < m->setup->managers; i++) {
        struct peer *p = m->peers[i];
        for (unsigned k = 0; p && k < p->n && !p->down; k++) {
            struct peer_link *l = &p->link[k];
            if (!link_serves(l) || l->up)
                continue;
            link_tick(l->link, m->now);
            more |= !l->up && !l->down;
        }
    }
    return more;
}

static void links_free(struct peer *p) {
    for (unsigned k = 0; k < p->n; k++) {
        link_free(p->link[k].link);
        p->link[k].link = NULL;
    }
    p->n = 0;
}

static void peer_reap(struct peer *p) {
    struct manager *m = p->m;
    char text[256];
    peer_text(p, p->n > 0 && p->link[0].up, p->down, text, sizeof text);
    bool gone = p->where == SHADOW_NONE;
    if (gone)
        snprintf(text, sizeof text, "manager %u is lost with its node %s", p->id,
                 peer_node(m->setup, p->id));
    else if (p->moved)
        snprintf(text, sizeof text, "the keys of manager %u are served on %s from now on", p->id,
                 peer_node(m->setup, p->where));
    bool known = p->away_ns && !p->moved;
    log_line(m->ending || known ? LOG_LVL_DEBUG : LOG_LVL_WARN, "%s", text);
    links_free(p);
    p->vain = p->moved ? 0 : p->advances ? 1 : p->vain + 1;
    p->pace = p->vain > 1 ? 1 : UINT_MAX;
    p->settled = p->moved; /* of the process before nothing is taken any more */
    p->advances = p->moved = false;
    bool broken = p->down == DDICT_EPROTO; /* it would be so again */
    bool patient = m->setup->survives || p->vain <= DD_PEER_TRIES;
    bool again = !gone && (!m->setup->ledger || (patient && !broken));
    int code = p->down;
    p->down = 0;
    peers_use->lost(m, p, text, again && !m->ending);
    m->up->popped_alone(m, p->id); /* of what is not in p->again */
    if (p->again)
        peer_is_away(p);
    if (p->again && m->setup->ledger && p->vain > 1)
        peer_retry_later(p, code);
    else
        peer_retry(p);
}

void peers_reap(struct manager *m) {
    for (uint32_t i = 0; m->peers && i < m->setup->managers; i++) {
        struct peer *p = m->peers[i];
        for (unsigned k = 1; p && !p->down && k < p->n; k++)
            if (p->link[k].down && p->link[k].link)
                link_reap(p, &p->link[k]);
        if (p && p->down)
            peer_reap(p);
    }
}

void peers_end(struct manager *m) {
    for (uint32_t i = 0; m->peers && i < m->setup->managers; i++) {
        if (!m->peers[i])
            continue;
        links_free(m->peers[i]);
        timer_clear(&m->timers, &m->peers[i]->retry);
        peers_use->lost(m, m->peers[i], "the dictionary has ended", false);
        free(m->peers[i]);
    }
    free(m->peers);
    free(m->primaries);
    free(m->refilling);
    m->peers = NULL;
    free(m->primary_ports);
    m->primaries = NULL;
    m->refilling = NULL;
    m->primary_ports = NULL;
}
