/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - the ddictds of a dictionary: each connects to that of node 0, its parent, which says
 * when all are ready, when to drain, and when to end. With --replicas=2 another node can take its
 * place (election.h), and connects to all others then. The connections are those of control_links.c.
 * When a node is lost, node 0 tells the others.
 *
 * A node that loses its parent before the parent said DONE looks for another one among the nodes
 * with lower ids: first those above it in a tree, then all in order. A node that finds none is the
 * head: it gathers the statistics and writes the record. A node that such an orphan asks passes the orphan's messages on to its own
 * parent, so one wrong guess about which nodes live does not make a second head.
 */
#include "control.h"

#include "attach_counts.h"
#include "control_inside.h"
#include "coordinator.h"
#include "election.h"
#include "figures.h"
#include "freeze.h"
#include "grants.h"
#include "life_events.h"
#include "owner_map.h"
#include "record.h"
#include "save_passes.h"
#include "supervisor.h"
#include "takeover.h"
#include "tasks.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *node_name(const struct supervisor *s, uint32_t id) {
    return id < s->nodes && s->node_names[id][0] ? s->node_names[id] : "?";
}

static void parent_find(struct supervisor *s);

/* --- the states of other nodes, and how many are in each --- */
static void state_set(bool *state, bool to, uint32_t *n) {
    if (*state == to)
        return;
    *state = to;
    *n = to ? *n + 1 : *n - 1;
}

static void ended_set(struct supervisor *s, uint32_t node) {
    if (node != s->node_id) /* others may think so of us */
        state_set(&s->control->nodes[node].ended, true, &s->control->ended_n);
}

static void all_ready_run(struct io_deferred *d) {
    struct control *c = (struct control *)(void *)((char *)d - offsetof(struct control, all_ready));
    if (c->s->stage == STAGE_STARTING)
        supervisor_ready(c->s);
}

/* Our own `ready` comes behind the connections' output of this turn: if we die between the two, the
 * others know that the dictionary was ready, and write its record. */
static void all_ready_check(struct supervisor *s) {
    struct control *c = s->control;
    if (!c->ready || c->ready_n < s->nodes - 1 || s->stage != STAGE_STARTING || c->all_ready.run)
        return;
    c->all_ready.run = all_ready_run;
    ctl_conns_send(s, MSG_CTL_READY, UINT32_MAX, 0, NULL);
    io_defer(&c->all_ready);
}

void control_node_ended(struct supervisor *s, uint32_t node) {
    struct control *c = s->control;
    ended_set(s, node);
    if (c->parent)
        ctl_conn_send(c->parent, MSG_CTL_END, UINT32_MAX, node, NULL, 0);
    lifecycle_check(s);
}

void parent_lost(struct supervisor *s, const char *how, bool closed) {
    struct control *c = s->control;
    uint32_t node = c->parent->node;
    c->parent->dead = true;
    c->parent = NULL;
    if (election_begin(s, node, closed))
        return;
    /* asked once more: it may have given us up, and say so */
    c->nodes[node].dead = !s->grants || c->asked_again;
    c->asked_again = true;
    ended_set(s, node);
    if (s->stage < STAGE_ENDING && !s->lost) {
        s->lost_node = node;
        supervisor_lost(s, "node %s is lost: %s", node_name(s, node), how);
    }
    control_orphan(s);
    lifecycle_check(s);
}

void control_orphan(struct supervisor *s) {
    if (!s->control->released && !s->control->parent)
        parent_find(s);
}

/* The dictionary goes on without it. */
static void node_leave(struct supervisor *s, uint32_t node) {
    s->control->nodes[node].dead = true;
    ended_set(s, node);
    state_set(&s->control->nodes[node].drained, true, &s->control->drained_n);
    takeover_node_lost(s, node);
    tasks_node_lost(s, node);
    freezes_node_lost(s, node);
    save_passes_node_lost(s, node);
}

void control_node_lost(struct supervisor *s, uint32_t node, uint64_t heard, const char *how) {
    if (coordinator_node_lost(s, node, heard, how)) {
        node_leave(s, node);
        return;
    }
    s->lost_node = node;
    supervisor_lost(s, "node %s is lost: %s", node_name(s, node), how);
}

