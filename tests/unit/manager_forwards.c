/* SPDX-License-Identifier: Apache-2.0 */
/* manager_forwards.c - the table of forwards: which places changes and other requests take, that an
 * id is found while its place is not used again, and how much a lane may have under way. */
#include "unit.h"
#include <base/defaults.h>
#include <manager/forward_table.h>
#include <manager/ledger.h>
#include <manager/peer_client.h>
#include <manager/results.h>

#include <stdlib.h>
#include <sys/mman.h>

#define MANY     (3 * DD_RESULTS)
#define LONG_AGO (2ull * DD_PEER_STUCK_MS * 1000000u)

static struct manager m;
static struct manager_setup setup;
static struct manager_page page;
static struct ledger *ledger; /* is there: owners come back */
static struct requester lane;
static struct forward *head; /* of the peer's list */
static uint32_t stuck;       /* the manager that stands still */
static uint32_t refilling;   /* and the one whose keys are being read again */
static unsigned unstalled;
static struct forward *made[MANY + 1];
static unsigned made_n;
static struct ledger_entry *entry; /* of the next forward; NULL: it has none */
static unsigned entries_ended;
struct faults faults;

/* --- instead of peer_client.c --- */
struct forward **peer_forwards(struct peer *p) {
    return &head;
}
void peer_asked(struct peer *p) {
}
int peer_send(struct peer *p, unsigned via, struct msg *r, const void *payload, size_t len) {
    return 0;
}
bool peer_stuck(struct manager *of, uint32_t id) {
    return id == stuck;
}

bool peer_is_refilling(const struct manager *of, uint32_t id) {
    return id == refilling;
}

/* --- and of requester.c and the store --- */
struct ledger_entry *requester_enter(struct requester *a, const struct msg *req, const void *key,
                                     const void *value, uint64_t deadline) {
    struct ledger_entry *e = key ? entry : NULL;
    entry = NULL;
    return e;
}
void requester_begin(struct requester *a, struct ledger_entry **e) {
    a->m->answering = e;
}
void requester_entry_end(struct manager *of, struct ledger_entry **e) {
    ledger_end(ledger, *e);
    *e = NULL;
    entries_ended++;
}
void faults_step(enum faults_step step) {
}
void store_begin(struct store *s, const struct store_source *from) {
}

static void unstall(struct manager *of) {
    unstalled++;
}
static const struct upcalls upcalls = {.unstall = unstall};

static void before(void) {
    ck_assert_ptr_nonnull(ledger = ledger_map());
    setup = (struct manager_setup){.page = &page, .ledger = ledger};
    m = (struct manager){.setup = &setup, .up = &upcalls};
    lane = (struct requester){.m = &m, .kind = REQUESTER_LANE};
    lane.forwards_end = &lane.forwards;
    stuck = refilling = 99;
    unstalled = made_n = entries_ended = 0;
    entry = NULL;
    ck_assert_int_eq(forwards_init(&m), 0);
}

static void forward_over(struct forward *f) {
    forward_unlink(f);
    forward_delist(&m, f);
    free(f);
}

static void after(void) {
    while (lane.forwards)
        forward_over(lane.forwards);
    ck_assert_ptr_null(head);
    ck_assert_uint_eq(lane.forwards_n + lane.forward_waits_n + lane.forward_events_n, 0);
    ck_assert_uint_eq(lane.forward_copies + lane.forward_wait_copies, 0);
    forwards_free(&m);
    munmap(ledger, sizeof *ledger);
}

static struct msg request(unsigned type, unsigned flags, uint32_t len) {
    return (struct msg){.type = (uint16_t)type,
                        .flags = (uint16_t)flags,
                        .len = MSG_HEADER + 1 + len,
                        .key_len = 1};
}

static struct forward *forward_make(unsigned type, unsigned flags, uint32_t len, uint32_t to) {
    static uint8_t value[DD_MSG_INLINE];
    struct msg req = request(type, flags, len);
    struct forward *f = forward_new(&lane, &req, value, value, 0, to);
    ck_assert_ptr_nonnull(f);
    ck_assert(forward_enlist(f, NULL));
    ck_assert_ptr_eq(forward_find(&m, f->id), f);
    return f;
}

static uint32_t place(const struct forward *f) {
    return (uint32_t)f->id;
}

