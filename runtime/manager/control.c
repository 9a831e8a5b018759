/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - the ddictds of a dictionary: each connects to that of node 0, its parent, which says when all are ready, when to drain, and when to end. Both ends
 * beat every DD_PEER_BEAT_MS. Silence for DD_PEER_LOST_MS, or an end of the connection that was not announced, is a lost node, and node 0 tells the others.
 *
 * Who has lost its parent before it said DONE looks for another among the nodes with lower ids, in order. Who finds none is the head: it gathers the figures and writes
 * the record. A node that is asked by such an orphan passes on what it says to its own parent, so one wrong guess about who lives makes no second head.
 */
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <manager/supervisor.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define YOUNG_MS 100u /* between looks at connections while one is in its handshake */

struct star { /* a connection */
    struct supervisor *s;
    struct star *next;
    struct conn *conn;
    uint32_t node; /* at the other end; of a child known from `up` on */
    bool up, dead; /* dead: freed by the beat */
    bool looks;    /* at our parent, which is quiet: it only has to come up */
    uint64_t began;
    uint64_t quiet,
        quiet_at; /* the last silence that was longer than DD_PEER_QUIET_MS, and when it ended */
    uint64_t
        heard; /* by the clock of our timers: what comes late because we were stopped is not late */
};
struct node_state {
    struct star *star;   /* a child */
    bool ready, drained; /* node 0 only */
    bool ended;          /* it gave its figures, or is gone */
    bool dead;           /* not to be asked to be our parent */
};
struct control {
    struct supervisor *s;
    struct io_handler listener;
    struct star *looking;        /* of stars; NULL: none */
    struct star *stars, *parent; /* parent: of these; NULL: we are the head, or look for one */
    struct node_state *nodes;    /* [nodes] */
    struct timer beat, attempt;
    bool ready;          /* our own managers are */
    bool gave;           /* our own figures */
    bool head, released; /* released: the parent said DONE */
};

const char *node_name(const struct supervisor *s, uint32_t id) {
    return id < s->nodes && s->node_names[id][0] ? s->node_names[id] : "?";
}

static void failover(struct supervisor *s);

static void star_send(struct star *st, unsigned type, uint32_t manager, uint64_t aux,
                      const void *payload, size_t len) {
    struct msg m = {.type = (uint16_t)type, .manager = manager, .aux = aux};
    if (st && st->conn && !st->dead)
        conn_send(st->conn, &m, payload, len, NULL, 0, NULL, NULL);
}

static void stars_send(struct supervisor *s, unsigned type, uint32_t manager, uint64_t aux,
                       const char *text) {
    if (!s->control)
        return;
    for (struct star *st = s->control->stars; st; st = st->next)
        if (st->up || st == s->control->parent)
            star_send(st, type, manager, aux, text, text ? strlen(text) : 0);
}

/* --- what the others say --- */
static void all_ready_look(struct supervisor *s) {
    struct control *c = s->control;
    if (!c->ready)
        return;
    for (uint32_t i = 1; i < s->nodes; i++)
        if (!c->nodes[i].ready)
            return;
    if (s->stage != STAGE_STARTING)
        return;
    stars_send(s, MSG_CTL_READY, UINT32_MAX, 0, NULL);
    supervisor_ready(s);
}

static void node_ended(struct supervisor *s, uint32_t node) {
    struct control *c = s->control;
    c->nodes[node].ended = true;
    if (c->parent)
        star_send(c->parent, MSG_CTL_END, UINT32_MAX, node, NULL, 0);
    ending_look(s);
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
        failover(s);
    ending_look(s);
}

static void child_lost(struct supervisor *s, uint32_t node, const char *how) {
    s->control->nodes[node].star = NULL;
    s->control->nodes[node].ended = s->control->nodes[node].dead = true;
    if (s->node_id == 0 && s->stage < STAGE_ENDING && !s->lost) {
        s->lost_node = node;
        supervisor_lost(s, "node %s is lost: %s", node_name(s, node), how);
    }
    node_ended(s, node);
}