void child_lost(struct supervisor *s, uint32_t node, const char *how) {
    struct ctl_conn *cc = s->control->nodes[node].child;
    s->control->nodes[node].child = NULL;
    if (control_decides(s) && election_steps_down(s))
        return;
    s->control->nodes[node].dead = true;
    ended_set(s, node);
    if (control_decides(s) && s->stage < STAGE_ENDING && !s->lost) {
        control_node_lost(s, node, cc->heard, how);
        if (coordinator_is_lost(s, node))
            cut_off_tell(cc, node);
    }
    control_node_ended(s, node);
}

/* --- another decides, with --replicas=2 --- */
bool control_has_child(const struct supervisor *s, uint32_t node) {
    return s->control->nodes[node].child != NULL;
}

bool control_parent_heard(struct supervisor *s) {
    const struct ctl_conn *parent = s->control->parent;
    unsigned ms = parent && parent->slowed ? DD_PEER_SLOWED_MS : DD_LEASE_WAIT_MS;
    return parent && !parent->dead && timers_now(&s->timers) < parent->heard + ms * 1000000ull;
}

void control_child_take(struct supervisor *s, uint32_t node) {
    struct node_state *n = &s->control->nodes[node];
    struct ctl_conn *cc = n->asks;
    if (n->child)
        n->child->dead = true;
    n->asks = NULL;
    n->child = cc;
    cc->votes = false;
    cc->heard = timers_now(&s->timers);
}

void control_decide(struct supervisor *s) {
    struct control *c = s->control;
    if (c->parent)
        c->parent->dead = true;
    c->parent = NULL;
    c->decides = s->node_id;
    c->head = true;
    for (uint32_t i = 0; i < s->nodes; i++) {
        if (i != s->node_id && coordinator_is_lost(s, i))
            node_leave(s, i);
        else if (c->nodes[i].asks && c->nodes[i].asks->up)
            control_child_take(s, i);
    }
}

void control_undecide(struct supervisor *s) {
    struct control *c = s->control;
    c->decides = UINT32_MAX;
    c->head = false;
    for (uint32_t i = 0; i < s->nodes; i++) {
        struct node_state *n = &c->nodes[i];
        if (n->child)
            undecide_tell(n->child);
        n->child = NULL;
        if (coordinator_is_lost(s, i))
            continue;
        /* lost by a map that does not count, or drained: it says so to who decides then */
        n->dead = false;
        state_set(&n->ended, false, &c->ended_n);
        state_set(&n->drained, false, &c->drained_n);
    }
}

void control_parent_undecides(struct supervisor *s) {
    if (s->control->parent)
        parent_lost(s, "it decides no more", false);
}

/* The vote is over. */
static void asks_end(struct control *c, const struct ctl_conn *but) {
    for (uint32_t i = 0; i < c->s->nodes; i++) {
        struct ctl_conn *cc = c->nodes[i].asks;
        if (cc && cc != but)
            cc->dead = true;
        c->nodes[i].asks = NULL;
    }
}

void control_parent_take(struct supervisor *s, const struct control_said *m) {
    struct control *c = s->control;
    bool other = c->parent != m->by;
    if (c->parent && other)
        c->parent->dead = true;
    asks_end(c, m->by);
    c->parent = m->by;
    c->parent->votes = false;
    c->decides = m->node;
    if (other && c->gave) /* at the end: to nobody, or to one that is lost */
        control_stats_send(s);
}

/* --- orphans, with --replicas=2 --- */

/* Our parent was heard since it came, so it is lost to this node alone: node 0 goes on without it. */
static bool is_cut_off(const struct supervisor *s, const struct ctl_conn *cc) {
    const struct ctl_conn *parent = s->control->parent;
    return s->grants && s->stage < STAGE_ENDING && !s->lost && cc->up && !cc->dead &&
           cc != parent && s->control->nodes[cc->node].child == cc && parent && parent->up &&
           parent->heard > cc->began + 2ull * DD_PEER_BEAT_MS * 1000000;
}

void orphan_check(struct supervisor *s, struct ctl_conn *cc) {
    if (!is_cut_off(s, cc))
        return;
    log_info("node %s has lost node 0, which answers us", node_name(s, cc->node));
    cut_off_tell(cc, cc->node);
    s->control->nodes[cc->node].child = NULL;
}

