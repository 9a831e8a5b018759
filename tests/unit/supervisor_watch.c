/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor_watch.c - what is looked at once a second, whatever other timers do. */
#include "unit.h"
#include <base/clock.h>
#include <supervisor/life_events.h>
#include <supervisor/managers.h>
#include <supervisor/owner_steps.h>
#include <supervisor/shadows.h>
#include <supervisor/startup_output.h>
#include <supervisor/watch.h>

static struct supervisor s;
static unsigned shadows, backups;

/* --- what it uses --- */
void shadows_look(struct supervisor *sup) {
    shadows++;
}
void owner_steps_take(struct supervisor *sup) {
    backups++;
}
bool process_moves(struct local_manager *mgr, const char *how) {
    return false;
}
bool shadow_can_go(const struct local_manager *mgr) {
    return false;
}
void shadow_lost(struct local_manager *mgr, const char *why) {
}
void shadow_kill(struct local_manager *mgr) {
}
void supervisor_lost(struct supervisor *sup, const char *fmt, ...) {
}
void manager_send(struct local_manager *mgr, const struct sup_msg *m, const int *fds, int nfds) {
}
bool memlimit_slowed(const char **limit) {
    return false;
}
void startup_print(const char *fmt, ...) {
}

static void before(void) {
    memset(&s, 0, sizeof s);
    shadows = backups = 0;
    s.timers.looked_ns = clock_ns();
    s.stage = STAGE_READY;
}
static void after(void) {
    timer_clear(&s.timers, &s.watch);
    timers_free(&s.timers);
}

START_TEST(owners_are_looked_at_in_each_turn) {
    watch_start(&s);
    ck_assert(shadows == 1 && backups == 1 && s.timers.n == 1);
    timers_run(&s.timers, timers_next(&s.timers));
    ck_assert(shadows == 2 && backups == 2 && s.timers.n == 1);
}
END_TEST

START_TEST(not_when_all_ends) {
    s.stage = STAGE_ENDING;
    watch_start(&s);
    ck_assert_uint_eq(s.timers.n, 0);
}
END_TEST

UNIT_MAIN_WITH("supervisor_watch", before, after, owners_are_looked_at_in_each_turn,
               not_when_all_ends)
