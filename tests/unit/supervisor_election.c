/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor_election.c - five ddictds in one process, whose messages come late, or never, and which
 * lose each other at random: who decides, and which rows of the map they act on. */
#include "unit.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/shadow.h>
#include <supervisor/control.h>
#include <supervisor/coordinator.h>
#include <supervisor/election.h>
#include <supervisor/grants.h>
#include <supervisor/held_map.h>
#include <supervisor/life_events.h>
#include <supervisor/managers.h>
#include <supervisor/owner_map.h>
#include <supervisor/owner_steps.h>
#include <supervisor/save_passes.h>
#include <supervisor/shadow_tries.h>
#include <supervisor/shadows.h>
#include <supervisor/startup_output.h>
#include <supervisor/takeover.h>
#include <wire/msg.h>

#include <string.h>
#include <sys/epoll.h>

#define MAX_NODES 5u
#define NONE      UINT32_MAX
#define EPOCHS    256u
#define TERMS     4096u
#define QUEUE     64u

struct mail {
    unsigned type;
    uint32_t manager;
    uint64_t aux;
    size_t len;
    char *bytes;
};
static struct supervisor all[MAX_NODES];
static uint32_t nodes, parent[MAX_NODES], decides[MAX_NODES];
static bool child[MAX_NODES][MAX_NODES], asks[MAX_NODES][MAX_NODES], dead[MAX_NODES];
static struct mail queue[MAX_NODES][MAX_NODES][QUEUE]; /* from, to; in order */
static unsigned queued[MAX_NODES][MAX_NODES];
static bool valid[MAX_NODES]; /* its lease */
/* what was seen */
static struct sup_msg acted[MAX_NODES][EPOCHS];
static uint32_t decided[TERMS];
static unsigned took_over, rows_acted, lost_n, stage_told, elected, began_tries;
static uint64_t seed;

/* Of all objects of this test (-Wl,--wrap=calloc,--wrap=realloc). */
static bool no_memory;
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) {
    return no_memory ? NULL : __real_calloc(n, size);
}
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size) {
    return no_memory ? NULL : __real_realloc(old, size);
}

