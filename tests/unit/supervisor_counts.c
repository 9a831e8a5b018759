/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor_counts.c - how many nodes are ready, drained, at their end, and how many tasks they
 * have, against what each said: said twice, taken back, said of ourselves. */
#include "unit.h"
#include <supervisor/control.h>
#include <supervisor/control_inside.h>
#include <supervisor/coordinator.h>
#include <supervisor/election.h>
#include <supervisor/figures.h>
#include <supervisor/freeze.h>
#include <supervisor/grants.h>
#include <supervisor/life_events.h>
#include <supervisor/record.h>
#include <supervisor/save_passes.h>
#include <supervisor/takeover.h>
#include <supervisor/tasks.h>

#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define NODES 5u
#define TASKS 8u

static struct supervisor s;
static struct control control;
static struct node_state states[NODES];
static unsigned events[EVENT_SEEN_N];
static unsigned ready_sent; /* to the other nodes */
static uint32_t gone;       /* a node that is lost by a map that counts */

/* --- the connections and the record, of which nothing is asked here --- */
int ctl_conns_listen(struct control *c) {
    return -1;
}
int parent_open(struct supervisor *sup, uint32_t node) {
    return -1;
}
void ctl_conn_send(struct ctl_conn *cc, unsigned type, uint32_t manager, uint64_t aux,
                   const void *payload, size_t len) {
}
void ctl_conns_send(struct supervisor *sup, unsigned type, uint32_t manager, uint64_t aux,
                    const char *text) {
    ready_sent += type == MSG_CTL_READY;
}
void lost_send(struct ctl_conn *cc) {
}
void ctl_conns_free_dead(struct control *c) {
}
void grants_begin(struct supervisor *sup) {
}
void cut_off_tell(struct ctl_conn *cc, uint32_t node) {
}
/* no copies: a node that is lost ends the dictionary */
bool coordinator_node_lost(struct supervisor *sup, uint32_t node, uint64_t heard, const char *how) {
    return false;
}
bool coordinator_is_lost(const struct supervisor *sup, uint32_t node) {
    return node == gone;
}
void undecide_tell(struct ctl_conn *cc) {
    cc->dead = true;
}
bool election_begin(struct supervisor *sup, uint32_t node, bool closed) {
    return false;
}
bool grants_valid(const struct supervisor *sup) {
    return true;
}
bool election_steps_down(struct supervisor *sup) {
    return false;
}
void freezes_node_lost(struct supervisor *sup, uint32_t node) {
}
void save_passes_node_lost(struct supervisor *sup, uint32_t node) {
}
void takeover_node_lost(struct supervisor *sup, uint32_t node) {
}
bool takeover_waits(const struct supervisor *sup) {
    return false;
}
bool takeover_note_keep(struct supervisor *sup, const struct note *n) {
    return false;
}
void record_note(struct supervisor *sup, const struct note *n) {
}

static void event_seen(struct supervisor *sup, enum life_event event,
                       const struct drain_wish *wish) {
    events[event]++;
    if (event == EVENT_READY)
        sup->stage = STAGE_READY;
}

static void before(void) {
    memset(&s, 0, sizeof s);
    memset(&control, 0, sizeof control);
    memset(states, 0, sizeof states);
    memset(events, 0, sizeof events);
    ready_sent = 0;
    gone = UINT32_MAX;
    s.nodes = NODES;
    s.control = &control;
    s.opt.tasks = TASKS;
    control.s = &s;
    control.nodes = states;
    life_events_go_to(event_seen);
    ck_assert_int_eq(tasks_init(&s), 0);
}
static void after(void) {
    tasks_end(&s);
    ck_assert_uint_eq(s.timers.n, 0);
    free(s.timers.heap);
}

/* What is deferred to the end of a turn. */
static void turn(void) {
    int fd = epoll_create1(EPOLL_CLOEXEC);
    io_wait(fd, 0);
    close(fd);
}

START_TEST(node_0_is_ready_when_its_word_is_on_the_way) {
    for (uint32_t i = 1; i < NODES; i++)
        control_node_ready(&s, i);
    control_ready(&s);
    ck_assert_uint_eq(ready_sent, 1);
    ck_assert_uint_eq(events[EVENT_READY], 0);
    turn();
    ck_assert_uint_eq(events[EVENT_READY], 1);
    ck_assert_uint_eq(ready_sent, 1);
}
END_TEST

START_TEST(node_0_that_ends_meanwhile_is_not_ready) {
    for (uint32_t i = 1; i < NODES; i++)
        control_node_ready(&s, i);
    control_ready(&s);
    s.stage = STAGE_DRAINING;
    turn();
    ck_assert_uint_eq(events[EVENT_READY], 0);
}
END_TEST

START_TEST(all_are_ready_when_the_last_one_is) {
    for (int again = 0; again < 2; again++)
        for (uint32_t i = 1; i < NODES - 1; i++)
            control_node_ready(&s, i);
    control_ready(&s);
    ck_assert_uint_eq(events[EVENT_READY], 0);
    control_node_ready(&s, NODES - 1);
    control_node_ready(&s, NODES - 1);
    turn();
    ck_assert_uint_eq(events[EVENT_READY], 1);
    ck_assert_uint_eq(ready_sent, 1);
}
END_TEST

