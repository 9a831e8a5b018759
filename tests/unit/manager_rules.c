/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager_rules.c - PUT, DEL and HEAD with a rule at a primary that has a backup: judged in the order in
 * which they came, made once, and the answer is the same whoever gives it.
 */
#include "sides.h"

enum { TAG = 5 };

static struct msg add_of(const char *k, int64_t delta, uint8_t *payload) {
    struct msg r = request(MSG_PUT, 0, k, NULL, payload);
    r.rule = RULE_ADD;
    r.aux = (uint64_t)delta;
    r.tag = TAG;
    return r;
}
static uint64_t add(const char *k, int64_t delta) {
    uint8_t payload[256];
    struct msg r = add_of(k, delta, payload);
    return client_send(r, payload);
}
static uint64_t ask_if(unsigned type, unsigned flags, const char *k, const char *value,
                       uint64_t version) {
    uint8_t payload[256];
    struct msg r = request(type, flags, k, value, payload);
    r.rule = RULE_IF;
    r.version = version;
    return client_send(r, payload);
}
static void proxy_add(uint64_t id, unsigned flags, const char *k, int64_t delta) {
    uint8_t payload[256];
    struct msg r = add_of(k, delta, payload);
    r.id = id;
    r.flags = (uint16_t)flags;
    ck_assert_int_eq(conn_send(proxy.c, &r, payload, r.len - MSG_HEADER, NULL, 0, NULL, NULL), 0);
}
#define version_in(id) (answers[(id) % ANSWERS].version)

START_TEST(sums_in_flight_are_of_those_before) {
    uint64_t id[8];
    for (int i = 0; i < 8; i++)
        id[i] = i == 4 ? ask(MSG_DEL, 0, key(0), NULL) : add(key(0), 7);
    alone(300);
    ck_assert(!answered(id[0]) && is_at(&primary, key(0), NULL));
    quiet();
    for (int i = 0; i < 8; i++)
        ck_assert(is(id[i], 0, NULL) &&
                  (i == 4 || version_in(id[i]) == 7u * (unsigned)(i < 4 ? i + 1 : i - 4)));
    ck_assert(is_on_both(key(0), "21"));
    id[0] = add(key(0), INT64_MAX);
    id[1] = ask(MSG_PUT, 0, key(0), "21"); /* without that tag */
    id[2] = add(key(0), 1);
    quiet();
    ck_assert(is(id[0], -ERANGE, NULL) && is(id[1], 0, NULL) && is(id[2], DDICT_ENOTINT, NULL));
    ck_assert(is_on_both(key(0), "21"));
    both_same();
}
END_TEST

START_TEST(of_two_with_one_version_the_first_is_made) {
    uint64_t id[5], version;
    id[0] = ask_if(MSG_PUT, 0, key(0), "one", 0);
    id[1] = ask_if(MSG_PUT, 0, key(0), "two", 0);
    quiet();
    version = version_in(id[0]);
    ck_assert(is(id[0], 0, NULL) && version > 0);
    ck_assert(is(id[1], DDICT_ECHANGED, NULL) && version_in(id[1]) == version);
    id[0] = ask_if(MSG_PUT, 0, key(0), "three", version);
    id[1] = ask_if(MSG_DEL, 0, key(0), NULL, version);
    id[2] = ask(MSG_PUT, 0, key(1), "other");
    quiet();
    ck_assert(is(id[0], 0, NULL) && is(id[1], DDICT_ECHANGED, NULL) && is(id[2], 0, NULL));
    ck_assert_uint_eq(version_in(id[1]), version_in(id[0]));
    version = version_in(id[0]);
    id[0] = ask_if(MSG_DEL, 0, key(0), NULL, version);
    id[1] = ask_if(MSG_DEL, 0, key(0), NULL, version);
    id[2] = ask_if(MSG_PUT, 0, key(0), "four", version);
    id[3] = ask_if(MSG_PUT, 0, key(0), "five", 0);
    quiet();
    ck_assert(is(id[0], 0, NULL) && is(id[1], DDICT_ECHANGED, NULL) && version_in(id[1]) == 0);
    ck_assert(is(id[2], DDICT_ECHANGED, NULL) && is(id[3], 0, NULL) && version_in(id[3]) > version);
    ck_assert(is_on_both(key(0), "five"));
    both_same();
}
END_TEST

