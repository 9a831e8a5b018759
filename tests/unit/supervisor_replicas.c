/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor_replicas.c - the map of owners, what the loss of a node makes of it, and leases: three
 * nodes, of which manager 3 is a second one on node 0. */
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
#include <supervisor/status_page.h>
#include <wire/msg.h>

#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#define NODES    3u
#define MANAGERS 4u
#define MS       1000000ull

static struct supervisor s;
static struct local_manager local;
static struct manager_page page;
static unsigned told, mapped, dropped, noted, lost, served, suspends;
static bool suspended;
static size_t note_len;
static unsigned told_before, rounds, tries_failed;
static uint32_t granted[NODES];
static uint64_t since;
static struct election vote;

/* --- who is told --- */
void processes_send(struct supervisor *sup, const struct sup_msg *m) {
    told += m->type == SUP_MAP;
}
void manager_send(struct local_manager *mgr, const struct sup_msg *m, const int *fds, int nfds) {
    told++;
    ck_assert_uint_eq(m->type, SUP_MAP);
    ck_assert_uint_gt(m->count, 1);
}
void shadow_try_failed(struct supervisor *sup, uint32_t owner, const char *why) {
    tries_failed++;
}
void owner_steps_take(struct supervisor *sup) {
}
void shadows_look(struct supervisor *sup) {
}
bool control_has_child(const struct supervisor *sup, uint32_t node) {
    return false;
}
void control_map(struct supervisor *sup, uint32_t to, unsigned type, const void *bytes,
                 size_t len) {
    mapped += type == MSG_CTL_MAP;
    rounds += type == MSG_CTL_ROUND;
    if (type == MSG_CTL_MAP)
        ck_assert_uint_eq(told, told_before); /* the others first */
}
void control_grant(struct supervisor *sup, uint32_t node, uint32_t number) {
    granted[node] = number;
}
void election_counts(struct supervisor *sup) {
}
uint64_t election_since(const struct supervisor *sup) {
    return since;
}
bool control_decides(const struct supervisor *sup) {
    return sup->node_id == 0;
}
void control_drop(struct supervisor *sup, uint32_t owner, uint64_t epoch, const char *why) {
    dropped++;
}
void control_note(struct supervisor *sup, const struct note *n) {
    noted++;
    note_len = strlen(n->text);
}
const char *node_name(const struct supervisor *sup, uint32_t id) {
    return "n";
}
void startup_print(const char *fmt, ...) {
}
void save_passes_served(struct supervisor *sup) {
    served++;
}
void supervisor_lost(struct supervisor *sup, const char *fmt, ...) {
    lost++;
}
void status_page_lease(struct supervisor *sup, uint64_t until, bool to) {
    suspends += suspended != to;
    suspended = to;
}

static void before(void) {
    memset(&s, 0, sizeof s);
    memset(&local, 0, sizeof local);
    memset(&page, 0, sizeof page);
    told = mapped = dropped = noted = lost = served = suspends = 0;
    told_before = rounds = tries_failed = 0;
    since = 0;
    memset(granted, 0, sizeof granted);
    memset(&vote, 0, sizeof vote);
    suspended = false;
    s.nodes = NODES;
    s.managers = MANAGERS;
    s.deal = deal_known(MANAGERS, NODES, NODES);
    s.opt.replicas = 2;
    s.timers.looked_ns = clock_ns(); /* not 0: some time is over */
    s.stage = STAGE_READY;
    s.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    local.s = &s;
    local.page = &page;
    s.local = s.shadows = &local;
    s.local_n = 1;
    ck_assert_int_eq(owner_map_init(&s), 0);
    ck_assert_int_eq(held_map_init(&s), 0);
    s.election = &vote;
    ck_assert_int_eq(coordinator_init(&s), 0);
}
static void after(void) {
    coordinator_end(&s);
    grants_end(&s);
    held_map_end(&s);
    free(s.owner_map);
    ck_assert_uint_eq(s.timers.n, 0);
    timers_free(&s.timers);
    close(s.epoll_fd);
}