START_TEST(our_own_managers_may_be_the_last_ones) {
    for (uint32_t i = 1; i < NODES; i++)
        control_node_ready(&s, i);
    ck_assert_uint_eq(events[EVENT_READY], 0);
    control_ready(&s);
    turn();
    ck_assert_uint_eq(events[EVENT_READY], 1);
}
END_TEST

START_TEST(a_node_that_has_clients_again_is_not_drained) {
    for (uint32_t i = 1; i < NODES; i++) {
        ck_assert(!control_all_drained(&s));
        control_node_drained(&s, i, false);
        control_node_drained(&s, i, true);
        control_node_drained(&s, i, true);
    }
    ck_assert(control_all_drained(&s));
    control_node_drained(&s, 2, false);
    ck_assert(!control_all_drained(&s));
    control_node_drained(&s, 2, true);
    ck_assert(control_all_drained(&s));
}
END_TEST

START_TEST(each_other_node_ends_once_however_it_ends) {
    s.node_id = 2;
    for (int again = 0; again < 2; again++) {
        control_node_ended(&s, 2); /* of ourselves, by a node that lost us */
        control_node_ended(&s, 1);
        child_lost(&s, 3, "silent");
        child_lost(&s, 4, "silent");
        control_node_ended(&s, 4);
    }
    ck_assert(!control_all_ended(&s));
    control_node_ended(&s, 0);
    ck_assert(control_all_ended(&s));
}
END_TEST

START_TEST(who_decides_no_more_forgets_what_others_said_to_it) {
    struct ctl_conn below = {.s = &s, .node = 1, .up = true};
    states[1].child = &below;
    gone = 4;
    for (uint32_t i = 1; i < NODES; i++) {
        control_node_drained(&s, i, true);
        control_node_ended(&s, i);
        states[i].dead = true;
    }
    control_undecide(&s);
    ck_assert(!control_decides(&s) && below.dead && !states[1].child);
    ck_assert(control.drained_n == 1 && control.ended_n == 1);
    for (uint32_t i = 1; i < NODES; i++)
        ck_assert(states[i].drained == (i == 4) && states[i].ended == (i == 4) &&
                  states[i].dead == (i == 4));
}
END_TEST

START_TEST(connections_for_votes_end_with_the_vote) {
    struct ctl_conn before = {.s = &s, .up = true}, by = {.s = &s, .node = 1, .votes = true},
                    asked[2] = {{.s = &s, .node = 1, .votes = true},
                                {.s = &s, .node = 2, .votes = true}};
    struct control_said m = {.node = 1, .by = &by};
    s.node_id = 3;
    control.parent = &before;
    states[1].asks = &asked[0];
    states[2].asks = &asked[1];
    control_parent_take(&s, &m);
    ck_assert(control.parent == &by && !by.votes && !by.dead && before.dead);
    ck_assert(asked[0].dead && asked[1].dead && !states[1].asks && !states[2].asks);
}
END_TEST

START_TEST(the_only_node_waits_for_no_other) {
    s.nodes = 1;
    s.control = NULL;
    ck_assert(control_all_drained(&s) && control_all_ended(&s));
}
END_TEST

/* Armed while no task is here and some never came. */
static bool waits_alone(void) {
    return s.timers.n == 1;
}

START_TEST(tasks_are_over_when_all_came_and_left) {
    s.stage = STAGE_READY;
    tasks_ready(&s);
    ck_assert(waits_alone());
    for (uint32_t i = 1; i < NODES; i++)
        tasks_set(&s, i, 1, 1);
    ck_assert(!waits_alone());
    tasks_set(&s, 1, 4, 0); /* the last word of a node counts */
    for (uint32_t i = 2; i < NODES; i++)
        tasks_set(&s, i, 1, 0);
    ck_assert(waits_alone() && events[EVENT_DRAIN] == 0);
    ck_assert_int_eq(tasks_join(&s, 7), 0);
    ck_assert(!waits_alone() && events[EVENT_DRAIN] == 0);
    ck_assert_int_lt(tasks_join(&s, 7), 0);
    tasks_left(&s);
    ck_assert_uint_eq(events[EVENT_DRAIN], 1);
}
END_TEST

UNIT_MAIN_WITH("supervisor_counts", before, after, node_0_is_ready_when_its_word_is_on_the_way,
               node_0_that_ends_meanwhile_is_not_ready, all_are_ready_when_the_last_one_is,
               our_own_managers_may_be_the_last_ones, a_node_that_has_clients_again_is_not_drained,
               each_other_node_ends_once_however_it_ends, connections_for_votes_end_with_the_vote,
               who_decides_no_more_forgets_what_others_said_to_it, the_only_node_waits_for_no_other,
               tasks_are_over_when_all_came_and_left)
