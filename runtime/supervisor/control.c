/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - the ddictds of a dictionary: each connects to that of node 0, its parent, which says
 * when all are ready, when to drain, and when to end. Both ends send a beat every DD_PEER_BEAT_MS.
 * A node that is silent for DD_PEER_LOST_MS, or whose connection ends without being announced, is
 * lost, and node 0 tells the others.
 *
 * A node that loses its parent before the parent said DONE looks for another one among the nodes
 * with lower ids, in order. A node that finds none is the head: it gathers the statistics and
 * writes the record. A node that such an orphan asks passes the orphan's messages on to its own
 * parent, so one wrong guess about which nodes live does not make a second head.
 */
#include "control.h"

#include "attach_counts.h"
#include "figures.h"
#include "life_events.h"
#include "managers.h"
#include "record.h"
#include "supervisor.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define YOUNG_MS 100u /* between beats while a connection is in its handshake */

struct ctl_conn { /* a connection to another ddictd */
    struct supervisor *s;
    struct ctl_conn *next;
    struct conn *conn;
    uint32_t node; /* at the other end; of a child known from `up` on */
    bool up, dead; /* dead: freed by the beat */
    bool probes;   /* opened because our parent is quiet; it only has to come up */
    uint64_t began;
    /* the last silence that was longer than DD_PEER_QUIET_MS, and when it ended */
    uint64_t quiet, quiet_at;
    /* by the clock of our timers: what comes late because we were stopped is not late */
    uint64_t heard;
};
struct node_state {
    struct ctl_conn *child; /* a child */
    bool ready, drained;    /* node 0 only */
    bool ended;             /* it gave its statistics, or is gone */
    bool dead;              /* cannot be our parent */
};
struct control {
    struct supervisor *s;
    control_heard *heard;
    struct io_handler listener;
    struct ctl_conn *probe;          /* of conns; NULL: none */
    struct ctl_conn *conns, *parent; /* parent: of these; NULL: we are the head, or look for one */
    struct node_state *nodes;        /* [nodes] */
    struct timer beat, attempt;
    bool ready;          /* our own managers are */
    bool gave;           /* our own figures */
    bool head, released; /* released: the parent said DONE */
};

const char *node_name(const struct supervisor *s, uint32_t id) {
    return id < s->nodes && s->node_names[id][0] ? s->node_names[id] : "?";
}

static void parent_find(struct supervisor *s);

static void ctl_conn_send(struct ctl_conn *cc, unsigned type, uint32_t manager, uint64_t aux,
                          const void *payload, size_t len) {
    struct msg m = {.type = (uint16_t)type, .manager = manager, .aux = aux};
    if (cc && cc->conn && !cc->dead)
        conn_send(cc->conn, &m, payload, len, NULL, 0, NULL, NULL);
}

static void lost_send(struct ctl_conn *cc) {
    const struct supervisor *s = cc->s;
    struct msg m = {.type = MSG_CTL_LOST,
                    .manager = s->lost_manager,
                    .aux = s->lost_node,
                    .tag = s->lost_memory};
    if (cc->conn && !cc->dead)
        conn_send(cc->conn, &m, s->text, strlen(s->text), NULL, 0, NULL, NULL);
}

static void ctl_conns_send(struct supervisor *s, unsigned type, uint32_t manager, uint64_t aux,
                           const char *text) {
    if (!s->control)
        return;
    for (struct ctl_conn *cc = s->control->conns; cc; cc = cc->next)
        if (cc->up || cc == s->control->parent)
            ctl_conn_send(cc, type, manager, aux, text, text ? strlen(text) : 0);
}

/* --- the states of other nodes --- */
static void all_ready_check(struct supervisor *s) {
    struct control *c = s->control;
    if (!c->ready)
        return;
    for (uint32_t i = 1; i < s->nodes; i++)
        if (!c->nodes[i].ready)
            return;
    if (s->stage != STAGE_STARTING)
        return;
    ctl_conns_send(s, MSG_CTL_READY, UINT32_MAX, 0, NULL);
    supervisor_ready(s);
}

