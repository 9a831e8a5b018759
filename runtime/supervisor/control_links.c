/* SPDX-License-Identifier: Apache-2.0 */
/* control_links.c - the connections to other ddictds. */
#include "control.h"
#include "control_inside.h"
#include "coordinator.h"
#include "election.h"
#include "grants.h"
#include "managers.h"
#include "supervisor.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define YOUNG_MS    100u /* between beats while a connection is in its handshake */
#define BEAT_SLOWED 1u   /* in aux of a BEAT; above it its number (grants.h) */

void ctl_conn_send(struct ctl_conn *cc, unsigned type, uint32_t manager, uint64_t aux,
                   const void *payload, size_t len) {
    struct msg m = {.type = (uint16_t)type, .manager = manager, .aux = aux};
    if (cc && cc->conn && !cc->dead)
        conn_send(cc->conn, &m, payload, len, NULL, 0, NULL, NULL);
}

void lost_send(struct ctl_conn *cc) {
    const struct supervisor *s = cc->s;
    struct msg m = {.type = MSG_CTL_LOST,
                    .manager = s->lost_manager,
                    .aux = s->lost_node,
                    .tag = s->lost_memory};
    if (cc->conn && !cc->dead)
        conn_send(cc->conn, &m, s->text, strlen(s->text), NULL, 0, NULL, NULL);
}

void ctl_conns_send(struct supervisor *s, unsigned type, uint32_t manager, uint64_t aux,
                    const char *text) {
    if (!s->control)
        return;
    for (struct ctl_conn *cc = s->control->conns; cc; cc = cc->next)
        if (cc == s->control->parent || is_below(cc, s->control->parent))
            ctl_conn_send(cc, type, manager, aux, text, text ? strlen(text) : 0);
}

static void ctl_conn_heard(struct ctl_conn *cc) {
    uint64_t now = timers_now(&cc->s->timers);
    if (now - cc->heard > DD_PEER_QUIET_MS * 1000000ull) {
        cc->quiet = now - cc->heard;
        cc->quiet_at = now;
    }
    cc->heard = now;
}

static uint64_t beat_aux(const struct supervisor *s, uint32_t number) {
    return (uint64_t)number << 1 | (s->slowed_to ? BEAT_SLOWED : 0);
}

/* A node that was given up is not answered, so it serves no more. */
static void beat_take(struct ctl_conn *cc, const struct msg *m) {
    struct supervisor *s = cc->s;
    uint32_t number = (uint32_t)(m->aux >> 1);
    cc->slowed = m->aux & BEAT_SLOWED;
    if (cc == s->control->parent)
        grants_heard(s, number);
    else if (number && control_decides(s) && s->control->nodes[cc->node].child == cc)
        grants_asked(s, cc->node, number);
}

void control_grant(struct supervisor *s, uint32_t node, uint32_t number) {
    ctl_conn_send(s->control->nodes[node].child, MSG_CTL_BEAT, UINT32_MAX, beat_aux(s, number),
                  NULL, 0);
}

static enum control_from from_of(const struct ctl_conn *cc) {
    return cc->votes                      ? FROM_VOTER
           : cc == cc->s->control->parent ? FROM_PARENT
           : control_decides(cc->s)       ? FROM_CHILD
                                          : FROM_ORPHAN;
}

static int ctl_conn_message(struct conn *c, void *arg, const struct msg *m, void *payload) {
    struct ctl_conn *cc = arg;
    struct supervisor *s = cc->s;
    size_t len = m->len - MSG_HEADER;
    if (cc->dead)
        return 0;
    if (coordinator_is_lost(s, cc->node)) {
        if (m->type == MSG_CTL_VOTE)
            cut_off_tell(cc, cc->node);
        return 0;
    }
    ctl_conn_heard(cc);
    if (m->type == MSG_CTL_BEAT)
        beat_take(cc, m);
    struct control_said said = {.from = from_of(cc),
                                .by = cc,
                                .node = cc->node,
                                .type = m->type,
                                .manager = m->manager,
                                .aux = m->aux,
                                .tag = m->tag,
                                .payload = payload,
                                .len = len};
    int e = s->control->heard(s, &said);
    if (e < 0)
        log_debug("node %u: %s of %zu bytes makes no sense", cc->node, msg_name(m->type), len);
    if (e > 0)
        ctl_conn_send(s->control->parent, m->type, m->manager, m->aux, payload, len);
    return e < 0 ? e : 0;
}

