/* SPDX-License-Identifier: Apache-2.0 */
/* election.c - who decides when the node that did is lost. */
#include "election.h"

#include "coordinator.h"
#include "grants.h"
#include "life_events.h"
#include "owner_steps.h"
#include "takeover.h"
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t now_of(struct supervisor *s) {
    return timers_now(&s->timers);
}

static void look_again(struct election *e, unsigned ms) {
    e->due = timer_after(&e->s->timers, &e->timer, ms * 1000000ull) < 0;
}

static void look_stop(struct election *e) {
    timer_clear(&e->s->timers, &e->timer);
    e->due = false;
}

/* Whoever stands first wins as a rule. */
static unsigned turn_ms(const struct supervisor *s) {
    const struct election *e = s->election;
    unsigned below = 0;
    for (uint32_t i = 0; i < s->node_id && below < DD_VOTE_TURNS; i++)
        below += (s->held->held.nodes[i] & MAP_VOTES) && i != e->before;
    return below * DD_VOTE_TURN_MS;
}

static bool is_under_way(const struct supervisor *s) {
    return s->stage >= STAGE_READY && s->stage < STAGE_ENDING && !s->lost;
}

/* --- we look --- */
static bool is_another(const void *arg, uint32_t node) {
    return node != *(const uint32_t *)arg;
}

bool election_can_lose(const struct supervisor *s, uint32_t node) {
    return s->election && is_under_way(s) && held_majority(s, &s->held->held, is_another, &node);
}

static void all_ask(struct supervisor *s) {
    for (uint32_t i = 0; i < s->nodes; i++)
        if (i != s->node_id && !held_map_lost(s, i))
            control_ask(s, i);
}

static void look_begin(struct supervisor *s, uint32_t before, bool closed) {
    struct election *e = s->election;
    e->looks = true;
    e->stands = false;
    e->closed = closed;
    e->before = before;
    e->began = now_of(s);
    all_ask(s);
    look_again(e, turn_ms(s));
}

bool election_begin(struct supervisor *s, uint32_t node, bool closed) {
    if (!election_can_lose(s, node))
        return false;
    log_warn("node %s is lost, which decided for all: this node looks for who does now",
             node_name(s, node));
    look_begin(s, node, closed);
    return true;
}

static void step_down(struct supervisor *s) {
    control_undecide(s);
    held_map_undecide(s);
    coordinator_pause(s);
}

bool election_steps_down(struct supervisor *s) {
    if (!s->election || !is_under_way(s) || s->nodes < 3 || grants_valid(s))
        return false;
    log_warn("this node decides no more: no majority of the nodes answers it");
    step_down(s);
    look_begin(s, s->node_id, false);
    return true;
}

/* --- we stand --- */
static bool said_yes(const void *arg, uint32_t node) {
    return ((const bool *)arg)[node];
}

static void win(struct supervisor *s) {
    struct election *e = s->election;
    log_warn("this node decides for all from now on");
    e->looks = e->stands = e->counted = false;
    e->since = now_of(s);
    control_decide(s);
    grants_decide(s);
    owner_steps_decide(s);
    held_map_decide(s, e->term, &e->best);
    look_again(e, DD_VOTE_AGAIN_MS);
}

static void won_check(struct supervisor *s) {
    struct election *e = s->election;
    if (e->stands && held_majority(s, &e->best, said_yes, e->yes))
        win(s);
}

static void vote_ask(struct supervisor *s, uint32_t node) {
    const struct election *e = s->election;
    if (e->stands && !e->yes[node])
        control_ask_send(s, node, MSG_CTL_VOTE, e->term);
}

static void stand(struct supervisor *s) {
    struct election *e = s->election;
    all_ask(s);
    if (!e->stands) {
        e->term = (e->term / s->nodes + 1) * s->nodes + s->node_id;
        e->stands = true;
        memset(e->yes, 0, s->nodes * sizeof *e->yes);
        e->yes[s->node_id] = true;
        map_state_copy(s, &e->best, &s->held->held);
        won_check(s);
    }
    for (uint32_t i = 0; i < s->nodes; i++)
        vote_ask(s, i);
}

static void look_failed(struct supervisor *s) {
    s->election->looks = false;
    if (!s->lost)
        s->cut_off = true;
    if (!s->lost && s->stage < STAGE_ENDING)
        supervisor_lost(s,
                        "node %s was cut off, or too many nodes are lost: no majority of them "
                        "answered it within %u s",
                        s->node, DD_VOTE_LOST_MS / 1000);
    control_orphan(s);
}

