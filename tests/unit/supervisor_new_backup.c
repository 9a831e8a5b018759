/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor_new_backup.c - what is done after a loss, step by step (owner_steps.h): a second copy is
 * made, a primary is given up, keys begin anew. Six nodes with two managers each, of which we are node
 * 0. */
#include "unit.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/shadow.h>
#include <supervisor/control.h>
#include <supervisor/coordinator.h>
#include <supervisor/give_up.h>
#include <supervisor/life_events.h>
#include <supervisor/managers.h>
#include <supervisor/new_backup.h>
#include <supervisor/owner_map.h>
#include <supervisor/owner_steps.h>
#include <supervisor/refill.h>
#include <supervisor/shadow_tries.h>
#include <supervisor/shadows.h>

#include <stdarg.h>
#include <string.h>

#define NODES    6u
#define MANAGERS 12u
#define MS       1000000ull

static struct supervisor s;
static struct local_manager started;
static bool gone[NODES], decides, refuses;
static unsigned changes, notes, begun, lost, done, said[MSG_TYPE_N];
static char note[512], said_text[512], why_lost[1024];
static uint64_t said_epoch;

/* --- what it uses --- */
const struct owner_place *owner_map_next(const struct supervisor *sup, uint32_t owner) {
    return &sup->owner_map[owner];
}
void owner_map_change(struct supervisor *sup, uint32_t owner, const struct owner_place *to,
                      const char *why) {
    uint64_t epoch = sup->owner_map[owner].epoch;
    ck_assert(decides);
    sup->owner_map[owner] = *to;
    sup->owner_map[owner].epoch = epoch + 1;
    changes++;
    notes += why != NULL;
    if (why)
        snprintf(note, sizeof note, "%s", why);
    owner_steps_take(sup);
}
void owner_map_lose(struct supervisor *sup, uint32_t owner, const char *how) {
    struct owner_place to = sup->owner_map[owner];
    to.keys = OWNER_LOST;
    to.lost_node = to.primary % NODES;
    to.backup = SHADOW_NONE;
    to.backup_port = 0;
    to.whole = false;
    owner_map_change(sup, owner, &to, how);
}
bool refill_look(struct supervisor *sup, uint32_t owner) {
    ck_assert(!sup->lost);
    return false;
}
bool refill_go(struct supervisor *sup) {
    ck_assert(!sup->lost);
    return false;
}
bool coordinator_is_lost(const struct supervisor *sup, uint32_t node) {
    return gone[node];
}
bool control_decides(const struct supervisor *sup) {
    return decides;
}
void control_copy(struct supervisor *sup, unsigned type, uint32_t owner, uint64_t epoch,
                  const void *word, size_t len) {
    said[type]++;
    said_epoch = epoch;
    snprintf(said_text, sizeof said_text, "%.*s", (int)len, (const char *)word);
}
const char *node_name(const struct supervisor *sup, uint32_t id) {
    static char name[16];
    snprintf(name, sizeof name, "n%u", id);
    return name;
}
struct local_manager *shadow_find(struct supervisor *sup, uint32_t number) {
    return begun && !refuses && started.number == number ? &started : NULL;
}
struct local_manager *shadow_begin(struct supervisor *sup, uint32_t number) {
    begun++;
    if (refuses) {
        dd_error(DDICT_EFULL, "no room");
        return NULL;
    }
    started = (struct local_manager){.number = number, .port = 77};
    return &started;
}
void supervisor_lost(struct supervisor *sup, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why_lost, sizeof why_lost, fmt, ap);
    va_end(ap);
    lost++;
    sup->lost = true;
}
void control_done(struct supervisor *sup) {
    done++;
}

