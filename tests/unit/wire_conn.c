/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_conn.c - messages over connections between nodes. Invariants: every byte arrives once and in
 * order; a peer's death is told once; nothing malformed gets past the check.
 */
#include "wire_ends.h"

/* --- messages --- */

START_TEST(thousands_of_small_messages_arrive_in_order_and_are_answered) {
    struct end a = {.check_ids = true}, b = {.check_ids = true, .echo = true};
    pair_up(&a, &b);
    uint8_t key[300];
    memset(key, 'k', sizeof key);
    for (uint64_t i = 0; i < 20000; i++) {
        struct msg m = {.type = MSG_GET, .id = i, .key_len = 1 + (uint32_t)(i % 300)};
        ck_assert_int_eq(conn_send(a.c, &m, key, m.key_len, NULL, 0, NULL, NULL), 0);
        if (i % 1000 == 0)
            io_wait(ep, 0);
    }
    LOOP_UNTIL(a.messages == 20000, &a, &b);
    ck_assert_int_eq(b.messages, 20000);
    pair_end(&a, &b);
}
END_TEST

static uint8_t pattern(size_t i) {
    return (uint8_t)(i * 131 + (i >> 8) * 7 + (i >> 16));
}

/* Every byte checked; small messages in between. */
START_TEST(a_body_of_64_mib_in_pieces_arrives_whole) {
    size_t size = (64u << 20) + 12345;
    uint8_t *value = malloc(size);
    struct end a = {0}, b = {.value = malloc(size), .value_cap = size};
    for (size_t i = 0; i < size; i++)
        value[i] = pattern(i);
    pair_up(&a, &b);
    for (size_t at = 0; at < size;) {
        if (conn_full(a.c)) {
            int before = a.drained;
            LOOP_UNTIL(a.drained > before, &a, &b);
            continue;
        }
        size_t n = size - at < DD_MSG_PIECE ? size - at : DD_MSG_PIECE;
        struct msg m = {
            .type = MSG_DATA, .id = 5, .aux = at, .flags = at + n == size ? MSGF_LAST : 0};
        if ((at / DD_MSG_PIECE) % 7 == 0) {
            struct msg small = {.type = MSG_DEL, .id = 6, .key_len = 9};
            ck_assert_int_eq(conn_send(a.c, &small, "small key", 9, NULL, 0, NULL, NULL), 0);
        }
        ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, value + at, n, on_done, &a), 0);
        at += n;
    }
    LOOP_UNTIL(b.value_got == size, &a, &b);
    ck_assert_int_eq(memcmp(value, b.value, size), 0);
    ck_assert_int_eq(a.dones, (int)((size + DD_MSG_PIECE - 1) / DD_MSG_PIECE));
    pair_end(&a, &b);
    free(value);
    free(b.value);
}
END_TEST

/* The owner has room for some of it, for none of it, or pauses, at random places; small messages in
 * between. */
START_TEST(a_value_that_is_taken_in_parts_arrives_whole) {
    size_t size = (16u << 20) + 777;
    uint8_t *value = malloc(size);
    struct end a = {0}, b = {.value = malloc(size), .value_cap = size, .parts = true, .random = 11};
    uint64_t seed = 5;
    for (size_t i = 0; i < size; i++)
        value[i] = pattern(i);
    pair_up(&a, &b);
    uint64_t end_ms = clock_ms() + WAIT_MS;
    bool tried = false; /* how many parts a value has is up to the sockets */
    for (size_t at = 0; b.value_got < size || !tried;) {
        ck_assert_uint_lt(clock_ms(), end_ms);
        if (b.value_got == size) {
            ck_assert_int_eq(memcmp(value, b.value, size), 0);
            tried = b.part_direct > 100 && b.part_count > b.part_direct && b.part_paused > 10;
            if (tried)
                break;
            memset(b.value, 0, size);
            at = b.value_got = 0;
        }
        while (at < size && !conn_full(a.c)) {
            size_t n = test_random(&seed) % 3 == 0 ? 1 + test_random(&seed) % 300
                                                   : 1 + test_random(&seed) % DD_MSG_PIECE;
            n = n < size - at ? n : size - at;
            struct msg m = {.type = MSG_DATA,
                            .id = 5,
                            .aux = at,
                            .flags = at + n == size ? MSGF_LAST : 0},
                       other = {.type = MSG_LEN};
            ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, value + at, n, on_done, &a), 0);
            at += n;
            if (test_random(&seed) % 4 == 0)
                ck_assert_int_eq(conn_send(a.c, &other, NULL, 0, NULL, 0, NULL, NULL), 0);
        }
        ck_assert_int_ge(io_wait(ep, 1), 0);
        conn_pause(b.c, false);
    }
    ck_assert_int_eq(a.down + b.down, 0);
    pair_end(&a, &b);
    free(value);
    free(b.value);
}
END_TEST

