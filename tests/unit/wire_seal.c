/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_seal.c - records, and connections with somebody between their ends. Invariants: what is
 * taken is what was sent, each byte once and in order; one byte changed, left out, repeated or
 * moved ends the connection with -EBADMSG before anything of that record is taken; with encryption
 * nothing of a message stands on the wire.
 */
#include "wire_ends.h"
#include <wire/seal.h>

static const uint8_t key[32] = {1, 2, 3};
static const struct {
    enum seal_mode mode;
    bool aes;
} kinds[] = {{SEAL_AUTH, true}, {SEAL_AUTH, false}, {SEAL_ENCRYPT, true}, {SEAL_ENCRYPT, false}};
#define KINDS (int)(sizeof kinds / sizeof *kinds)

static bool start(struct seal *s, int i) {
    ck_assert_int_eq(auth_init(), 0);
    if (kinds[i].aes && !seal_has_aes())
        return false;
    seal_start(s, kinds[i].mode, kinds[i].aes, key);
    return true;
}

/* --- records --- */

START_TEST(what_is_closed_can_be_opened) {
    static const uint32_t sizes[] = {1, 15, 16, 17, 64, 4095, SEAL_BYTES};
    struct seal out, in;
    uint8_t *record = malloc(SEAL_OVER + SEAL_BYTES), *to = malloc(SEAL_BYTES),
            *was = malloc(SEAL_BYTES);
    uint64_t seed = 3;
    if (!start(&out, _i) || !start(&in, _i))
        goto end;
    for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (uint32_t i = 0; i < sizes[k]; i++)
            was[i] = (uint8_t)test_random(&seed);
        memcpy(record + SEAL_HEAD, was, sizes[k]);
        ck_assert_int_eq(seal_close(&out, record, sizes[k]), 0);
        ck_assert_uint_eq(seal_len(record), sizes[k]);
        if (sizes[k] > 8)
            ck_assert_int_eq(memcmp(record + SEAL_HEAD, was, sizes[k]) != 0,
                             kinds[_i].mode == SEAL_ENCRYPT);
        ck_assert_int_eq(seal_open(&in, to, record, sizes[k]), 0);
        ck_assert_mem_eq(to, was, sizes[k]);
    }
end:
    free(record);
    free(to);
    free(was);
}
END_TEST

START_TEST(any_bit_that_is_changed_is_noticed) {
    uint8_t made[SEAL_OVER + 100], t[SEAL_OVER + 100], to[100], zero[100] = {0};
    struct seal out, first;
    if (!start(&out, _i) || !start(&first, _i))
        return;
    memset(made + SEAL_HEAD, 'v', 100);
    ck_assert_int_eq(seal_close(&out, made, 100), 0);
    for (unsigned bit = 0; bit < 8 * sizeof made; bit++) {
        struct seal in = first;
        memcpy(t, made, sizeof t);
        memset(to, 0, sizeof to);
        t[bit / 8] ^= (uint8_t)(1u << bit % 8);
        uint32_t len = seal_len(t);
        if (len == 100) /* any other length waits for other bytes: below */
            ck_assert_int_eq(seal_open(&in, to, t, len), -EBADMSG);
        else if (len < 100 && len > 0)
            ck_assert_int_eq(seal_open(&in, to, t, len), -EBADMSG);
        ck_assert_mem_eq(to, zero, sizeof to);
    }
}
END_TEST

START_TEST(a_record_is_good_once_and_in_its_place) {
    uint8_t r[3][SEAL_OVER + 50], to[50];
    struct seal out, in, again, other;
    uint8_t wrong[32] = {9};
    if (!start(&out, _i) || !start(&in, _i))
        return;
    for (int i = 0; i < 3; i++) {
        memset(r[i] + SEAL_HEAD, 'a', 50); /* the same bytes each time */
        ck_assert_int_eq(seal_close(&out, r[i], 50), 0);
        for (int k = 0; k < i; k++)
            ck_assert_mem_ne(r[i], r[k], sizeof r[i]);
    }
    again = in;
    /* the first was left out, or they changed places */
    ck_assert_int_eq(seal_open(&again, to, r[1], 50), -EBADMSG);
    ck_assert_int_eq(seal_open(&in, to, r[0], 50), 0);
    again = in;
    ck_assert_int_eq(seal_open(&again, to, r[0], 50), -EBADMSG); /* again */
    ck_assert_int_eq(seal_open(&in, to, r[1], 50), 0);
    ck_assert_int_eq(seal_open(&in, to, r[2], 50), 0);
    seal_start(&other, kinds[_i].mode, kinds[_i].aes, wrong);
    ck_assert_int_eq(seal_open(&other, to, r[0], 50), -EBADMSG);
    seal_start(&other, kinds[_i].mode == SEAL_AUTH ? SEAL_ENCRYPT : SEAL_AUTH, kinds[_i].aes, key);
    ck_assert_int_eq(seal_open(&other, to, r[0], 50), -EBADMSG);
}
END_TEST

