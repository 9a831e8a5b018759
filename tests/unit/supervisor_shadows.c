/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor_shadows.c - a shadow that is lost, and a map that changes meanwhile: node 1 of three, with
 * the shadow of manager 0. */
#include "unit.h"
#include <base/shadow.h>
#include <supervisor/freeze.h>
#include <supervisor/give_up.h>
#include <supervisor/held_map.h>
#include <supervisor/life_events.h>
#include <supervisor/owner_map.h>
#include <supervisor/shadows.h>

enum { NODES = 3, MANAGERS = 3 };

static struct supervisor s;
static struct local_manager shadow[2];
static struct held_map held;
static uint64_t drops[MANAGERS], epoch_lost;
static unsigned asked, lost, filled, given_up;
static bool gives_up, is_given_up;

/* --- what it uses --- */
void freezes_shadow_lost(struct local_manager *mgr) {
}
void freezes_shadow_filled(struct local_manager *mgr) {
    filled++;
}
bool primary_give_up(struct supervisor *sup, uint32_t owner, const char *why) {
    given_up += gives_up;
    is_given_up = gives_up;
    return gives_up;
}
bool primary_is_given_up(const struct supervisor *sup, uint32_t owner) {
    return is_given_up;
}
bool node_leave(struct supervisor *sup, const char *why) {
    return false;
}
void supervisor_lost(struct supervisor *sup, const char *fmt, ...) {
    lost++;
}
const struct owner_place *owner_map_next(const struct supervisor *sup, uint32_t owner) {
    return &sup->owner_map[owner];
}
void owner_map_backup_lost(struct supervisor *sup, uint32_t owner, uint64_t epoch,
                           const char *why) {
    asked++;
    drops[owner] = epoch_lost = epoch;
}

static void before(void) {
    memset(&s, 0, sizeof s);
    memset(shadow, 0, sizeof shadow);
    memset(drops, 0, sizeof drops);
    asked = lost = filled = given_up = 0;
    gives_up = is_given_up = false;
    s.nodes = NODES;
    s.managers = MANAGERS;
    s.node_id = 1;
    s.stage = STAGE_READY;
    s.deal = deal_known(MANAGERS, NODES, NODES);
    held.drops = drops;
    s.held = &held;
    s.shadows = shadow;
    s.shadows_n = 1;
    for (unsigned i = 0; i < 2; i++)
        shadow[i] = (struct local_manager){
            .s = &s, .number = shadow_on(&s.deal, 0, 1), .shadow = true, .name = "it"};
    s.owner_map = calloc(MANAGERS, sizeof *s.owner_map);
    for (uint32_t m = 0; m < MANAGERS; m++)
        s.owner_map[m] = (struct owner_place){.primary = m, .backup = SHADOW_NONE, .epoch = 1};
    s.owner_map[0].backup = shadow->number;
    s.owner_map[0].backup_port = 77;
}
static void after(void) {
    free(s.owner_map);
}

START_TEST(a_backup_that_is_lost_is_told_of_once_in_each_epoch) {
    shadow_lost(shadow, "died");
    ck_assert(asked == 1 && epoch_lost == 1);
    shadows_look(&s);
    ck_assert_uint_eq(asked, 1);
    s.owner_map[0].epoch = 2; /* that it is whole was heard before */
    s.owner_map[0].whole = true;
    shadows_look(&s);
    shadows_look(&s);
    ck_assert(asked == 2 && epoch_lost == 2 && lost == 0);
    s.owner_map[0] = (struct owner_place){.backup = SHADOW_NONE, .epoch = 3};
    shadows_look(&s);
    ck_assert_uint_eq(asked, 2);
}
END_TEST

START_TEST(one_that_follows_is_not_taken_for_it) {
    shadow_lost(shadow, "died");
    s.shadows_n = 2; /* with the same number */
    s.owner_map[0].epoch = 5;
    shadows_look(&s);
    s.owner_map[0].whole = true;
    s.owner_map[0].epoch = 6;
    shadows_look(&s);
    ck_assert_uint_eq(asked, 1);
}
END_TEST

START_TEST(one_that_is_to_begin_is_not_lost) {
    shadow_lost(shadow, "died");
    s.owner_map[0] = (struct owner_place){.backup = shadow->number, .epoch = 4};
    shadows_look(&s);
    ck_assert_uint_eq(asked, 1);
}
END_TEST

START_TEST(one_that_is_whole_or_serves_is_told_whether_all_is_frozen) {
    shadow->filling = true;
    shadows_look(&s);
    ck_assert_uint_eq(filled, 0);
    s.owner_map[0].whole = true;
    shadows_look(&s);
    shadows_look(&s);
    ck_assert_uint_eq(filled, 1);
    shadow->filling = true; /* this node has not heard of the map in which it was whole */
    s.owner_map[0] =
        (struct owner_place){.primary = shadow->number, .backup = SHADOW_NONE, .epoch = 3};
    shadows_look(&s);
    ck_assert(filled == 2 && lost == 0);
}
END_TEST

/* It died when its node had said that it is there. */
static void serves_and_is_lost(void) {
    shadow_lost(shadow, "died");
    s.owner_map[0] =
        (struct owner_place){.primary = shadow->number, .backup = SHADOW_NONE, .epoch = 5};
}

START_TEST(one_that_was_lost_before_it_was_to_serve_is_given_up_once) {
    gives_up = true;
    serves_and_is_lost();
    shadows_look(&s);
    shadows_look(&s);
    ck_assert(given_up == 1 && lost == 0);
    is_given_up = false;
    s.owner_map[0].keys = OWNER_LOST; /* the others know */
    shadows_look(&s);
    ck_assert_uint_eq(given_up, 1);
}
END_TEST

START_TEST(so_is_one_whose_slot_another_has) {
    gives_up = true;
    serves_and_is_lost();
    shadow->given_up = false;
    shadow->number = shadow_on(&s.deal, 2, 1);
    s.owner_map[2].backup = shadow->number;
    shadows_look(&s);
    ck_assert(given_up == 1 && lost == 0);
}
END_TEST

START_TEST(without_another_copy_that_is_the_end) {
    serves_and_is_lost();
    shadows_look(&s);
    ck_assert_uint_eq(lost, 1);
    s.stage = STAGE_ENDING;
    shadows_look(&s);
    ck_assert_uint_eq(lost, 1);
}
END_TEST

UNIT_MAIN_WITH("supervisor_shadows", before, after,
               a_backup_that_is_lost_is_told_of_once_in_each_epoch,
               one_that_follows_is_not_taken_for_it, one_that_is_to_begin_is_not_lost,
               one_that_is_whole_or_serves_is_told_whether_all_is_frozen,
               one_that_was_lost_before_it_was_to_serve_is_given_up_once,
               so_is_one_whose_slot_another_has, without_another_copy_that_is_the_end)
