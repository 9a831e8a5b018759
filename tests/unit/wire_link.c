/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_link.c - links between managers, by each carrier in turn: TCP and libfabric's tcp provider.
 * Invariants: every byte arrives once and in order by either; the end of the other process is told
 * at once; nothing that a stranger sends to the endpoint is looked at; a wake-up that is lost
 * delays and stops nothing.
 */
#include <stdio.h>
#include <sys/resource.h>

#ifdef HAVE_OFI
#include <wire/fabric/channel.h>
#include <wire/fabric/fabric_find.h>
#include <wire/fabric/fabric_inside.h>
#endif

#include "link_ends.h"

/* --- messages --- */

START_TEST(thousands_of_small_messages_arrive_in_order_and_are_answered) {
    begin(_i);
    b.echo = true;
    join();
    uint8_t key[300];
    memset(key, 1, sizeof key);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        struct msg m = {.type = MSG_GET, .id = i, .key_len = 1 + (uint32_t)(i % 300)};
        sum += m.key_len;
        ck_assert_int_eq(link_send(a.l, &m, key, m.key_len, NULL, 0, NULL, NULL), 0);
        if (i % 1000 == 0)
            io_wait(ep, 0);
    }
    UNTIL(a.messages == 20000, 20000);
    ck_assert_uint_eq(b.sum, sum);
    finish();
}
END_TEST

static uint8_t pattern(size_t i) {
    return (uint8_t)(i * 131 + (i >> 8) * 7 + (i >> 16));
}

START_TEST(a_value_in_pieces_of_any_size_arrives_whole) {
    size_t size = (24u << 20) + 12345, at = 0;
    int pieces = 0;
    uint64_t seed = 7;
    uint8_t *value = malloc(size);
    begin(_i);
    b.value = malloc(size);
    b.value_cap = size;
    for (size_t i = 0; i < size; i++)
        value[i] = pattern(i);
    join();
    while (at < size) {
        if (link_full(a.l)) {
            int before = a.drained;
            UNTIL(a.drained > before, 20000);
        }
        size_t n = 1 + test_random(&seed) % (test_random(&seed) % 3 ? DD_MSG_PIECE : 700);
        if (n > size - at)
            n = size - at;
        struct msg m = {
            .type = MSG_DATA, .aux = at, .val_len = size, .flags = at + n == size ? MSGF_LAST : 0};
        ck_assert_int_eq(link_send(a.l, &m, NULL, 0, value + at, n, l_done, &a), 0);
        at += n;
        pieces++;
        struct msg small = {.type = MSG_GET, .id = b.next_id, .key_len = 3};
        if (b.next_id == 0 && pieces == 1)
            ck_assert_int_eq(link_send(a.l, &small, "abc", 3, NULL, 0, NULL, NULL), 0);
    }
    UNTIL(b.value_got == size && a.dones == pieces, 20000);
    ck_assert_int_eq(memcmp(b.value, value, size), 0);
    ck_assert_int_eq(b.messages, pieces + 1);
    ck_assert(!link_unsent(a.l, link_position(a.l)));
    ck_assert_uint_eq(link_queued(a.l), 0);
    finish();
    free(value);
    free(b.value);
}
END_TEST

START_TEST(a_paused_end_holds_the_sender_back_and_loses_nothing) {
    static uint8_t body[DD_MSG_PIECE];
    begin(_i);
    b.pause_after = 5;
    join();
    int n = 0;
    for (; n < 400; n++) {
        struct msg m = {.type = MSG_DATA, .id = (uint64_t)n, .aux = (uint64_t)n};
        ck_assert_int_eq(link_send(a.l, &m, NULL, 0, body, sizeof body, l_done, &a), 0);
    }
    UNTIL(b.messages == 5, 10000);
    for (uint64_t end_ms = clock_ms() + 200; clock_ms() < end_ms;)
        io_wait(ep, 10);
    ck_assert_int_eq(b.messages, 5);
    ck_assert(link_full(a.l));
    ck_assert_int_eq(a.drained, 0);
    link_pause(b.l, false);
    UNTIL(b.messages == n && a.dones == n, 20000);
    ck_assert_int_ge(a.drained, 1);
    finish();
}
END_TEST

/* --- ends --- */

