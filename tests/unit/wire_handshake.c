/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_handshake.c - how connections between nodes begin. Invariants: nothing of a peer that did
 * not prove itself reaches the owner; a peer's death or silence at any step is told once, within
 * its deadline.
 */
#include "wire_ends.h"
#include <base/versions.h>

START_TEST(both_ends_come_up_and_know_each_other) {
    struct end a = {0}, b = {0};
    uint64_t before = conn_refused();
    pair_up(&a, &b);
    ck_assert_uint_eq(a.peer, B_ID);
    ck_assert_uint_eq(b.peer, A_ID);
    ck_assert_int_eq(b.role, ROLE_DATA);
    ck_assert_uint_eq(conn_refused(), before);
    pair_end(&a, &b);
}
END_TEST

START_TEST(what_is_queued_before_up_arrives) {
    struct end a = {0}, b = {.check_ids = true};
    ck_assert_int_eq(conn_open(&a.c, ep, &id_a, ROLE_CONTROL, B_ID, &address, 1, &ops, &a), 0);
    for (uint64_t i = 0; i < 100; i++) {
        struct msg m = {.type = MSG_DEL, .id = i, .key_len = 3};
        ck_assert_int_eq(conn_send(a.c, &m, "key", 3, NULL, 0, NULL, NULL), 0);
    }
    ck_assert_int_eq(conn_accept(&b.c, ep, &id_b, accept_one(), &ops, &b), 0);
    LOOP_UNTIL(b.messages == 100, &a, &b);
    ck_assert_int_eq(b.role, ROLE_CONTROL);
    pair_end(&a, &b);
}
END_TEST