/* A map with that row comes, and counts. */
static int heard(uint32_t owner, uint32_t primary, uint32_t backup, uint64_t epoch) {
    struct map_state m;
    size_t len;
    s.held->held.version++;
    struct owner_place *row = &s.held->held.rows[owner], was = *row;
    *row = (struct owner_place){.primary = primary, .backup = backup, .epoch = epoch};
    char *bytes = held_map_pack(&s, &s.held->held, &len);
    *row = was;
    ck_assert_int_eq(map_state_init(&s, &m), 0);
    int rc = held_map_unpack(&s, &m, bytes, len);
    if (rc == 0) {
        struct map_name name = {.term = m.term, .version = m.version};
        held_map_take(&s, &m);
        held_map_counts(&s, name);
    }
    map_state_free(&m);
    free(bytes);
    return rc;
}

/* What was decided is held by node 1 or 2, too. */
static void agree(uint32_t node) {
    told_before = told;
    io_wait(s.epoll_fd, 0);
    while (s.held->waits) {
        struct map_name name = {.term = s.held->held.term, .version = s.held->held.version};
        held_map_held(&s, node, name);
        told_before = told;
        io_wait(s.epoll_fd, 0);
    }
}

/* --- the map --- */
START_TEST(a_row_that_is_newer_counts) {
    uint32_t shadow = shadow_of(&s.deal, 1);
    ck_assert_uint_eq(s.owner_map[1].primary, 1);
    ck_assert_uint_eq(s.owner_map[1].backup, shadow);
    ck_assert_int_eq(heard(1, shadow, SHADOW_NONE, 3), 0);
    ck_assert_uint_eq(s.owner_map[1].primary, shadow);
    ck_assert_uint_eq(told, 1);
    ck_assert_int_eq(heard(1, 1, SHADOW_NONE, 3), 0);
    ck_assert_int_eq(heard(1, 1, shadow, 2), 0);
    ck_assert_uint_eq(s.owner_map[1].primary, shadow);
    ck_assert_uint_eq(told, 1);
    owner_map_tell(&local);
    ck_assert_uint_eq(told, 2); /* that row alone */
}
END_TEST

START_TEST(a_row_that_makes_no_sense_is_refused) {
    ck_assert_int_eq(heard(1, 2, SHADOW_NONE, 3), DDICT_EPROTO); /* of another owner */
    ck_assert_int_eq(heard(1, shadow_of(&s.deal, 2), SHADOW_NONE, 3), DDICT_EPROTO);
    ck_assert_int_eq(heard(1, shadow_end(&s.deal), SHADOW_NONE, 3), DDICT_EPROTO);
    ck_assert_int_eq(heard(1, 1, shadow_end(&s.deal), 3), DDICT_EPROTO);
    struct map_state m = {.term = 0};
    ck_assert_int_eq(held_map_unpack(&s, &m, "", 0), DDICT_EPROTO);
    ck_assert_uint_eq(told, 0);
}
END_TEST

START_TEST(a_backup_is_dropped_once_and_in_its_epoch) {
    owner_map_backup_lost(&s, 2, 7, "no");
    ck_assert_uint_eq(mapped, 0);
    owner_map_backup_lost(&s, 2, 1, "why");
    owner_map_backup_lost(&s, 2, 1, "why");
    owner_map_backup_lost(&s, 2, 2, "why");
    ck_assert_uint_eq(owner_map_next(&s, 2)->backup, SHADOW_NONE);
    io_wait(s.epoll_fd, 0);
    ck_assert(s.owner_map[2].epoch == 1 && mapped == 0 && told == 0); /* we alone hold it */
    agree(1);
    ck_assert_uint_eq(s.owner_map[2].backup, SHADOW_NONE);
    ck_assert_uint_eq(s.owner_map[2].primary, 2);
    ck_assert_uint_eq(s.owner_map[2].epoch, 2);
    ck_assert(mapped == 1 && told == 1 && noted == 1 && dropped == 0);
}
END_TEST