START_TEST(only_changes_take_places_with_results) {
    static const unsigned reads[] = {MSG_GET,   MSG_HEAD,   MSG_KEYS, MSG_LEN,
                                     MSG_STATS, MSG_EVENTS, MSG_ALIVE},
                          changes[] = {MSG_PUT, MSG_POP, MSG_DEL, MSG_CLEAR};
    for (unsigned i = 0; i < MANY; i++)
        ck_assert(!result_fits(forward_make(reads[i % 7], i % 7 ? 0 : MSGF_WAIT, 0, 1)->id));
    for (unsigned i = 0; i < DD_RESULTS; i++)
        ck_assert_uint_eq(place(forward_make(changes[i % 4], i % 8 ? 0 : MSGF_STREAM, 0, 1)), i);
}
END_TEST

START_TEST(changes_that_find_no_place_below_are_under_way_all_the_same) {
    for (unsigned i = 0; i < MANY; i++) {
        made[i] = forward_make(MSG_DEL, 0, 0, 1);
        ck_assert_uint_eq(place(made[i]), i);
    }
    for (unsigned i = 0; i < MANY; i++)
        ck_assert_ptr_eq(forward_find(&m, made[i]->id), made[i]);
    /* afterwards they have places below again, in whatever order those ended */
    for (unsigned i = 0; i < MANY; i += 2)
        forward_over(made[i]);
    for (unsigned i = MANY - 1; i < MANY; i -= 2)
        forward_over(made[i]);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < DD_RESULTS; i++)
            ck_assert(result_fits((made[i] = forward_make(MSG_POP, MSGF_WAIT, 0, 1))->id));
        made[DD_RESULTS] = forward_make(MSG_POP, 0, 0, 1);
        ck_assert(!result_fits(made[DD_RESULTS]->id));
        for (unsigned i = 0; i <= DD_RESULTS; i++)
            forward_over(made[i]);
    }
}
END_TEST

START_TEST(an_id_is_of_one_forward_alone) {
    static const unsigned types[] = {MSG_GET, MSG_PUT};
    for (unsigned i = 0; i < 2; i++) {
        unsigned type = types[i];
        struct forward *f = forward_make(type, 0, 0, 1);
        uint64_t id = f->id;
        forward_over(f);
        ck_assert_ptr_null(forward_find(&m, id));
        f = forward_make(type, 0, 0, 1);
        ck_assert_uint_eq(place(f), (uint32_t)id);
        ck_assert_uint_ne(f->id, id);
        ck_assert_ptr_null(forward_find(&m, id));
        forward_over(f);
    }
    ck_assert_ptr_null(forward_find(&m, 0));
    ck_assert_ptr_null(forward_find(&m, UINT64_MAX));
}
END_TEST

START_TEST(no_id_is_0_when_the_number_begins_anew) {
    ledger->number = UINT32_MAX - 1;
    for (unsigned i = 0; i < 4; i++) {
        struct forward *f = forward_make(MSG_PUT, 0, 0, 1);
        ck_assert_uint_ne(f->id >> 32, 0);
        forward_over(f);
    }
}
END_TEST

START_TEST(no_life_gives_an_id_twice) {
    uint64_t last = 0;
    for (unsigned life = 0; life < 3; life++)
        for (unsigned i = 0; i < 10; i++) {
            struct forward *f = forward_make(i % 2 ? MSG_PUT : MSG_GET, 0, 0, 1);
            ck_assert_uint_gt(f->id >> 32, last);
            last = f->id >> 32;
            forward_over(f);
            if (i < 9)
                continue;
            forwards_free(&m);
            ck_assert_int_eq(forwards_init(&m), 0);
        }
}
END_TEST

/* An entry of the ledger, with an id where that is not 0. */
static struct ledger_entry *entry_new(unsigned type, uint32_t len, uint64_t id) {
    static uint8_t value[DD_MSG_INLINE];
    struct msg req = request(type, 0, len);
    struct ledger_entry *e = ledger_add(ledger, 1, 64, 0, &req, value, value, len);
    ck_assert_ptr_nonnull(e);
    if (id)
        ledger_id(e, 1, id);
    return e;
}

