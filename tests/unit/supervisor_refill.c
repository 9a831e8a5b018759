/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervisor_refill.c - keys that began anew are read again by a child, one at a time, and who decides
 * hears of it until the map says so.
 */
#include "unit.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/shadow.h>
#include <supervisor/owner_map.h>
#include <supervisor/owner_steps.h>
#include <supervisor/refill.h>

#include <errno.h>
#include <string.h>

enum { NODES = 4, MANAGERS = 8 };

static struct supervisor s;
static bool decides;
static int begins; /* what refill_child_begin() returns */
static refill_ended *child_ended;
static unsigned begun, changes, said, looked, stopped;
static uint32_t asked[MANAGERS];
static unsigned asked_n;
static char note[512], said_bytes[512];
static size_t said_len;
static uint64_t said_epoch;

/* --- what it uses --- */
const struct owner_place *owner_map_next(const struct supervisor *sup, uint32_t owner) {
    return &sup->owner_map[owner];
}
void owner_map_change(struct supervisor *sup, uint32_t owner, const struct owner_place *to,
                      const char *why) {
    uint64_t epoch = sup->owner_map[owner].epoch;
    sup->owner_map[owner] = *to;
    sup->owner_map[owner].epoch = epoch + 1;
    changes++;
    snprintf(note, sizeof note, "%s", why);
}
bool control_decides(const struct supervisor *sup) {
    return decides;
}
void control_copy(struct supervisor *sup, unsigned type, uint32_t owner, uint64_t epoch,
                  const void *word, size_t len) {
    ck_assert_uint_eq(type, MSG_CTL_REFILLED);
    said++;
    said_epoch = epoch;
    memcpy(said_bytes, word, said_len = len);
}
const char *node_name(const struct supervisor *sup, uint32_t id) {
    static char name[4][16];
    static unsigned n;
    n = (n + 1) % 4;
    snprintf(name[n], sizeof name[n], "n%u", id);
    return name[n];
}
void owner_steps_take(struct supervisor *sup) {
    looked++;
}
int refill_child_begin(struct supervisor *sup, const uint32_t *owners, unsigned n,
                       refill_ended *ended) {
    begun++;
    child_ended = ended;
    memcpy(asked, owners, n * sizeof *owners);
    asked_n = n;
    return begins == 0 || begins == -EBUSY ? begins : dd_error(begins, "no child");
}
void refill_child_stop(struct supervisor *sup) {
    stopped++;
}
void refill_child_end(struct supervisor *sup) {
}

/* The time until the next try is over. */
static void try_wait(void) {
    s.timers.lost_ns -= DD_REFILL_TRY_MS * 1000000ull;
}

static bool look(void) {
    bool some = false;
    for (uint32_t m = 0; m < MANAGERS; m++)
        some |= refill_look(&s, m);
    return some | refill_go(&s);
}

static void began_anew(uint32_t owner, uint32_t node) {
    s.owner_map[owner] = (struct owner_place){.primary = shadow_on(&s.deal, owner, node),
                                              .backup = SHADOW_NONE,
                                              .keys = OWNER_REFILLING,
                                              .lost_node = owner % NODES,
                                              .epoch = 4};
}

static void before(void) {
    memset(&s, 0, sizeof s);
    decides = true;
    begins = 0;
    begun = changes = said = looked = stopped = 0;
    s.nodes = NODES;
    s.managers = MANAGERS;
    s.deal = deal_known(MANAGERS, NODES, NODES);
    s.stage = STAGE_READY;
    s.node_id = 2;
    s.timers.looked_ns = clock_ns();
    s.owner_map = calloc(MANAGERS, sizeof *s.owner_map);
    for (uint32_t m = 0; m < MANAGERS; m++)
        s.owner_map[m] =
            (struct owner_place){.primary = m, .backup = SHADOW_NONE, .epoch = 1, .whole = false};
    ck_assert_int_eq(refill_init(&s), 0);
    ck_assert(!look() && begun == 0);
}
static void after(void) {
    refill_end(&s);
    timers_free(&s.timers);
    free(s.owner_map);
}

static const struct refill_said ten = {.sets = 2, .items = 10};