START_TEST(other_nodes_ask_node_0) {
    s.node_id = 1;
    owner_map_backup_lost(&s, 2, 1, "why");
    ck_assert(dropped == 1 && mapped == 0 && told == 0);
    ck_assert_uint_eq(s.owner_map[2].epoch, 1);
    ck_assert(owner_is_ours(&s, 1) && !owner_is_ours(&s, 0));
    s.owner_map[0].primary = shadow_of(&s.deal, 0);
    ck_assert(owner_is_ours(&s, 0));
}
END_TEST

START_TEST(a_sentence_with_that_of_another_node_is_noted_as_a_whole) {
    char why[OWNER_MAP_WHY + 192];
    struct owner_place to = *owner_map_next(&s, 2);
    memset(why, 'x', sizeof why);
    why[sizeof why - 1] = 0;
    owner_map_change(&s, 2, &to, why);
    ck_assert_uint_eq(note_len, sizeof why - 1);
}
END_TEST

/* --- a node is lost --- */
static bool lose(uint32_t node, uint64_t heard_ago_ms) {
    return coordinator_node_lost(&s, node, timers_now(&s.timers) - heard_ago_ms * MS, "silent");
}

START_TEST(backups_go_at_once_and_primaries_when_the_lease_is_over) {
    ck_assert(coordinator_can_lose(&s, 1));
    ck_assert(lose(1, 1000));
    agree(2);
    ck_assert(coordinator_is_lost(&s, 1) && !coordinator_all_served(&s));
    /* of managers 0 and 3 the shadows are on node 1 */
    ck_assert(s.owner_map[0].backup == SHADOW_NONE && s.owner_map[3].backup == SHADOW_NONE);
    ck_assert_uint_eq(s.owner_map[1].primary, 1);
    uint64_t over = timers_next(&s.timers), now = timers_now(&s.timers);
    ck_assert_uint_le(over, now + (DD_LEASE_WAIT_MS - 1000) * MS);
    ck_assert_uint_gt(over, now + (DD_LEASE_WAIT_MS - 1500) * MS);
    timers_run(&s.timers, over - 1);
    ck_assert(s.owner_map[1].primary == 1 && served == 0);
    timers_run(&s.timers, over);
    agree(2);
    ck_assert_uint_eq(s.owner_map[1].primary, shadow_of(&s.deal, 1));
    ck_assert_uint_eq(s.owner_map[1].backup, SHADOW_NONE);
    ck_assert_uint_eq(s.owner_map[1].epoch, 2);
    ck_assert(served == 1 && coordinator_all_served(&s) && lost == 0);
    ck_assert(!coordinator_can_lose(&s, 2)); /* it has the only copy of those of manager 1 */
    ck_assert(!lose(2, 0));
}
END_TEST

START_TEST(a_lease_that_is_long_over_is_not_awaited) {
    ck_assert(lose(2, DD_LEASE_WAIT_MS + 1000));
    timers_run(&s.timers, timers_now(&s.timers) + 1);
    agree(1);
    ck_assert_uint_eq(s.owner_map[2].primary, shadow_of(&s.deal, 2));
}
END_TEST

START_TEST(who_was_elected_awaits_all_leases) {
    since = timers_now(&s.timers);
    ck_assert(lose(2, DD_LEASE_WAIT_MS + 1000));
    ck_assert_uint_ge(timers_next(&s.timers), since + DD_LEASE_WAIT_MS * MS);
    timers_run(&s.timers, timers_next(&s.timers));
    ck_assert_uint_eq(owner_map_next(&s, 2)->primary, shadow_of(&s.deal, 2));
}
END_TEST

START_TEST(nothing_is_lost_before_all_are_ready_or_without_a_copy) {
    s.stage = STAGE_STARTING;
    ck_assert(!lose(1, 0));
    s.stage = STAGE_READY;
    owner_map_backup_lost(&s, 1, 1, "why");
    ck_assert(!lose(1, 0));
    ck_assert(lose(2, 0)); /* of manager 2 there is one on node 0 */
}
END_TEST