START_TEST(the_key_changes_at_its_bound_and_the_numbers_end) {
    uint8_t r[SEAL_OVER + 50], to[50], before[32];
    struct seal out, in, old;
    if (!start(&out, _i) || !start(&in, _i))
        return;
    out.count = in.count = SEAL_RENEW - 2;
    memcpy(before, out.key, sizeof before);
    for (int i = 0; i < 5; i++) {
        old = in;
        old.count = 7; /* goes on with the key that it has */
        memset(r + SEAL_HEAD, 'a' + i, 50);
        ck_assert_int_eq(seal_close(&out, r, 50), 0);
        ck_assert_int_eq(seal_open(&in, to, r, 50), 0);
        ck_assert_int_eq(to[49], 'a' + i);
        ck_assert_int_eq(memcmp(out.key, before, sizeof before) == 0, i < 2);
        ck_assert_mem_eq(out.key, in.key, sizeof in.key);
        ck_assert_int_eq(seal_open(&old, to, r, 50), -EBADMSG);
    }
    out.count = in.count = UINT64_MAX - 1;
    ck_assert_int_eq(seal_close(&out, r, 50), 0);
    ck_assert_int_eq(seal_open(&in, to, r, 50), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(seal_close(&out, r, 50), -EOVERFLOW);
        ck_assert_int_eq(seal_open(&in, to, r, 50), -EBADMSG);
    }
}
END_TEST

START_TEST(lengths_that_no_record_has_are_told) {
    static const uint8_t none[4], large[4] = {1, 0, 1, 0}, huge[4] = {0xff, 0xff, 0xff, 0xff},
                                  most[4] = {0, 0, 1, 0};
    ck_assert_uint_eq(seal_len(none), 0);
    ck_assert_uint_eq(seal_len(large), 0);
    ck_assert_uint_eq(seal_len(huge), 0);
    ck_assert_uint_eq(seal_len(most), SEAL_BYTES);
}
END_TEST

/* --- connections with somebody between --- */

static int between_a, between_b; /* his sockets to both ends */
static uint8_t seen[1 << 20];    /* what A sent, as it was */
static size_t seen_n, let_on;    /* of it: what B was given */

static void relay_hello(struct end *a, struct end *b) {
    int l = listener;
    ck_assert_int_eq(conn_open(&a->c, ep, &id_a, ROLE_DATA, B_ID, &address, 1, &ops, a), 0);
    between_a = accept_one();
    between_b = raw_connect();
    ck_assert_int_eq(conn_accept(&b->c, ep, &id_b, accept_one(), &ops, b), 0);
    ck_assert_int_eq(fcntl(between_b, F_SETFL, O_NONBLOCK), 0);
    ck_assert_int_eq(l, listener);
    seen_n = let_on = 0;
}

static void relay_back(void) {
    uint8_t some[4096];
    ssize_t n = recv(between_b, some, sizeof some, MSG_DONTWAIT);
    if (n > 0)
        raw_send(between_a, some, (size_t)n);
}

static void relay_take(void) {
    ssize_t n = recv(between_a, seen + seen_n, sizeof seen - seen_n, MSG_DONTWAIT);
    if (n > 0)
        seen_n += (size_t)n;
}

/* Up, by his hands; from then on he decides what B gets. */
static void relay_up(struct end *a, struct end *b) {
    relay_hello(a, b);
    uint64_t end_ms = clock_ms() + WAIT_MS;
    while (!a->up || !b->up) {
        ck_assert_uint_lt(clock_ms(), end_ms);
        ck_assert_int_ge(io_wait(ep, 2), 0);
        relay_take();
        if (seen_n > let_on)
            raw_send(between_b, seen + let_on, seen_n - let_on);
        let_on = seen_n;
        relay_back();
    }
    seen_n = let_on = 0;
}