static unsigned pick(unsigned n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

/* --- messages --- */
static void post(uint32_t from, uint32_t to, unsigned type, uint32_t manager, uint64_t aux,
                 const void *bytes, size_t len) {
    struct mail *m = &queue[from][to][queued[from][to]];
    if (dead[from] || dead[to] || queued[from][to] == QUEUE)
        return;
    *m = (struct mail){type, manager, aux, len, malloc(len + 1)};
    if (len)
        memcpy(m->bytes, bytes, len);
    queued[from][to]++;
}
static void pair_forget(uint32_t a, uint32_t b) {
    while (queued[a][b])
        free(queue[a][b][--queued[a][b]].bytes);
}

void control_ask(struct supervisor *s, uint32_t node) {
    if (dead[node] || asks[s->node_id][node])
        return;
    asks[s->node_id][node] = true;
    election_connected(s, node);
}
void control_ask_send(struct supervisor *s, uint32_t node, unsigned type, uint64_t aux) {
    if (asks[s->node_id][node])
        post(s->node_id, node, type, NONE, aux, NULL, 0);
}
void control_answer(struct supervisor *s, const struct control_said *to, unsigned type,
                    uint32_t manager, uint64_t aux, const void *bytes, size_t len) {
    post(s->node_id, to->node, type, manager, aux, bytes, len);
}
void control_map(struct supervisor *s, uint32_t to, unsigned type, const void *bytes, size_t len) {
    for (uint32_t i = 0; i < nodes; i++)
        if (child[s->node_id][i] && (to == CONTROL_CHILDREN || to == i))
            post(s->node_id, i, type, NONE, 0, bytes, len);
}
void control_child_take(struct supervisor *s, uint32_t node) {
    child[s->node_id][node] = true;
    asks[s->node_id][node] = false;
}
void control_decide(struct supervisor *s) {
    uint64_t term = s->election->term;
    ck_assert_uint_lt(term, TERMS);
    ck_assert_uint_eq(decided[term], NONE); /* one in each term */
    ck_assert_uint_eq(term % nodes, s->node_id);
    elected++;
    decided[term] = decides[s->node_id] = s->node_id;
    parent[s->node_id] = NONE;
    for (uint32_t i = 0; i < nodes; i++)
        if (asks[s->node_id][i])
            control_child_take(s, i);
}
void control_parent_undecides(struct supervisor *s) {
    uint32_t was = parent[s->node_id];
    if (was == NONE)
        return;
    parent[s->node_id] = NONE;
    child[was][s->node_id] = false;
    election_begin(s, was, false);
}
void control_undecide(struct supervisor *s) {
    for (uint32_t i = 0; i < nodes; i++)
        if (child[s->node_id][i])
            post(s->node_id, i, MSG_CTL_VOTED, 0, s->election->term, NULL, 0);
    decides[s->node_id] = NONE;
    memset(child[s->node_id], 0, sizeof child[s->node_id]);
}
bool control_decides(const struct supervisor *s) {
    return decides[s->node_id] == s->node_id;
}
bool control_has_child(const struct supervisor *s, uint32_t node) {
    return child[s->node_id][node];
}
void control_parent_take(struct supervisor *s, const struct control_said *m) {
    uint32_t was = parent[s->node_id];
    if (was != NONE && was != m->node)
        child[was][s->node_id] = false;
    parent[s->node_id] = decides[s->node_id] = m->node;
}
bool control_parent_heard(struct supervisor *s) {
    return parent[s->node_id] != NONE && pick(4);
}
void control_node_lost(struct supervisor *s, uint32_t node, uint64_t heard, const char *how) {
    coordinator_node_lost(s, node, heard, how);
}
void control_orphan(struct supervisor *s) {
}
void control_drop(struct supervisor *s, uint32_t owner, uint64_t epoch, const char *why) {
}
void control_note(struct supervisor *s, const struct note *n) {
}
bool grants_valid(const struct supervisor *s) {
    return valid[s->node_id];
}
void grants_decide(struct supervisor *s) {
    valid[s->node_id] = true;
}
void grants_answered(struct supervisor *s, uint32_t node, uint32_t round) {
}
const char *node_name(const struct supervisor *s, uint32_t id) {
    return "n";
}
void startup_print(const char *fmt, ...) {
}
void save_passes_served(struct supervisor *s) {
}
void supervisor_lost(struct supervisor *s, const char *fmt, ...) {
    s->lost = true;
    lost_n++;
}
void takeover_begin(struct supervisor *s) {
    ck_assert_uint_eq(began_tries, elected);
    took_over++;
}
void takeover_below(struct supervisor *s) {
}
void takeover_child(struct supervisor *s, uint32_t node) {
}
void control_stage_tell(struct supervisor *s, uint32_t node) {
    stage_told++;
}
void shadows_look(struct supervisor *s) {
}
void shadow_try_failed(struct supervisor *s, uint32_t owner, const char *why) {
}
void owner_steps_take(struct supervisor *s) {
}
void owner_steps_decide(struct supervisor *s) {
    ck_assert(control_decides(s) && !s->held->waits);
    began_tries++;
}
void manager_send(struct local_manager *mgr, const struct sup_msg *m, const int *fds, int nfds) {
}

/* A row is acted on: no other one of this epoch is, anywhere. */
void processes_send(struct supervisor *s, const struct sup_msg *m) {
    struct sup_msg *first = &acted[m->id][m->count % EPOCHS];
    ck_assert_uint_lt(m->count, EPOCHS);
    rows_acted++;
    if (first->count)
        ck_assert(first->pid == m->pid && first->room == m->room && first->status == m->status);
    *first = *m;
}

/* --- what happens --- */
static void deliver(uint32_t from, uint32_t to) {
    struct supervisor *s = &all[to];
    if (!queued[from][to])
        return;
    struct mail m = queue[from][to][0];
    memmove(queue[from][to], queue[from][to] + 1, --queued[from][to] * sizeof m);
    struct control_said said = {.from = parent[to] == from ? FROM_PARENT : FROM_CHILD,
                                .node = from,
                                .manager = m.manager,
                                .aux = m.aux,
                                .payload = m.bytes,
                                .len = m.len};
    if (held_map_lost(s, from))
        ;
    else if (m.type == MSG_CTL_VOTE)
        ck_assert_int_eq(vote_heard(s, &said), 0);
    else if (m.type == MSG_CTL_VOTED)
        ck_assert_int_eq(voted_heard(s, &said), 0);
    else if (m.type == MSG_CTL_HOLD_MAP)
        ck_assert_int_eq(hold_map_heard(s, &said), 0);
    else if (m.type == MSG_CTL_HELD && child[to][from] && control_decides(s))
        ck_assert_int_eq(held_heard(s, &said), 0);
    else if (m.type == MSG_CTL_MAP && parent[to] == from)
        ck_assert_int_eq(map_heard(s, &said), 0);
    free(m.bytes);
}

/* Its connection to who decides breaks. */
static void part(uint32_t node) {
    uint32_t was = parent[node];
    if (was == NONE)
        return;
    parent[node] = NONE;
    child[was][node] = false;
    election_begin(&all[node], was, pick(2));
}

/* A child of it is lost. */
static void child_part(uint32_t node) {
    struct supervisor *s = &all[node];
    uint32_t who = pick(nodes);
    if (!control_decides(s) || !child[node][who])
        return;
    child[node][who] = false;
    if (!election_steps_down(s))
        control_node_lost(s, who, timers_now(&s->timers), "x");
}

static void row_change(uint32_t node) {
    struct supervisor *s = &all[node];
    uint32_t owner = pick(nodes);
    if (!control_decides(s))
        return;
    struct owner_place to = *owner_map_next(s, owner);
    to.backup = shadow_on(&s->deal, owner, (to.primary + 1 + pick(nodes - 1)) % nodes);
    to.backup_port = 0;
    to.whole = pick(2);
    if (to.epoch + 2 < EPOCHS)
        owner_map_change(s, owner, &to, NULL);
}

static void step(void) {
    uint32_t a = pick(nodes);
    struct supervisor *s = &all[a];
    unsigned what = pick(1000);
    if (dead[a])
        return;
    if (what < 900)
        deliver(pick(nodes), a);
    else if (what < 930 && s->timers.n)
        timers_run(&s->timers, timers_next(&s->timers));
    else if (what < 934)
        part(a);
    else if (what < 936)
        child_part(a);
    else if (what < 938)
        valid[a] = !valid[a];
    else if (what < 945)
        s->election->voted = 0;
    else if (what < 975)
        row_change(a);
    else if (what < 980)
        election_look(s);
    else
        pair_forget(pick(nodes), a);
    io_wait(s->epoll_fd, 0); /* what was deferred */
}

static void begin(uint32_t n, uint64_t with) {
    nodes = n;
    seed = with;
    elected = began_tries = 0;
    memset(all, 0, sizeof all);
    memset(child, 0, sizeof child);
    memset(asks, 0, sizeof asks);
    memset(dead, 0, sizeof dead);
    memset(acted, 0, sizeof acted);
    memset(decided, 0xff, sizeof decided);
    decided[0] = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        struct supervisor *s = &all[i];
        s->node_id = i;
        s->nodes = s->managers = nodes;
        s->deal = deal_known(nodes, nodes, nodes);
        s->opt.replicas = 2;
        s->stage = STAGE_READY;
        s->timers.looked_ns = clock_ns();
        s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        ck_assert_int_eq(owner_map_init(s), 0);
        ck_assert_int_eq(held_map_init(s), 0);
        ck_assert_int_eq(election_init(s), 0);
        ck_assert_int_eq(coordinator_init(s), 0);
        valid[i] = true;
        decides[i] = 0;
        parent[i] = i ? 0 : NONE;
        child[0][i] = i != 0;
    }
}

