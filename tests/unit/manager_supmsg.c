/* SPDX-License-Identifier: Apache-2.0 */
/* manager_supmsg.c - messages between ddictd and a manager: descriptors travel, surplus ones are
 * closed, a short one is refused. */
#include "unit.h"
#include <manager/supmsg.h>

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int pair[2];
static struct sup_msg m, got;

static void before(void) {
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
}
static void after(void) {
    close(pair[0]);
    close(pair[1]);
}

START_TEST(a_message_arrives_with_its_descriptors) {
    int fds[4], ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    m = (struct sup_msg){.type = SUP_CLIENT_ADD, .id = 7, .pid = 8};
    ck_assert_int_eq(sup_send(pair[0], &m, ends, 2), 0);
    ck_assert_int_eq(sup_recv(pair[1], &got, fds, 4), 2);
    ck_assert(got.type == SUP_CLIENT_ADD && got.id == 7 && got.pid == 8);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    char c = 0;
    ck_assert_int_eq(read(ends[0], &c, 1), 1);
    ck_assert_int_eq(c, 'x');
    for (int i = 0; i < 2; i++) {
        close(fds[i]);
        close(ends[i]);
    }
}
END_TEST

/* A process that may have no more descriptors still learns what the message says: it can refuse,
 * and goes on. */
START_TEST(a_message_whose_descriptors_find_no_room_is_told_apart) {
    int fds[4], ends[2], full[256], n = 0, fd;
    struct rlimit was, few;
    ck_assert_int_eq(pipe(ends), 0);
    m = (struct sup_msg){.type = SUP_CLIENT_ADD, .id = 7, .pid = 8};
    for (int room = 0; room < 2; room++) {
        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
        few = was;
        few.rlim_cur = 128;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        while ((fd = dup(0)) >= 0)
            full[n++] = fd;
        if (room)
            close(full[--n]); /* for one of the two */
        ck_assert_int_eq(sup_send(pair[0], &m, ends, 2), 0);
        ck_assert_int_eq(sup_recv(pair[1], &got, fds, 4), -EMFILE);
        ck_assert(got.type == SUP_CLIENT_ADD && got.id == 7 && got.pid == 8);
        while (n > 0)
            close(full[--n]);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
    }
    close(ends[0]);
    close(ends[1]);
}
END_TEST

START_TEST(surplus_descriptors_are_closed) {
    int fds[4], ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    m = (struct sup_msg){.type = SUP_HOLD_ADD};
    ck_assert_int_eq(sup_send(pair[0], &m, ends, 2), 0);
    ck_assert_int_eq(sup_recv(pair[1], &got, fds, 1), 1);
    ck_assert_int_eq(sup_send(pair[0], &m, ends, 2), 0);
    ck_assert_int_eq(sup_recv(pair[1], &got, NULL, 0), 0);
    close(fds[0]);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

START_TEST(figures_travel_whole) {
    m = (struct sup_msg){.type = SUP_STATS_REPLY};
    m.stats.uptime_us = 99;
    m.stats.latency[DDICT_LATENCY_N - 1].max_ns = 77;
    ck_assert_int_eq(sup_send(pair[0], &m, NULL, 0), 0);
    ck_assert_int_eq(sup_recv(pair[1], &got, NULL, 0), 0);
    ck_assert_int_eq(memcmp(&m, &got, sizeof m), 0);
}
END_TEST

START_TEST(empty_full_short_and_ended_are_told_apart) {
    ck_assert_int_eq(sup_recv(pair[1], &got, NULL, 0), -EAGAIN);
    int e;
    m = (struct sup_msg){.type = SUP_CLIENT_DEL};
    while ((e = sup_send(pair[0], &m, NULL, 0)) == 0) {
    }
    ck_assert_int_eq(e, -EAGAIN);
    while ((e = sup_recv(pair[1], &got, NULL, 0)) == 0) {
    }
    ck_assert_int_eq(e, -EAGAIN);
    ck_assert_int_eq(send(pair[0], "abc", 3, 0), 3);
    ck_assert_int_eq(sup_recv(pair[1], &got, NULL, 0), DDICT_EPROTO);
    shutdown(pair[0], SHUT_WR);
    ck_assert_int_eq(sup_recv(pair[1], &got, NULL, 0), -ECONNRESET);
}
END_TEST

/* The kernel says first that the other end has died with something unread. */
START_TEST(what_was_said_before_a_death_arrives) {
    m = (struct sup_msg){.type = SUP_GO};
    ck_assert_int_eq(sup_send(pair[0], &m, NULL, 0), 0);
    m = (struct sup_msg){.type = SUP_READY, .status = -5};
    ck_assert_int_eq(sup_send(pair[1], &m, NULL, 0), 0);
    close(pair[1]);
    pair[1] = dup(pair[0]); /* for after() */
    ck_assert_int_eq(sup_recv(pair[0], &got, NULL, 0), 0);
    ck_assert(got.type == SUP_READY && got.status == -5);
    ck_assert_int_eq(sup_recv(pair[0], &got, NULL, 0), -ECONNRESET);
}
END_TEST

UNIT_MAIN_WITH("manager_supmsg", before, after, a_message_arrives_with_its_descriptors,
               a_message_whose_descriptors_find_no_room_is_told_apart,
               surplus_descriptors_are_closed, figures_travel_whole,
               empty_full_short_and_ended_are_told_apart, what_was_said_before_a_death_arrives)