/* Each owner has its backup on the next node. */
static void before(void) {
    memset(&s, 0, sizeof s);
    memset(gone, 0, sizeof gone);
    memset(said, 0, sizeof said);
    changes = notes = begun = lost = done = 0;
    refuses = false;
    decides = true;
    s.nodes = NODES;
    s.managers = MANAGERS;
    s.opt.replicas = 2;
    s.deal = deal_known(MANAGERS, NODES, NODES);
    s.stage = STAGE_READY;
    s.timers.looked_ns = clock_ns();
    s.owner_map = calloc(MANAGERS, sizeof *s.owner_map);
    for (uint32_t m = 0; m < MANAGERS; m++)
        s.owner_map[m] = (struct owner_place){
            .primary = m, .backup = shadow_of(&s.deal, m), .epoch = 1, .whole = true};
    ck_assert_int_eq(owner_steps_init(&s), 0);
    owner_steps_take(&s);
    ck_assert_uint_eq(changes, 0);
}
static void after(void) {
    owner_steps_end(&s);
    ck_assert_uint_eq(s.timers.n, 0);
    timers_free(&s.timers);
    free(s.owner_map);
}

/* So long is over. */
static void wait_ms(unsigned ms) {
    struct deadline d;
    deadline_start(&d, (int)ms);
    do {
        timers_run(&s.timers, timers_now(&s.timers));
        usleep(5000);
    } while (!deadline_over(&d));
}

/* As coordinator.c. */
static void node_lose(uint32_t node) {
    gone[node] = true;
    for (uint32_t m = 0; m < MANAGERS; m++) {
        struct owner_place *row = &s.owner_map[m];
        bool was_primary = row->primary % NODES == node;
        if (!was_primary && (row->backup == SHADOW_NONE || row->backup % NODES != node))
            continue;
        *row = (struct owner_place){.primary = was_primary ? row->backup : row->primary,
                                    .backup = SHADOW_NONE,
                                    .epoch = row->epoch + 1};
    }
    owner_steps_take(&s);
}

static int placed(uint32_t owner, uint64_t epoch, uint32_t node, uint16_t port, const char *why) {
    char text[300];
    struct placed_word w = {.port = port};
    memcpy(text, &w, sizeof w);
    strcpy(text + sizeof w, why);
    struct control_said m = {.node = node,
                             .manager = owner,
                             .aux = epoch,
                             .payload = text,
                             .len = sizeof w + strlen(why)};
    return new_backup_placed_heard(&s, &m);
}

static int whole(uint32_t owner, uint64_t epoch, uint32_t node) {
    struct control_said m = {.node = node, .manager = owner, .aux = epoch};
    return new_backup_whole_heard(&s, &m);
}

static bool is_making(uint32_t m) {
    return s.owner_map[m].backup != SHADOW_NONE && !s.owner_map[m].whole;
}

/* All steps of all that is being made; how many there were. */
static unsigned make_all(void) {
    unsigned n = 0;
    for (uint32_t m = 0; m < MANAGERS; m++) {
        struct owner_place *row = &s.owner_map[m];
        if (!is_making(m))
            continue;
        n++;
        if (!row->backup_port)
            ck_assert_int_eq(placed(m, row->epoch, row->backup % NODES, 1234, ""), 0);
        ck_assert_uint_eq(row->backup_port, 1234);
        ck_assert(!row->whole);
        ck_assert_int_eq(whole(m, row->epoch, row->primary % NODES), 0);
        ck_assert(row->whole);
        ck_assert_ptr_nonnull(strstr(note, "have a second copy again, on node n"));
    }
    return n;
}

