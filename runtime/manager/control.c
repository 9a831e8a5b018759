/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - the ddictds of a dictionary: each connects to that of node 0, which says when all are ready, when to drain, and when to end. Both ends beat
 * every DD_PEER_BEAT_MS. Silence for DD_PEER_LOST_MS, or an end of the connection that was not announced, is a lost node, and node 0 tells the others.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <manager/supervisor.h>

#define YOUNG_MS 100u        /* between looks at connections while one is in its handshake */

struct star {                /* a connection: node 0 has one for each other node, the others one */
    struct supervisor *s;
    struct star *next;
    struct conn *conn;
    uint32_t node;           /* at the other end; known from `up` on */
    bool up, dead;           /* dead: freed by the beat */
    uint64_t heard;          /* by the clock of our timers: what comes late because we were stopped is not late */
};
struct node_state { struct star *star; bool ready, drained, ended; };
struct control {
    struct supervisor *s;
    struct io_handler listener;
    struct star *stars;
    struct node_state *nodes; /* node 0 only; [nodes] */
    struct timer beat;
    bool ready;               /* our own managers are */
    bool ended;               /* node > 0: node 0 sent END or is gone */
};

const char *node_name(const struct supervisor *s, uint32_t id) { return id < s->nodes && s->node_names[id][0] ? s->node_names[id] : "?"; }

static void star_send(struct star *st, unsigned type, uint32_t manager, uint64_t aux, const void *payload, size_t len) {
    struct msg m = {.type = (uint16_t)type, .manager = manager, .aux = aux};
    if (st && st->conn && !st->dead) conn_send(st->conn, &m, payload, len, NULL, 0, NULL, NULL);
}

static void stars_send(struct supervisor *s, unsigned type, uint64_t aux, const char *text) {
    if (!s->control) return;
    for (struct star *st = s->control->stars; st; st = st->next)
        if (st->up || s->node_id > 0) star_send(st, type, UINT32_MAX, aux, text, text ? strlen(text) : 0);
}

/* --- what the others say --- */
static void all_ready_look(struct supervisor *s) {
    struct control *c = s->control;
    if (!c->ready) return;
    for (uint32_t i = 1; i < s->nodes; i++)
        if (!c->nodes[i].ready) return;
    if (s->stage != STAGE_STARTING) return;
    stars_send(s, MSG_CTL_READY, 0, NULL);
    supervisor_ready(s);
}

static void lost_take(struct supervisor *s, const char *text, size_t len) {
    supervisor_lost(s, "%.*s", (int)(len < 400 ? len : 400), text);
}

/* Node 0 hears another node. */
static int take_at_head(struct star *st, const struct msg *m, const char *payload, size_t len) {
    struct supervisor *s = st->s;
    struct node_state *n = &s->control->nodes[st->node];
    switch (m->type) {
    case MSG_CTL_READY:
        n->ready = true;
        all_ready_look(s);
        return 0;
    case MSG_CTL_DRAIN: supervisor_drain(s, m->aux < 86400000 ? (int)m->aux : s->opt.drain_ms); return 0;
    case MSG_CTL_DRAINED:
        n->drained = m->aux == 0;
        ending_look(s);
        return 0;
    case MSG_CTL_STATS: {
        struct ddict_manager_stats stats;
        if (len != sizeof stats) return DDICT_EPROTO;
        memcpy(&stats, payload, sizeof stats);
        if (stats.manager_id % s->nodes != st->node) return DDICT_EPROTO;
        report_take(s, &stats);
        return 0;
    }
    case MSG_CTL_END:
        n->ended = true;
        ending_look(s);
        return 0;
    case MSG_CTL_LOST: lost_take(s, payload, len); return 0;
    case MSG_CTL_BEAT: return 0;
    default: return DDICT_EPROTO;
    }
}

/* Another node hears node 0. */
static int take_from_head(struct star *st, const struct msg *m, const char *payload, size_t len) {
    struct supervisor *s = st->s;
    switch (m->type) {
    case MSG_CTL_READY: supervisor_ready(s); return 0;
    case MSG_CTL_DRAIN: supervisor_drain(s, m->aux < 86400000 ? (int)m->aux : s->opt.drain_ms); return 0;
    case MSG_CTL_END: supervisor_end(s); return 0;
    case MSG_CTL_LOST: lost_take(s, payload, len); return 0;
    case MSG_CTL_BEAT: return 0;
    default: return DDICT_EPROTO;
    }
}

