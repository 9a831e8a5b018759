/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor_freeze.c - processes that start while the dictionary is frozen: one node, with a manager and a
 * shadow that was started behind the start. */
#include "unit.h"
#include <supervisor/control.h>
#include <supervisor/coordinator.h>
#include <supervisor/freeze.h>
#include <supervisor/managers.h>
#include <supervisor/record.h>
#include <supervisor/supervisor.h>
#include <supervisor/takeover.h>

static struct supervisor s;
static struct local_manager process[2];
static unsigned told[2];
static int state[2];
static unsigned recorded;

/* --- what it uses --- */
void manager_send(struct local_manager *mgr, const struct sup_msg *m, const int *fds, int nfds) {
    told[mgr - process]++;
    state[mgr - process] = m->status;
}
bool control_decides(const struct supervisor *sup) {
    return true;
}
void control_freeze(struct supervisor *sup, uint32_t to, const void *word, size_t len) {
}
bool takeover_waits(const struct supervisor *sup) {
    return false;
}
bool coordinator_is_lost(const struct supervisor *sup, uint32_t node) {
    return false;
}
void record_freeze(struct supervisor *sup, bool frozen, uint64_t epoch) {
    recorded++;
}

static void answer_in(unsigned i, uint64_t epoch) {
    struct sup_msg m = {.type = SUP_FREEZE_AT, .id = epoch, .status = state[i]};
    freezes_manager_message(&process[i], &m);
}
static void answer(unsigned i) {
    answer_in(i, 1);
}
static void ask(unsigned i, int want) {
    struct sup_msg m = {.type = SUP_FREEZE_ASK, .id = 2, .status = want};
    freezes_manager_message(&process[i], &m);
}

static void before(void) {
    memset(&s, 0, sizeof s);
    memset(told, 0, sizeof told);
    s.nodes = s.managers = s.local_n = s.shadows_n = 1;
    s.local = process;
    s.shadows = process + 1;
    process[0] = (struct local_manager){.s = &s};
    process[1] =
        (struct local_manager){.s = &s, .number = 1, .shadow = true, .late = true, .filling = true};
    ck_assert_int_eq(freezes_init(&s), 0);
    freezes_tell(&process[0]);
    freezes_tell(&process[1]);
    ck_assert(told[0] == 0 && told[1] == 0); /* it is OPEN */
    struct sup_msg ask = {.type = SUP_FREEZE_ASK, .id = 1, .status = 1};
    freezes_manager_message(&process[0], &ask);
    ck_assert(told[0] == 1 && state[0] == FREEZE_CLOSED && told[1] == 0);
}
static void after(void) {
    freezes_end(&s);
}

START_TEST(who_has_not_answered_is_told_again) {
    freezes_tell(&process[0]);
    ck_assert(told[0] == 2 && state[0] == FREEZE_CLOSED);
    answer(0);
    ck_assert(told[0] == 3 && state[0] == FREEZE_FROZEN);
    answer(0);
    freezes_tell(&process[0]); /* which knows it by its arena */
    ck_assert(told[0] == 4);   /* and what was asked is answered */
}
END_TEST

START_TEST(a_shadow_of_later_that_died_before_it_was_frozen_is_told_again) {
    answer(0);
    answer(0);
    freezes_tell(&process[1]);
    ck_assert_uint_eq(told[1], 0); /* it is being filled */
    process[1].filling = false;
    freezes_shadow_filled(&process[1]);
    ck_assert(told[1] == 1 && state[1] == FREEZE_FROZEN);
    freezes_tell(&process[1]);
    ck_assert(told[1] == 2 && state[1] == FREEZE_FROZEN);
}
END_TEST

START_TEST(a_restore_is_a_state_of_an_epoch_of_its_own) {
    answer(0);
    answer(0);
    recorded = 0;
    ask(0, WANT_RESTORING);
    ck_assert_int_eq(state[0], FREEZE_CLOSED);
    answer_in(0, 1); /* of the epoch before: it is awaited still */
    ck_assert_int_eq(state[0], FREEZE_CLOSED);
    answer_in(0, 2);
    ck_assert_int_eq(state[0], FREEZE_RESTORING);
    answer_in(0, 2);
    ask(0, WANT_RESTORING); /* it is */
    ck_assert_int_eq(state[0], 0);
    ck_assert_uint_eq(recorded, 0);
    ask(0, WANT_FROZEN);
    answer_in(0, 3);
    ck_assert_int_eq(state[0], FREEZE_FROZEN);
    answer_in(0, 3);
    ask(0, WANT_OPEN);
    ck_assert_int_eq(state[0], FREEZE_CLOSED);
    answer_in(0, 3);
    ck_assert_int_eq(state[0], FREEZE_OPEN);
}
END_TEST

UNIT_MAIN_WITH("supervisor_freeze", before, after, who_has_not_answered_is_told_again,
               a_shadow_of_later_that_died_before_it_was_frozen_is_told_again,
               a_restore_is_a_state_of_an_epoch_of_its_own)