/* Where others have all that it has it is awaited no longer than its lease. */
static unsigned patience_ms(const struct supervisor *s, uint32_t node) {
    return coordinator_can_spare(s, node) ? DD_LEASE_WAIT_MS : DD_PEER_LOST_MS;
}

/* We decide: a node with which we have no connection is asked again, and lost in the end. */
static void others_look(struct supervisor *s) {
    struct election *e = s->election;
    uint64_t over = now_of(s) - e->since;
    bool missing = false;
    for (uint32_t i = 0; i < s->nodes && control_decides(s) && is_under_way(s); i++) {
        if (i == s->node_id || held_map_lost(s, i) || control_has_child(s, i))
            continue;
        bool ended = e->closed && i == e->before && over > DD_PEER_BEAT_MS * 1000000ull;
        missing = true;
        if (e->counted && (ended || over > patience_ms(s, i) * 1000000ull))
            control_node_lost(s, i, e->since, ended ? "its ddictd ended" : "it does not answer");
        else
            control_ask(s, i);
    }
    if (missing)
        look_again(e, DD_VOTE_AGAIN_MS);
}

static void look_fire(struct timer *t) {
    struct election *e = (struct election *)(void *)((char *)t - offsetof(struct election, timer));
    struct supervisor *s = e->s;
    e->due = false;
    if (!e->looks) {
        others_look(s);
        return;
    }
    if (!is_under_way(s) || now_of(s) > e->began + DD_VOTE_LOST_MS * 1000000ull) {
        look_failed(s);
        return;
    }
    stand(s);
    if (e->looks)
        look_again(e, DD_VOTE_AGAIN_MS + turn_ms(s));
}

static bool is_connected(const void *arg, uint32_t node) {
    const struct supervisor *s = arg;
    return node == s->node_id || control_has_child(s, node);
}

void election_look(struct supervisor *s) {
    struct election *e = s->election;
    if (!e)
        return;
    if (e->due)
        look_fire(&e->timer);
    if (!control_decides(s))
        return;
    if (!held_majority(s, &s->held->held, is_connected, s))
        election_steps_down(s);
    if (control_decides(s) && is_under_way(s))
        held_map_again(s);
}

void election_connected(struct supervisor *s, uint32_t node) {
    struct election *e = s->election;
    if (e->looks) {
        vote_ask(s, node);
    } else if (control_decides(s)) {
        control_child_take(s, node);
        held_map_tell(s, node);
        if (e->counted)
            takeover_child(s, node);
        control_stage_tell(s, node);
    }
}

/* --- votes --- */
static bool term_makes_sense(const struct supervisor *s, uint64_t term) {
    return term <= s->election->term || term - s->election->term <= DD_TERMS_AHEAD;
}

static bool hears_who_decides(struct supervisor *s) {
    const struct election *e = s->election;
    if (e->looks)
        return e->voted && now_of(s) < e->voted + DD_VOTE_KEPT_MS * 1000000ull;
    return control_decides(s) ? grants_valid(s) : control_parent_heard(s);
}

/* Yes: with the map that we hold. */
static void vote_answer(struct supervisor *s, const struct control_said *m, bool yes) {
    size_t len = 0;
    void *bytes = yes ? held_map_pack(s, &s->held->held, &len) : NULL;
    if (!yes || bytes)
        control_answer(s, m, MSG_CTL_VOTED, yes, s->election->term, bytes, len);
    free(bytes);
}

int vote_heard(struct supervisor *s, const struct control_said *m) {
    struct election *e = s->election;
    if (!e || m->aux % s->nodes != m->node || !term_makes_sense(s, m->aux))
        return DDICT_EPROTO;
    if (!is_under_way(s) || m->aux <= e->term || hears_who_decides(s)) {
        if (s->stage >= STAGE_ENDING && !s->lost)
            control_answer(s, m, MSG_CTL_END, UINT32_MAX, 0, NULL, 0);
        vote_answer(s, m, false);
        return 0;
    }
    if (control_decides(s)) {
        step_down(s);
        look_begin(s, s->node_id, false);
    }
    e->term = m->aux;
    e->stands = false;
    e->voted = now_of(s);
    if (e->looks)
        look_again(e, DD_VOTE_KEPT_MS + turn_ms(s));
    vote_answer(s, m, true);
    return 0;
}

/* A term is newer than ours. */
static void term_heard(struct supervisor *s, uint64_t term) {
    struct election *e = s->election;
    if (term <= e->term)
        return;
    e->term = term;
    e->stands = false;
    if (control_decides(s)) {
        step_down(s);
        look_begin(s, s->node_id, false);
    }
}