static int star_message(struct conn *c, void *arg, const struct msg *m, void *payload) {
    struct star *st = arg;
    size_t len = m->len - MSG_HEADER;
    st->heard = timers_now(&st->s->timers);
    return st->s->node_id == 0 ? take_at_head(st, m, payload, len) : take_from_head(st, m, payload, len);
}

static void star_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    struct star *st = arg;
    struct supervisor *s = st->s;
    st->up = true;
    st->heard = timers_now(&s->timers);
    st->node = peer;
    if (s->node_id > 0) return;
    if (role != ROLE_CONTROL || peer == 0 || peer >= s->nodes || s->control->nodes[peer].star) {
        log_warn("a control connection of node %u makes no sense and is closed", peer);
        st->dead = true;
        st->node = 0;
        return;
    }
    s->control->nodes[peer].star = st;
    if (s->lost) star_send(st, MSG_CTL_LOST, UINT32_MAX, 0, s->text, strlen(s->text));
    else if (s->stage == STAGE_DRAINING) star_send(st, MSG_CTL_DRAIN, UINT32_MAX, (uint64_t)s->opt.drain_ms, NULL, 0);
}

static void node_lost(struct supervisor *s, uint32_t node, const char *how) {
    if (s->stage >= STAGE_ENDING || s->lost) {
        if (s->node_id == 0) s->control->nodes[node].ended = true;
        else s->control->ended = true;
        ending_look(s);
        return;
    }
    if (s->node_id == 0) s->control->nodes[node].ended = true;
    else s->control->ended = true;
    supervisor_lost(s, "node %s is lost: %s", node_name(s, node), how);
}

static void star_down(struct conn *c, void *arg, int code) {
    struct star *st = arg;
    struct supervisor *s = st->s;
    bool known = s->node_id > 0 || (st->up && st->node > 0 && s->control->nodes[st->node].star == st);
    st->dead = true;
    if (!known) return; /* a stranger */
    if (s->node_id == 0) s->control->nodes[st->node].star = NULL;
    node_lost(s, s->node_id == 0 ? st->node : 0, code == -ECONNRESET ? "its ddictd ended" : dd_strerror(code));
}

static const struct conn_ops star_ops = {.up = star_up, .message = star_message, .down = star_down};

/* --- the beat: also the deadlines of connections, and the dead are buried here --- */
static void stars_bury(struct control *c) {
    for (struct star **at = &c->stars; *at;) {
        struct star *st = *at;
        if (!st->dead) {
            at = &st->next;
            continue;
        }
        *at = st->next;
        conn_free(st->conn);
        free(st);
    }
}

static void beat_fire(struct timer *t) {
    struct control *c = (struct control *)(void *)((char *)t - offsetof(struct control, beat));
    struct supervisor *s = c->s;
    uint64_t now = timers_now(&s->timers), tick = clock_ns();
    bool young = false; /* a connection is in its handshake: look more often */
    for (struct star *st = c->stars; st; st = st->next) {
        if (st->dead) continue;
        conn_tick(st->conn, tick);
        if (st->dead) continue;
        young |= !st->up;
        if (!st->up) continue;
        star_send(st, MSG_CTL_BEAT, UINT32_MAX, 0, NULL, 0);
        if (now > st->heard + DD_PEER_LOST_MS * 1000000ull) {
            char how[64];
            snprintf(how, sizeof how, "silent for %d s", DD_PEER_LOST_MS / 1000);
            st->dead = true;
            if (s->node_id == 0) c->nodes[st->node].star = NULL;
            node_lost(s, s->node_id == 0 ? st->node : 0, how);
        }
    }
    stars_bury(c);
    timer_after(&s->timers, t, (young ? YOUNG_MS : DD_PEER_BEAT_MS) * 1000000ull);
}

static struct star *star_new(struct supervisor *s) {
    struct star *st = calloc(1, sizeof *st);
    if (!st) return NULL;
    st->s = s;
    st->heard = timers_now(&s->timers);
    return st;
}

static void star_link(struct star *st) {
    struct control *c = st->s->control;
    struct timers *ts = &st->s->timers;
    st->next = c->stars;
    c->stars = st;
    if (!c->beat.pos || c->beat.at_ns > timers_now(ts) + YOUNG_MS * 1000000ull) timer_after(ts, &c->beat, YOUNG_MS * 1000000ull);
}