static void lost_take(struct supervisor *s, const struct msg *m, const char *text, size_t len) {
    struct star *parent = s->control->parent;
    if (s->lost_manager == UINT32_MAX && s->lost_node == UINT32_MAX) {
        s->lost_manager = m->manager;
        s->lost_node = m->aux < s->nodes ? (uint32_t)m->aux : UINT32_MAX;
    }
    supervisor_lost(s, "%.*s", (int)(len < 400 ? len : 400), text);
    /* A child has noticed before us that our parent is silent. */
    if (parent && parent == s->control->parent && parent->node == m->aux &&
        timers_now(&s->timers) > parent->heard + 2 * DD_PEER_BEAT_MS * 1000000ull)
        parent_lost(s, "silent");
}

static int stats_take(struct star *st, const void *payload, size_t len) {
    struct ddict_manager_stats stats;
    if (len != sizeof stats)
        return DDICT_EPROTO;
    memcpy(&stats, payload, sizeof stats);
    report_take(st->s, &stats);
    return 0;
}

static int step_take(struct star *st, const struct msg *m, const char *payload, size_t len) {
    char step[STEP_NAME_MAX];
    if (len >= sizeof step || m->manager >= st->s->nodes)
        return DDICT_EPROTO;
    memcpy(step, payload, len);
    step[len] = 0;
    steps_take(st->s, m->manager, step, m->aux);
    return 0;
}

static int note_take(struct star *st, const char *payload, size_t len) {
    struct note n;
    if (len != sizeof n)
        return DDICT_EPROTO;
    memcpy(&n, payload, sizeof n);
    n.node[sizeof n.node - 1] = n.text[sizeof n.text - 1] = 0;
    note_raise(st->s, &n);
    return 0;
}

/* What an orphan says too; with a parent of our own it is passed on. */
static int take_from_child(struct star *st, const struct msg *m, const char *payload, size_t len) {
    struct supervisor *s = st->s;
    struct control *c = s->control;
    int e;
    switch (m->type) {
    case MSG_CTL_STATS:
        e = stats_take(st, payload, len);
        break;
    case MSG_CTL_STEP:
        e = step_take(st, m, payload, len);
        break;
    case MSG_CTL_NOTE:
        return note_take(st, payload, len);
    case MSG_CTL_END:
        if (m->aux >= s->nodes)
            return DDICT_EPROTO;
        node_ended(s, (uint32_t)m->aux);
        return 0;
    case MSG_CTL_LOST:
        lost_take(s, m, payload, len);
        return 0;
    case MSG_CTL_BEAT:
        return 0;
    default:
        return DDICT_EPROTO;
    }
    if (e == 0 && c->parent)
        star_send(c->parent, m->type, m->manager, m->aux, payload, len);
    return e;
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
    case MSG_CTL_DRAIN:
        supervisor_drain(s, m->aux < 86400000 ? (int)m->aux : s->opt.drain_ms,
                         (enum end_reason)m->manager);
        return 0;
    case MSG_CTL_DRAINED:
        n->drained = m->aux == 0;
        ending_look(s);
        return 0;
    case MSG_CTL_MEET:
        return meet_heard(s, st->node, m->manager, m->aux, payload, len);
    case MSG_CTL_FREEZE:
        return freezing_heard(s, false, payload, len);
    case MSG_CTL_SAVE:
        return saving_heard(s, false, payload, len);
    case MSG_CTL_TASKS:
        tasks_take(s, st->node, m->manager, m->aux < m->manager ? (uint32_t)m->aux : m->manager);
        return 0;
    default:
        return take_from_child(st, m, payload, len);
    }
}

static int take_from_parent(struct star *st, const struct msg *m, const char *payload, size_t len) {
    struct supervisor *s = st->s;
    switch (m->type) {
    case MSG_CTL_READY:
        supervisor_ready(s);
        return 0;
    case MSG_CTL_DRAIN:
        supervisor_drain(s, m->aux < 86400000 ? (int)m->aux : s->opt.drain_ms,
                         (enum end_reason)m->manager);
        return 0;
    case MSG_CTL_END:
        supervisor_end(s);
        return 0;
    case MSG_CTL_LOST:
        lost_take(s, m, payload, len);
        return 0;
    case MSG_CTL_MEET:
        return meet_heard(s, st->node, m->manager, m->aux, payload, len);
    case MSG_CTL_FREEZE:
        return freezing_heard(s, true, payload, len);
    case MSG_CTL_SAVE:
        return saving_heard(s, true, payload, len);
    case MSG_CTL_DONE:
        s->control->released = true;
        control_release(s); /* our own children */
        ending_look(s);
        return 0;
    case MSG_CTL_BEAT:
        return 0;
    default:
        return DDICT_EPROTO;
    }
}