static void end(void) {
    for (uint32_t i = 0; i < nodes; i++) {
        struct supervisor *s = &all[i];
        for (uint32_t j = 0; j < nodes; j++)
            pair_forget(i, j);
        coordinator_end(s);
        election_end(s);
        held_map_end(s);
        free(s->owner_map);
        ck_assert_uint_eq(s->timers.n, 0);
        timers_free(&s->timers);
        close(s->epoll_fd);
    }
}

static void everything(unsigned n) {
    for (unsigned k = 0; k < n; k++) {
        for (uint32_t a = 0; a < nodes; a++)
            for (uint32_t b = 0; b < nodes; b++)
                deliver(a, b);
        for (uint32_t a = 0; a < nodes; a++)
            io_wait(all[a].epoll_fd, 0);
    }
}

START_TEST(whatever_comes_late_or_never_nobody_acts_on_two_maps) {
    took_over = rows_acted = 0;
    for (unsigned run = 0; run < 150; run++) {
        begin(3 + run % 3, run + 1);
        for (unsigned i = 0; i < 3000; i++)
            step();
        end();
    }
    ck_assert_uint_gt(took_over, 100);
    ck_assert_uint_gt(rows_acted, 1000);
}
END_TEST

static void kill_node(uint32_t node) {
    dead[node] = true;
    for (uint32_t i = 0; i < nodes; i++) {
        pair_forget(i, node);
        pair_forget(node, i);
        asks[i][node] = false;
        if (parent[i] == node && !dead[i]) {
            parent[i] = NONE;
            election_begin(&all[i], node, true);
        }
    }
}