START_TEST(the_end_of_one_process_is_told_at_once) {
    begin(_i);
    join();
    uint64_t began = clock_ms();
    link_free(a.l);
    a.l = NULL;
    UNTIL(b.down, 5000);
    ck_assert_int_eq(b.code, -ECONNRESET);
    ck_assert_uint_lt(clock_ms() - began, DD_PEER_LOST_MS - 1000);
    finish();
}
END_TEST

START_TEST(a_link_may_be_freed_in_a_callback_and_bodies_are_done_all_the_same) {
    static uint8_t body[DD_MSG_PIECE];
    begin(_i);
    b.free_in_message = true;
    join();
    for (int i = 0; i < 100; i++) {
        struct msg m = {.type = MSG_DATA, .id = (uint64_t)i, .aux = (uint64_t)i};
        ck_assert_int_eq(link_send(a.l, &m, NULL, 0, body, sizeof body, l_done, &a), 0);
    }
    UNTIL(a.down, 10000);
    ck_assert_int_eq(b.messages, 1);
    finish();
    ck_assert_int_eq(a.dones, 100);
}
END_TEST

START_TEST(an_owner_that_refuses_a_message_ends_the_link) {
    begin(_i);
    b.refuse = DDICT_EPROTO;
    join();
    struct msg m = {.type = MSG_LEN};
    ck_assert_int_eq(link_send(a.l, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
    UNTIL(a.down && b.down, 10000);
    ck_assert_int_eq(b.code, DDICT_EPROTO);
    finish();
}
END_TEST

START_TEST(links_come_and_go) {
    begin(_i);
    for (int i = 0; i < 20; i++) {
        a.up = b.up = a.down = b.down = b.messages = 0;
        b.next_id = 0;
        join();
        struct msg m = {.type = MSG_LEN};
        ck_assert_int_eq(link_send(a.l, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
        UNTIL(b.messages == 1, 10000);
        link_free(b.l);
        b.l = NULL;
        UNTIL(a.down, 10000);
    }
    ck_assert_uint_eq(conn_refused(), 0);
    finish();
}
END_TEST

static long cpu_us(void) {
    struct rusage r;
    getrusage(RUSAGE_THREAD, &r);
    return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 + r.ru_utime.tv_usec +
           r.ru_stime.tv_usec;
}

START_TEST(an_idle_link_uses_no_cpu) {
    begin(_i);
    b.echo = true;
    join();
    struct msg m = {.type = MSG_LEN};
    ck_assert_int_eq(link_send(a.l, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
    UNTIL(a.messages == 1, 10000);
    int rounds = 0;
    long us = 0;
    /* what was sent last is nudged after; on a busy machine that takes its time */
    for (int i = 0; i < 20; i++) {
        long before = cpu_us();
        rounds = 0;
        for (uint64_t end_ms = clock_ms() + 750; clock_ms() < end_ms; rounds++)
            io_wait(ep, 250);
        us = cpu_us() - before;
        if (us < 40000 && rounds <= 6)
            break;
    }
    ck_assert_msg(us < 40000 && rounds <= 6, "%ld us of CPU, %d rounds", us, rounds);
    finish();
}
END_TEST

#ifdef HAVE_OFI
/* --- only by a fabric --- */

START_TEST(a_lost_wake_up_delays_and_stops_nothing) {
    begin(1);
    b.echo = true;
    join();
    for (uint64_t i = 0; i < 5; i++) {
        struct msg m = {.type = MSG_LEN, .id = i};
        fabric_deafen(b.setup.fabric, true);
        ck_assert_int_eq(link_send(a.l, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
        UNTIL(b.messages == (int)i + 1, 5000); /* nudged */
        fabric_deafen(b.setup.fabric, false);
        UNTIL(a.messages == (int)i + 1, 5000);
    }
    /* The requester is deaf to the answer: then its sender finds out. */
    for (uint64_t i = 5; i < 8; i++) {
        struct msg m = {.type = MSG_LEN, .id = i};
        ck_assert_int_eq(link_send(a.l, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
        UNTIL(b.messages == (int)i + 1, 5000);
        fabric_deafen(a.setup.fabric, true);
        UNTIL(a.messages == (int)i + 1, 5000);
        fabric_deafen(a.setup.fabric, false);
    }
    finish();
}
END_TEST

/* --- ends made by hand --- */

static void *x_payload_to(void *arg, const struct msg *m) {
    return NULL;
}
static int x_message(void *arg, const struct msg *m, void *payload) {
    ((struct lend *)arg)->messages++;
    return 0;
}
static void x_drained(void *arg) {
}
static void x_nudge(void *arg) {
}
static void x_broken(void *arg, int code) {
    ((struct lend *)arg)->down++;
    ((struct lend *)arg)->code = code;
}
static const struct channel_ops x_ops = {x_payload_to, x_message, x_drained, x_nudge, x_broken};

static int connect_to(struct channel *c, const struct lend *to, uint32_t id, const uint8_t *sends,
                      const uint8_t *takes) {
    uint8_t at[FABRIC_ADDRESS_MAX];
    size_t len = fabric_address(to->setup.fabric, at);
    return channel_connect(c, at, len, id, sends, takes);
}

/* These bytes as one message to the endpoint of b. */
static void raw_frame(struct fabric *f, const void *bytes, size_t len) {
    static struct frame frame = {.op.kind = OP_OTHER};
    struct iovec iov = {(void *)(uintptr_t)bytes, len};
    uint8_t at[FABRIC_ADDRESS_MAX];
    fi_addr_t to;
    int e = -EAGAIN;
    size_t n = fabric_address(b.setup.fabric, at);
    ck_assert_int_eq(fabric_insert(f, at, n, &to), 0);
    for (int i = 0; i < 5000 && (e = fabric_send(f, &frame, to, &iov, 1)) == -EAGAIN; i++)
        io_wait(ep, 1);
    ck_assert_int_eq(e, 0);
}

START_TEST(what_a_stranger_sends_is_dropped_and_counted) {
    static uint8_t junk[FRAME_MAX + 100000];
    struct fabric *stranger;
    uint64_t seed = 3, before;
    begin(1);
    b.echo = true;
    join();
    ck_assert_int_eq(fabric_open(&stranger, ep, fabric_name(b.setup.fabric), "localhost"), 0);
    struct {
        struct frame_head head;
        struct msg m;
    } frame = {.head = {.channel = 0, .bytes = MSG_HEADER},
               .m = {.len = MSG_HEADER, .type = MSG_LEN}};
    before = conn_refused();
    raw_frame(stranger, &frame, sizeof frame); /* well made but for the secret */
    UNTIL(conn_refused() > before, 5000);
    before = conn_refused();
    raw_frame(stranger, "x", 1);
    UNTIL(conn_refused() > before, 5000);
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (uint8_t)test_random(&seed);
    before = conn_refused();
    raw_frame(stranger, junk, 5000);
    UNTIL(conn_refused() > before, 5000);
    raw_frame(stranger, junk, sizeof junk); /* longer than any frame */
    ck_assert_int_eq(b.messages, 0);
    struct msg m = {.type = MSG_LEN};
    ck_assert_int_eq(link_send(a.l, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
    UNTIL(a.messages == 1, 10000);
    ck_assert_int_eq(b.messages, 1);
    fabric_close(stranger);
    finish();
}
END_TEST

/* Else the other end would fetch it, and what it was made of would have to stay until then. */
START_TEST(a_frame_that_is_sent_needs_nothing_more_of_its_sender) {
    static uint8_t body[40000];
    struct msg m = {.type = MSG_GET, .key_len = 1};
    begin(1);
    join();
    ck_assert_int_eq(link_send(a.l, &m, "k", 1, NULL, 0, NULL, NULL), 0);
    UNTIL(b.messages == 1, 10000); /* the endpoints are connected */
    fabric_deafen(b.setup.fabric, true);
    memset(body, 7, sizeof body);
    m = (struct msg){.type = MSG_DATA, .id = 1};
    ck_assert_int_eq(link_send(a.l, &m, NULL, 0, body, sizeof body, l_done, &a), 0);
    io_wait(ep, 0);
    for (uint64_t end_ms = clock_ms() + 10000; a.dones == 0 && clock_ms() < end_ms;)
        fabric_work(a.setup.fabric);
    ck_assert_int_eq(a.dones, 1);
    ck_assert_int_eq(b.messages, 1);
    memset(body, 9, sizeof body);
    fabric_deafen(b.setup.fabric, false);
    UNTIL(b.messages == 2, 10000);
    ck_assert_uint_eq(b.sum, 'k' + 7ull * sizeof body);
    finish();
}
END_TEST

START_TEST(an_end_without_the_secret_gets_nothing_through) {
    uint8_t right[CHANNEL_TOKEN] = {1}, wrong[CHANNEL_TOKEN] = {1, 2};
    struct channel *x, *y;
    begin(1);
    ck_assert_int_eq(channel_new(&x, a.setup.fabric, &x_ops, &a), 0);
    ck_assert_int_eq(channel_new(&y, b.setup.fabric, &x_ops, &b), 0);
    ck_assert_int_eq(connect_to(x, &b, channel_id(y), wrong, right), 0);
    ck_assert_int_eq(connect_to(y, &a, channel_id(x), right, right), 0);
    struct msg m = {.type = MSG_LEN};
    ck_assert_int_eq(channel_send(x, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
    UNTIL(conn_refused() > 0, 5000);
    ck_assert_int_eq(b.messages, 0);
    m = (struct msg){.type = MSG_LEN};
    ck_assert_int_eq(channel_send(y, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
    UNTIL(a.messages == 1, 5000);
    channel_free(x);
    channel_free(y);
    finish();
}
END_TEST

START_TEST(malformed_messages_in_a_channel_break_the_link) {
    static const struct {
        uint32_t len;
        uint16_t type;
    } bad[] = {
        {63, MSG_LEN}, {MSG_LEN_MAX + 1, MSG_DATA}, {64, MSG_TYPE_N}, {UINT32_MAX, MSG_DATA}};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint8_t right[CHANNEL_TOKEN] = {1};
        struct channel *x, *y;
        begin(1);
        ck_assert_int_eq(channel_new(&x, a.setup.fabric, &x_ops, &a), 0);
        ck_assert_int_eq(channel_new(&y, b.setup.fabric, &x_ops, &b), 0);
        ck_assert_int_eq(connect_to(x, &b, channel_id(y), right, right), 0);
        ck_assert_int_eq(connect_to(y, &a, channel_id(x), right, right), 0);
        struct msg m = {.type = MSG_REPLY};
        ck_assert_int_eq(channel_send(x, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
        UNTIL(b.messages == 1, 5000);
        struct {
            struct frame_head head;
            struct msg m;
        } frame = {.head = {.channel = channel_id(y), .bytes = MSG_HEADER, .seq = 1, .token = {1}},
                   .m = {.len = bad[i].len, .type = bad[i].type}};
        raw_frame(a.setup.fabric, &frame, sizeof frame);
        UNTIL(b.down == 1, 5000);
        ck_assert_int_eq(b.code, DDICT_EPROTO);
        ck_assert_int_eq(b.messages, 1);
        channel_free(x);
        channel_free(y);
        finish();
    }
}
END_TEST
#endif

int main(void) {
    Suite *s = suite_create("wire_link");
    TCase *c = tcase_create("links");
    int carriers_n = 2;
    if (fabric_find("tcp", "localhost", provider) < 0) {
        fprintf(stderr, "wire_link: by TCP only: %s\n", dd_errmsg());
        carriers_n = 1;
    }
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, thousands_of_small_messages_arrive_in_order_and_are_answered, 0,
                        carriers_n);
    tcase_add_loop_test(c, a_value_in_pieces_of_any_size_arrives_whole, 0, carriers_n);
    tcase_add_loop_test(c, a_paused_end_holds_the_sender_back_and_loses_nothing, 0, carriers_n);
    tcase_add_loop_test(c, the_end_of_one_process_is_told_at_once, 0, carriers_n);
    tcase_add_loop_test(c, a_link_may_be_freed_in_a_callback_and_bodies_are_done_all_the_same, 0,
                        carriers_n);
    tcase_add_loop_test(c, an_owner_that_refuses_a_message_ends_the_link, 0, carriers_n);
    tcase_add_loop_test(c, links_come_and_go, 0, carriers_n);
    tcase_add_loop_test(c, an_idle_link_uses_no_cpu, 0, carriers_n);
#ifdef HAVE_OFI
    if (carriers_n > 1) {
        tcase_add_test(c, a_lost_wake_up_delays_and_stops_nothing);
        tcase_add_test(c, what_a_stranger_sends_is_dropped_and_counted);
        tcase_add_test(c, a_frame_that_is_sent_needs_nothing_more_of_its_sender);
        tcase_add_test(c, an_end_without_the_secret_gets_nothing_through);
        tcase_add_test(c, malformed_messages_in_a_channel_break_the_link);
    }
#endif
    suite_add_tcase(s, c);
    return wire_main(s);
}