START_TEST(an_owner_may_refuse_a_part) {
    uint8_t value[5000] = {1};
    struct end a = {0}, b = {.value = malloc(sizeof value),
                             .value_cap = sizeof value,
                             .parts = true,
                             .random = 8,
                             .refuse = DDICT_EPROTO};
    pair_up(&a, &b);
    struct msg m = {.type = MSG_DATA, .id = 5};
    ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, value, sizeof value, on_done, &a), 0);
    LOOP_UNTIL(a.down && b.down, &a, &b);
    ck_assert_int_eq(b.code, DDICT_EPROTO);
    ck_assert_int_eq(b.part_count + b.messages, 1);
    free(b.value);
}
END_TEST

START_TEST(messages_cut_at_every_byte_are_put_together) {
    struct end b = {.copy = malloc(MSG_LEN_MAX), .copy_cap = MSG_LEN_MAX, .check_ids = true};
    int fd = raw_up(&b);
    uint8_t bytes[4 * (64 + 40)];
    size_t len = 0;
    for (uint64_t i = 0; i < 4; i++) {
        struct msg m = {.len = 64 + 10 * (uint32_t)i + 1,
                        .type = MSG_GET,
                        .id = i,
                        .key_len = 10 * (uint32_t)i + 1};
        memcpy(bytes + len, &m, 64);
        memset(bytes + len + 64, 'a' + (int)i, m.key_len);
        len += m.len;
    }
    for (size_t i = 0; i < len; i++) {
        raw_send(fd, bytes + i, 1);
        io_wait(ep, i % 16 == 0 ? 1 : 0);
    }
    LOOP_UNTIL(b.messages == 4, &b, NULL);
    ck_assert_uint_eq(b.last.key_len, 31);
    for (int i = 0; i < 31; i++)
        ck_assert_int_eq(b.copy[i], 'd');
    close(fd);
    LOOP_UNTIL(b.down, &b, NULL);
    ck_assert_int_eq(b.code, -ECONNRESET);
    free(b.copy);
}
END_TEST

START_TEST(a_slow_reader_holds_the_writer_back_and_loses_nothing) {
    struct end a = {0}, b = {.pause_after = 3};
    size_t size = 32u << 20;
    uint8_t *value = malloc(size);
    for (size_t i = 0; i < size; i++)
        value[i] = pattern(i);
    b.value = malloc(size);
    b.value_cap = size;
    pair_up(&a, &b);
    size_t at = 0;
    for (int idle = 0; idle < 20;) {
        if (conn_full(a.c) || at >= size) {
            idle = io_wait(ep, 5) == 0 ? idle + 1 : 0;
            continue;
        }
        struct msg m = {.type = MSG_DATA, .id = 5, .aux = at};
        ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, value + at, 65536, on_done, &a), 0);
        at += 65536;
    }
    ck_assert(conn_full(a.c));
    /* what is under way is bounded: queue, and the sockets' buffers */
    ck_assert_uint_lt(at, size);
    ck_assert_int_eq(b.messages, 3);
    int drained = a.drained; /* the sockets' buffers took some */
    conn_pause(b.c, false);
    LOOP_UNTIL(a.drained == drained + 1, &a, &b);
    LOOP_UNTIL(b.value_got == at, &a, &b);
    ck_assert_int_eq(memcmp(value, b.value, at), 0);
    ck_assert_int_eq(a.dones, b.messages);
    pair_end(&a, &b);
    free(value);
    free(b.value);
}
END_TEST

START_TEST(messages_in_the_buffer_come_after_a_pause_without_new_bytes) {
    struct end b = {.pause_after = 2};
    int fd = raw_up(&b);
    struct msg m[5];
    for (int i = 0; i < 5; i++)
        m[i] = (struct msg){.len = 64, .type = MSG_LEN, .id = (uint64_t)i};
    raw_send(fd, m, sizeof m);
    LOOP_UNTIL(b.messages == 2, &b, NULL);
    for (int i = 0; i < 5; i++)
        io_wait(ep, 1);
    ck_assert_int_eq(b.messages, 2);
    conn_pause(b.c, false);
    ck_assert_int_eq(b.messages, 2); /* not from within conn_pause() */
    io_wait(ep, 0);
    ck_assert_int_eq(b.messages, 5);
    conn_free(b.c);
    close(fd);
}
END_TEST

static void expect_malformed(struct msg m, const void *payload, size_t n) {
    struct end b = {0};
    uint64_t before = conn_refused();
    int fd = raw_up(&b);
    raw_send(fd, &m, sizeof m);
    raw_send(fd, payload, n);
    LOOP_UNTIL(b.down, &b, NULL);
    ck_assert_int_eq(b.code, DDICT_EPROTO);
    ck_assert_int_eq(b.messages, 0);
    ck_assert_uint_eq(conn_refused(), before + 1);
    close(fd);
}