static void timers_fire(uint32_t node, unsigned n) {
    struct supervisor *s = &all[node];
    for (unsigned i = 0; i < n && s->timers.n; i++) {
        timers_run(&s->timers, timers_next(&s->timers));
        everything(8);
    }
}

START_TEST(one_after_the_other_is_lost_until_two_are_left) {
    begin(5, 1);
    for (uint32_t gone = 0; gone < 3; gone++) {
        kill_node(gone);
        timers_fire(gone + 1, 1);
        ck_assert(control_decides(&all[gone + 1]));
        all[gone + 1].election->since -= 2000 * 1000000ull; /* its time to appear is over */
        timers_fire(gone + 1, 1);
        ck_assert(held_map_lost(&all[4], gone)); /* ... and that counts */
        ck_assert(all[gone + 1].election->counted);
    }
    /* 3 and 4: the one that decides is the only voter */
    ck_assert(!election_can_lose(&all[4], 3));
    ck_assert(!election_begin(&all[4], 3, true));
    end();
}
END_TEST

/* Node 1 decides; node 3 does not answer it for a while. */
static bool is_lost_within(uint32_t node, unsigned ms) {
    struct supervisor *s = &all[1];
    s->election->since -= ms * 1000000ull;
    timers_fire(1, 1);
    return held_map_lost(s, node);
}

START_TEST(a_node_with_the_only_copy_is_awaited_longer) {
    for (int only = 0; only < 2; only++) {
        begin(5, 1);
        for (uint32_t i = 0; i < nodes; i++) {
            all[i].opt.refill = true;
            all[i].held->held.rows[3].backup = all[i].owner_map[3].backup =
                only ? SHADOW_NONE : all[i].owner_map[3].backup;
        }
        dead[3] = true; /* as the others see it */
        kill_node(0);
        timers_fire(1, 1);
        ck_assert(control_decides(&all[1]) && all[1].election->counted);
        ck_assert(!is_lost_within(3, DD_LEASE_WAIT_MS - 1000));
        ck_assert(is_lost_within(3, 1000) == !only);
        ck_assert(is_lost_within(3, DD_PEER_LOST_MS - DD_LEASE_WAIT_MS));
        end();
    }
}
END_TEST

START_TEST(a_node_that_ends_holds_no_map) {
    for (int lost = 0; lost < 2; lost++) {
        begin(3, 1);
        kill_node(0);
        timers_fire(1, 1);
        ck_assert(control_decides(&all[1]) && !queued[2][1]);
        all[2].stage = STAGE_ENDING;
        all[2].lost = lost;
        held_map_tell(&all[1], 2);
        deliver(1, 2);
        ck_assert_uint_eq(queued[2][1], !lost);
        ck_assert(lost || (queue[2][1][0].type == MSG_CTL_DRAIN && queue[2][1][0].aux == 0));
        end();
    }
}
END_TEST

