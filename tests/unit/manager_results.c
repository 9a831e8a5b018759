/* SPDX-License-Identifier: Apache-2.0 */
/* manager_results.c - results of changes for other managers: a change is made once, whichever
 * connection it comes by, and a value that was popped is kept until its proxy has it. */
#include "unit.h"
#include <base/defaults.h>
#include <manager/answers.h>
#include <manager/replica_flight.h>
#include <manager/requests.h>
#include <manager/results.h>
#include <manager/rules.h>
#include <manager/stream_in.h>
#include <manager/stream_out.h>

#define PROXY_ID 1u

static struct manager m;
static struct manager_setup setup;
static struct manager_page page;
static struct results results[2];
static struct requester proxy;
static unsigned carried_out, answered, refused, given, pins;
static unsigned dropped; /* puts of which the pieces are */
static uint64_t settled; /* the last id before which nothing is asked again */
static uint64_t popped;  /* the item that the next POP takes */
struct faults faults;

/* --- instead of the store, and of what answers --- */
void store_begin(struct store *s, const struct store_source *from) {
}
bool store_fate(struct store *s, struct store_fate *f) {
    return false;
}
int store_keep(struct store *s, uint64_t off) {
    return 0;
}
int store_pin(struct store *s, uint64_t off) {
    pins++;
    return 0;
}
void store_unpin(struct store *s, uint64_t off) {
    ck_assert_uint_gt(pins--, 0);
}
static struct item nothing;
int store_item_at(struct store *s, uint64_t off, struct store_ref *ref) {
    *ref = (struct store_ref){.off = off, .item = &nothing};
    return 0;
}
bool item_goes_whole(const struct item *it) {
    return true;
}
struct stream_out *stream_out_new(struct manager *of, const struct store_ref *away) {
    return NULL;
}
void request_give(struct requester *a, const struct msg *req, const struct store_ref *ref,
                  bool pinned, struct stream_out *ready) {
    given++;
    store_unpin(NULL, ref->off);
}
void requester_send(struct requester *a, struct msg *r, const void *payload, size_t len) {
    answered++;
}
void requester_reply(struct requester *a, const struct msg *req, int status, const char *text) {
    refused++;
}
void faults_step(enum faults_step step) {
}
int put_in_pass(struct requester *a, const struct msg *req, struct forward *f) {
    ck_assert_ptr_null(f);
    dropped++;
    return TAKE_DONE;
}
void puts_settle(struct manager *of, uint64_t who, uint64_t id) {
    ck_assert_uint_eq(who, proxy.who);
    settled = id;
}
int request_take(struct requester *a, const struct msg *req, const uint8_t *payload) {
    struct store_ref ref = {.off = popped};
    carried_out++;
    results_add(a, req->id, 0, req->type == MSG_POP ? &ref : NULL);
    return TAKE_DONE;
}

uint64_t rule_version(unsigned rule, const struct item *it, uint64_t version) {
    return version;
}
bool flight_attach(struct requester *a, const struct msg *req) {
    return false;
}
void flight_took(struct manager *of, uint32_t proxy_id, uint64_t id) {
}

static void before(void) {
    memset(results, 0, sizeof results);
    setup = (struct manager_setup){.page = &page, .results = results, .managers = 2};
    m = (struct manager){.setup = &setup};
    proxy = (struct requester){.m = &m, .kind = REQUESTER_PEER, .who = 1ull << 63 | PROXY_ID};
    carried_out = answered = refused = given = pins = dropped = 0;
    settled = 0;
    popped = 4096;
    ck_assert(results_connect(&m, PROXY_ID, 1));
}

static uint64_t id_of(uint32_t number, uint32_t place) {
    return (uint64_t)number << 32 | place;
}

static void ask(unsigned type, unsigned flags, uint64_t id) {
    struct msg req = {
        .type = (uint16_t)type, .flags = (uint16_t)flags, .id = id, .len = MSG_HEADER};
    ck_assert_int_eq(results_take(&proxy, &req, NULL), TAKE_DONE);
}