/* --- the tests --- */
START_TEST(each_owner_gets_a_copy_on_another_node_and_few_at_once) {
    unsigned copies[NODES] = {0}, fills[NODES] = {0}, n = 0;
    begun = 1; /* those on this node are there */
    node_lose(1);
    for (uint32_t m = 0; m < MANAGERS; m++)
        if (is_making(m)) {
            fills[s.owner_map[m].backup % NODES]++;
            fills[s.owner_map[m].primary % NODES]++;
        }
    for (uint32_t i = 0; i < NODES; i++)
        ck_assert_uint_le(fills[i], DD_COPIES_AT_ONCE);
    for (unsigned made; (made = make_all());)
        n += made;
    ck_assert_uint_eq(n, 4); /* two that were primaries there, and two backups */
    for (uint32_t m = 0; m < MANAGERS; m++) {
        const struct owner_place *row = &s.owner_map[m];
        ck_assert(row->whole && row->backup != SHADOW_NONE);
        ck_assert_uint_ne(row->backup % NODES, row->primary % NODES);
        ck_assert(!gone[row->backup % NODES] && !gone[row->primary % NODES]);
        ck_assert_uint_eq(shadow_owner(&s.deal, row->backup), m);
        copies[row->primary % NODES]++;
        copies[row->backup % NODES]++;
    }
    for (uint32_t i = 0; i < NODES; i++) /* 24 on five nodes */
        ck_assert(gone[i] ? copies[i] == 0 : copies[i] >= 4 && copies[i] <= 6);
    ck_assert_uint_eq(s.timers.n, 0); /* nothing is left to do */
}
END_TEST

START_TEST(a_node_that_has_no_copies_comes_first) {
    for (uint32_t m = 0; m < MANAGERS; m++) /* node 4 has nothing */
        if (m % NODES == 3)
            s.owner_map[m].backup = shadow_on(&s.deal, m, 5);
        else if (m % NODES == 4)
            s.owner_map[m] = (struct owner_place){.primary = shadow_on(&s.deal, m, 3),
                                                  .backup = shadow_on(&s.deal, m, 5),
                                                  .epoch = 2,
                                                  .whole = true};
    s.owner_map[2].backup = SHADOW_NONE;
    s.owner_map[2].whole = false;
    owner_steps_take(&s);
    ck_assert_uint_eq(s.owner_map[2].backup, shadow_on(&s.deal, 2, 4));
}
END_TEST

START_TEST(what_is_refused_is_tried_elsewhere_and_not_for_ever) {
    bool on[NODES] = {false};
    unsigned tried = 0;
    struct owner_place *row = &s.owner_map[8]; /* on node 2 */
    row->backup = SHADOW_NONE;
    row->whole = false;
    owner_steps_take(&s);
    while (tried < 3) {
        ck_assert(is_making(8));
        uint32_t node = row->backup % NODES;
        ck_assert(!on[node]);
        on[node] = true;
        tried++;
        if (node != 0)
            ck_assert_int_eq(placed(8, row->epoch, node, 0, "no room"), 0);
        ck_assert_uint_eq(row->backup, SHADOW_NONE); /* for a while */
        ck_assert_uint_eq(notes, 1);
        for (unsigned i = 0; i < 200 && !is_making(8); i++)
            wait_ms(50);
        refuses = true; /* if it is we */
    }
    ck_assert(!on[2]);
}
END_TEST

START_TEST(old_and_strange_words_change_nothing) {
    node_lose(1);
    uint32_t m = MANAGERS;
    for (uint32_t i = 0; i < MANAGERS; i++)
        if (is_making(i) && s.owner_map[i].backup % NODES != 0)
            m = i;
    ck_assert_uint_lt(m, MANAGERS);
    const struct owner_place *row = &s.owner_map[m];
    uint64_t epoch = row->epoch;
    uint32_t node = row->backup % NODES, from = row->primary % NODES;
    ck_assert_int_eq(placed(MANAGERS, epoch, node, 5, ""), DDICT_EPROTO);
    ck_assert_int_eq(whole(MANAGERS, epoch, from), DDICT_EPROTO);
    ck_assert_int_eq(whole(m, epoch, from), 0); /* it does not listen yet */
    ck_assert_int_eq(placed(m, epoch - 1, node, 5, ""), 0);
    ck_assert_int_eq(placed(m, epoch, from, 5, ""), 0);
    ck_assert(row->epoch == epoch && !row->backup_port && !row->whole);
    ck_assert_int_eq(placed(m, epoch, node, 5, ""), 0);
    ck_assert_uint_eq(row->backup_port, 5);
    ck_assert_int_eq(placed(m, epoch, node, 6, ""), 0);
    ck_assert_int_eq(whole(m, epoch, from), 0);
    ck_assert_int_eq(whole(m, row->epoch, node), 0); /* not the primary's */
    ck_assert(row->backup_port == 5 && !row->whole);
    ck_assert_int_eq(whole(m, row->epoch, from), 0);
    ck_assert(row->whole);
}
END_TEST