/* Its process lives: it has as long as all to appear again. */
START_TEST(who_steps_down_is_not_taken_for_one_that_ended) {
    begin(4, 1);
    valid[0] = false;
    child[0][1] = false;
    child[0][2] = false;
    election_look(&all[0]);
    ck_assert(!control_decides(&all[0]));
    deliver(0, 3);
    ck_assert(parent[3] == NONE && all[3].election->looks && !all[3].election->closed);
    end();
}
END_TEST

START_TEST(an_absurd_term_locks_nobody_out) {
    size_t len;
    uint64_t absurd = UINT64_MAX - UINT64_MAX % 3 - 2; /* of node 1 */
    begin(3, 1);
    part(2);
    struct map_state *of = &all[1].election->best;
    map_state_copy(&all[1], of, &all[1].held->held);
    of->term = absurd;
    char *bytes = held_map_pack(&all[1], of, &len);
    struct control_said m = {.node = 1, .aux = absurd};
    ck_assert_int_eq(vote_heard(&all[2], &m), DDICT_EPROTO);
    ck_assert_int_eq(voted_heard(&all[2], &m), DDICT_EPROTO); /* no, by a newer one */
    m.payload = bytes;
    m.len = len;
    ck_assert_int_eq(hold_map_heard(&all[2], &m), DDICT_EPROTO);
    timers_fire(2, 1);
    m.manager = 1;
    m.aux = all[2].election->term;
    all[2].election->looks = all[2].election->stands = true;
    ck_assert_int_eq(voted_heard(&all[2], &m), DDICT_EPROTO); /* yes, with such a map */
    ck_assert_uint_lt(all[2].election->term, 100);
    m.manager = 0;
    m.aux = all[2].election->term - all[2].election->term % 3 + 1 + 3 * 1000;
    ck_assert_int_eq(vote_heard(&all[2], &m), 0); /* of one that missed some */
    free(bytes);
    end();
}
END_TEST

static void backup_drop(uint32_t owner) {
    struct owner_place to = *owner_map_next(&all[0], owner);
    to.backup = SHADOW_NONE;
    owner_map_change(&all[0], owner, &to, NULL);
}

START_TEST(a_map_that_was_not_heard_is_told_again) {
    begin(3, 1);
    backup_drop(1);
    no_memory = true; /* when it is to be sent */
    everything(8);
    no_memory = false;
    everything(8);
    ck_assert_uint_eq(all[0].owner_map[1].epoch, 1);
    election_look(&all[0]);
    everything(8);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(all[i].owner_map[1].epoch, 2);
    backup_drop(2);
    io_wait(all[0].epoll_fd, 0);
    pair_forget(0, 2);
    everything(8);
    ck_assert(all[0].owner_map[2].epoch == 2 && all[2].owner_map[2].epoch == 1);
    election_look(&all[0]);
    everything(8);
    ck_assert_uint_eq(all[2].owner_map[2].epoch, 2);
    election_look(&all[0]); /* all hold it: nobody is told */
    ck_assert(queued[0][1] == 0 && queued[0][2] == 0);
    end();
}
END_TEST

START_TEST(without_memory_for_a_timer_the_next_beat_goes_on) {
    begin(3, 1);
    no_memory = true;
    kill_node(0);
    ck_assert(all[1].election->looks && all[1].timers.n == 0);
    election_look(&all[1]); /* stands, and asks again in the next beat */
    ck_assert(all[1].election->stands && all[1].timers.n == 0);
    no_memory = false;
    everything(8);
    ck_assert(control_decides(&all[1]));
    end();
}
END_TEST

/* Two of four are lost before the map without the first counts: 0 hears 3, and steps down. */
START_TEST(who_decides_and_has_lost_too_many_steps_down) {
    begin(4, 1);
    valid[0] = false;
    for (uint32_t i = 1; i < 3; i++) {
        election_look(&all[0]);
        ck_assert(control_decides(&all[0]));
        child[0][i] = false;
        dead[i] = true;
    }
    valid[0] = true; /* it may be answered yet */
    election_look(&all[0]);
    ck_assert(control_decides(&all[0]));
    valid[0] = false;
    election_look(&all[0]);
    ck_assert(!control_decides(&all[0]) && all[0].election->looks);
    end();
}
END_TEST