START_TEST(a_change_is_made_once_whichever_way_it_comes) {
    ask(MSG_PUT, 0, id_of(1, 3));
    ask(MSG_PUT, MSGF_AGAIN, id_of(1, 3));
    ck_assert(carried_out == 1 && answered == 1);
    /* by an older connection, which comes up late */
    ck_assert(results_connect(&m, PROXY_ID, 1));
    ask(MSG_PUT, 0, id_of(1, 3));
    ck_assert(carried_out == 1 && answered == 2);
    ask(MSG_PUT, 0, id_of(2, 3)); /* another request in its place */
    ask(MSG_DEL, MSGF_AGAIN, id_of(3, 0));
    ck_assert(carried_out == 3 && answered == 2);
}
END_TEST

/* A put in pieces is made at its last piece. */
START_TEST(a_put_in_pieces_is_made_once) {
    ask(MSG_PUT, MSGF_STREAM | MSGF_AGAIN, id_of(1, 2)); /* begins it anew */
    ck_assert(carried_out == 1 && answered == 0);
    memset(&results[PROXY_ID].at[2], 0, sizeof results[0].at[2]); /* request_take() here makes it */
    ask(MSG_DATA, MSGF_LAST, id_of(1, 2));
    ask(MSG_PUT, MSGF_STREAM | MSGF_AGAIN, id_of(1, 2));
    ck_assert(carried_out == 2 && answered == 1 && dropped == 0);
    ask(MSG_PUT, MSGF_STREAM, id_of(1, 2)); /* late, with its pieces behind it */
    ck_assert(carried_out == 2 && answered == 2 && dropped == 1);
}
END_TEST

START_TEST(what_has_no_result_is_carried_out_each_time) {
    for (int i = 0; i < 2; i++) {
        ask(MSG_PUT, MSGF_AGAIN, id_of(1, DD_RESULTS));
        ask(MSG_GET, MSGF_AGAIN, id_of(1, 0));
        ask(MSG_DATA, MSGF_LAST, id_of(1, 1));
    }
    ck_assert_uint_eq(carried_out, 6);
    setup.results = NULL;
    ask(MSG_PUT, MSGF_AGAIN, id_of(1, 1));
    ck_assert(carried_out == 6 && refused == 1);
}
END_TEST

START_TEST(a_later_life_of_the_proxy_asks_for_the_results_of_the_one_before) {
    ask(MSG_POP, 0, id_of(1, 0));
    ask(MSG_PUT, 0, id_of(2, 1));
    ask(MSG_POP, 0, id_of(3, 2));
    ck_assert(results_connect(&m, PROXY_ID, 3));
    ck_assert_uint_eq(pins, 2);
    ask(MSG_PUT, MSGF_AGAIN, id_of(2, 1));
    ask(MSG_POP, MSGF_AGAIN, id_of(3, 2));
    ck_assert(carried_out == 3 && answered == 1 && given == 1);
    ck_assert(!results_connect(&m, PROXY_ID, 2)); /* late, of a life that is over */
    ask(MSG_POP, MSGF_AGAIN, id_of(3, 2));
    ck_assert(carried_out == 3 && given == 2);
    /* the first value that it asks for anew comes behind all that it asks for again */
    results_settle(&m, PROXY_ID, id_of(4, 0));
    ck_assert_uint_eq(pins, 1);
    ask(MSG_PUT, 0, id_of(4, 0));
    ck_assert_uint_eq(carried_out, 4);
}
END_TEST

START_TEST(a_popped_value_is_kept_until_its_proxy_has_it) {
    ask(MSG_POP, 0, id_of(5, 0));
    ask(MSG_POP, 0, id_of(6, 1));
    ask(MSG_POP, 0, id_of(9, 2));
    results_took(&proxy, id_of(5, 0));
    results_took(&proxy, id_of(8, 1)); /* not that one */
    ck_assert_uint_eq(pins, 2);
    /* an older connection knows nothing of the third */
    ck_assert(results_connect(&m, PROXY_ID, 1));
    ask(MSG_POP, 0, id_of(6, 1));
    results_settle(&m, PROXY_ID, id_of(7, 5));
    ck_assert_uint_eq(settled, id_of(7, 5));
    ck_assert(given == 1 && pins == 2);
    ck_assert(results_connect(&m, PROXY_ID, 1));
    ask(MSG_POP, MSGF_AGAIN, id_of(9, 2));
    results_settle(&m, PROXY_ID, id_of(10, 5));
    ck_assert(given == 2 && pins == 1);
    ck_assert(results_connect(&m, PROXY_ID, 1));
    results_settle(&m, PROXY_ID, id_of(11, 5));
    ck_assert_uint_eq(pins, 0);
}
END_TEST