START_TEST(malformed_and_oversize_messages_close_the_connection) {
    expect_malformed((struct msg){.len = 63, .type = MSG_LEN}, NULL, 0);
    expect_malformed((struct msg){.len = 0, .type = MSG_LEN}, NULL, 0);
    expect_malformed((struct msg){.len = 64, .type = MSG_TYPE_N}, NULL, 0);
    expect_malformed((struct msg){.len = 64, .type = 0}, NULL, 0);
    expect_malformed((struct msg){.len = 128, .type = MSG_PAD}, NULL, 0);
    expect_malformed((struct msg){.len = MSG_LEN_MAX + 1, .type = MSG_REPLY}, NULL, 0);
    expect_malformed((struct msg){.len = UINT32_MAX, .type = MSG_REPLY}, NULL, 0);
    expect_malformed((struct msg){.len = 65, .type = MSG_LEN}, "x", 1);
    expect_malformed((struct msg){.len = 66, .type = MSG_GET, .key_len = 3}, "xx", 2);
    expect_malformed((struct msg){.len = 66, .type = MSG_PUT, .key_len = 1, .val_len = 2}, "xx", 2);
    expect_malformed((struct msg){.len = 66, .type = MSG_PUT, .key_len = UINT32_MAX, .val_len = 3},
                     "xx", 2);
}
END_TEST

START_TEST(an_owner_that_refuses_a_message_closes_the_connection) {
    struct end a = {0}, b = {.refuse = DDICT_EPROTO};
    pair_up(&a, &b);
    struct msg m = {.type = MSG_LEN};
    ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
    LOOP_UNTIL(a.down && b.down, &a, &b);
    ck_assert_int_eq(b.code, DDICT_EPROTO);
    ck_assert_int_eq(b.messages, 1);
}
END_TEST

START_TEST(what_the_peer_would_refuse_is_not_sent) {
    struct end a = {0}, b = {0};
    pair_up(&a, &b);
    struct msg bad = {.type = MSG_PUT, .key_len = 5, .val_len = 5};
    ck_assert_int_eq(conn_send(a.c, &bad, "key", 3, NULL, 0, NULL, NULL), DDICT_EPROTO);
    struct msg big = {.type = MSG_REPLY};
    uint8_t *huge = calloc(1, DD_MSG_INLINE + 1);
    ck_assert_int_eq(conn_send(a.c, &big, huge, DD_MSG_INLINE + 1, NULL, 0, NULL, NULL),
                     DDICT_EPROTO);
    ck_assert_int_eq(conn_send(a.c, &big, huge, DD_MSG_INLINE, NULL, 0, NULL, NULL), 0);
    LOOP_UNTIL(b.messages == 1, &a, &b);
    ck_assert_uint_eq(b.last.len, MSG_LEN_MAX);
    ck_assert_int_eq(a.down + b.down, 0);
    free(huge);
    pair_end(&a, &b);
}
END_TEST

START_TEST(a_connection_may_be_freed_in_any_callback) {
    struct end a = {0}, b = {.free_in_message = true};
    pair_up(&a, &b);
    for (uint64_t i = 0; i < 10; i++) {
        struct msg m = {.type = MSG_LEN, .id = i};
        ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
    }
    LOOP_UNTIL(a.down, &a, NULL);
    ck_assert_int_eq(b.messages, 1);
    ck_assert_int_eq(b.down, 0);
    struct end x = {.free_in_up = true}, y = {0};
    pair_start(&x, &y);
    LOOP_UNTIL(x.up && y.down, &x, &y);
}
END_TEST

START_TEST(conn_free_calls_done_of_what_is_queued_and_nothing_else) {
    struct end a = {0}, b = {0};
    pair_up(&a, &b);
    struct msg m = {.type = MSG_PUT, .key_len = 1, .val_len = 3};
    ck_assert_int_eq(conn_send(a.c, &m, "k", 1, "abc", 3, on_done, &a), 0);
    ck_assert_int_eq(a.dones, 0);
    pair_end(&a, &b);
    ck_assert_int_eq(a.dones, 1);
    ck_assert_int_eq(a.down + b.down, 0);
    conn_free(NULL);
}
END_TEST