START_TEST(a_change_has_its_id_in_its_entry) {
    struct ledger_entry *e = entry = entry_new(MSG_PUT, 1000, 0);
    struct forward *f = forward_make(MSG_PUT, 0, 1000, 1);
    ck_assert_ptr_eq(f->entry, e);
    ck_assert(e->id == f->id && e->to == 1);
    ck_assert(!f->kept && f->copied == 1000); /* once, in the ledger */
    forward_answers(f);
    ck_assert_ptr_eq(m.answering, &f->entry);
    forward_stays(f);
    ck_assert(!m.answering && f->entry == e);
    forward_answers(f);
    forward_answered(f);
    ck_assert(!m.answering && !f->entry && entries_ended == 1);
    forward_over(f);
    e = entry = entry_new(MSG_GET, 0, 0);
    f = forward_make(MSG_GET, 0, 0, 1);
    ck_assert(f->entry == e && e->id == 0 && f->kept); /* it may be asked with another id */
    forward_over(f);
    ck_assert_uint_eq(entries_ended, 2);
}
END_TEST

/* As lane_answers.c does where CQ has no room for the answer. */
static void answer_queue(struct forward *f) {
    forward_answers(f);
    *m.answering = NULL;
    forward_answered(f);
    ck_assert(!m.answering && f->queued && entries_ended == 0);
}

START_TEST(a_place_is_kept_until_the_answer_is_there) {
    struct ledger_entry *e = entry = entry_new(MSG_POP, 0, 0);
    struct forward *f = forward_make(MSG_POP, 0, 0, 1);
    uint64_t id = f->id;
    answer_queue(f);
    forward_over(f);
    ck_assert_ptr_null(forward_find(&m, id));
    ck_assert_uint_ne(place(forward_make(MSG_PUT, 0, 10, 1)), (uint32_t)id);
    ledger_end(ledger, e);
    forward_place_over(&m, id);
    ck_assert_uint_eq(place(forward_make(MSG_PUT, 0, 10, 1)), (uint32_t)id);
    /* it was given up, and its owner answers later */
    e = entry = entry_new(MSG_POP, 0, 0);
    f = forward_make(MSG_POP, 0, 0, 1);
    id = f->id;
    answer_queue(f);
    ledger_end(ledger, e);
    forward_place_over(&m, id);
    ck_assert_ptr_eq(forward_find(&m, id), f);
    ck_assert_uint_ne(place(forward_make(MSG_PUT, 0, 10, 1)), (uint32_t)id);
    forward_over(f);
    ck_assert_uint_eq(place(forward_make(MSG_PUT, 0, 10, 1)), (uint32_t)id);
}
END_TEST

START_TEST(a_change_without_a_result_has_no_entry) {
    for (unsigned i = 0; i < DD_RESULTS; i++)
        forward_make(MSG_DEL, 0, 0, 1);
    struct ledger_entry *e = entry = entry_new(MSG_PUT, 10, 0);
    struct forward *f = forward_make(MSG_PUT, 0, 10, 1);
    ck_assert(!f->entry && f->kept);
    ledger_end(ledger, e); /* nobody wanted it */
}
END_TEST

START_TEST(a_later_life_gives_no_place_of_an_entry_to_others) {
    static const uint32_t places[] = {3, 300, 0};
    struct ledger_entry *e[3];
    struct forward *f;
    ledger->number = 50;
    for (unsigned i = 0; i < 3; i++)
        e[i] = entry_new(MSG_POP, 0, (uint64_t)(40 + i) << 32 | places[i]);
    ck_assert(forwards_claim(&m, e, 3));
    for (unsigned i = 0; i < 400; i++) {
        f = forward_make(MSG_PUT, 0, 10, 1);
        ck_assert(place(f) != 3 && place(f) != 300 && place(f) != 0);
        ck_assert_uint_gt(f->id >> 32, 50);
        made[i] = f;
    }
    ck_assert_uint_eq(place(made[0]), 1); /* the first that is free */
    for (unsigned i = 0; i < 3; i++)
        ck_assert_ptr_null(forward_find(&m, e[i]->id));
    /* the request of an entry has its id, from the beginning */
    entry = e[1];
    struct msg req = request(MSG_POP, 0, 0);
    uint64_t id = e[1]->id;
    f = forward_new(&lane, &req, (const uint8_t *)"k", (const uint8_t *)"", 0, 1);
    ck_assert(f->id == id && forward_find(&m, id) == f);
    forward_resumed(f);
    ck_assert(m.forward_table->resumed == f && f->again_ns > 0);
    ck_assert(forward_enlist(f, NULL));
    ck_assert_uint_eq(f->id, id);
    forward_over(f);
    ck_assert_uint_eq(place(forward_make(MSG_PUT, 0, 10, 1)), 300);
    /* nobody asks for it: its client is gone */
    forward_place_over(&m, e[0]->id);
    ledger_end(ledger, e[0]);
    ck_assert_uint_eq(place(forward_make(MSG_PUT, 0, 10, 1)), 3);
    ledger_end(ledger, e[2]);
}
END_TEST