START_TEST(a_node_that_comes_late_is_told_of_the_end) {
    begin(3, 1);
    kill_node(0);
    timers_fire(1, 1);
    ck_assert(control_decides(&all[1]));
    stage_told = 0;
    election_connected(&all[1], 2);
    ck_assert_uint_eq(stage_told, 1);
    everything(8);
    /* one that has not heard END, and looks */
    part(2);
    all[1].stage = STAGE_ENDING;
    struct control_said m = {.node = 2, .aux = all[2].election->term + 5};
    m.aux -= m.aux % 3 - 2;
    while (m.aux <= all[1].election->term)
        m.aux += 3;
    ck_assert_int_eq(vote_heard(&all[1], &m), 0);
    ck_assert_uint_eq(queue[1][2][queued[1][2] - 2].type, MSG_CTL_END);
    all[1].lost = true;
    ck_assert_int_eq(vote_heard(&all[1], &m), 0);
    ck_assert_uint_eq(queue[1][2][queued[1][2] - 2].type, MSG_CTL_VOTED);
    end();
}
END_TEST

START_TEST(without_a_majority_nobody_decides_and_all_say_so) {
    begin(5, 1);
    kill_node(0);
    kill_node(1);
    kill_node(2);
    lost_n = 0;
    for (unsigned i = 0; i < 8; i++) {
        timers_fire(3, 1);
        timers_fire(4, 1);
    }
    ck_assert(!control_decides(&all[3]) && !control_decides(&all[4]) && lost_n == 0);
    for (uint32_t i = 3; i < 5; i++) {
        all[i].election->began -= (DD_VOTE_LOST_MS + 1) * 1000000ull;
        timers_fire(i, 1);
    }
    ck_assert(lost_n == 2 && all[3].lost && all[4].lost);
    end();
}
END_TEST

START_TEST(what_makes_no_sense_is_refused) {
    begin(3, 1);
    struct control_said m = {.node = 1, .aux = 3, .payload = "", .len = 0};
    ck_assert_int_eq(vote_heard(&all[2], &m), DDICT_EPROTO); /* a term of node 0 */
    ck_assert_int_eq(hold_map_heard(&all[2], &m), DDICT_EPROTO);
    size_t len;
    char *bytes = held_map_pack(&all[0], &all[0].held->held, &len);
    m.payload = bytes;
    m.len = len;
    ck_assert_int_eq(hold_map_heard(&all[2], &m), DDICT_EPROTO); /* of a term of node 0 */
    m.node = 0;
    ck_assert_int_eq(hold_map_heard(&all[2], &m), 0);
    m.len = len - 1;
    ck_assert_int_eq(hold_map_heard(&all[2], &m), DDICT_EPROTO);
    m.len = len;
    uint32_t home[2] = {0, shadow_on(&all[0].deal, 0, 0)}; /* a backup on its primary's node */
    memcpy(bytes + 24, home, sizeof home);
    ck_assert_int_eq(hold_map_heard(&all[2], &m), DDICT_EPROTO);
    home[1] = SHADOW_NONE;
    memcpy(bytes + 24, home, sizeof home);
    ck_assert_int_eq(hold_map_heard(&all[2], &m), 0);
    memset(bytes + 24, 0xff, 4); /* a primary that is none */
    ck_assert_int_eq(hold_map_heard(&all[2], &m), DDICT_EPROTO);
    free(bytes);
    end();
}
END_TEST

UNIT_MAIN("supervisor_election", whatever_comes_late_or_never_nobody_acts_on_two_maps,
          one_after_the_other_is_lost_until_two_are_left, a_map_that_was_not_heard_is_told_again,
          without_memory_for_a_timer_the_next_beat_goes_on,
          a_node_with_the_only_copy_is_awaited_longer, who_decides_and_has_lost_too_many_steps_down,
          who_steps_down_is_not_taken_for_one_that_ended, a_node_that_ends_holds_no_map,
          an_absurd_term_locks_nobody_out, a_node_that_comes_late_is_told_of_the_end,
          without_a_majority_nobody_decides_and_all_say_so, what_makes_no_sense_is_refused)