static void hear(struct star *st) {
    uint64_t now = timers_now(&st->s->timers);
    if (now - st->heard > DD_PEER_QUIET_MS * 1000000ull) {
        st->quiet = now - st->heard;
        st->quiet_at = now;
    }
    st->heard = now;
}

static int star_message(struct conn *c, void *arg, const struct msg *m, void *payload) {
    struct star *st = arg;
    size_t len = m->len - MSG_HEADER;
    if (st->dead)
        return 0;
    hear(st);
    if (st == st->s->control->parent)
        return take_from_parent(st, m, payload, len);
    return st->s->node_id == 0 ? take_at_head(st, m, payload, len)
                               : take_from_child(st, m, payload, len);
}

static void star_up(struct conn *conn, void *arg, uint32_t peer, enum conn_role role) {
    struct star *st = arg;
    struct supervisor *s = st->s;
    struct control *c = s->control;
    st->up = true;
    st->heard = timers_now(&s->timers);
    if (st->looks) {
        if (c->parent && c->parent->node == st->node)
            hear(c->parent);
        st->dead = true;
        c->looking = NULL;
        return;
    }
    if (role == ROLE_CONTROL && peer > s->node_id && peer < s->nodes &&
        c->nodes[peer].star) { /* it has not heard us for a while, and looks */
        hear(c->nodes[peer].star);
        st->dead = true;
        return;
    }
    if (st == c->parent) {
        timer_clear(&s->timers, &c->attempt);
        return;
    }
    if (role != ROLE_CONTROL || peer <= s->node_id || peer >= s->nodes) {
        log_warn("a control connection of node %u makes no sense and is closed", peer);
        st->dead = true;
        return;
    }
    st->node = peer;
    c->nodes[peer].star = st;
    if (c->released || c->head)
        return; /* it comes with its figures; the end is said when they are in */
    if (s->lost)
        star_send(st, MSG_CTL_LOST, s->lost_manager, s->lost_node, s->text, strlen(s->text));
    else if (s->stage == STAGE_DRAINING)
        star_send(st, MSG_CTL_DRAIN, s->reason, (uint64_t)s->opt.drain_ms, NULL, 0);
}