static void relay_end(struct end *a, struct end *b) {
    close(between_a);
    close(between_b);
    pair_end(a, b);
}

static void say(struct end *a, uint64_t id, const char *text) {
    struct msg m = {.type = MSG_PUT, .id = id, .key_len = 1, .val_len = strlen(text) - 1};
    ck_assert_int_eq(conn_send(a->c, &m, text, strlen(text), NULL, 0, NULL, NULL), 0);
}

/* What A says reaches him as one record of its own. */
static size_t say_alone(struct end *a, uint64_t id, const char *text) {
    size_t from = seen_n, want = from + SEAL_OVER + MSG_HEADER + strlen(text);
    uint64_t end_ms = clock_ms() + WAIT_MS;
    say(a, id, text);
    while (seen_n < want) {
        ck_assert_uint_lt(clock_ms(), end_ms);
        ck_assert_int_ge(io_wait(ep, 2), 0);
        relay_take();
    }
    ck_assert_uint_eq(seen_n, want);
    return from;
}

static void modes(int i) {
    setup();
    id_a.wire = i % 2 == 0 ? SEAL_AUTH : SEAL_ENCRYPT;
    id_b.wire = i < 2 ? SEAL_PLAIN : SEAL_AUTH; /* the end that wants more has its way */
}

enum { AS_IT_IS, CHANGED, CHANGED_HEAD, TWICE, LEFT_OUT, SWAPPED, CUT, WAYS };

START_TEST(who_is_between_two_ends_can_only_break_the_connection) {
    static const char text[] = "k-the value";
    for (int way = 0; way < WAYS; way++) {
        modes(_i);
        struct end a = {0},
                   b = {.copy = malloc(MSG_LEN_MAX), .copy_cap = MSG_LEN_MAX, .check_ids = true};
        relay_up(&a, &b);
        ck_assert_int_eq(conn_wire(a.c), conn_wire(b.c));
        ck_assert_int_eq(conn_wire(a.c), _i % 2 == 0 ? SEAL_AUTH : SEAL_ENCRYPT);
        uint64_t refused = conn_refused();
        size_t n = SEAL_OVER + MSG_HEADER + sizeof text - 1, r[3];
        for (uint64_t i = 0; i < 3; i++)
            r[i] = say_alone(&a, i, text);
        raw_send(between_b, seen + r[0], n);
        LOOP_UNTIL(b.messages == 1, &a, &b);
        ck_assert_mem_eq(b.copy, text, sizeof text - 1);
        memset(b.copy, 0, 16);
        switch (way) {
        case CHANGED:
            seen[r[1] + SEAL_HEAD + MSG_HEADER + 3] ^= 1;
            break; /* of the value */
        /* of the message's id */
        case CHANGED_HEAD:
            seen[r[1] + SEAL_HEAD + 8] ^= 1;
            break;
        case TWICE:
            raw_send(between_b, seen + r[0], n);
            break;
        case LEFT_OUT:
            r[1] = r[2];
            break;
        case SWAPPED:
            raw_send(between_b, seen + r[2], n);
            break;
        default:
            break;
        }
        raw_send(between_b, seen + r[1], way == CUT ? n - 1 : n);
        if (way == AS_IT_IS || way == CUT) {
            if (way == CUT)
                shutdown(between_b, SHUT_WR);
            else
                raw_send(between_b, seen + r[2], n);
            LOOP_UNTIL(way == CUT ? b.down == 1 : b.messages == 3, &a, &b);
            ck_assert_int_eq(b.code, way == CUT ? -ECONNRESET : 0);
            ck_assert_uint_eq(conn_refused(), refused);
        } else {
            LOOP_UNTIL(b.down, &a, &b);
            ck_assert_int_eq(b.code, -EBADMSG);
            ck_assert_uint_eq(conn_refused(), refused + 1);
        }
        if (way != AS_IT_IS) {
            ck_assert_int_eq(b.messages, 1);
            ck_assert_int_eq(b.copy[0], 0);
        }
        free(b.copy);
        relay_end(&a, &b);
        teardown();
    }
}
END_TEST