/* DONE: it writes no record. */
void cut_off_tell(struct ctl_conn *cc, uint32_t node) {
    struct supervisor *s = cc->s;
    struct msg m = {.type = MSG_CTL_LOST, .manager = UINT32_MAX, .aux = node};
    char text[NODE_NAME_MAX + 96];
    int n =
        snprintf(text, sizeof text, "node %s was cut off from the others, which go on without it",
                 node_name(s, node));
    conn_send(cc->conn, &m, text, (size_t)n, NULL, 0, NULL, NULL);
    m = (struct msg){.type = MSG_CTL_DONE, .manager = UINT32_MAX};
    conn_send(cc->conn, &m, NULL, 0, NULL, 0, NULL, NULL);
    conn_flush(cc->conn);
}

void undecide_tell(struct ctl_conn *cc) {
    ctl_conn_send(cc, MSG_CTL_VOTED, 0, cc->s->election->term, NULL, 0);
    if (!cc->dead)
        conn_flush(cc->conn);
    cc->dead = true;
}

static void ctl_conn_up(struct conn *conn, void *arg, uint32_t peer, enum conn_role role) {
    struct ctl_conn *cc = arg;
    struct supervisor *s = cc->s;
    struct control *c = s->control;
    cc->up = true;
    cc->began = cc->heard = timers_now(&s->timers);
    if (cc->probes) {
        if (c->parent && c->parent->node == cc->node)
            ctl_conn_heard(c->parent);
        cc->dead = true;
        c->probe = NULL;
        return;
    }
    if (cc->votes) {
        election_connected(s, cc->node);
        return;
    }
    if (role == ROLE_VOTE && s->election && peer < s->nodes && peer != s->node_id) {
        cc->node = peer;
        cc->votes = true;
        return;
    }
    /* a probe: our child has not heard us for a while */
    if (role == ROLE_CONTROL && peer < s->nodes && c->nodes[peer].child) {
        ctl_conn_heard(c->nodes[peer].child);
        cc->dead = true;
        return;
    }
    if (cc == c->parent) {
        timer_clear(&s->timers, &c->attempt);
        c->search_until = 0;
        return;
    }
    if (role != ROLE_CONTROL || peer <= s->node_id || peer >= s->nodes) {
        log_warn("a control connection of node %u makes no sense and is closed", peer);
        cc->dead = true;
        return;
    }
    if (coordinator_is_lost(s, peer)) {
        cut_off_tell(cc, peer);
        cc->node = peer;
        return;
    }
    cc->node = peer;
    c->nodes[peer].child = cc;
    /* an orphan that brings its statistics; it hears of the end when they are in */
    if (c->released || c->head)
        return;
    if (s->lost)
        lost_send(cc);
    else if (s->stage == STAGE_DRAINING || s->stage == STAGE_SAVING)
        ctl_conn_send(cc, MSG_CTL_DRAIN, s->reason, (uint64_t)s->opt.drain_ms, NULL, 0);
}

static void ctl_conn_down(struct conn *conn, void *arg, int code) {
    struct ctl_conn *cc = arg;
    struct control *c = cc->s->control;
    uint64_t now = timers_now(&cc->s->timers), silent = now - cc->heard;
    char how[96];
    bool was_dead = cc->dead;
    cc->dead = true;
    if (c->probe == cc)
        c->probe = NULL;
    if (c->nodes[cc->node].asks == cc)
        c->nodes[cc->node].asks = NULL;
    if (was_dead || cc->probes || cc->votes)
        return;
    /* after a silence the other end may have taken us for lost */
    if (silent < DD_PEER_QUIET_MS * 1000000ull && cc->quiet_at &&
        now - cc->quiet_at < DD_CONN_LOST_MS * 1000000ull)
        silent = cc->quiet;
    if (code != -ECONNRESET)
        snprintf(how, sizeof how, "%s", dd_strerror(code));
    else if (silent < DD_PEER_QUIET_MS * 1000000ull)
        snprintf(how, sizeof how, "its ddictd ended");
    else
        snprintf(how, sizeof how, "silent for %u s, then it closed the connection",
                 (unsigned)(silent / 1000000000));
    if (cc == c->parent)
        parent_lost(cc->s, how, code == -ECONNRESET && silent < DD_PEER_QUIET_MS * 1000000ull);
    else if (cc->up && c->nodes[cc->node].child == cc)
        child_lost(cc->s, cc->node, how);
    else if (code == DDICT_EAUTH || code == DDICT_EPROTO)
        control_note_stranger(cc->s, dd_strerror(code));
}