START_TEST(who_waits_for_another_version_learns_what_both_have) {
    uint64_t put = ask(MSG_PUT, 0, key(0), "one"), wait[3], del;
    quiet();
    for (int i = 0; i < 3; i++)
        wait[i] = ask_if(MSG_HEAD, MSGF_WAIT, key(0), NULL, version_in(put));
    put = ask(MSG_PUT, 0, key(0), "two");
    alone(300);
    ck_assert(!answered(wait[0]));
    quiet();
    for (int i = 0; i < 3; i++)
        ck_assert(is(wait[i], 0, NULL) && version_in(wait[i]) == version_in(put));
    wait[0] = ask_if(MSG_HEAD, MSGF_WAIT, key(0), NULL, version_in(put));
    del = ask(MSG_DEL, 0, key(0), NULL);
    quiet();
    ck_assert(is(wait[0], 0, NULL) && version_in(wait[0]) == 0 && is(del, 0, NULL));
    wait[0] = ask_if(MSG_HEAD, MSGF_WAIT, key(0), NULL, 0);
    wait[1] = ask(MSG_POP, MSGF_WAIT, key(0), NULL); /* before it, or behind */
    put = ask(MSG_PUT, 0, key(0), "three");
    quiet();
    ck_assert(is(wait[0], 0, NULL) && is(wait[1], 0, "three") && is_on_both(key(0), NULL));
    both_same();
}
END_TEST

/* It asks again, over a new connection: of the primary, and of the backup that has taken its place. */
START_TEST(a_sum_is_told_again_and_not_made_again) {
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    proxy_add(id_of(1, 0), 0, key(0), 40);
    UNTIL(proxy.answers == 1);
    ck_assert_uint_eq(proxy.last.version, 40);
    proxy_add(id_of(1, 1), 0, key(0), 2);
    UNTIL(proxy.answers == 2);
    quiet();
    proxy_open(&primary, 2);
    UNTIL(proxy.up);
    proxy_add(id_of(1, 1), MSGF_AGAIN, key(0), 2);
    UNTIL(proxy.answers == 1);
    ck_assert(proxy.last.status == 0 && proxy.last.version == 42 && is_on_both(key(0), "42"));
    const struct result *r = &backup.setup.results[PROXY].at[1];
    ck_assert(r->id == id_of(1, 1) && r->version == 42);
    r = &backup.setup.results[PROXY].at[0];
    ck_assert(r->id == id_of(1, 0) && r->version == 40);
    both_same();
}
END_TEST

START_TEST(sums_and_conditions_outlive_broken_connections) {
    uint64_t id[64], of[64];
    int64_t sum[2] = {0};
    for (unsigned round = 0; round < 8; round++) {
        for (unsigned i = 0; i < 64; i++) {
            of[i] = i % 2;
            id[i] = i % 16 == 15 ? ask_if(MSG_PUT, 0, key(2), "x", i == 15 && round == 0 ? 0 : 1)
                                 : add(key((unsigned)of[i]), (int64_t)i);
        }
        for (unsigned i = 0; i < 20; i++)
            turn();
        connection_break();
        quiet();
        for (unsigned i = 0; i < 64; i++) {
            if (i % 16 == 15)
                continue;
            sum[of[i]] += i;
            ck_assert(is(id[i], 0, NULL));
            ck_assert_int_eq((int64_t)version_in(id[i]), sum[of[i]]);
        }
        both_same();
    }
}
END_TEST

UNIT_MAIN_WITH("manager_rules", both_open, both_close, sums_in_flight_are_of_those_before,
               of_two_with_one_version_the_first_is_made,
               who_waits_for_another_version_learns_what_both_have,
               a_sum_is_told_again_and_not_made_again,
               sums_and_conditions_outlive_broken_connections)