/* Three records come at once, and the owner wants one. */
START_TEST(records_in_the_buffer_come_after_a_pause_without_new_bytes) {
    modes(_i);
    struct end a = {0}, b = {.pause_after = 1, .check_ids = true};
    relay_up(&a, &b);
    for (uint64_t i = 0; i < 3; i++)
        say_alone(&a, i, "k-v");
    raw_send(between_b, seen, seen_n);
    LOOP_UNTIL(b.messages == 1, &a, &b);
    for (int i = 0; i < 5; i++)
        ck_assert_int_ge(io_wait(ep, 2), 0);
    ck_assert_int_eq(b.messages, 1);
    conn_pause(b.c, false);
    LOOP_UNTIL(b.messages == 3, &a, &b);
    relay_end(&a, &b);
    teardown();
}
END_TEST

/* His words in front of what is protected, or instead of it. */
START_TEST(messages_that_are_not_in_records_are_not_taken) {
    modes(_i);
    struct end a = {0}, b = {0};
    struct msg m = {.len = MSG_HEADER, .type = MSG_LEN};
    relay_up(&a, &b);
    raw_send(between_b, &m, sizeof m);
    raw_send(between_b, &m, sizeof m);
    LOOP_UNTIL(b.down, &a, &b);
    ck_assert_int_eq(b.code, -EBADMSG);
    ck_assert_int_eq(b.messages, 0);
    relay_end(&a, &b);
    teardown();
}
END_TEST

START_TEST(nobody_between_can_have_it_without_protection) {
    for (unsigned byte = 0; byte < 4; byte++) {
        modes(_i);
        struct end a = {0}, b = {0};
        relay_hello(&a, &b);
        size_t at = offsetof(struct auth_hello, wire);
        while (seen_n < sizeof(struct auth_hello)) {
            ck_assert_int_ge(io_wait(ep, 2), 0);
            relay_take();
        }
        seen[at + byte] ^= seen[at + byte] ? seen[at + byte] : 1;
        raw_send(between_b, seen, seen_n);
        uint64_t end_ms = clock_ms() + WAIT_MS;
        while (!a.down && !b.down) {
            ck_assert_uint_lt(clock_ms(), end_ms);
            ck_assert_int_ge(io_wait(ep, 2), 0);
            relay_back();
            ticks(&a, &b);
        }
        ck_assert_int_eq(a.up + b.up, 0);
        ck_assert_int_eq(a.down ? a.code : b.code, DDICT_EAUTH);
        relay_end(&a, &b);
        teardown();
    }
}
END_TEST

static bool contains(const uint8_t *in, size_t n, const char *text) {
    return memmem(in, n, text, strlen(text)) != NULL;
}

START_TEST(who_listens_reads_a_value_unless_it_is_encrypted) {
    for (int mode = SEAL_PLAIN; mode <= SEAL_ENCRYPT; mode++) {
        setup();
        id_a.wire = (enum seal_mode)mode;
        struct end a = {0}, b = {.copy = malloc(MSG_LEN_MAX), .copy_cap = MSG_LEN_MAX};
        relay_up(&a, &b);
        say(&a, 1, "k-something nobody else may read");
        while (b.messages == 0) {
            ck_assert_int_ge(io_wait(ep, 2), 0);
            relay_take();
            if (seen_n > let_on)
                raw_send(between_b, seen + let_on, seen_n - let_on);
            let_on = seen_n;
        }
        ck_assert_mem_eq(b.copy, "k-something", 11);
        ck_assert_int_eq(contains(seen, seen_n, "nobody else"), mode != SEAL_ENCRYPT);
        free(b.copy);
        relay_end(&a, &b);
        teardown();
    }
}
END_TEST

START_TEST(both_ends_say_what_they_want_and_have_the_more) {
    for (int wants = 0; wants < 9; wants++) {
        setup();
        id_a.wire = (enum seal_mode)(wants % 3);
        id_b.wire = (enum seal_mode)(wants / 3);
        struct end a = {0}, b = {.echo = true};
        pair_up(&a, &b);
        enum seal_mode more = id_a.wire > id_b.wire ? id_a.wire : id_b.wire;
        ck_assert_int_eq(conn_wire(a.c), more);
        ck_assert_int_eq(conn_wire(b.c), more);
        struct msg m = {.type = MSG_LEN, .id = 4};
        uint64_t at = conn_position(a.c);
        ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
        ck_assert(conn_unsent(a.c, conn_position(a.c)));
        ck_assert(!conn_unsent(a.c, at));
        LOOP_UNTIL(a.messages == 1, &a, &b);
        ck_assert(!conn_unsent(a.c, conn_position(a.c)));
        ck_assert_uint_eq(conn_queued(a.c), 0);
        pair_end(&a, &b);
        teardown();
    }
}
END_TEST