START_TEST(the_child_begins_once_for_all_that_are_here) {
    began_anew(0, 2);
    began_anew(1, 2);
    began_anew(5, 3); /* not here */
    ck_assert(look() && look());
    ck_assert(begun == 1 && asked_n == 2 && asked[0] == 0 && asked[1] == 1);
    ck_assert_uint_eq(changes, 0);
    s.owner_map[0].epoch++; /* it got a second copy meanwhile */
    ck_assert(look());
    ck_assert_uint_eq(begun, 1);
    child_ended(&s, asked, 2, &ten);
    ck_assert_uint_eq(looked, 1);
    ck_assert(look());
    ck_assert(changes == 2 && s.owner_map[0].keys == OWNER_REFILLED);
    ck_assert(s.owner_map[1].keys == OWNER_REFILLED);
    ck_assert_ptr_nonnull(strstr(note, "node n2 has read again 10 items of 2 data sets in"));
    ck_assert_ptr_nonnull(strstr(note, "had lost of manager 1 and 1 more; what no"));
    ck_assert(!look() && begun == 1);
}
END_TEST

START_TEST(while_it_reads_others_wait_for_the_next) {
    began_anew(0, 2);
    look();
    began_anew(1, 2);
    begins = -EBUSY;
    ck_assert(look());
    child_ended(&s, (uint32_t[]){0}, 1, &ten);
    begins = 0;
    look();
    ck_assert(asked_n == 1 && asked[0] == 1);
    ck_assert(s.owner_map[0].keys == OWNER_REFILLED && s.owner_map[1].keys == OWNER_REFILLING);
}
END_TEST

START_TEST(a_child_that_never_ends_is_not_awaited_for_ever) {
    began_anew(0, 2);
    look();
    began_anew(1, 2);
    begins = -EBUSY;
    look();
    s.timers.lost_ns -= DD_REFILL_MS * 1000000ull; /* so much later */
    look();
    ck_assert(look() && changes == 0);
    s.timers.lost_ns -= (DD_BACKUP_PLACE_MS + 1) * 1000000ull;
    look();
    look();
    ck_assert(changes == 1 && s.owner_map[1].keys == OWNER_REFILLED);
    ck_assert_ptr_nonnull(strstr(note, "has no end"));
}
END_TEST

START_TEST(without_a_child_it_is_said_what_is_missing) {
    began_anew(0, 2);
    begins = -ENOMEM;
    for (unsigned i = 0; i < DD_REFILL_TRIES; i++, try_wait())
        ck_assert(look() && begun == i + 1 && changes == 0);
    look();
    ck_assert(s.owner_map[0].keys == OWNER_REFILLED && changes == 1);
    ck_assert_ptr_nonnull(strstr(note, "0 items"));
    ck_assert_ptr_nonnull(strstr(note, "no child"));
}
END_TEST

static const struct refill_said failed = {
    .sets = 1, .items = 4, .failed = true, .again = true, .why = "b: x.tar has changed"};

START_TEST(a_source_that_fails_is_read_again_and_then_all_is_told) {
    began_anew(0, 2);
    ck_assert(look() && begun == 1);
    child_ended(&s, asked, 1, &failed);
    ck_assert(look() && look() && begun == 1); /* not at once */
    began_anew(1, 2);                          /* which does not wait for that */
    ck_assert(look() && begun == 2 && asked_n == 1 && asked[0] == 1);
    child_ended(&s, asked, 1, &ten);
    try_wait();
    ck_assert(look() && begun == 3 && asked_n == 1 && asked[0] == 0);
    child_ended(&s, asked, 1, &ten);
    look();
    ck_assert(changes == 2 && s.owner_map[0].keys == OWNER_REFILLED);
    ck_assert_ptr_nonnull(strstr(note, "14 items of 2 data sets"));
    ck_assert_ptr_nonnull(strstr(note, "had lost of manager 0; what no set has is lost"));
    ck_assert_ptr_null(strstr(note, "x.tar"));
}
END_TEST

START_TEST(a_source_that_always_fails_is_given_up) {
    began_anew(0, 2);
    for (unsigned i = 0; i < DD_REFILL_TRIES; i++, try_wait()) {
        ck_assert(look() && begun == i + 1 && changes == 0);
        child_ended(&s, asked, 1, &failed);
    }
    look();
    ck_assert(!look() && begun == DD_REFILL_TRIES && changes == 1);
    ck_assert_ptr_nonnull(strstr(note, "x.tar has changed"));
}
END_TEST

START_TEST(what_no_try_can_help_is_given_up_at_once) {
    struct refill_said never = failed;
    never.again = false;
    began_anew(0, 2);
    look();
    child_ended(&s, asked, 1, &never);
    ck_assert(look() && !look() && begun == 1 && changes == 1);
    ck_assert_ptr_nonnull(strstr(note, "x.tar has changed"));
}
END_TEST