START_TEST(a_ledger_without_changes_claims_nothing) {
    struct ledger_entry *e = entry_new(MSG_GET, 0, 0);
    ck_assert(forwards_claim(&m, &e, 1) && forwards_claim(&m, NULL, 0));
    ck_assert_uint_eq(place(forward_make(MSG_PUT, 0, 10, 1)), 0);
    ledger_end(ledger, e);
}
END_TEST

START_TEST(values_under_way_are_counted) {
    struct msg put = request(MSG_PUT, 0, DD_MSG_INLINE / 2), get = request(MSG_GET, 0, 0);
    for (; !forwards_full(&lane, &put, 1); made_n++)
        made[made_n] = forward_make(MSG_PUT, 0, DD_MSG_INLINE / 2, 1);
    ck_assert_uint_eq(made_n, DD_COPIES_MAX / (DD_MSG_INLINE / 2) + 1);
    ck_assert(!forwards_full(&lane, &get, 1));
    ck_assert_uint_eq(unstalled, 0);
    forward_over(made[0]);
    ck_assert(!forwards_full(&lane, &put, 1));
    ck_assert_uint_eq(unstalled, 1); /* whoever waits for that tries again */
    forward_over(made[1]);
    ck_assert_uint_eq(unstalled, 1);
    setup.ledger = NULL; /* nothing is kept */
    for (unsigned i = 0; i < 100; i++)
        forward_make(MSG_PUT, 0, DD_MSG_INLINE / 2, 1);
    ck_assert(!forwards_full(&lane, &put, 1));
}
END_TEST

START_TEST(values_for_a_manager_that_stands_still_are_not) {
    struct msg put = request(MSG_PUT, 0, DD_MSG_INLINE / 2);
    while (!forwards_full(&lane, &put, 1))
        forward_make(MSG_PUT, 0, DD_MSG_INLINE / 2, 1);
    stuck = 1;
    ck_assert(!forwards_full(&lane, &put, 2));
    ck_assert(forwards_full(&lane, &put, 1));
}
END_TEST

START_TEST(keys_that_are_read_again_keep_no_other_from_going_on) {
    struct msg get = request(MSG_GET, 0, 0);
    unsigned n = 0;
    for (; !forwards_full(&lane, &get, 1); n++)
        forward_make(MSG_GET, 0, 0, 1);
    ck_assert(forwards_full(&lane, &get, 2));
    refilling = 1;
    for (unsigned others = 0; others + 1 < n; others++) {
        ck_assert(!forwards_full(&lane, &get, 2));
        forward_make(MSG_GET, 0, 0, 2);
    }
    ck_assert(!forwards_full(&lane, &get, 1));
    forward_make(MSG_GET, 0, 0, 2);
    ck_assert(forwards_full(&lane, &get, 2));
}
END_TEST

START_TEST(values_for_keys_that_are_read_again_are_counted_for_themselves) {
    struct msg put = request(MSG_PUT, 0, DD_MSG_INLINE / 2), get = request(MSG_GET, 0, 0);
    uint64_t most = 4ull * DD_COPIES_MAX / (DD_MSG_INLINE / 2), n = 0;
    refilling = 1;
    for (; !forwards_full(&lane, &put, 1); n++)
        forward_make(MSG_PUT, MSGF_NEW, DD_MSG_INLINE / 2, 1);
    ck_assert(n >= most && n <= most + 1);
    ck_assert(!forwards_full(&lane, &get, 1));
    for (n = 0; !forwards_full(&lane, &put, 2); n++)
        forward_make(MSG_PUT, 0, DD_MSG_INLINE / 2, 2);
    ck_assert_uint_eq(n, DD_COPIES_MAX / (DD_MSG_INLINE / 2) + 1);
}
END_TEST

START_TEST(no_more_than_may_wait_ask_for_keys_that_are_read_again) {
    struct msg get = request(MSG_GET, 0, 0), pop = request(MSG_POP, MSGF_WAIT, 0);
    unsigned n = 0, most = 0;
    for (; !forward_waits_full(&lane, &pop); most++)
        forward_make(MSG_POP, MSGF_WAIT, 0, 1);
    refilling = 1;
    for (; !forwards_full(&lane, &get, 1); n++)
        forward_make(MSG_GET, 0, 0, 1);
    ck_assert_uint_eq(n, most);
    ck_assert(forwards_full(&lane, &get, 2) && !forwards_full(&lane, &pop, 2));
}
END_TEST