/* What its owner takes for full is what he is told the end of, wherever the bytes wait. */
START_TEST(who_found_it_full_is_told_when_it_is_not) {
    static uint8_t piece[1000];
    /* of other sizes each, so that the bound falls anywhere in a record */
    for (int round = 0; round < 70; round++) {
        setup();
        id_a.wire = SEAL_AUTH;
        struct end a = {0}, b = {.value = malloc(sizeof piece), .value_cap = sizeof piece};
        pair_up(&a, &b);
        conn_pause(b.c, true);
        bool full = false;
        for (int sent = 0, still = 0; !full && still < 1000000; sent++, still++) {
            struct msg m = {.type = MSG_DATA};
            ck_assert_int_eq(
                conn_send(a.c, &m, NULL, 0, piece, (size_t)(1 + round * 14), on_done, &a), 0);
            full = conn_queued(a.c) > DD_PEER_INFLIGHT; /* as link_full() */
            if (sent % 50 == 0)
                ck_assert_int_ge(io_wait(ep, 0), 0);
        }
        ck_assert(full && conn_full(a.c));
        ck_assert_int_eq(a.drained, 0);
        conn_pause(b.c, false);
        LOOP_UNTIL(a.drained == 1, &a, &b);
        free(b.value);
        pair_end(&a, &b);
        teardown();
    }
}
END_TEST

/* The socket is full in the middle of a record: nothing of that is sent as far as the peer is
 * concerned, and all of it is queued. */
START_TEST(a_record_that_is_half_sent_is_not_sent) {
    setup();
    id_a.wire = SEAL_AUTH;
    static uint8_t piece[DD_MSG_PIECE];
    struct end a = {0}, b = {.value = malloc(sizeof piece), .value_cap = sizeof piece};
    pair_up(&a, &b);
    conn_pause(b.c, true);
    uint64_t sent = 0, end_ms = clock_ms() + WAIT_MS;
    for (int still = 0; still < 20; still++) { /* until nothing moves */
        uint64_t queued = conn_queued(a.c);
        ck_assert_uint_lt(clock_ms(), end_ms);
        for (; !conn_full(a.c); sent++) {
            struct msg m = {.type = MSG_DATA};
            ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, piece, sizeof piece, on_done, &a), 0);
            still = 0;
        }
        ck_assert_int_ge(io_wait(ep, 2), 0);
        if (conn_queued(a.c) != queued)
            still = 0;
    }
    uint64_t out = conn_position(a.c) - conn_queued(a.c);
    ck_assert_uint_eq(out % SEAL_BYTES, 0);
    ck_assert(conn_unsent(a.c, out + 1));
    ck_assert(!conn_unsent(a.c, out));
    conn_pause(b.c, false);
    LOOP_UNTIL(b.messages == (int)sent, &a, &b);
    ck_assert_uint_eq(conn_queued(a.c), 0);
    ck_assert_int_eq(a.dones, (int)sent);
    free(b.value);
    pair_end(&a, &b);
    teardown();
}
END_TEST

int main(void) {
    Suite *s = suite_create("wire_seal");
    TCase *c = wire_case(s, "records", 60);
    tcase_add_loop_test(c, what_is_closed_can_be_opened, 0, KINDS);
    tcase_add_loop_test(c, any_bit_that_is_changed_is_noticed, 0, KINDS);
    tcase_add_loop_test(c, a_record_is_good_once_and_in_its_place, 0, KINDS);
    tcase_add_loop_test(c, the_key_changes_at_its_bound_and_the_numbers_end, 0, KINDS);
    tcase_add_test(c, lengths_that_no_record_has_are_told);
    c = wire_case(s, "connections", 120);
    tcase_add_loop_test(c, who_is_between_two_ends_can_only_break_the_connection, 0, 4);
    tcase_add_loop_test(c, records_in_the_buffer_come_after_a_pause_without_new_bytes, 0, 4);
    tcase_add_loop_test(c, messages_that_are_not_in_records_are_not_taken, 0, 4);
    tcase_add_loop_test(c, nobody_between_can_have_it_without_protection, 0, 4);
    tcase_add_test(c, who_listens_reads_a_value_unless_it_is_encrypted);
    tcase_add_test(c, both_ends_say_what_they_want_and_have_the_more);
    tcase_add_test(c, who_found_it_full_is_told_when_it_is_not);
    tcase_add_test(c, a_record_that_is_half_sent_is_not_sent);
    return wire_main(s);
}