bool control_orphan_errs(const struct supervisor *s) {
    bool decides = control_decides(s) && s->nodes > 2 && grants_valid(s);
    return s->grants && (s->control->parent || decides) && !s->lost;
}

/* --- what is heard --- */
void control_node_ready(struct supervisor *s, uint32_t node) {
    state_set(&s->control->nodes[node].ready, true, &s->control->ready_n);
    all_ready_check(s);
}

void control_node_drained(struct supervisor *s, uint32_t node, bool drained) {
    state_set(&s->control->nodes[node].drained, drained, &s->control->drained_n);
    lifecycle_check(s);
}

void control_done(struct supervisor *s) {
    s->control->released = true;
    control_release(s); /* our own children */
    lifecycle_check(s);
}

void control_node_silent(struct supervisor *s, uint32_t node) {
    const struct ctl_conn *parent = s->control->parent;
    unsigned ms = parent && parent->slowed ? DD_PEER_SLOWED_MS : 2 * DD_PEER_BEAT_MS;
    if (parent && parent->node == node && timers_now(&s->timers) > parent->heard + ms * 1000000ull)
        parent_lost(s, "silent", false);
}

/* --- a parent --- */

/* Milliseconds for the node that is asked now: a share of what is left of DD_FAILOVER_MS. Most
 * likely the first one lives and is only busy; where a whole rack is gone the rest go quickly. */
static unsigned attempt_ms(struct supervisor *s) {
    struct control *c = s->control;
    uint64_t now = timers_now(&s->timers);
    unsigned share = s->node_id < DD_FAILOVER_SHARE ? s->node_id : DD_FAILOVER_SHARE;
    if (!c->search_until)
        c->search_until = now + DD_FAILOVER_MS * 1000000ull;
    uint64_t ms = c->search_until > now ? (c->search_until - now) / 1000000 / share : 0;
    return ms > DD_FAILOVER_ONE_MS   ? DD_FAILOVER_ONE_MS
           : ms < DD_FAILOVER_MIN_MS ? DD_FAILOVER_MIN_MS
                                     : (unsigned)ms;
}

/* Whom to ask next: those above us in a tree, so that no node is asked by all; then any with a lower
 * id. Our own id: nobody is left. */
static uint32_t parent_next(const struct supervisor *s) {
    const struct node_state *nodes = s->control->nodes;
    uint32_t id = s->node_id;
    while (id > 0) {
        id = node_above(id);
        if (!nodes[id].dead)
            return id;
    }
    while (id < s->node_id && nodes[id].dead)
        id++;
    return id;
}

static void attempt_fire(struct timer *t) {
    struct control *c = (struct control *)(void *)((char *)t - offsetof(struct control, attempt));
    if (c->parent && !c->parent->up)
        parent_lost(c->s, "no answer", false);
}

