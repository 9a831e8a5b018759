/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager_cut.c - a manager as the proxy of a client whose connections to an owner break off again and again:
 * how it goes on with values in pieces, and what it says of a client that is gone.
 */
#include "owners.h"

static void owner_rewinds(uint64_t aux) {
    struct msg r = {
        .type = MSG_REWIND, .id = first.last.id, .manager = OWNER, .rewind = 1, .aux = aux};
    unsigned before = client.rewinds;
    ck_assert_int_eq(conn_send(first.c, &r, NULL, 0, NULL, 0, NULL, NULL), 0);
    UNTIL(client.rewinds > before || client.answers);
}

/* A connection that ends soon brings few answers: not all of them how much there is of each value. */
START_TEST(values_that_were_lost_in_vain_go_again_one_by_one) {
    for (uint64_t id = 1; id <= 3; id++)
        value_begin(id);
    UNTIL(first.asked == 3);
    owner_break(&first);
    UNTIL(first.asked == 6);
    owner_break(&first);
    UNTIL(first.asked > 6);
    ck_assert_uint_eq(first.asked, 7);
    owner_answer(&first, first.last.id);
    UNTIL(client.answers == 1);
    ck_assert(client.last.id == 1 && client.last.status == 0);
    UNTIL(first.asked == 10); /* ABORT of the first, and the others */
    ck_assert(first.last.type == MSG_PUT && first.last.flags & MSGF_AGAIN);
}
END_TEST

/* A slow client has the more time to send of its value, before others' take the connection. */
START_TEST(the_more_were_lost_in_vain_the_longer_the_others_wait) {
    enum { LOSSES = 10 };
    for (uint64_t id = 1; id <= 2; id++)
        value_begin(id);
    UNTIL(first.asked == 2);
    owner_break(&first);
    UNTIL(first.asked == 4);
    for (unsigned i = 1; i < LOSSES; i++) {
        owner_break(&first);
        UNTIL(first.asked == 4 + i);
    }
    turns_for(2 * DD_PEER_TRY_MS);
    ck_assert_uint_eq(first.asked, 4 + LOSSES - 1);
    UNTIL(first.asked == 4 + LOSSES);
}
END_TEST

/* What a client sends of its value stands behind its other requests, which wait for all that is asked again. */
START_TEST(a_value_is_not_kept_back_by_what_its_client_asks_meanwhile) {
    enum { LOSSES = DD_PEER_TRIES };
    for (uint64_t id = 1; id <= 2; id++)
        value_begin(id);
    UNTIL(first.asked == 2);
    owner_break(&first);
    UNTIL(first.asked == 4);
    for (unsigned i = 1; i < LOSSES; i++) {
        owner_break(&first);
        UNTIL(first.asked == 4 + i);
    }
    uint64_t began_ms = clock_ms();
    value_begin(3);
    UNTIL(first.asked == 4 + LOSSES + 1);
    ck_assert_uint_lt(clock_ms() - began_ms, LOSSES * DD_PEER_TRY_MS * 3 / 4);
    ck_assert(!(first.last.flags & MSGF_AGAIN));
}
END_TEST

START_TEST(a_value_is_given_up_only_where_nothing_more_of_it_comes) {
    unsigned asked = 0;
    setup.survives = false;
    value_begin(1);
    for (uint64_t i = 1; i < DD_PEER_TRIES + 5; i++) {
        UNTIL(first.asked == asked + 1);
        asked = first.asked;
        if (i > 1)
            owner_rewinds(1000 * i);
        owner_break(&first);
    }
    for (; client.answers == 0; asked = first.asked) {
        UNTIL(first.asked > asked || client.answers);
        if (!client.answers)
            owner_rewinds(1000);
        owner_break(&first);
    }
    ck_assert_int_eq(client.last.status, DDICT_ELOST);
}
END_TEST

static bool client_alive(uint64_t who, uint64_t id) {
    unsigned before = client.answers;
    client_send(
        (struct msg){.type = MSG_ALIVE, .id = id, .len = MSG_HEADER, .manager = SELF, .aux = who},
        "");
    UNTIL(client.answers == before + 1);
    ck_assert(client.last.id == id && client.last.status == 0);
    return client.last.aux;
}

/* Whatever else the owner says: what it has read of the connection before may still be made. */
START_TEST(who_is_gone_is_dead_when_the_owner_has_nothing_of_him) {
    enum { GONE = 77 };
    uint64_t id = 100;
    ck_assert(!client_alive(GONE, ++id) && client_alive(1, ++id));
    first.answers = true;
    client_ask(MSG_DEL, 1, OWNER, 0);
    UNTIL(client.answers == 3);
    owner_break(&first);
    first.aux = 1;
    UNTIL(!peer_is_settled(&m, OWNER));
    ck_assert(client_alive(GONE, ++id));
    UNTIL(first.asked == 2);
    ck_assert(first.last.type == MSG_ALIVE && first.last.aux == 0);
    client_ask(MSG_DEL, 2, OWNER, 0);
    UNTIL(client.answers == 5);
    ck_assert(client_alive(GONE, ++id) && client_alive(GONE, ++id));
    first.aux = 0;
    UNTIL(!client_alive(GONE, ++id));
}
END_TEST

UNIT_MAIN_WITH("manager_cut", before, after, values_that_were_lost_in_vain_go_again_one_by_one,
               the_more_were_lost_in_vain_the_longer_the_others_wait,
               a_value_is_not_kept_back_by_what_its_client_asks_meanwhile,
               a_value_is_given_up_only_where_nothing_more_of_it_comes,
               who_is_gone_is_dead_when_the_owner_has_nothing_of_him)