START_TEST(values_that_wait_are_counted_for_themselves) {
    struct msg push = request(MSG_PUT, MSGF_WAIT | MSGF_APPEND, DD_MSG_INLINE / 2),
               put = request(MSG_PUT, 0, DD_MSG_INLINE / 2), pop = request(MSG_POP, MSGF_WAIT, 0);
    for (; !forward_waits_full(&lane, &push); made_n++)
        forward_make(MSG_PUT, MSGF_WAIT | MSGF_APPEND, DD_MSG_INLINE / 2, 1)->began -= LONG_AGO;
    ck_assert_uint_eq(made_n, DD_COPIES_MAX / (DD_MSG_INLINE / 2) + 1);
    ck_assert(!forwards_full(&lane, &push, 1)); /* it is refused, and its lane goes on */
    ck_assert(!forward_waits_full(&lane, &pop));
    ck_assert(!forwards_full(&lane, &put, 1));
}
END_TEST

START_TEST(values_on_their_way_are_not_refused) {
    struct msg push = request(MSG_PUT, MSGF_WAIT | MSGF_APPEND, DD_MSG_INLINE / 2),
               pop = request(MSG_POP, MSGF_WAIT, 0);
    for (; !forwards_full(&lane, &push, 1); made_n++) {
        ck_assert(!forward_waits_full(&lane, &push));
        made[made_n] = forward_make(MSG_PUT, MSGF_WAIT | MSGF_APPEND, DD_MSG_INLINE / 2, 1);
    }
    ck_assert_uint_eq(made_n, DD_COPIES_MAX / (DD_MSG_INLINE / 2) + 1);
    ck_assert(!forward_waits_full(&lane, &push) && !forwards_full(&lane, &pop, 1));
    ck_assert_uint_eq(unstalled, 0);
    forward_over(made[0]);
    ck_assert_uint_eq(unstalled, 1);
    ck_assert(!forwards_full(&lane, &push, 1));
    made[0] = forward_make(MSG_PUT, MSGF_WAIT | MSGF_APPEND, DD_MSG_INLINE / 2, 1);
    for (unsigned i = 0; i < made_n; i++)
        made[i]->began -= LONG_AGO;
    stuck = 1; /* they may be anywhere */
    ck_assert(!forward_waits_full(&lane, &push));
    stuck = 99;
    ck_assert(forward_waits_full(&lane, &push) && !forwards_full(&lane, &push, 1));
    forward_over(made[0]);
    ck_assert(!forward_waits_full(&lane, &push));
}
END_TEST

START_TEST(values_that_wait_keep_no_other_from_going_on) {
    struct msg push = request(MSG_PUT, MSGF_WAIT | MSGF_APPEND, DD_MSG_INLINE / 2),
               put = request(MSG_PUT, 0, DD_MSG_INLINE / 2);
    for (; !forwards_full(&lane, &push, 1); made_n++)
        made[made_n] = forward_make(MSG_PUT, MSGF_WAIT | MSGF_APPEND, DD_MSG_INLINE / 2, 1);
    ck_assert(forwards_full(&lane, &put, 1)); /* they are on their way */
    for (unsigned i = 0; i < made_n; i++)
        made[i]->began -= LONG_AGO;
    ck_assert(!forwards_full(&lane, &put, 1)); /* a pop may be behind it in its lane */
}
END_TEST

UNIT_MAIN_WITH("manager_forwards", before, after, only_changes_take_places_with_results,
               changes_that_find_no_place_below_are_under_way_all_the_same,
               an_id_is_of_one_forward_alone, no_id_is_0_when_the_number_begins_anew,
               no_life_gives_an_id_twice, a_change_has_its_id_in_its_entry,
               a_place_is_kept_until_the_answer_is_there, a_change_without_a_result_has_no_entry,
               a_later_life_gives_no_place_of_an_entry_to_others,
               a_ledger_without_changes_claims_nothing, values_under_way_are_counted,
               values_for_a_manager_that_stands_still_are_not,
               keys_that_are_read_again_keep_no_other_from_going_on,
               values_for_keys_that_are_read_again_are_counted_for_themselves,
               no_more_than_may_wait_ask_for_keys_that_are_read_again,
               values_that_wait_are_counted_for_themselves, values_on_their_way_are_not_refused,
               values_that_wait_keep_no_other_from_going_on)