int voted_heard(struct supervisor *s, const struct control_said *m) {
    struct election *e = s->election;
    if (!e || !term_makes_sense(s, m->aux))
        return DDICT_EPROTO;
    if (m->manager == 0) {
        term_heard(s, m->aux);
        if (m->from == FROM_PARENT)
            control_parent_undecides(s);
        return 0;
    }
    if (!e->looks || !e->stands || m->aux != e->term)
        return 0;
    int rc = held_map_unpack(s, &e->heard, m->payload, m->len);
    if (rc < 0)
        return rc;
    if (e->heard.term > e->term) /* who says yes to ours has held none of a newer one */
        return DDICT_EPROTO;
    if (map_is_newer(s, &e->heard, &e->best))
        map_state_copy(s, &e->best, &e->heard);
    e->yes[m->node] = true;
    won_check(s);
    return 0;
}

/* --- the map --- */
static void below_begin(struct supervisor *s, const struct control_said *m, uint64_t term) {
    struct election *e = s->election;
    if (control_decides(s))
        step_down(s);
    if (term > e->term || e->looks)
        log_info("node %s decides for all now", node_name(s, m->node));
    e->term = term;
    e->looks = e->stands = false;
    e->voted = 0;
    look_stop(e);
    control_parent_take(s, m);
}

int hold_map_heard(struct supervisor *s, const struct control_said *m) {
    struct election *e = s->election;
    int rc = e ? held_map_unpack(s, &e->heard, m->payload, m->len) : DDICT_EPROTO;
    if (rc < 0)
        return rc;
    if (e->heard.term % s->nodes != m->node || !term_makes_sense(s, e->heard.term))
        return DDICT_EPROTO;
    if (e->heard.term < e->term) {
        vote_answer(s, m, false);
        return 0;
    }
    below_begin(s, m, e->heard.term);
    if (s->stage >= STAGE_ENDING) { /* it holds nothing any more; who decides may not know why */
        if (!s->lost)
            control_answer(s, m, MSG_CTL_DRAIN, s->reason, 0, NULL, 0);
        return 0;
    }
    held_map_take(s, &e->heard);
    struct map_name name = {.term = e->heard.term, .version = e->heard.version};
    control_answer(s, m, MSG_CTL_HELD, UINT32_MAX, 0, &name, sizeof name);
    return 0;
}

int held_heard(struct supervisor *s, const struct control_said *m) {
    struct map_name name;
    if (!s->election)
        return DDICT_EPROTO;
    memcpy(&name, m->payload, sizeof name);
    held_map_held(s, m->node, name);
    return 0;
}

int map_heard(struct supervisor *s, const struct control_said *m) {
    struct map_name name;
    if (!s->election)
        return DDICT_EPROTO;
    memcpy(&name, m->payload, sizeof name);
    if (held_map_counts(s, name)) {
        takeover_below(s);
        owner_map_drops_again(s);
        owner_steps_take(s);
    }
    return 0;
}

int round_heard(struct supervisor *s, const struct control_said *m) {
    struct round_word w;
    if (!s->election)
        return DDICT_EPROTO;
    memcpy(&w, m->payload, sizeof w);
    if (m->from == FROM_CHILD) {
        if (w.term == s->election->term)
            grants_answered(s, m->node, w.round);
    } else if (w.term == s->election->term) {
        control_answer(s, m, MSG_CTL_ROUND, UINT32_MAX, 0, &w, sizeof w);
    } else {
        vote_answer(s, m, false);
    }
    return 0;
}

/* --- we decide --- */
uint64_t election_since(const struct supervisor *s) {
    return s->election ? s->election->since : 0;
}

void election_counts(struct supervisor *s) {
    struct election *e = s->election;
    if (e->counted)
        return;
    e->counted = true;
    coordinator_begin(s);
    takeover_begin(s);
    for (uint32_t i = 0; i < s->nodes; i++)
        if (control_has_child(s, i))
            takeover_child(s, i);
    owner_steps_take(s);
}

/* --- ours --- */
int election_init(struct supervisor *s) {
    struct election *e = s->election = calloc(1, sizeof *e);
    if (!e)
        return -ENOMEM;
    e->s = s;
    e->counted = s->node_id == 0;
    e->timer.fire = look_fire;
    e->yes = calloc(s->nodes, sizeof *e->yes);
    return e->yes && map_state_init(s, &e->best) == 0 && map_state_init(s, &e->heard) == 0
               ? 0
               : -ENOMEM;
}

void election_end(struct supervisor *s) {
    struct election *e = s->election;
    if (!e)
        return;
    look_stop(e);
    map_state_free(&e->best);
    map_state_free(&e->heard);
    free(e->yes);
    free(e);
    s->election = NULL;
}