static const struct conn_ops ctl_conn_ops = {
    .up = ctl_conn_up, .message = ctl_conn_message, .down = ctl_conn_down};

/* --- the beat: also enforces the deadlines of connections and frees dead ones --- */
void ctl_conns_free_dead(struct control *c) {
    for (struct ctl_conn **at = &c->conns; *at;) {
        struct ctl_conn *cc = *at;
        if (!cc->dead) {
            at = &cc->next;
            continue;
        }
        *at = cc->next;
        conn_free(cc->conn);
        free(cc);
    }
}

static struct ctl_conn *ctl_conn_new(struct supervisor *s) {
    struct ctl_conn *cc = calloc(1, sizeof *cc);
    if (!cc)
        return NULL;
    cc->s = s;
    cc->heard = timers_now(&s->timers);
    return cc;
}

/* Our parent is quiet: does it answer a new connection? One that the kernel slows is not asked: it
 * would have to take memory for each, and stop for it. */
static void parent_probe(struct control *c, uint64_t now) {
    struct supervisor *s = c->s;
    if (c->probe && now - c->probe->began < DD_PEER_BEAT_MS * 1000000ull)
        return;
    if (c->probe)
        c->probe->dead = true;
    c->probe = NULL;
    if (!c->parent || !c->parent->up || c->parent->slowed || c->released ||
        now - c->parent->heard < DD_PEER_QUIET_MS * 1000000ull)
        return;
    struct ctl_conn *cc = ctl_conn_new(s);
    const struct node_address *at = &s->control_at[c->parent->node];
    if (!cc)
        return;
    cc->probes = true;
    cc->node = c->parent->node;
    cc->began = now;
    if (conn_open(&cc->conn, s->epoll_fd, &s->identity, ROLE_CONTROL, cc->node, at->addr, at->naddr,
                  &ctl_conn_ops, cc) < 0) {
        free(cc);
        return;
    }
    cc->next = c->conns;
    c->conns = c->probe = cc;
}

/* Silence after which it is lost. Where others have all that it has it is awaited no longer than its
 * lease; else, and where the kernel slows it, its loss is worth a longer wait. */
static unsigned patience_ms(const struct ctl_conn *cc) {
    const struct supervisor *s = cc->s;
    if (cc->slowed)
        return DD_PEER_SLOWED_MS;
    bool can_lose = cc == s->control->parent ? election_can_lose(s, cc->node)
                                             : coordinator_can_lose(s, cc->node);
    return cc->votes || (can_lose && coordinator_can_spare(s, cc->node)) ? DD_LEASE_WAIT_MS
                                                                         : DD_PEER_LOST_MS;
}

/* It is silent. */
static void ctl_conn_lost(struct ctl_conn *cc, unsigned limit_ms) {
    struct supervisor *s = cc->s;
    struct control *c = s->control;
    char how[96];
    snprintf(how, sizeof how, "silent for %u s%s", limit_ms / 1000,
             cc->slowed ? ", since the kernel slowed it (memory.high)" : "");
    cc->dead = true;
    if (cc == c->parent)
        parent_lost(s, how, false);
    else if (c->nodes[cc->node].asks == cc)
        c->nodes[cc->node].asks = NULL;
    else if (c->nodes[cc->node].child == cc) /* not one that was lost before */
        child_lost(s, cc->node, how);
}