void control_node_ended(struct supervisor *s, uint32_t node) {
    struct control *c = s->control;
    c->nodes[node].ended = true;
    if (c->parent)
        ctl_conn_send(c->parent, MSG_CTL_END, UINT32_MAX, node, NULL, 0);
    lifecycle_check(s);
}

/* The connection to our parent has ended, or it is silent. */
static void parent_lost(struct supervisor *s, const char *how) {
    struct control *c = s->control;
    uint32_t node = c->parent->node;
    c->parent->dead = true;
    c->parent = NULL;
    c->nodes[node].dead = c->nodes[node].ended = true;
    if (s->stage < STAGE_ENDING && !s->lost) {
        s->lost_node = node;
        supervisor_lost(s, "node %s is lost: %s", node_name(s, node), how);
    }
    if (!c->released)
        parent_find(s);
    lifecycle_check(s);
}

static void child_lost(struct supervisor *s, uint32_t node, const char *how) {
    s->control->nodes[node].child = NULL;
    s->control->nodes[node].ended = s->control->nodes[node].dead = true;
    if (s->node_id == 0 && s->stage < STAGE_ENDING && !s->lost) {
        s->lost_node = node;
        supervisor_lost(s, "node %s is lost: %s", node_name(s, node), how);
    }
    control_node_ended(s, node);
}

/* --- what is heard --- */
void control_node_ready(struct supervisor *s, uint32_t node) {
    s->control->nodes[node].ready = true;
    all_ready_check(s);
}

void control_node_drained(struct supervisor *s, uint32_t node, bool drained) {
    s->control->nodes[node].drained = drained;
    lifecycle_check(s);
}

void control_done(struct supervisor *s) {
    s->control->released = true;
    control_release(s); /* our own children */
    lifecycle_check(s);
}

void control_node_silent(struct supervisor *s, uint32_t node) {
    const struct ctl_conn *parent = s->control->parent;
    if (parent && parent->node == node &&
        timers_now(&s->timers) > parent->heard + 2 * DD_PEER_BEAT_MS * 1000000ull)
        parent_lost(s, "silent");
}

static void ctl_conn_heard(struct ctl_conn *cc) {
    uint64_t now = timers_now(&cc->s->timers);
    if (now - cc->heard > DD_PEER_QUIET_MS * 1000000ull) {
        cc->quiet = now - cc->heard;
        cc->quiet_at = now;
    }
    cc->heard = now;
}