START_TEST(a_flush_writes_without_the_loop) {
    struct end b = {0};
    struct end a = {0};
    pair_up(&a, &b);
    struct msg m = {.type = MSG_LEN};
    ck_assert_int_eq(conn_send(a.c, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
    struct pollfd p = {.fd = conn_fd(b.c), .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, 20), 0);
    conn_flush(a.c);
    ck_assert_int_eq(poll(&p, 1, 1000), 1);
    pair_end(&a, &b);
}
END_TEST

/* --- fuzz --- */

START_TEST(random_bytes_before_and_after_the_handshake_do_no_harm) {
    uint64_t seed = 42;
    for (int round = 0; round < 200; round++) {
        struct end b = {0};
        bool proved = round % 2;
        int fd = proved ? raw_up(&b) : raw_attack(&b);
        uint8_t junk[2048];
        for (int k = 0; k < 3 && !b.down; k++) {
            size_t n = test_random(&seed) % sizeof junk;
            for (size_t i = 0; i < n; i++)
                junk[i] = (uint8_t)test_random(&seed);
            if (proved && n > 64) { /* plausible heads go further */
                struct msg *m = (struct msg *)junk;
                m->len = 64 + (uint32_t)(test_random(&seed) % 200);
                m->type = (uint16_t)(test_random(&seed) % (MSG_TYPE_N + 1));
                m->flags &= (uint16_t)test_random(&seed) & 0xf;
                m->key_len = (uint32_t)(test_random(&seed) % 3 ? m->len - 64 : 0);
                m->val_len %= 300;
            }
            send(fd, junk, n, MSG_NOSIGNAL);
            io_wait(ep, 1);
        }
        if (!proved)
            ck_assert_int_eq(b.messages + b.up, 0);
        close(fd);
        LOOP_UNTIL(b.down, &b, NULL);
        ck_assert_int_eq(b.down, 1);
    }
}
END_TEST

START_TEST(addresses_of_this_node_end_with_loopback) {
    struct sockaddr_storage a[32];
    char host[256];
    gethostname(host, sizeof host);
    int n = conn_addresses(host, a, 32);
    ck_assert_int_ge(n, 1);
    bool loop = false;
    for (int i = 0; i < n; i++) {
        ck_assert(a[i].ss_family == AF_INET || a[i].ss_family == AF_INET6);
        bool this_loops = a[i].ss_family == AF_INET
                              ? ntohl(((struct sockaddr_in *)&a[i])->sin_addr.s_addr) >> 24 == 127
                              : IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&a[i])->sin6_addr);
        ck_assert(this_loops || !loop);
        loop = this_loops;
    }
    ck_assert_int_eq(conn_addresses("no.such.host.invalid", a, 1), 1);
}
END_TEST

int main(void) {
    Suite *s = suite_create("wire_conn");
    TCase *c = tcase_create("messages");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, thousands_of_small_messages_arrive_in_order_and_are_answered);
    tcase_add_test(c, a_body_of_64_mib_in_pieces_arrives_whole);
    tcase_add_test(c, a_value_that_is_taken_in_parts_arrives_whole);
    tcase_add_test(c, an_owner_may_refuse_a_part);
    tcase_add_test(c, messages_cut_at_every_byte_are_put_together);
    tcase_add_test(c, a_slow_reader_holds_the_writer_back_and_loses_nothing);
    tcase_add_test(c, messages_in_the_buffer_come_after_a_pause_without_new_bytes);
    tcase_add_test(c, malformed_and_oversize_messages_close_the_connection);
    tcase_add_test(c, an_owner_that_refuses_a_message_closes_the_connection);
    tcase_add_test(c, what_the_peer_would_refuse_is_not_sent);
    tcase_add_test(c, a_connection_may_be_freed_in_any_callback);
    tcase_add_test(c, conn_free_calls_done_of_what_is_queued_and_nothing_else);
    tcase_add_test(c, a_flush_writes_without_the_loop);
    tcase_add_test(c, random_bytes_before_and_after_the_handshake_do_no_harm);
    tcase_add_test(c, addresses_of_this_node_end_with_loopback);
    suite_add_tcase(s, c);
    /* those with two ends of ours; each runs in a process of its own */
    for (int k = 0; k < 2; k++) {
        c = tcase_create(k == 0 ? "authenticated" : "encrypted");
        tcase_set_timeout(c, 120);
        tcase_add_checked_fixture(c, k == 0 ? setup_auth : setup_encrypt, teardown);
        tcase_add_test(c, thousands_of_small_messages_arrive_in_order_and_are_answered);
        tcase_add_test(c, a_body_of_64_mib_in_pieces_arrives_whole);
        tcase_add_test(c, a_value_that_is_taken_in_parts_arrives_whole);
        tcase_add_test(c, an_owner_may_refuse_a_part);
        tcase_add_test(c, a_slow_reader_holds_the_writer_back_and_loses_nothing);
        tcase_add_test(c, an_owner_that_refuses_a_message_closes_the_connection);
        tcase_add_test(c, what_the_peer_would_refuse_is_not_sent);
        tcase_add_test(c, a_connection_may_be_freed_in_any_callback);
        tcase_add_test(c, conn_free_calls_done_of_what_is_queued_and_nothing_else);
        tcase_add_test(c, a_flush_writes_without_the_loop);
        suite_add_tcase(s, c);
    }
    return wire_main(s);
}