static void star_down(struct conn *conn, void *arg, int code) {
    struct star *st = arg;
    struct control *c = st->s->control;
    uint64_t now = timers_now(&st->s->timers), silent = now - st->heard;
    char how[96];
    bool was_dead = st->dead;
    st->dead = true;
    if (c->looking == st)
        c->looking = NULL;
    if (was_dead || st->looks)
        return;
    if (silent < DD_PEER_QUIET_MS * 1000000ull && st->quiet_at &&
        now - st->quiet_at < DD_CONN_LOST_MS * 1000000ull)
        silent = st->quiet; /* it may have lost us meanwhile */
    if (code != -ECONNRESET)
        snprintf(how, sizeof how, "%s", dd_strerror(code));
    else if (silent < DD_PEER_QUIET_MS * 1000000ull)
        snprintf(how, sizeof how, "its ddictd ended");
    else
        snprintf(how, sizeof how, "silent for %u s, then it closed the connection",
                 (unsigned)(silent / 1000000000));
    if (st == c->parent)
        parent_lost(st->s, how);
    else if (st->up && c->nodes[st->node].star == st)
        child_lost(st->s, st->node, how);
    else if (code == DDICT_EAUTH || code == DDICT_EPROTO)
        note_stranger(st->s, dd_strerror(code));
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

static struct star *star_new(struct supervisor *s);

/* Our parent is quiet: does it answer a fresh connection? */
static void parent_look(struct control *c, uint64_t now) {
    struct supervisor *s = c->s;
    if (c->looking && now - c->looking->began < DD_PEER_BEAT_MS * 1000000ull)
        return;
    if (c->looking)
        c->looking->dead = true;
    c->looking = NULL;
    if (!c->parent || !c->parent->up || c->released ||
        now - c->parent->heard < DD_PEER_QUIET_MS * 1000000ull)
        return;
    struct star *st = star_new(s);
    const struct node_address *at = &s->control_at[c->parent->node];
    if (!st)
        return;
    st->looks = true;
    st->node = c->parent->node;
    st->began = now;
    if (conn_open(&st->conn, s->epoll_fd, &s->identity, ROLE_CONTROL, st->node, at->addr, at->naddr,
                  &star_ops, st) < 0) {
        free(st);
        return;
    }
    st->next = c->stars;
    c->stars = c->looking = st;
}

static void beat_fire(struct timer *t) {
    struct control *c = (struct control *)(void *)((char *)t - offsetof(struct control, beat));
    struct supervisor *s = c->s;
    uint64_t now = timers_now(&s->timers), tick = clock_ns();
    bool young = false; /* a connection is in its handshake: look more often */
    for (struct star *st = c->stars; st; st = st->next) {
        if (st->dead)
            continue;
        conn_tick(st->conn, tick);
        if (st->dead)
            continue;
        young |= !st->up;
        if (!st->up)
            continue;
        star_send(st, MSG_CTL_BEAT, UINT32_MAX, 0, NULL, 0);
        if (now >
            st->heard + (DD_PEER_LOST_MS + DD_PEER_BEAT_MS + DD_PEER_BEAT_MS / 2) * 1000000ull) {
            char how[64];
            snprintf(how, sizeof how, "silent for %d s", DD_PEER_LOST_MS / 1000);
            st->dead = true;
            if (st == c->parent)
                parent_lost(s, how);
            else
                child_lost(s, st->node, how);
        }
    }
    parent_look(c, now);
    young |= c->looking != NULL;
    stars_bury(c);
    timer_after(&s->timers, t, (young ? YOUNG_MS : DD_PEER_BEAT_MS) * 1000000ull);
}

static struct star *star_new(struct supervisor *s) {
    struct star *st = calloc(1, sizeof *st);
    if (!st)
        return NULL;
    st->s = s;
    st->heard = timers_now(&s->timers);
    return st;
}

static void star_link(struct star *st) {
    struct control *c = st->s->control;
    struct timers *ts = &st->s->timers;
    st->next = c->stars;
    c->stars = st;
    if (!c->beat.pos || c->beat.at_ns > timers_now(ts) + YOUNG_MS * 1000000ull)
        timer_after(ts, &c->beat, YOUNG_MS * 1000000ull);
}

static void control_accept(struct io_handler *h, uint32_t events) {
    struct control *c = (struct control *)(void *)((char *)h - offsetof(struct control, listener));
    for (int i = 0; i < 64; i++) {
        int fd = conn_take(h->fd);
        if (fd < 0)
            return;
        struct star *st = star_new(c->s);
        if (!st) {
            close(fd);
            return;
        }
        if (conn_accept(&st->conn, c->s->epoll_fd, &c->s->identity, fd, &star_ops, st) < 0)
            free(st);
        else
            star_link(st);
    }
}

/* --- a parent --- */
static int parent_open(struct supervisor *s, uint32_t node) {
    struct star *st = star_new(s);
    const struct node_address *at = &s->control_at[node];
    if (!st)
        return -ENOMEM;
    st->node = node;
    int e = conn_open(&st->conn, s->epoll_fd, &s->identity, ROLE_CONTROL, node, at->addr, at->naddr,
                      &star_ops, st);
    if (e < 0) {
        free(st);
        return e;
    }
    s->control->parent = st;
    star_link(st);
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

static void failover(struct supervisor *s) {
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
            star_send(c->parent, MSG_CTL_LOST, s->lost_manager, s->lost_node, s->text,
                      strlen(s->text));
        if (c->gave)
            control_give(s);
        return;
    }
    timer_clear(&s->timers, &c->attempt);
    c->head = true;
    ending_headed(s);
}

/* --- ours --- */
int control_listen(struct supervisor *s) {
    if (s->nodes == 1)
        return 0;
    s->control_fd = ports_listen(s, &s->control_port);
    return s->control_fd < 0 ? s->control_fd : 0;
}

int control_start(struct supervisor *s) {
    if (s->nodes == 1)
        return 0;
    struct control *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->s = s;
    c->beat.fire = beat_fire;
    c->attempt.fire = attempt_fire;
    s->control = c;
    s->identity.self = s->node_id;
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
        all_ready_look(s);
    else
        star_send(s->control->parent, MSG_CTL_READY, UINT32_MAX, 0, NULL, 0);
}

void control_drain(struct supervisor *s, int wait_ms) {
    stars_send(s, MSG_CTL_DRAIN, s->reason, (uint64_t)wait_ms, NULL);
}

void control_drained(struct supervisor *s) {
    if (s->control)
        star_send(s->control->parent, MSG_CTL_DRAINED, UINT32_MAX, s->attached, NULL, 0);
}

void control_lost(struct supervisor *s) {
    stars_send(s, MSG_CTL_LOST, s->lost_manager, s->lost_node, s->text);
}

void control_end(struct supervisor *s) {
    if (s->node_id == 0)
        stars_send(s, MSG_CTL_END, UINT32_MAX, 0, NULL);
}

static void stats_give(void *arg, const struct ddict_manager_stats *st) {
    star_send(arg, MSG_CTL_STATS, st->manager_id, 0, st, sizeof *st);
}
static void step_give(void *arg, uint32_t node, const char *step, uint64_t n) {
    star_send(arg, MSG_CTL_STEP, node, n, step, strlen(step));
}

void control_give(struct supervisor *s) {
    struct control *c = s->control;
    if (!c)
        return;
    c->gave = true;
    if (!c->parent)
        return;
    report_each(s, stats_give, c->parent);
    steps_each(s, step_give, c->parent);
    star_send(c->parent, MSG_CTL_END, UINT32_MAX, s->node_id, NULL, 0);
    for (uint32_t i = 0; i < s->nodes; i++)
        if (c->nodes[i].ended && !c->nodes[i].dead)
            star_send(c->parent, MSG_CTL_END, UINT32_MAX, i, NULL, 0);
    conn_flush(c->parent->conn);
}

void control_note(struct supervisor *s, const struct note *n) {
    if (control_is_head(s))
        record_note(s, n);
    else
        star_send(s->control->parent, MSG_CTL_NOTE, UINT32_MAX, 0, n, sizeof *n);
}

void control_meet(struct supervisor *s, uint32_t to, uint32_t node, uint16_t port,
                  const char *step) {
    if (s->control)
        star_send(to == UINT32_MAX ? s->control->parent : s->control->nodes[to].star, MSG_CTL_MEET,
                  node, port, step, strlen(step));
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
        star_send(s->control->parent, MSG_CTL_TASKS, came, here, NULL, 0);
}

static void word_send(struct supervisor *s, unsigned type, uint32_t to, const void *word,
                      size_t len) {
    struct control *c = s->control;
    if (!c)
        return;
    for (struct star *st = c->stars; st; st = st->next) {
        bool parent = st == c->parent;
        if (to == CONTROL_PARENT ? parent
                                 : st->up && !parent && (to == CONTROL_CHILDREN || st->node == to))
            star_send(st, type, UINT32_MAX, 0, word, len);
    }
}

void control_freeze(struct supervisor *s, uint32_t to, const void *word, size_t len) {
    word_send(s, MSG_CTL_FREEZE, to, word, len);
}
void control_save(struct supervisor *s, uint32_t to, const void *word, size_t len) {
    word_send(s, MSG_CTL_SAVE, to, word, len);
}

void control_release(struct supervisor *s) {
    struct control *c = s->control;
    if (!c)
        return;
    for (struct star *st = c->stars; st; st = st->next) {
        if (st->dead || !st->up || st == c->parent)
            continue;
        star_send(st, MSG_CTL_DONE, UINT32_MAX, 0, NULL, 0);
        conn_flush(st->conn);
    }
}

bool control_alone(const struct supervisor *s) {
    for (struct star *st = s->control ? s->control->stars : NULL; st; st = st->next)
        if (!st->dead && st->up && st != s->control->parent)
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
    for (struct star *st = c->stars; st; st = st->next) {
        if (!st->dead)
            conn_flush(st->conn);
        st->dead = true;
    }
    stars_bury(c);
    free(c->nodes);
    free(c);
    s->control = NULL;
}