static void expect_both_refused(struct end *a, struct end *b) {
    uint64_t before = conn_refused();
    pair_start(a, b);
    struct msg m = {.type = MSG_LEN};
    ck_assert_int_eq(conn_send(a->c, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
    LOOP_UNTIL(a->down && b->down, a, b);
    ck_assert_int_eq(a->up + b->up + a->messages + b->messages, 0);
    ck_assert_int_eq(a->down, 1);
    ck_assert_int_eq(b->down, 1);
    ck_assert_uint_gt(conn_refused(), before);
}

START_TEST(a_wrong_key_is_refused_on_both_ends) {
    struct end a = {0}, b = {0};
    key_a[B_ID][31] ^= 1;
    expect_both_refused(&a, &b);
    /* the challenge proved nothing: the opener sends no answer */
    ck_assert_int_eq(a.code, DDICT_EAUTH);
    ck_assert_int_eq(b.code, -ECONNRESET);
}
END_TEST

/* What two nodes have is of no use between others: a node that is taken over cannot pass for a
 * third one. */
START_TEST(a_key_of_other_nodes_is_refused) {
    struct end a = {0}, b = {0};
    for (unsigned i = 0; i < NODES; i++)
        memset(key_a[i], (int)i, KEY_SIZE), memset(key_b[i], (int)i, KEY_SIZE);
    memcpy(key_a[B_ID], key_a[3], KEY_SIZE); /* A passes for node 3 */
    expect_both_refused(&a, &b);
    ck_assert_int_eq(a.code, DDICT_EAUTH);
}
END_TEST

START_TEST(two_nodes_make_one_key_and_a_listener_another) {
    uint8_t secret[3][KEY_SIZE], public[3][KEY_SIZE], ab[KEY_SIZE], ba[KEY_SIZE], third[KEY_SIZE],
        id[16] = {1}, zero[KEY_SIZE] = {0};
    ck_assert_int_eq(auth_init(), 0);
    for (int i = 0; i < 3; i++)
        auth_pair(secret[i], public[i]);
    ck_assert_int_eq(auth_key(ab, secret[0], public[0], public[1], id), 0);
    ck_assert_int_eq(auth_key(ba, secret[1], public[1], public[0], id), 0);
    ck_assert_mem_eq(ab, ba, KEY_SIZE);
    ck_assert_int_eq(auth_key(third, secret[2], public[2], public[1], id), 0);
    ck_assert_mem_ne(ab, third, KEY_SIZE);
    id[0] = 2; /* of another dictionary */
    ck_assert_int_eq(auth_key(third, secret[0], public[0], public[1], id), 0);
    ck_assert_mem_ne(ab, third, KEY_SIZE);
    ck_assert_int_eq(auth_key(third, secret[0], public[0], zero, id), DDICT_EAUTH);
}
END_TEST

START_TEST(another_dictionary_is_refused) {
    struct end a = {0}, b = {0};
    id_a.dict_id[0] ^= 1;
    expect_both_refused(&a, &b);
    ck_assert_int_eq(b.code, DDICT_EAUTH);
}
END_TEST

START_TEST(a_hello_for_somebody_else_is_refused) {
    struct end a = {0}, b = {0};
    id_b.self = 77;
    expect_both_refused(&a, &b);
    ck_assert_int_eq(b.code, DDICT_EAUTH);
}
END_TEST

START_TEST(another_protocol_version_is_told_apart) {
    struct end b = {0};
    struct auth_hello h;
    int fd = raw_attack(&b);
    auth_hello_make(&h, &id_a, ROLE_DATA, B_ID);
    h.protocol = PROTOCOL_VERSION + 1;
    raw_send(fd, &h, sizeof h);
    LOOP_UNTIL(b.down, &b, NULL);
    ck_assert_int_eq(b.code, DDICT_EVERSION);
    close(fd);
}
END_TEST

START_TEST(a_mac_of_zeros_or_of_the_wrong_letter_is_refused) {
    for (int kind = 0; kind < 2; kind++) {
        struct end b = {0};
        struct auth_hello h;
        struct auth_challenge ch;
        struct auth_answer an = {{0}};
        int fd = raw_attack(&b);
        auth_hello_make(&h, &id_a, ROLE_DATA, B_ID);
        raw_send(fd, &h, sizeof h);
        ck_assert(raw_recv(fd, &b, &ch, sizeof ch));
        if (kind == 1)
            /* the acceptor's own proof played back to it */
            memcpy(an.mac, ch.mac, sizeof an.mac);
        raw_send(fd, &an, sizeof an);
        LOOP_UNTIL(b.down, &b, NULL);
        ck_assert_int_eq(b.code, DDICT_EAUTH);
        ck_assert_int_eq(b.up, 0);
        close(fd);
    }
}
END_TEST

/* Without the key: take A's own first message and play it back to A on the same connection and on
 * one that A accepts. */
START_TEST(an_opener_that_is_reflected_to_itself_learns_nothing) {
    struct end a = {0}, a2 = {0};
    struct auth_hello h;
    struct auth_challenge ch;
    ck_assert_int_eq(conn_open(&a.c, ep, &id_a, ROLE_DATA, B_ID, &address, 1, &ops, &a), 0);
    int mallory = accept_one();
    ck_assert(raw_recv(mallory, &a, &h, sizeof h));
    /* A also accepts: the hello is for B, so A does not even challenge it; forging `to` changes
     * what the mac covers. */
    for (int forge = 0; forge < 2; forge++) {
        struct auth_hello t = h;
        int fd = raw_connect();
        ck_assert_int_eq(conn_accept(&a2.c, ep, &id_a, accept_one(), &ops, &a2), 0);
        if (forge)
            t.to = A_ID;
        raw_send(fd, &t, sizeof t);
        if (forge) {
            ck_assert(raw_recv(fd, &a2, &ch, sizeof ch));
            /* A's own challenge as the answer to A's hello */
            raw_send(mallory, &ch, sizeof ch);
            LOOP_UNTIL(a.down, &a, &a2);
            ck_assert_int_eq(a.code, DDICT_EAUTH);
        }
        close(fd);
        LOOP_UNTIL(a2.down == forge + 1, &a, &a2);
    }
    ck_assert_int_eq(a.up + a2.up, 0);
    close(mallory);
}
END_TEST

START_TEST(a_recorded_handshake_cannot_be_played_again) {
    struct end b = {0}, b2 = {0};
    struct auth_hello h;
    struct auth_challenge ch;
    struct auth_answer an;
    int fd = raw_attack(&b);
    auth_hello_make(&h, &id_a, ROLE_DATA, B_ID);
    raw_send(fd, &h, sizeof h);
    ck_assert(raw_recv(fd, &b, &ch, sizeof ch));
    ck_assert_int_eq(auth_challenge_check(&ch, &h, &id_a, &an), 0);
    raw_send(fd, &an, sizeof an);
    LOOP_UNTIL(b.up, &b, NULL);
    int again = raw_attack(&b2);
    raw_send(again, &h, sizeof h);
    raw_send(again, &an, sizeof an);
    LOOP_UNTIL(b2.down, &b2, NULL);
    ck_assert_int_eq(b2.code, DDICT_EAUTH);
    ck_assert_int_eq(b2.up, 0);
    ck_assert_int_eq(b.down, 0);
    close(again);
    close(fd);
    conn_free(b.c);
}
END_TEST

/* The mac covers every byte of the hello. */
START_TEST(a_change_of_any_byte_on_the_way_is_noticed) {
    for (size_t i = 0; i < sizeof(struct auth_hello); i++) {
        struct auth_hello h, t;
        struct auth_challenge ch;
        struct auth_answer an;
        struct conn_identity b = id_b;
        auth_hello_make(&h, &id_a, ROLE_DATA, B_ID);
        t = h;
        ((uint8_t *)&t)[i] ^= 3;
        if (auth_hello_check(&t, &b, &ch) == 0)
            ck_assert_int_eq(auth_challenge_check(&ch, &h, &id_a, &an), DDICT_EAUTH);
    }
}
END_TEST

START_TEST(bytes_that_follow_an_unproved_handshake_are_not_read) {
    struct end b = {0};
    struct auth_hello h;
    uint8_t junk[4096] = {0};
    int fd = raw_attack(&b);
    auth_hello_make(&h, &id_a, ROLE_DATA, B_ID);
    memcpy(junk, &h, sizeof h);
    raw_send(fd, junk, sizeof h + 31); /* one byte short of an answer */
    for (int i = 0; i < 20; i++)
        io_wait(ep, 2);
    ck_assert_int_eq(b.up + b.down + b.messages, 0);
    raw_send(fd, junk, 1000);
    LOOP_UNTIL(b.down, &b, NULL);
    ck_assert_int_eq(b.code, DDICT_EAUTH);
    ck_assert_int_eq(b.messages, 0);
    close(fd);
}
END_TEST

/* The acceptor's peer dies after so many bytes of what it sends. */
START_TEST(a_peer_that_dies_at_any_step_of_the_handshake_is_told) {
    static const size_t cut[] = {0, 1, 71, 72, 73, 103};
    for (unsigned i = 0; i < sizeof cut / sizeof *cut; i++) {
        struct end b = {0};
        uint8_t bytes[72 + 32] = {0};
        uint64_t before = conn_refused();
        int fd = raw_attack(&b);
        auth_hello_make((struct auth_hello *)bytes, &id_a, ROLE_DATA, B_ID);
        raw_send(fd, bytes, cut[i]);
        for (int k = 0; k < 3; k++)
            io_wait(ep, 1);
        ck_assert_int_eq(b.down, 0);
        close(fd);
        LOOP_UNTIL(b.down, &b, NULL);
        ck_assert_int_eq(b.code, -ECONNRESET);
        ck_assert_int_eq(b.up, 0);
        ck_assert_uint_eq(conn_refused(), before);
    }
}
END_TEST

START_TEST(an_acceptor_that_dies_at_any_step_is_told_to_the_opener) {
    for (int step = 0; step < 3; step++) {
        struct end a = {0};
        struct auth_hello h;
        uint8_t junk[80] = {0};
        int dones = 0;
        ck_assert_int_eq(conn_open(&a.c, ep, &id_a, ROLE_DATA, B_ID, &address, 1, &ops, &a), 0);
        struct msg m = {.type = MSG_PUT, .key_len = 1, .val_len = 3};
        ck_assert_int_eq(conn_send(a.c, &m, "k", 1, "abc", 3, on_done, &a), 0);
        int fd = accept_one();
        if (step >= 1)
            ck_assert(raw_recv(fd, &a, &h, sizeof h));
        if (step >= 2)
            raw_send(fd, junk, 79);
        io_wait(ep, 1);
        dones = a.dones;
        close(fd);
        LOOP_UNTIL(a.down, &a, NULL);
        ck_assert_int_eq(dones, 0);
        ck_assert_int_eq(a.dones, 1);
        ck_assert_int_eq(a.code, -ECONNRESET);
        ck_assert_int_eq(a.up, 0);
    }
}
END_TEST

START_TEST(silence_in_the_handshake_ends_it_within_its_deadline) {
    struct end a = {0}, b = {0};
    int fd = raw_attack(&b);
    uint64_t t = clock_ns();
    conn_tick(b.c, t);
    ck_assert_int_eq(b.down, 0);
    ck_assert_int_eq(conn_open(&a.c, ep, &id_a, ROLE_DATA, B_ID, &address, 1, &ops, &a), 0);
    int mute = accept_one();
    /* ticks of a clock that runs ahead */
    for (int ms = 0; ms <= DD_HANDSHAKE_MS + DD_CONNECT_MS + 1000; ms += 500) {
        io_wait(ep, 0);
        if (ms < DD_HANDSHAKE_MS - 100)
            ck_assert_int_eq(b.down + a.down, 0);
        if (b.c)
            conn_tick(b.c, t + (uint64_t)ms * 1000000u);
        if (a.c)
            conn_tick(a.c, t + (uint64_t)ms * 1000000u);
    }
    ck_assert_int_eq(b.code, -ETIMEDOUT);
    ck_assert_int_eq(a.code, -ETIMEDOUT);
    close(fd);
    close(mute);
}
END_TEST

/* Of an address that opens more than there may be, the oldest goes; who came from elsewhere, and
 * who has proved himself, stays. */
START_TEST(strangers_cost_each_other_their_places_and_nobody_else) {
    struct end a = {0}, b = {0}, friend = {0}, many[20];
    struct sockaddr_in elsewhere = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 7)};
    int fd[20], other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(many, 0, sizeof many);
    conn_strangers(6);
    pair_up(&a, &b);
    ck_assert_int_eq(bind(other, (struct sockaddr *)&elsewhere, sizeof elsewhere), 0);
    ck_assert_int_eq(connect(other, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
    ck_assert_int_eq(conn_accept(&friend.c, ep, &id_b, accept_one(), &ops, &friend), 0);
    for (int i = 0; i < 20; i++) {
        fd[i] = raw_attack(&many[i]);
        io_wait(ep, 0);
    }
    for (int i = 0; i < 20; i++)
        ck_assert_msg(many[i].down == (i < 15), "number %d: down %d", i, many[i].down);
    ck_assert_int_eq(many[0].code, -EUSERS);
    ck_assert_int_eq(a.down + b.down + friend.down, 0);
    struct msg m = {.type = MSG_GET, .id = 1, .key_len = 1};
    ck_assert_int_eq(conn_send(a.c, &m, "k", 1, NULL, 0, NULL, NULL), 0);
    LOOP_UNTIL(b.messages == 1, &a, &b);
    for (int i = 0; i < 20; i++) {
        conn_free(many[i].c);
        close(fd[i]);
    }
    struct end c = {0}, d = {0};
    pair_up(&c, &d); /* the places are free again */
    pair_end(&c, &d);
    conn_free(friend.c);
    close(other);
    pair_end(&a, &b);
    conn_strangers(DD_STRANGERS);
}
END_TEST

START_TEST(a_suspended_process_gets_its_time_back) {
    for (int early = 0; early < 2; early++) { /* before the first tick, too */
        struct end b = {0};
        int fd = raw_attack(&b);
        uint64_t t = clock_ns(), hour = 3600ull * 1000000000u;
        if (early == 0)
            conn_tick(b.c, t);
        conn_tick(b.c, t + hour);
        ck_assert_int_eq(b.down, 0);
        for (int ms = 0; ms <= DD_HANDSHAKE_MS + 500 && !b.down; ms += 500)
            conn_tick(b.c, t + hour + (uint64_t)ms * 1000000u);
        ck_assert_int_eq(b.down, 1);
        close(fd);
    }
}
END_TEST

START_TEST(addresses_that_refuse_or_belong_to_others_are_passed_over) {
    struct sockaddr_storage three[3];
    struct end a = {0}, other = {0}, b = {0};
    uint16_t closed, strange;
    struct sockaddr_storage any = address;
    ((struct sockaddr_in *)&any)->sin_port = 0;
    int c = conn_listen(&any, &closed), s = conn_listen(&any, &strange);
    close(c);
    for (int i = 0; i < 3; i++)
        three[i] = address;
    ((struct sockaddr_in *)&three[0])->sin_port = htons(closed);
    ((struct sockaddr_in *)&three[1])->sin_port = htons(strange);
    struct conn_identity wrong = id_b;
    uint8_t other_key[NODES][KEY_SIZE];
    memset(other_key, 7, sizeof other_key);
    wrong.keys = (const uint8_t(*)[KEY_SIZE])other_key;
    ck_assert_int_eq(conn_open(&a.c, ep, &id_a, ROLE_DATA, B_ID, three, 3, &ops, &a), 0);
    struct pollfd p = {.fd = s, .events = POLLIN};
    LOOP_UNTIL(poll(&p, 1, 0) == 1, &a, NULL);
    ck_assert_int_eq(
        conn_accept(&other.c, ep, &wrong, accept4(s, NULL, NULL, SOCK_CLOEXEC), &ops, &other), 0);
    p.fd = listener;
    LOOP_UNTIL(poll(&p, 1, 0) == 1, &a, &other);
    ck_assert_int_eq(conn_accept(&b.c, ep, &id_b, accept_one(), &ops, &b), 0);
    LOOP_UNTIL(a.up && b.up && other.down, &a, &b);
    ck_assert_int_eq(a.down, 0);
    pair_end(&a, &b);
    close(s);
}
END_TEST

/* One address that gives no answer, and one that refuses: the end of it in ms, with its code. */
static int unanswered(int patience_ms, int *code) {
    struct sockaddr_storage two[2] = {address, address}, any = address;
    struct end a = {0};
    uint16_t closed;
    ((struct sockaddr_in *)&any)->sin_port = 0;
    close(conn_listen(&any, &closed));
    ((struct sockaddr_in *)&two[1])->sin_port = htons(closed);
    ck_assert_int_eq(conn_open(&a.c, ep, &id_a, ROLE_DATA, B_ID, two, 2, &ops, &a), 0);
    if (patience_ms)
        conn_patience(a.c, patience_ms);
    uint64_t t = clock_ns();
    int ms = 0;
    for (; ms < 100000 && !a.down; ms += 250) {
        conn_tick(a.c, t + (uint64_t)ms * 1000000u);
        io_wait(ep, 1);
    }
    ck_assert_int_eq(a.down, 1);
    *code = a.code;
    return ms;
}
START_TEST(who_has_patience_tries_an_address_again_that_gave_no_answer) {
    int code, ms = unanswered(0, &code);
    ck_assert_int_lt(ms, DD_CONNECT_MS + DD_HANDSHAKE_MS);
    ck_assert_int_eq(code, -ECONNREFUSED);
    ms = unanswered(40000, &code);
    ck_assert_msg(ms > 38000 && ms < 42000, "%d", ms);
    ck_assert_int_eq(code, -ETIMEDOUT);
}
END_TEST

START_TEST(nobody_there_is_told_once) {
    struct end a = {0};
    close(listener);
    int e = conn_open(&a.c, ep, &id_a, ROLE_DATA, B_ID, &address, 1, &ops, &a);
    if (e == 0) {
        LOOP_UNTIL(a.down, &a, NULL);
        e = a.code;
    }
    ck_assert_int_eq(e, -ECONNREFUSED);
    listener = dup(ep);
}
END_TEST

int main(void) {
    Suite *s = suite_create("wire_handshake");
    TCase *c = tcase_create("handshake");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, both_ends_come_up_and_know_each_other);
    tcase_add_test(c, what_is_queued_before_up_arrives);
    tcase_add_test(c, a_wrong_key_is_refused_on_both_ends);
    tcase_add_test(c, a_key_of_other_nodes_is_refused);
    tcase_add_test(c, two_nodes_make_one_key_and_a_listener_another);
    tcase_add_test(c, another_dictionary_is_refused);
    tcase_add_test(c, a_hello_for_somebody_else_is_refused);
    tcase_add_test(c, another_protocol_version_is_told_apart);
    tcase_add_test(c, a_mac_of_zeros_or_of_the_wrong_letter_is_refused);
    tcase_add_test(c, an_opener_that_is_reflected_to_itself_learns_nothing);
    tcase_add_test(c, a_recorded_handshake_cannot_be_played_again);
    tcase_add_test(c, a_change_of_any_byte_on_the_way_is_noticed);
    tcase_add_test(c, bytes_that_follow_an_unproved_handshake_are_not_read);
    tcase_add_test(c, a_peer_that_dies_at_any_step_of_the_handshake_is_told);
    tcase_add_test(c, an_acceptor_that_dies_at_any_step_is_told_to_the_opener);
    tcase_add_test(c, silence_in_the_handshake_ends_it_within_its_deadline);
    tcase_add_test(c, strangers_cost_each_other_their_places_and_nobody_else);
    tcase_add_test(c, a_suspended_process_gets_its_time_back);
    tcase_add_test(c, addresses_that_refuse_or_belong_to_others_are_passed_over);
    tcase_add_test(c, who_has_patience_tries_an_address_again_that_gave_no_answer);
    tcase_add_test(c, nobody_there_is_told_once);
    suite_add_tcase(s, c);
    return wire_main(s);
}