static void parent_find(struct supervisor *s) {
    struct control *c = s->control;
    if (!s->was_ready) { /* there is nothing to record */
        c->released = true;
        return;
    }
    for (uint32_t id; (id = parent_next(s)) < s->node_id;) {
        if (parent_open(s, id) < 0) {
            c->nodes[id].dead = true;
            continue;
        }
        log_info("asks node %s to write the record", node_name(s, id));
        timer_after(&s->timers, &c->attempt, attempt_ms(s) * 1000000ull);
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

int control_start(struct supervisor *s, control_heard *heard) {
    if (s->nodes == 1)
        return 0;
    struct control *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    c->s = s;
    c->heard = heard;
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
    c->head = s->node_id == 0;
    int e = ctl_conns_listen(c);
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
    grants_begin(s);
    if (s->node_id == 0)
        all_ready_check(s);
    else
        ctl_conn_send(s->control->parent, MSG_CTL_READY, UINT32_MAX, 0, NULL, 0);
}

void control_told(struct supervisor *s) {
    ctl_conn_send(s->control->parent, MSG_CTL_READY, UINT32_MAX, 0, NULL, 0);
}

void control_ready_tell(struct supervisor *s, uint32_t node) {
    ctl_conn_send(s->control->nodes[node].child, MSG_CTL_READY, UINT32_MAX, 0, NULL, 0);
}

void control_stage_tell(struct supervisor *s, uint32_t node) {
    struct ctl_conn *cc = s->control->nodes[node].child;
    if (s->lost)
        lost_send(cc);
    else if (s->stage >= STAGE_ENDING)
        ctl_conn_send(cc, MSG_CTL_END, UINT32_MAX, 0, NULL, 0);
    else if (s->stage == STAGE_DRAINING || s->stage == STAGE_SAVING)
        ctl_conn_send(cc, MSG_CTL_DRAIN, s->reason, (uint64_t)s->opt.drain_ms, NULL, 0);
}

void control_drain(struct supervisor *s, int wait_ms) {
    ctl_conns_send(s, MSG_CTL_DRAIN, s->reason, (uint64_t)wait_ms, NULL);
}

void control_drained(struct supervisor *s) {
    if (s->control)
        ctl_conn_send(s->control->parent, MSG_CTL_DRAINED, UINT32_MAX, s->attached, NULL, 0);
}

void control_lost(struct supervisor *s) {
    if (!s->control || s->leaves)
        return;
    for (struct ctl_conn *cc = s->control->conns; cc; cc = cc->next)
        if (cc == s->control->parent || is_below(cc, s->control->parent))
            lost_send(cc);
}

void control_end(struct supervisor *s) {
    if (control_decides(s))
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
    if (!c->parent || s->leaves)
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
    if (takeover_note_keep(s, n))
        return;
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

bool control_decides(const struct supervisor *s) {
    return !s->control || s->control->decides == s->node_id;
}
bool control_is_head(const struct supervisor *s) {
    return !s->control || s->control->head;
}
bool control_has_parent(const struct supervisor *s) {
    return s->control && s->control->parent && s->control->parent->up;
}
bool control_released(const struct supervisor *s) {
    return s->control && s->control->released;
}

void control_parent_late(struct supervisor *s) {
    if (s->control && s->control->parent && !s->control->released)
        parent_lost(s, "no answer", false);
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
        if (to == CONTROL_PARENT
                ? cc == c->parent
                : is_below(cc, c->parent) && (to == CONTROL_CHILDREN || cc->node == to))
            ctl_conn_send(cc, type, UINT32_MAX, 0, word, len);
    }
}

void control_freeze(struct supervisor *s, uint32_t to, const void *word, size_t len) {
    payload_send(s, MSG_CTL_FREEZE, to, word, len);
}
void control_save(struct supervisor *s, uint32_t to, const void *word, size_t len) {
    payload_send(s, MSG_CTL_SAVE, to, word, len);
}

void control_map(struct supervisor *s, uint32_t to, unsigned type, const void *bytes, size_t len) {
    payload_send(s, type, to, bytes, len);
}

void control_drop(struct supervisor *s, uint32_t owner, uint64_t epoch, const char *why) {
    control_copy(s, MSG_CTL_DROP, owner, epoch, why, strnlen(why, OWNER_MAP_WHY));
}

void control_copy(struct supervisor *s, unsigned type, uint32_t owner, uint64_t epoch,
                  const void *word, size_t len) {
    ctl_conn_send(s->control->parent, type, owner, epoch, word, len);
}

void control_release(struct supervisor *s) {
    struct control *c = s->control;
    if (!c)
        return;
    for (struct ctl_conn *cc = c->conns; cc; cc = cc->next) {
        if (cc->dead || !is_below(cc, c->parent))
            continue;
        ctl_conn_send(cc, MSG_CTL_DONE, UINT32_MAX, 0, NULL, 0);
        conn_flush(cc->conn);
    }
}

bool control_alone(const struct supervisor *s) {
    for (struct ctl_conn *cc = s->control ? s->control->conns : NULL; cc; cc = cc->next)
        if (!cc->dead && is_below(cc, s->control->parent))
            return false;
    return true;
}

bool control_all_drained(const struct supervisor *s) {
    return !s->control || s->control->drained_n == s->nodes - 1;
}

bool control_all_ended(const struct supervisor *s) {
    return !s->control || s->control->ended_n == s->nodes - 1;
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
    io_undefer(&c->all_ready);
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