static void control_accept(struct io_handler *h, uint32_t events) {
    struct control *c = (struct control *)(void *)((char *)h - offsetof(struct control, listener));
    for (int i = 0; i < 64; i++) {
        int fd = conn_take(h->fd);
        if (fd < 0) return;
        struct star *st = star_new(c->s);
        if (!st) {
            close(fd);
            return;
        }
        if (conn_accept(&st->conn, c->s->epoll_fd, &c->s->identity, fd, &star_ops, st) < 0) free(st);
        else star_link(st);
    }
}

/* --- ours --- */
int control_listen(struct supervisor *s) {
    if (s->nodes == 1 || s->node_id > 0) return 0;
    s->control_fd = conn_listen(NULL, &s->control_port);
    return s->control_fd < 0 ? dd_error(s->control_fd, "can not listen for other nodes: %s", dd_strerror(s->control_fd)) : 0;
}

int control_start(struct supervisor *s) {
    if (s->nodes == 1) return 0;
    struct control *c = calloc(1, sizeof *c);
    if (!c) return -ENOMEM;
    c->s = s;
    c->beat.fire = beat_fire;
    s->control = c;
    s->identity.self = s->node_id;
    if (s->node_id == 0) {
        c->nodes = calloc(s->nodes, sizeof *c->nodes);
        if (!c->nodes) return -ENOMEM;
        c->listener = (struct io_handler){.fd = s->control_fd, .ready = control_accept};
        return io_add(s->epoll_fd, &c->listener, EPOLLIN);
    }
    struct star *st = star_new(s);
    if (!st) return -ENOMEM;
    int e = conn_open(&st->conn, s->epoll_fd, &s->identity, ROLE_CONTROL, 0, s->control_at[0].addr, s->control_at[0].naddr, &star_ops, st);
    if (e < 0) {
        free(st);
        return dd_error(e, "node %s can not be reached: %s", node_name(s, 0), dd_strerror(e));
    }
    star_link(st);
    return 0;
}

void control_ready(struct supervisor *s) {
    if (!s->control) {
        supervisor_ready(s);
        return;
    }
    s->control->ready = true;
    if (s->node_id == 0) all_ready_look(s);
    else stars_send(s, MSG_CTL_READY, 0, NULL);
}

void control_drain(struct supervisor *s, int wait_ms) { stars_send(s, MSG_CTL_DRAIN, (uint64_t)wait_ms, NULL); }

void control_drained(struct supervisor *s) {
    if (s->node_id > 0) stars_send(s, MSG_CTL_DRAINED, s->attached, NULL);
}

void control_lost(struct supervisor *s) {
    if (s->control) stars_send(s, MSG_CTL_LOST, 0, s->text);
}

void control_end(struct supervisor *s) {
    if (s->node_id == 0) stars_send(s, MSG_CTL_END, 0, NULL);
}

void control_give(struct supervisor *s) {
    struct star *st = s->control ? s->control->stars : NULL;
    if (!st || st->dead) return;
    for (unsigned i = 0; i < s->shards_n; i++) {
        struct shard *h = &s->shards[i];
        if (h->has_stats && !h->gone) star_send(st, MSG_CTL_STATS, h->id, 0, &h->stats, sizeof h->stats);
    }
    star_send(st, MSG_CTL_END, UINT32_MAX, 0, NULL, 0);
    conn_flush(st->conn);
}

bool control_all_drained(const struct supervisor *s) {
    for (uint32_t i = 1; i < s->nodes; i++)
        if (!s->control->nodes[i].drained) return false;
    return true;
}

bool control_all_ended(const struct supervisor *s) {
    if (!s->control) return true;
    if (s->node_id > 0) return s->control->ended;
    for (uint32_t i = 1; i < s->nodes; i++)
        if (!s->control->nodes[i].ended) return false;
    return true;
}

void control_close(struct supervisor *s) {
    struct control *c = s->control;
    if (s->control_fd >= 0) close(s->control_fd);
    s->control_fd = -1;
    if (!c) return;
    timer_clear(&s->timers, &c->beat);
    for (struct star *st = c->stars; st; st = st->next) {
        if (!st->dead) conn_flush(st->conn);
        st->dead = true;
    }
    stars_bury(c);
    free(c->nodes);
    free(c);
    s->control = NULL;
}