static void beat_fire(struct timer *t) {
    struct control *c = (struct control *)(void *)((char *)t - offsetof(struct control, beat));
    struct supervisor *s = c->s;
    uint64_t now = timers_now(&s->timers), tick = clock_ns();
    bool young = false; /* a connection is in its handshake: look more often */
    for (struct ctl_conn *cc = c->conns; cc; cc = cc->next) {
        if (cc->dead)
            continue;
        conn_tick(cc->conn, tick);
        if (cc->dead)
            continue;
        young |= !cc->up;
        if (!cc->up)
            continue;
        ctl_conn_send(cc, MSG_CTL_BEAT, UINT32_MAX,
                      beat_aux(s, cc == c->parent ? grants_beat(s) : 0), NULL, 0);
        unsigned limit = patience_ms(cc);
        /* its lease counts from what was heard, whatever is on its way */
        unsigned more = limit == DD_LEASE_WAIT_MS ? 0 : DD_PEER_BEAT_MS + DD_PEER_BEAT_MS / 2;
        if (now > cc->heard + (limit + more) * 1000000ull)
            ctl_conn_lost(cc, limit);
        orphan_check(s, cc);
    }
    grants_round(s);
    election_look(s);
    parent_probe(c, now);
    young |= c->probe != NULL;
    ctl_conns_free_dead(c);
    timer_after(&s->timers, t, (young ? YOUNG_MS : DD_PEER_BEAT_MS) * 1000000ull);
}

/* --- new ones --- */
static void ctl_conn_add(struct ctl_conn *cc) {
    struct control *c = cc->s->control;
    struct timers *ts = &cc->s->timers;
    cc->next = c->conns;
    c->conns = cc;
    if (!c->beat.pos || c->beat.at_ns > timers_now(ts) + YOUNG_MS * 1000000ull)
        timer_after(ts, &c->beat, YOUNG_MS * 1000000ull);
}

static void control_accept(struct io_handler *h, uint32_t events) {
    struct control *c = (struct control *)(void *)((char *)h - offsetof(struct control, listener));
    for (int i = 0; i < 64; i++) {
        int fd = conn_take(h->fd);
        if (fd < 0)
            return;
        struct ctl_conn *cc = ctl_conn_new(c->s);
        if (!cc) {
            close(fd);
            return;
        }
        if (conn_accept(&cc->conn, c->s->epoll_fd, &c->s->identity, fd, &ctl_conn_ops, cc) < 0)
            free(cc);
        else
            ctl_conn_add(cc);
    }
}

static struct ctl_conn *ctl_conn_open(struct supervisor *s, uint32_t node, enum conn_role role,
                                      int *e) {
    struct ctl_conn *cc = ctl_conn_new(s);
    const struct node_address *at = &s->control_at[node];
    *e = -ENOMEM;
    if (!cc)
        return NULL;
    cc->node = node;
    cc->votes = role == ROLE_VOTE;
    *e = conn_open(&cc->conn, s->epoll_fd, &s->identity, role, node, at->addr, at->naddr,
                   &ctl_conn_ops, cc);
    if (*e < 0) {
        free(cc);
        return NULL;
    }
    ctl_conn_add(cc);
    return cc;
}

int parent_open(struct supervisor *s, uint32_t node) {
    int e;
    struct ctl_conn *cc = ctl_conn_open(s, node, ROLE_CONTROL, &e);
    if (!cc)
        return e;
    if (s->stage == STAGE_STARTING)
        conn_patience(cc->conn, s->opt.ready_ms);
    s->control->parent = cc;
    return 0;
}

/* --- for votes --- */
void control_ask(struct supervisor *s, uint32_t node) {
    struct node_state *n = &s->control->nodes[node];
    int e = 0;
    if (!n->asks)
        n->asks = ctl_conn_open(s, node, ROLE_VOTE, &e);
    if (e < 0)
        log_debug("node %s can not be asked: %s", node_name(s, node), dd_strerror(e));
}

void control_ask_send(struct supervisor *s, uint32_t node, unsigned type, uint64_t aux) {
    struct ctl_conn *cc = s->control->nodes[node].asks;
    if (cc && cc->up)
        ctl_conn_send(cc, type, UINT32_MAX, aux, NULL, 0);
}

void control_answer(struct supervisor *s, const struct control_said *to, unsigned type,
                    uint32_t manager, uint64_t aux, const void *bytes, size_t len) {
    ctl_conn_send(to->by, type, manager, aux, bytes, len);
}

int control_listen(struct supervisor *s) {
    if (s->nodes == 1)
        return 0;
    s->control_fd = port_listen(s, &s->control_port);
    return s->control_fd < 0 ? s->control_fd : 0;
}

int ctl_conns_listen(struct control *c) {
    c->beat.fire = beat_fire;
    c->listener = (struct io_handler){.fd = c->s->control_fd, .ready = control_accept};
    return io_add(c->s->epoll_fd, &c->listener, EPOLLIN);
}