static int ctl_conn_message(struct conn *c, void *arg, const struct msg *m, void *payload) {
    struct ctl_conn *cc = arg;
    struct supervisor *s = cc->s;
    size_t len = m->len - MSG_HEADER;
    if (cc->dead)
        return 0;
    ctl_conn_heard(cc);
    struct control_said said = {.from = cc == s->control->parent ? FROM_PARENT
                                        : s->node_id == 0        ? FROM_CHILD
                                                                 : FROM_ORPHAN,
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

static void ctl_conn_up(struct conn *conn, void *arg, uint32_t peer, enum conn_role role) {
    struct ctl_conn *cc = arg;
    struct supervisor *s = cc->s;
    struct control *c = s->control;
    cc->up = true;
    cc->heard = timers_now(&s->timers);
    if (cc->probes) {
        if (c->parent && c->parent->node == cc->node)
            ctl_conn_heard(c->parent);
        cc->dead = true;
        c->probe = NULL;
        return;
    }
    /* a probe: our child has not heard us for a while */
    if (role == ROLE_CONTROL && peer > s->node_id && peer < s->nodes && c->nodes[peer].child) {
        ctl_conn_heard(c->nodes[peer].child);
        cc->dead = true;
        return;
    }
    if (cc == c->parent) {
        timer_clear(&s->timers, &c->attempt);
        return;
    }
    if (role != ROLE_CONTROL || peer <= s->node_id || peer >= s->nodes) {
        log_warn("a control connection of node %u makes no sense and is closed", peer);
        cc->dead = true;
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
    if (was_dead || cc->probes)
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
        parent_lost(cc->s, how);
    else if (cc->up && c->nodes[cc->node].child == cc)
        child_lost(cc->s, cc->node, how);
    else if (code == DDICT_EAUTH || code == DDICT_EPROTO)
        control_note_stranger(cc->s, dd_strerror(code));
}

static const struct conn_ops ctl_conn_ops = {
    .up = ctl_conn_up, .message = ctl_conn_message, .down = ctl_conn_down};

/* --- the beat: also enforces the deadlines of connections and frees dead ones --- */
static void ctl_conns_free_dead(struct control *c) {
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

static struct ctl_conn *ctl_conn_new(struct supervisor *s);

/* Our parent is quiet: does it answer a new connection? */
static void parent_probe(struct control *c, uint64_t now) {
    struct supervisor *s = c->s;
    if (c->probe && now - c->probe->began < DD_PEER_BEAT_MS * 1000000ull)
        return;
    if (c->probe)
        c->probe->dead = true;
    c->probe = NULL;
    if (!c->parent || !c->parent->up || c->released ||
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
        ctl_conn_send(cc, MSG_CTL_BEAT, UINT32_MAX, 0, NULL, 0);
        if (now >
            cc->heard + (DD_PEER_LOST_MS + DD_PEER_BEAT_MS + DD_PEER_BEAT_MS / 2) * 1000000ull) {
            char how[64];
            snprintf(how, sizeof how, "silent for %d s", DD_PEER_LOST_MS / 1000);
            cc->dead = true;
            if (cc == c->parent)
                parent_lost(s, how);
            else
                child_lost(s, cc->node, how);
        }
    }
    parent_probe(c, now);
    young |= c->probe != NULL;
    ctl_conns_free_dead(c);
    timer_after(&s->timers, t, (young ? YOUNG_MS : DD_PEER_BEAT_MS) * 1000000ull);
}

static struct ctl_conn *ctl_conn_new(struct supervisor *s) {
    struct ctl_conn *cc = calloc(1, sizeof *cc);
    if (!cc)
        return NULL;
    cc->s = s;
    cc->heard = timers_now(&s->timers);
    return cc;
}

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

/* --- a parent --- */
static int parent_open(struct supervisor *s, uint32_t node) {
    struct ctl_conn *cc = ctl_conn_new(s);
    const struct node_address *at = &s->control_at[node];
    if (!cc)
        return -ENOMEM;
    cc->node = node;
    int e = conn_open(&cc->conn, s->epoll_fd, &s->identity, ROLE_CONTROL, node, at->addr, at->naddr,
                      &ctl_conn_ops, cc);
    if (e < 0) {
        free(cc);
        return e;
    }
    s->control->parent = cc;
    ctl_conn_add(cc);
    return 0;
}

/* Milliseconds for each node that is asked, so that all of them fit into DD_FAILOVER_MS. */
static unsigned attempt_ms(uint32_t nodes) {
    unsigned ms = DD_FAILOVER_MS / (nodes ? nodes : 1);
    return ms > DD_FAILOVER_ONE_MS ? DD_FAILOVER_ONE_MS : ms < 20 ? 20 : ms;
}

static void attempt_fire(struct timer *t) {
    struct control *c = (struct control *)(void *)((char *)t - offsetof(struct control, attempt));
    if (c->parent && !c->parent->up)
        parent_lost(c->s, "no answer");
}

static void parent_find(struct supervisor *s) {
    struct control *c = s->control;
    if (!s->was_ready) { /* there is nothing to record */
        c->released = true;
        return;
    }
    for (uint32_t id = 0; id < s->node_id; id++) {
        if (c->nodes[id].dead || parent_open(s, id) < 0)
            continue;
        log_info("asks node %s to write the record", node_name(s, id));
        timer_after(&s->timers, &c->attempt, attempt_ms(s->node_id) * 1000000ull);
        if (s->lost)
            lost_send(c->parent);
        if (c->gave)
            control_stats_send(s);
        return;
    }
    timer_clear(&s->timers, &c->attempt);
    c->head = true;
    lifecycle_become_head(s);
}

/* --- ours --- */
int control_listen(struct supervisor *s) {
    if (s->nodes == 1)
        return 0;
    s->control_fd = port_listen(s, &s->control_port);
    return s->control_fd < 0 ? s->control_fd : 0;
}

int control_start(struct supervisor *s, control_heard *heard) {
    if (s->nodes == 1)
        return 0;
    struct control *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->s = s;
    c->heard = heard;
    c->beat.fire = beat_fire;
    c->attempt.fire = attempt_fire;
    s->control = c;
    s->identity.self = s->node_id;
    /* few messages, but every node acts on each of them */
    if (s->identity.wire < SEAL_AUTH)
        s->identity.wire = SEAL_AUTH;
    conn_strangers(2 * s->nodes + DD_STRANGERS);
    c->nodes = calloc(s->nodes, sizeof *c->nodes);
    if (!c->nodes)
        return -ENOMEM;
    c->listener = (struct io_handler){.fd = s->control_fd, .ready = control_accept};
    c->head = s->node_id == 0;
    int e = io_add(s->epoll_fd, &c->listener, EPOLLIN);
    if (e < 0 || c->head)
        return e;
    if ((e = parent_open(s, 0)) < 0)
        return dd_error(e, "node %s can not be reached: %s", node_name(s, 0), dd_strerror(e));
    return 0;
}

void control_ready(struct supervisor *s) {
    if (!s->control) {
        supervisor_ready(s);
        return;
    }
    s->control->ready = true;
    if (s->node_id == 0)
        all_ready_check(s);
    else
        ctl_conn_send(s->control->parent, MSG_CTL_READY, UINT32_MAX, 0, NULL, 0);
}

void control_drain(struct supervisor *s, int wait_ms) {
    ctl_conns_send(s, MSG_CTL_DRAIN, s->reason, (uint64_t)wait_ms, NULL);
}

void control_drained(struct supervisor *s) {
    if (s->control)
        ctl_conn_send(s->control->parent, MSG_CTL_DRAINED, UINT32_MAX, s->attached, NULL, 0);
}

void control_lost(struct supervisor *s) {
    if (!s->control)
        return;
    for (struct ctl_conn *cc = s->control->conns; cc; cc = cc->next)
        if (cc->up || cc == s->control->parent)
            lost_send(cc);
}

void control_end(struct supervisor *s) {
    if (s->node_id == 0)
        ctl_conns_send(s, MSG_CTL_END, UINT32_MAX, 0, NULL);
}

static void figures_send(const struct supervisor *s, struct ctl_conn *cc) {
    for (uint32_t m = 0; m < s->managers; m++) {
        const struct manager_stats *stats = figures_of(s, m);
        if (stats)
            ctl_conn_send(cc, MSG_CTL_STATS, m, 0, stats, sizeof *stats);
    }
}
static void attach_count_send(void *arg, uint32_t node, const char *step, uint64_t n) {
    ctl_conn_send(arg, MSG_CTL_STEP, node, n, step, strlen(step));
}

void control_stats_send(struct supervisor *s) {
    struct control *c = s->control;
    if (!c)
        return;
    c->gave = true;
    if (!c->parent)
        return;
    figures_send(s, c->parent);
    attach_counts_each(s, attach_count_send, c->parent);
    ctl_conn_send(c->parent, MSG_CTL_END, UINT32_MAX, s->node_id, NULL, 0);
    for (uint32_t i = 0; i < s->nodes; i++)
        if (c->nodes[i].ended && !c->nodes[i].dead)
            ctl_conn_send(c->parent, MSG_CTL_END, UINT32_MAX, i, NULL, 0);
    conn_flush(c->parent->conn);
}

void control_note(struct supervisor *s, const struct note *n) {
    if (control_is_head(s))
        record_note(s, n);
    else
        ctl_conn_send(s->control->parent, MSG_CTL_NOTE, UINT32_MAX, 0, n, sizeof *n);
}

bool control_note_stranger(struct supervisor *s, const char *why) {
    struct note n = {.kind = NOTE_REFUSED, .manager = UINT32_MAX};
    uint64_t now = clock_ns();
    s->strangers.count++;
    if (s->strangers.said && now - s->strangers.said < DD_NOTE_MS * 1000000ull)
        return false;
    n.count = s->strangers.count;
    s->strangers = (struct note_pace){.said = now};
    snprintf(n.node, sizeof n.node, "%s", s->node);
    snprintf(n.text, sizeof n.text, "%s", why);
    control_note(s, &n);
    return true;
}

void control_rendezvous(struct supervisor *s, uint32_t to, uint32_t node, uint16_t port,
                        const char *step) {
    if (s->control)
        ctl_conn_send(to == UINT32_MAX ? s->control->parent : s->control->nodes[to].child,
                      MSG_CTL_MEET, node, port, step, strlen(step));
}

bool control_is_head(const struct supervisor *s) {
    return !s->control || s->control->head;
}
bool control_released(const struct supervisor *s) {
    return s->control && s->control->released;
}

void control_parent_late(struct supervisor *s) {
    if (s->control && s->control->parent && !s->control->released)
        parent_lost(s, "no answer");
}

void control_tasks(struct supervisor *s, uint32_t came, uint32_t here) {
    if (s->control)
        ctl_conn_send(s->control->parent, MSG_CTL_TASKS, came, here, NULL, 0);
}

static void payload_send(struct supervisor *s, unsigned type, uint32_t to, const void *word,
                         size_t len) {
    struct control *c = s->control;
    if (!c)
        return;
    for (struct ctl_conn *cc = c->conns; cc; cc = cc->next) {
        bool parent = cc == c->parent;
        if (to == CONTROL_PARENT ? parent
                                 : cc->up && !parent && (to == CONTROL_CHILDREN || cc->node == to))
            ctl_conn_send(cc, type, UINT32_MAX, 0, word, len);
    }
}

void control_freeze(struct supervisor *s, uint32_t to, const void *word, size_t len) {
    payload_send(s, MSG_CTL_FREEZE, to, word, len);
}
void control_save(struct supervisor *s, uint32_t to, const void *word, size_t len) {
    payload_send(s, MSG_CTL_SAVE, to, word, len);
}

void control_release(struct supervisor *s) {
    struct control *c = s->control;
    if (!c)
        return;
    for (struct ctl_conn *cc = c->conns; cc; cc = cc->next) {
        if (cc->dead || !cc->up || cc == c->parent)
            continue;
        ctl_conn_send(cc, MSG_CTL_DONE, UINT32_MAX, 0, NULL, 0);
        conn_flush(cc->conn);
    }
}

bool control_alone(const struct supervisor *s) {
    for (struct ctl_conn *cc = s->control ? s->control->conns : NULL; cc; cc = cc->next)
        if (!cc->dead && cc->up && cc != s->control->parent)
            return false;
    return true;
}

bool control_all_drained(const struct supervisor *s) {
    for (uint32_t i = 1; i < s->nodes; i++)
        if (!s->control->nodes[i].drained)
            return false;
    return true;
}

bool control_all_ended(const struct supervisor *s) {
    if (!s->control)
        return true;
    for (uint32_t i = 0; i < s->nodes; i++)
        if (i != s->node_id && !s->control->nodes[i].ended)
            return false;
    return true;
}

void control_close(struct supervisor *s) {
    struct control *c = s->control;
    if (s->control_fd >= 0)
        close(s->control_fd);
    s->control_fd = -1;
    if (!c)
        return;
    timer_clear(&s->timers, &c->beat);
    timer_clear(&s->timers, &c->attempt);
    for (struct ctl_conn *cc = c->conns; cc; cc = cc->next) {
        if (!cc->dead)
            conn_flush(cc->conn);
        cc->dead = true;
    }
    ctl_conns_free_dead(c);
    free(c->nodes);
    free(c);
    s->control = NULL;
}