/* Of another node, so we only say; again and again, until the map has it. */
START_TEST(a_node_says_it_until_the_map_has_it) {
    decides = false;
    s.node_id = 3;
    struct owner_place *row = &s.owner_map[1];
    *row = (struct owner_place){.primary = 1, .backup = shadow_on(&s.deal, 1, 3), .epoch = 5};
    owner_steps_take(&s);
    ck_assert_uint_eq(begun, 1);
    ck_assert_uint_eq(said[MSG_CTL_PLACED], 0); /* it is not ready */
    started.ready = true;
    wait_ms(3 * DD_BACKUP_LOOK_MS);
    ck_assert_uint_ge(said[MSG_CTL_PLACED], 2);
    ck_assert_uint_eq(begun, 1);
    row->backup_port = 77;
    row->epoch++;
    owner_steps_take(&s);
    ck_assert_uint_eq(s.timers.n, 0);
    s.owner_map[3].whole = false; /* ours, by another node */
    new_backup_copied(&s, 3, s.owner_map[3].epoch);
    wait_ms(3 * DD_BACKUP_LOOK_MS);
    ck_assert_uint_ge(said[MSG_CTL_WHOLE], 2);
    s.owner_map[3].whole = true;
    owner_steps_take(&s);
    ck_assert_uint_eq(s.timers.n, 0);
    ck_assert_uint_eq(changes, 0);
}
END_TEST

START_TEST(one_that_can_not_be_started_is_refused_once) {
    decides = false;
    refuses = true;
    s.node_id = 3;
    s.owner_map[1] =
        (struct owner_place){.primary = 1, .backup = shadow_on(&s.deal, 1, 3), .epoch = 5};
    owner_steps_take(&s);
    wait_ms(3 * DD_BACKUP_LOOK_MS);
    ck_assert_uint_eq(begun, 1);
    ck_assert_uint_eq(said[MSG_CTL_PLACED], 1);
}
END_TEST

START_TEST(a_primary_is_given_up_only_for_a_whole_backup) {
    ck_assert(primary_give_up(&s, 6, "manager 6 died")); /* ours */
    ck_assert_uint_eq(s.owner_map[6].primary, shadow_of(&s.deal, 6));
    ck_assert(!s.owner_map[6].whole);
    ck_assert_uint_eq(lost, 0);
    s.owner_map[0].whole = false;
    ck_assert(!primary_give_up(&s, 0, "manager 0 died"));
    s.owner_map[0].backup = SHADOW_NONE;
    ck_assert(!primary_give_up(&s, 0, "manager 0 died"));
    ck_assert_uint_eq(s.owner_map[0].primary, 0);
    struct control_said m = {
        .node = 0, .manager = 0, .aux = s.owner_map[0].epoch, .payload = "died", .len = 4};
    ck_assert_int_eq(primary_lost_heard(&s, &m), 0); /* its backup was dropped meanwhile */
    ck_assert_uint_eq(lost, 1);
}
END_TEST