START_TEST(a_backup_that_is_given_up_meanwhile_ends_it) {
    ck_assert(lose(1, 0));
    owner_map_backup_lost(&s, 1, 1, "why");
    timers_run(&s.timers, timers_next(&s.timers));
    ck_assert(lost == 1 && served == 0);
}
END_TEST

START_TEST(a_copy_that_takes_over_while_sources_are_read_keeps_what_it_has) {
    s.opt.refill = true;
    struct owner_place row = *owner_map_next(&s, 1);
    row.keys = OWNER_REFILLING;
    owner_map_change(&s, 1, &row, NULL);
    agree(2);
    ck_assert(lose(1, 0));
    timers_run(&s.timers, timers_next(&s.timers));
    agree(2);
    ck_assert(s.owner_map[1].keys == OWNER_READ_ON && s.owner_map[1].primary % s.nodes != 1);
}
END_TEST

START_TEST(with_refill_keys_without_a_copy_are_lost_and_begin_anew) {
    s.opt.refill = true;
    owner_map_backup_lost(&s, 1, 1, "why");
    ck_assert(coordinator_can_lose(&s, 1) && !coordinator_can_spare(&s, 1));
    ck_assert(coordinator_can_spare(&s, 2));
    ck_assert(lose(1, 0));
    timers_run(&s.timers, timers_next(&s.timers));
    agree(2);
    const struct owner_place *row = &s.owner_map[1];
    ck_assert(row->keys == OWNER_LOST && row->lost_node == 1 && row->primary == 1);
    ck_assert(lost == 0 && !coordinator_all_served(&s));
    uint64_t epoch = owner_map_next(&s, 1)->epoch;
    owner_map_lose(&s, 1, "again");
    ck_assert_uint_eq(owner_map_next(&s, 1)->epoch, epoch);
    struct owner_place to = *row; /* the process that was to begin anew is lost: another is tried */
    to.backup = shadow_on(&s.deal, 1, 2);
    owner_map_change(&s, 1, &to, NULL);
    owner_map_backup_lost(&s, 1, owner_map_next(&s, 1)->epoch, "it died");
    ck_assert_uint_eq(tries_failed, 1);
}
END_TEST

