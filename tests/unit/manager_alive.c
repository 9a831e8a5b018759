/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager_alive.c - an owner with a backup, asked with ALIVE whether what is in the air may be of who is gone:
 * by a proxy, of what it sent over a connection that has ended, and by whoever asks for a client.
 */
#include "sides.h"
#include <manager/replica_primary.h>

enum { GONE = 77 }; /* a client that is not there */

static bool proxy_alive(uint32_t number) {
    uint64_t id = id_of(number, DD_RESULTS);
    proxy_ask(MSG_ALIVE, 0, id, NULL, NULL);
    UNTIL_BY(alone_turn, proxy.last_id == id);
    ck_assert(proxy.last.status == 0 && proxy.last.aux < 2);
    return proxy.last.aux;
}

static bool client_alive(uint64_t who) {
    uint8_t payload[64] = {0};
    struct msg r = request(MSG_ALIVE, 0, NULL, NULL, payload);
    r.aux = who;
    uint64_t id = client_send(r, payload);
    UNTIL_BY(alone_turn, answered(id));
    ck_assert(is(id, 0, NULL));
    return answers[id % ANSWERS].aux;
}

static void proxy_open_again(uint64_t group) {
    proxy_open(&primary, group);
    UNTIL_BY(alone_turn, proxy.up);
}

START_TEST(what_a_proxy_does_not_await_any_more_is_in_the_air) {
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    proxy_ask(MSG_PUT, 0, id_of(1, 0), key(0), "one");
    UNTIL_BY(alone_turn, m->flights->air);
    ck_assert(!proxy_alive(2)); /* it awaits the answer itself */
    proxy_open_again(2);
    ck_assert(proxy_alive(3) && proxy_alive(4));
    ck_assert(!client_alive(GONE)); /* of this node nothing is */
    proxy_open_again(3);
    proxy_ask(MSG_PUT, MSGF_AGAIN, id_of(1, 0), key(0), "one");
    ck_assert(!proxy_alive(5)); /* it awaits it again */
    proxy_open_again(4);
    ck_assert(proxy_alive(6) && is_at(&primary, key(0), NULL));
    quiet();
    ck_assert(!proxy_alive(7) && is_on_both(key(0), "one"));
}
END_TEST

START_TEST(what_waits_behind_it_is_never_made) {
    proxy_open(&primary, 1);
    UNTIL(proxy.up);
    ask(MSG_PUT, 0, key(0), "one"); /* of a client of this node */
    UNTIL_BY(alone_turn, m->flights->air);
    proxy_ask(MSG_PUT, 0, id_of(1, 0), key(0), "never");
    alone(50);
    proxy_open_again(2);
    ck_assert(!proxy_alive(2));
    quiet();
    ck_assert(is_on_both(key(0), "one"));
}
END_TEST

START_TEST(a_client_that_is_gone_lives_while_its_change_is_in_the_air) {
    ask(MSG_PUT, 0, key(0), "one");
    UNTIL_BY(alone_turn, m->flights->air);
    client_del(m, 1);
    client_close();
    client_open();
    int fds[4] = {client.lease_fd, client.lane_fd, fcntl(client.client_eventfd, F_DUPFD_CLOEXEC, 3),
                  fcntl(client.lane_eventfd, F_DUPFD_CLOEXEC, 3)};
    ck_assert_int_eq(client_add(m, 2, 2, fds), 0);
    ck_assert(client_alive(1) && !client_alive(GONE) && client_alive(2));
    quiet();
    ck_assert(!client_alive(1) && is_on_both(key(0), "one"));
}
END_TEST

/* Whose it was is not known any more: of nobody it is said that he is dead before it is over. */
static void next_life_doubts(bool clears) {
    life_none();
    ask(clears ? MSG_CLEAR : MSG_PUT, 0, clears ? NULL : key(0), clears ? NULL : "one");
    life_first(true);
    client_close();
    client_open(); /* another one */
    life_next();
    proxy_open_again(1);
    ck_assert(proxy_alive(1));
    ck_assert(flights_of_gone(m, GONE) || replica_primary_doubts(m));
    quiet();
    UNTIL(!ledger_next(primary.setup.ledger, NULL));
    ck_assert(!proxy_alive(2));
    ck_assert(!flights_of_gone(m, GONE) && !replica_primary_doubts(m));
    both_same();
}
START_TEST(a_later_life_does_not_know_whose_change_it_undoes) {
    next_life_doubts(false);
}
END_TEST
START_TEST(a_later_life_does_not_know_who_cleared) {
    next_life_doubts(true);
}
END_TEST

UNIT_MAIN_WITH("manager_alive", both_open, both_close,
               what_a_proxy_does_not_await_any_more_is_in_the_air,
               what_waits_behind_it_is_never_made,
               a_client_that_is_gone_lives_while_its_change_is_in_the_air,
               a_later_life_does_not_know_whose_change_it_undoes,
               a_later_life_does_not_know_who_cleared)