START_TEST(a_primary_that_is_gone_is_told_of_until_another_serves) {
    decides = false;
    ck_assert(primary_give_up(&s, 6, "manager 6 died"));
    ck_assert(said[MSG_CTL_PRIMARY_LOST] == 1 && said_epoch == 1);
    s.owner_map[6] = (struct owner_place){.primary = 6, .backup = SHADOW_NONE, .epoch = 2};
    owner_steps_take(&s); /* its backup was dropped before that was heard */
    ck_assert(said[MSG_CTL_PRIMARY_LOST] == 2 && said_epoch == 2);
    s.owner_map[6].primary = shadow_on(&s.deal, 6, 3);
    s.owner_map[6].epoch = 3;
    owner_steps_take(&s);
    s.owner_map[6].primary = 6; /* another one with this number */
    s.owner_map[6].epoch = 9;
    owner_steps_take(&s);
    ck_assert_uint_eq(said[MSG_CTL_PRIMARY_LOST], 2);
}
END_TEST

START_TEST(a_node_leaves_only_if_others_have_all_and_decide) {
    s.node_id = 2;
    ck_assert(!node_leave(&s, "we decide"));
    decides = false;
    s.owner_map[8].whole = false; /* served here */
    ck_assert(!node_leave(&s, "alone"));
    s.owner_map[8].whole = true;
    s.owner_map[7].whole = false; /* elsewhere */
    ck_assert(lost == 0 && done == 0 && !s.leaves);
    ck_assert(node_leave(&s, "manager 2 died"));
    ck_assert(lost == 1 && done == 1 && s.leaves);
}
END_TEST

/* --- keys that are lost --- */
static void one_copy(void) {
    s.opt.replicas = 1;
    s.opt.refill = true;
    for (uint32_t m = 0; m < MANAGERS; m++) {
        s.owner_map[m].backup = SHADOW_NONE;
        s.owner_map[m].whole = false;
    }
    owner_steps_take(&s);
    ck_assert_uint_eq(changes, 0); /* nobody makes second copies */
}

START_TEST(keys_that_are_lost_begin_anew_on_another_node) {
    struct owner_place *row = &s.owner_map[8]; /* on node 2 */
    one_copy();
    gone[2] = true;
    owner_map_lose(&s, 8, "node n2 is lost");
    ck_assert(is_making(8));
    uint32_t number = row->backup, node = number % NODES;
    ck_assert(node != 2 && !gone[node]);
    uint64_t epoch = row->epoch;
    ck_assert_int_eq(placed(8, epoch - 1, node, 5, ""), 0);
    ck_assert_uint_eq(row->primary, 8);
    ck_assert_int_eq(placed(8, epoch, node, 5, ""), 0);
    ck_assert(row->primary == number && row->primary_port == 5 && row->backup == SHADOW_NONE);
    ck_assert(row->keys == OWNER_REFILLING && row->lost_node == 2 && row->epoch == epoch + 1);
    ck_assert_ptr_nonnull(strstr(note, "begin anew on node n"));
    ck_assert_uint_eq(lost, 0);
}
END_TEST

START_TEST(where_they_can_not_be_is_tried_once_and_then_all_is_lost) {
    struct owner_place *row = &s.owner_map[8];
    bool on[NODES] = {false};
    one_copy();
    s.refills = (struct refills *)&begun;
    refuses = true; /* if it is we */
    gone[2] = true;
    owner_map_lose(&s, 8, "node n2 is lost");
    for (unsigned i = 0; i < NODES && is_making(8); i++) {
        uint32_t node = row->backup % NODES;
        ck_assert(!on[node] && lost == 0);
        on[node] = true;
        ck_assert_int_eq(placed(8, row->epoch, node, 0, "no room"), 0);
    }
    ck_assert(lost == 1 && !is_making(8) && row->primary == 8);
    ck_assert_uint_eq(s.timers.n, 0);
    for (uint32_t i = 1; i < NODES; i++) /* we refused at once */
        ck_assert(on[i] == !gone[i]);
}
END_TEST

