/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor_ready.c - a process of this node says that it can not serve: that is the end of the dictionary,
 * unless its keys can be elsewhere. */
#include "unit.h"
#include <manager/stats.h>
#include <store/reader.h>
#include <store/store.h>
#include <supervisor/clients.h>
#include <supervisor/control.h>
#include <supervisor/figures.h>
#include <supervisor/fork_leases.h>
#include <supervisor/freeze.h>
#include <supervisor/life_events.h>
#include <supervisor/lives.h>
#include <supervisor/manager_events.h>
#include <supervisor/managers.h>
#include <supervisor/new_backup.h>
#include <supervisor/owner_map.h>
#include <supervisor/owner_steps.h>
#include <supervisor/save_passes.h>
#include <supervisor/shadows.h>

#include <errno.h>

static struct supervisor s;
static struct local_manager mgr;
static unsigned lost, given_up, moved, returned;
static bool is_backup, can_move;

/* --- what it uses --- */
void supervisor_lost(struct supervisor *sup, const char *fmt, ...) {
    lost++;
}
bool shadow_can_go(const struct local_manager *of) {
    return is_backup;
}
void shadow_lost(struct local_manager *of, const char *why) {
    given_up++;
}
bool process_moves(struct local_manager *of, const char *how) {
    ck_assert_ptr_nonnull(strstr(how, "no memory"));
    moved += can_move;
    return can_move;
}
void manager_returned(struct local_manager *of) {
    returned++;
}
bool manager_return(struct local_manager *of, int status) {
    return false;
}
bool process_serves(const struct local_manager *of) {
    return true;
}
bool save_child_is_ready(const struct supervisor *sup) {
    return false;
}
unsigned clients_leases(struct supervisor *sup, const struct lease_chunk ***maps) {
    return 0;
}
const char *memlimit_reached(void) {
    return "";
}
int arena_view_map(struct arena_view *a, int fd, int spill_fd, unsigned local_index) {
    return -ENOENT;
}
void arena_view_unmap(struct arena_view *a) {
}
void shadow_forget(struct local_manager *of) {
}
void owner_steps_take(struct supervisor *sup) {
}
void new_backup_copied(struct supervisor *sup, uint32_t owner, uint64_t epoch) {
}
void owner_map_backup_lost(struct supervisor *sup, uint32_t owner, uint64_t epoch,
                           const char *why) {
}
void client_added(struct local_manager *of, const struct sup_msg *m) {
}
void client_bad(struct supervisor *sup, uint64_t id) {
}
void fork_lease_added(struct local_manager *of, const struct sup_msg *m) {
}
void freezes_manager_message(struct local_manager *of, const struct sup_msg *m) {
}
void figures_add(struct supervisor *sup, const struct manager_stats *stats) {
}
void figures_of_page(const struct manager_page *page, const struct arena_header *header,
                     const struct lease_chunk *const *leases, unsigned n, unsigned index,
                     struct manager_stats *out) {
}
void lifecycle_check(struct supervisor *sup) {
}
void control_note(struct supervisor *sup, const struct note *n) {
}
void control_ready(struct supervisor *sup) {
}
void manager_send(struct local_manager *of, const struct sup_msg *m, const int *fds, int nfds) {
}

static void can_not(void) {
    struct sup_msg m = {.type = SUP_READY, .status = -ENOMEM, .text = "no memory"};
    manager_events.message(&mgr, &m);
}

static void before(void) {
    s = (struct supervisor){.local_n = 1, .local = &mgr, .node = "n", .stage = STAGE_READY};
    mgr = (struct local_manager){.s = &s, .shadow = true, .name = "it"};
    lost = given_up = moved = returned = 0;
    is_backup = can_move = false;
}

START_TEST(one_that_can_not_serve_is_the_end) {
    can_move = true;
    can_not();
    ck_assert(lost == 1 && moved == 0 && !mgr.ready);
    is_backup = true;
    can_not();
    ck_assert(lost == 1 && given_up == 1);
}
END_TEST

START_TEST(but_not_where_it_has_served_and_others_can) {
    mgr.deaths = 1;
    can_move = true;
    can_not();
    ck_assert(lost == 0 && moved == 1);
    can_move = false;
    can_not();
    ck_assert_uint_eq(lost, 1);
}
END_TEST

START_TEST(nor_where_its_keys_can_begin_anew) {
    s.opt.refill = true;
    can_move = true;
    can_not();
    ck_assert(lost == 0 && moved == 1);
    can_move = false;
    can_not();
    ck_assert_uint_eq(lost, 1);
}
END_TEST

UNIT_MAIN_WITH("supervisor_ready", before, NULL, one_that_can_not_serve_is_the_end,
               but_not_where_it_has_served_and_others_can, nor_where_its_keys_can_begin_anew)