START_TEST(numbers_begin_anew) {
    ask(MSG_POP, 0, id_of(UINT32_MAX, 0));
    ask(MSG_POP, 0, id_of(2, 1));
    ck_assert(results_connect(&m, PROXY_ID, 1));
    results_settle(&m, PROXY_ID, id_of(1, 5));
    ck_assert_uint_eq(pins, 1);
    results_settle(&m, PROXY_ID, id_of(3, 5));
    ck_assert_uint_eq(pins, 0);
}
END_TEST

/* Of a backup, which has no requesters. */
START_TEST(what_a_backup_writes_answers_what_is_asked_again) {
    struct store_ref ref = {.off = popped};
    results_enter(&m, PROXY_ID, id_of(1, 4), 77, NULL);
    results_enter(&m, PROXY_ID, id_of(2, 5), 0, &ref);
    results_enter(&m, PROXY_ID, id_of(3, DD_RESULTS), 78, &ref); /* has none */
    ck_assert_uint_eq(pins, 1);
    results_leave(&m, PROXY_ID, id_of(1, 5)); /* another request had this place */
    ck_assert_uint_eq(pins, 1);
    ask(MSG_PUT, MSGF_AGAIN, id_of(1, 4));
    ask(MSG_POP, MSGF_AGAIN, id_of(2, 5));
    ck_assert(carried_out == 0 && answered == 1 && given == 1);
    results_leave(&m, PROXY_ID, id_of(2, 5));
    ck_assert_uint_eq(pins, 0);
    /* sent to the backup once more: the item of before is given up */
    results_enter(&m, PROXY_ID, id_of(4, 6), 0, &ref);
    results_enter(&m, PROXY_ID, id_of(4, 6), 0, &ref);
    ck_assert_uint_eq(pins, 1);
}
END_TEST

START_TEST(a_proxy_of_a_lost_node_keeps_nothing) {
    struct store_ref ref = {.off = popped};
    m.knows = true;
    ask(MSG_POP, 0, id_of(1, 0));
    ask(MSG_POP, 0, id_of(2, 1));
    ck_assert_uint_eq(pins, 2);
    results_proxy_lost(&m, PROXY_ID);
    ck_assert_uint_eq(pins, 0);
    results_enter(&m, PROXY_ID, id_of(3, 2), 0, &ref); /* it was in flight */
    ck_assert_uint_eq(pins, 0);
    ck_assert(!results_connect(&m, PROXY_ID, UINT32_MAX));
}
END_TEST

/* The map comes before a later life has pinned anything. */
START_TEST(a_later_life_of_the_owner_keeps_nothing_for_it_either) {
    ask(MSG_POP, 0, id_of(1, 0));
    m.knows = false;
    pins = 0;
    results_proxy_lost(&m, PROXY_ID);
    results_open(&m);
    results_proxy_lost(&m, PROXY_ID);
    ck_assert_uint_eq(pins, 0);
}
END_TEST

UNIT_MAIN_WITH("manager_results", before, NULL, a_change_is_made_once_whichever_way_it_comes,
               a_put_in_pieces_is_made_once, what_has_no_result_is_carried_out_each_time,
               a_later_life_of_the_proxy_asks_for_the_results_of_the_one_before,
               a_popped_value_is_kept_until_its_proxy_has_it, numbers_begin_anew,
               what_a_backup_writes_answers_what_is_asked_again,
               a_proxy_of_a_lost_node_keeps_nothing,
               a_later_life_of_the_owner_keeps_nothing_for_it_either)