START_TEST(who_decides_again_tries_again) {
    struct owner_place *row = &s.owner_map[8];
    one_copy();
    gone[2] = true;
    owner_map_lose(&s, 8, "node n2 is lost");
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(placed(8, row->epoch, row->backup % NODES, 0, "no room"), 0);
    decides = false; /* others do meanwhile, and have tried the other two */
    row->backup = SHADOW_NONE;
    row->epoch += 4;
    owner_steps_take(&s);
    decides = true;
    owner_steps_decide(&s);
    owner_steps_take(&s);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert(is_making(8) && lost == 0);
        ck_assert_int_eq(placed(8, row->epoch, row->backup % NODES, 0, "no room"), 0);
    }
    ck_assert(is_making(8) && lost == 0);
}
END_TEST

START_TEST(a_process_that_is_lost_for_good_begins_anew_elsewhere) {
    one_copy();
    ck_assert(primary_give_up(&s, 6, "the shadow of manager 6 died")); /* ours */
    ck_assert(s.owner_map[6].keys == OWNER_LOST && is_making(6));
    ck_assert_uint_ne(s.owner_map[6].backup % NODES, 0);
    struct control_said m = {
        .node = 0, .manager = 6, .aux = s.owner_map[6].epoch, .payload = "died", .len = 4};
    uint64_t epoch = s.owner_map[6].epoch;
    ck_assert_int_eq(primary_lost_heard(&s, &m), 0); /* that is known */
    ck_assert(s.owner_map[6].epoch == epoch && lost == 0);
    s.stage = STAGE_READY;
    decides = false;
    ck_assert(node_leave(&s, "manager 0 died")); /* what it has begins anew */
}
END_TEST

/* By the same request, or as there is not memory enough for it anywhere. */
START_TEST(keys_whose_process_dies_again_and_again_are_lost) {
    struct owner_place *row = &s.owner_map[8];
    one_copy();
    for (unsigned i = 0; i <= DD_ANEW_DEATHS; i++) {
        struct control_said died = {.node = row->primary % NODES,
                                    .manager = 8,
                                    .aux = row->epoch,
                                    .payload = "died",
                                    .len = 4};
        ck_assert_uint_eq(lost, 0);
        ck_assert_int_eq(primary_lost_heard(&s, &died), 0);
        ck_assert(lost == 1 || is_making(8));
        if (lost == 0)
            ck_assert_int_eq(placed(8, row->epoch, row->backup % NODES, 5, ""), 0);
    }
    ck_assert(lost == 1 && s.lost_manager == 8);
}
END_TEST

START_TEST(who_has_begun_and_is_lost_is_one_that_failed) {
    struct owner_place *row = &s.owner_map[8];
    one_copy();
    gone[2] = true;
    owner_map_lose(&s, 8, "node n2 is lost");
    uint32_t first = row->backup;
    shadow_try_failed(&s, 8, "it died");
    ck_assert(is_making(8) && row->backup != first);
    ck_assert_ptr_nonnull(strstr(note, "the keys of manager 8 cannot begin anew on node n"));
    while (is_making(8))
        ck_assert_int_eq(placed(8, row->epoch, row->backup % NODES, 0, "no room"), 0);
    ck_assert_ptr_nonnull(strstr(why_lost, "no room"));
}
END_TEST

UNIT_MAIN_WITH(
    "supervisor_new_backup", before, after, each_owner_gets_a_copy_on_another_node_and_few_at_once,
    a_node_that_has_no_copies_comes_first, what_is_refused_is_tried_elsewhere_and_not_for_ever,
    old_and_strange_words_change_nothing, a_node_says_it_until_the_map_has_it,
    one_that_can_not_be_started_is_refused_once,
    a_primary_that_is_gone_is_told_of_until_another_serves,
    a_primary_is_given_up_only_for_a_whole_backup, a_node_leaves_only_if_others_have_all_and_decide,
    keys_that_are_lost_begin_anew_on_another_node,
    where_they_can_not_be_is_tried_once_and_then_all_is_lost, who_decides_again_tries_again,
    a_process_that_is_lost_for_good_begins_anew_elsewhere,
    keys_whose_process_dies_again_and_again_are_lost, who_has_begun_and_is_lost_is_one_that_failed)
