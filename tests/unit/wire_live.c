/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_live.c - a peer that is switched off is noticed within DD_CONN_LOST_MS and little more, idle
 * or not; one that reads nothing is not taken for dead. In a network namespace of its own, whose
 * loopback is switched off: needs root. Takes half a minute of waiting.
 */
#include "net_alone.h"
#include "wire_test.h"
#include <base/clock.h>
#include <ddict.h>
#include <wire/conn.h>
#include <wire/loop.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct side {
    struct conn *c;
    int up, messages, code;
    uint64_t down_ms;
};
static void on_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    ((struct side *)arg)->up++;
}
static int on_message(struct conn *c, void *arg, const struct msg *m, void *payload) {
    ((struct side *)arg)->messages++;
    return 0;
}
static void on_down(struct conn *c, void *arg, int code) {
    struct side *s = arg;
    s->code = code;
    s->down_ms = clock_ms();
    conn_free(c);
    s->c = NULL;
}
static const struct conn_ops ops = {.up = on_up, .message = on_message, .down = on_down};

enum { IDLE, BUSY, CONTROL, UNREAD, PAIRS };
static struct side side[PAIRS][2];
static int ep;

static void turn(void) {
    io_wait(ep, 50);
    for (int i = 0; i < PAIRS * 2; i++)
        if (side[i / 2][i % 2].c)
            conn_tick(side[i / 2][i % 2].c, clock_ns());
}
#define TURN_UNTIL(cond, ms)                                                   \
    do {                                                                       \
        for (uint64_t end_ = clock_ms() + (ms); !(cond) && clock_ms() < end_;) \
            turn();                                                            \
    } while (0)

static bool all_up(void) {
    for (int i = 0; i < PAIRS; i++)
        if (!side[i][0].up || !side[i][1].up)
            return false;
    return true;
}
static const int looked_at[][2] = {{IDLE, 0}, {IDLE, 1},    {BUSY, 0},
                                   {BUSY, 1}, {CONTROL, 0}, {CONTROL, 1}};
static bool all_down(void) {
    for (int i = 0; i < 6; i++)
        if (side[looked_at[i][0]][looked_at[i][1]].c)
            return false;
    return true;
}
static void send_one(struct conn *c) {
    static uint8_t value[65536];
    struct msg m = {.type = MSG_REPLY};
    ck_assert_int_eq(conn_send(c, &m, value, sizeof value, NULL, 0, NULL, NULL), 0);
}

START_TEST(a_switched_off_peer_is_noticed_and_a_slow_one_is_not_taken_for_it) {
    static const uint8_t keys[3][KEY_SIZE];
    struct conn_identity a = {.keys = keys, .nodes = 3, .self = 1},
                         b = {.keys = keys, .nodes = 3, .self = 2};
    struct sockaddr_storage at = {.ss_family = AF_INET};
    uint16_t port;
    ((struct sockaddr_in *)&at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ep = epoll_create1(EPOLL_CLOEXEC);
    int l = conn_listen(&at, &port);
    ck_assert_int_ge(l, 0);
    ((struct sockaddr_in *)&at)->sin_port = htons(port);
    for (int i = 0; i < PAIRS; i++) {
        struct pollfd p = {.fd = l, .events = POLLIN};
        ck_assert_int_eq(conn_open(&side[i][0].c, ep, &a, i == CONTROL ? ROLE_CONTROL : ROLE_DATA,
                                   2, &at, 1, &ops, &side[i][0]),
                         0);
        ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
        ck_assert_int_eq(conn_accept(&side[i][1].c, ep, &b, accept4(l, NULL, NULL, SOCK_CLOEXEC),
                                     &ops, &side[i][1]),
                         0);
    }
    TURN_UNTIL(all_up(), WAIT_MS);
    ck_assert(all_up());
    /* A peer whose window is closed for longer than the limit lives. */
    conn_pause(side[UNREAD][1].c, true);
    while (!conn_full(side[UNREAD][0].c)) {
        send_one(side[UNREAD][0].c);
        io_wait(ep, 0);
    }
    TURN_UNTIL(false, DD_CONN_LOST_MS + 2500);
    for (int i = 0; i < PAIRS; i++)
        ck_assert_msg(side[i][0].c && side[i][1].c, "pair %d went down: %d %d", i, side[i][0].code,
                      side[i][1].code);
    conn_pause(side[UNREAD][1].c, false);
    TURN_UNTIL(side[UNREAD][1].messages > 50, WAIT_MS);
    ck_assert_int_gt(side[UNREAD][1].messages, 50);
    /* The cable is cut. */
    uint64_t cut = clock_ms();
    ck_assert_int_eq(loopback_set(false), 0);
    send_one(side[BUSY][0].c);
    send_one(side[CONTROL][0].c);
    TURN_UNTIL(all_down(), DD_CONN_LOST_MS + 8000);
    for (unsigned i = 0; i < 6; i++) {
        struct side *s = &side[looked_at[i][0]][looked_at[i][1]];
        ck_assert_msg(!s->c, "pair %d end %d was not noticed", looked_at[i][0], looked_at[i][1]);
        ck_assert_int_eq(s->code, -ETIMEDOUT);
        ck_assert_uint_gt(s->down_ms - cut, DD_CONN_LOST_MS / 2 - 1000);
    }
    for (int i = 0; i < PAIRS * 2; i++)
        conn_free(side[i / 2][i % 2].c);
    close(l);
    close(ep);
}
END_TEST

int main(void) {
    if (!net_alone()) {
        printf("skipped: needs the right to make a network namespace\n");
        return 77;
    }
    Suite *s = suite_create("wire_live");
    TCase *c = wire_case(s, "live", 120);
    tcase_add_test(c, a_switched_off_peer_is_noticed_and_a_slow_one_is_not_taken_for_it);
    return wire_main(s);
}