START_TEST(behind_the_time_of_a_child_there_is_no_other_try) {
    began_anew(0, 2);
    look();
    s.timers.lost_ns -= DD_REFILL_MS * 1000000ull;
    child_ended(&s, asked, 1, &failed);
    look();
    ck_assert(begun == 1 && changes == 1 && s.owner_map[0].keys == OWNER_REFILLED);
}
END_TEST

START_TEST(it_is_said_until_the_map_has_it_and_in_its_epoch) {
    decides = false;
    began_anew(0, 2);
    look();
    child_ended(&s, asked, 1, &ten);
    look();
    look();
    ck_assert(said == 2 && said_epoch == 4 && changes == 0);
    s.owner_map[0].epoch = 5;
    look();
    ck_assert_uint_eq(said_epoch, 5);
    /* who decides */
    decides = true;
    struct control_said m = {
        .node = 2, .manager = 0, .aux = 4, .payload = said_bytes, .len = said_len};
    ck_assert_int_eq(refilled_heard(&s, &m), 0);
    m.aux = 5;
    m.node = 3;
    ck_assert_int_eq(refilled_heard(&s, &m), 0);
    ck_assert_uint_eq(changes, 0);
    m.node = 2;
    ck_assert_int_eq(refilled_heard(&s, &m), 0);
    ck_assert_int_eq(refilled_heard(&s, &m), 0);
    ck_assert(changes == 1 && s.owner_map[0].keys == OWNER_REFILLED);
    m.manager = MANAGERS;
    ck_assert_int_eq(refilled_heard(&s, &m), DDICT_EPROTO);
}
END_TEST

START_TEST(what_is_lost_again_begins_again) {
    began_anew(0, 2);
    look();
    s.owner_map[0].keys = OWNER_LOST;
    s.owner_map[0].epoch++;
    ck_assert(!look() && stopped == 1);
    began_anew(0, 2);
    s.owner_map[0].epoch = 7;
    begins = -EBUSY; /* the first one is not reaped yet */
    ck_assert(look());
    begins = 0;
    look();
    ck_assert(begun == 3 && changes == 0);
    child_ended(&s, (uint32_t[]){0}, 1, &ten);
    look();
    ck_assert(changes == 1 && s.owner_map[0].keys == OWNER_REFILLED && stopped == 1);
}
END_TEST

START_TEST(the_child_of_an_owner_that_moves_is_stopped_and_others_begin_again) {
    began_anew(0, 2);
    began_anew(1, 2);
    look();
    s.owner_map[0].primary = shadow_on(&s.deal, 0, 3); /* its second copy was promoted */
    ck_assert(look());
    ck_assert(stopped == 1 && begun == 2 && asked_n == 1 && asked[0] == 1);
    child_ended(&s, asked, 1, &ten);
    look();
    ck_assert(changes == 1 && s.owner_map[1].keys == OWNER_REFILLED);
    ck_assert(s.owner_map[0].keys == OWNER_REFILLING && stopped == 1);
    s.node_id = 3; /* there it is read on */
    ck_assert(look());
    ck_assert(begun == 3 && asked_n == 1 && asked[0] == 0);
}
END_TEST

START_TEST(the_end_of_the_dictionary_waits_for_no_source) {
    began_anew(0, 2);
    began_anew(1, 2);
    look();
    began_anew(4, 2); /* which waits for the child of the others */
    s.stage = STAGE_DRAINING;
    look();
    ck_assert(stopped == 1 && begun == 1 && changes == 3);
    ck_assert_ptr_nonnull(strstr(note, "the dictionary is ending"));
    began_anew(5, 2);
    look();
    ck_assert(begun == 1 && changes == 4 && !look());
}
END_TEST

UNIT_MAIN_WITH("supervisor_refill", before, after, the_child_begins_once_for_all_that_are_here,
               while_it_reads_others_wait_for_the_next,
               a_child_that_never_ends_is_not_awaited_for_ever,
               without_a_child_it_is_said_what_is_missing,
               a_source_that_fails_is_read_again_and_then_all_is_told,
               a_source_that_always_fails_is_given_up, what_no_try_can_help_is_given_up_at_once,
               behind_the_time_of_a_child_there_is_no_other_try,
               it_is_said_until_the_map_has_it_and_in_its_epoch, what_is_lost_again_begins_again,
               the_child_of_an_owner_that_moves_is_stopped_and_others_begin_again,
               the_end_of_the_dictionary_waits_for_no_source)