/* --- leases --- */
static uint64_t boot(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

static void grants_open(void) {
    s.node_id = 1;
    s.stage = STAGE_STARTING;
    ck_assert_int_eq(grants_init(&s), 0);
    grants_page(&local);
    ck_assert_uint_eq(page.lease, UINT64_MAX); /* before its managers are ready */
    grants_begin(&s);
}

START_TEST(a_lease_counts_from_when_the_beat_was_sent) {
    grants_open();
    ck_assert_uint_eq(page.lease, s.grants->lease);
    s.stage = STAGE_READY;
    grants_ready(&s);
    uint64_t now = boot(), first = page.lease;
    ck_assert(first <= now + DD_LEASE_MS * MS && first > now + (DD_LEASE_MS - 500) * MS);
    ck_assert_uint_eq(grants_beat(&s), 1);
    ck_assert_uint_eq(grants_beat(&s), 2);
    s.grants->sent[1] = now + 1000 * MS;
    s.grants->sent[2] = now + 2000 * MS;
    grants_heard(&s, 2);
    ck_assert_uint_eq(page.lease, now + (2000 + DD_LEASE_MS) * MS);
    grants_heard(&s, 1); /* older than what we have */
    grants_heard(&s, 0);
    grants_heard(&s, 3); /* not sent yet */
    ck_assert_uint_eq(page.lease, now + (2000 + DD_LEASE_MS) * MS);
    for (unsigned i = 0; i < GRANT_BEATS; i++)
        grants_beat(&s);
    s.grants->sent[2] = now + 9000 * MS; /* of a later beat */
    grants_heard(&s, 2);
    ck_assert_uint_eq(page.lease, now + (2000 + DD_LEASE_MS) * MS);
}
END_TEST

START_TEST(the_end_of_a_lease_is_seen_at_once_and_the_next_one_too) {
    grants_open();
    s.stage = STAGE_READY;
    s.grants->lease = boot() - MS; /* it ended while we stood still */
    grants_ready(&s);
    io_wait(s.epoll_fd, 1000);
    ck_assert(suspended && suspends == 1);
    grants_beat(&s);
    s.grants->sent[1] = boot() - DD_LEASE_MS * MS; /* the answer is late: no lease by it */
    grants_heard(&s, 1);
    ck_assert(suspended);
    grants_beat(&s);
    s.grants->sent[2] = boot() - (DD_LEASE_MS - 200) * MS;
    grants_heard(&s, 2);
    ck_assert(!suspended && suspends == 2);
    while (!suspended)
        io_wait(s.epoll_fd, 1000);
    ck_assert_uint_ge(boot(), page.lease);
    ck_assert_uint_eq(suspends, 3);
}
END_TEST

START_TEST(a_lease_that_was_renewed_does_not_end) {
    grants_open();
    s.stage = STAGE_READY;
    s.grants->lease = boot() + 50 * MS;
    grants_ready(&s);
    grants_beat(&s);
    grants_heard(&s, 1);
    io_wait(s.epoll_fd, 1000);
    ck_assert_uint_eq(suspends, 0);
}
END_TEST

START_TEST(who_decides_answers_behind_a_majority) {
    ck_assert_int_eq(grants_init(&s), 0);
    grants_begin(&s);
    grants_ready(&s);
    uint64_t first = s.grants->lease;
    grants_asked(&s, 1, 5);
    ck_assert(rounds == 1 && granted[1] == 0 && s.grants->lease == first);
    grants_answered(&s, 2, 2); /* not asked yet */
    ck_assert_uint_eq(granted[1], 0);
    grants_asked(&s, 2, 7); /* what is answered now was asked before */
    grants_answered(&s, 1, 1);
    ck_assert(granted[1] == 5 && granted[2] == 0);
    uint64_t second = s.grants->lease;
    ck_assert(second > first && second == s.grants->round_sent[1] + DD_LEASE_MS * MS);
    timers_run(&s.timers, timers_next(&s.timers));
    ck_assert_uint_eq(rounds, 2);
    grants_answered(&s, 2, 2);
    ck_assert(granted[2] == 7 && s.grants->lease > second);
    vote.term = 4; /* elected again: what was answered before does not count */
    grants_decide(&s);
    grants_answered(&s, 1, 2);
    grants_round(&s);
    grants_asked(&s, 1, 9);
    ck_assert_uint_eq(granted[1], 5);
}
END_TEST

START_TEST(node_0_of_two_and_one_copy_need_none) {
    s.nodes = 2;
    ck_assert_int_eq(grants_init(&s), 0);
    grants_page(&local);
    ck_assert(!s.grants && page.lease == UINT64_MAX && grants_beat(&s) == 0);
    s.node_id = 1;
    s.opt.replicas = 1;
    ck_assert_int_eq(grants_init(&s), 0);
    ck_assert_ptr_null(s.grants);
}
END_TEST

UNIT_MAIN_WITH("supervisor_replicas", before, after, a_row_that_is_newer_counts,
               a_row_that_makes_no_sense_is_refused, a_backup_is_dropped_once_and_in_its_epoch,
               other_nodes_ask_node_0, a_sentence_with_that_of_another_node_is_noted_as_a_whole,
               backups_go_at_once_and_primaries_when_the_lease_is_over,
               a_lease_that_is_long_over_is_not_awaited,
               nothing_is_lost_before_all_are_ready_or_without_a_copy,
               a_backup_that_is_given_up_meanwhile_ends_it,
               a_copy_that_takes_over_while_sources_are_read_keeps_what_it_has,
               with_refill_keys_without_a_copy_are_lost_and_begin_anew,
               a_lease_counts_from_when_the_beat_was_sent,
               the_end_of_a_lease_is_seen_at_once_and_the_next_one_too,
               a_lease_that_was_renewed_does_not_end, who_was_elected_awaits_all_leases,
               who_decides_answers_behind_a_majority, node_0_of_two_and_one_copy_need_none)
