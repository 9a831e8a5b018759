/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager_moved.c - a manager as the proxy of a client, with replicas: its owners are made by hand.
 * It asks the process that the map names, asks again there what it had asked before, and keeps what
 * it cannot ask yet.
 */
#include "owners.h"

/* The second is on the node of the proxy itself. */
START_TEST(what_was_asked_is_asked_again_where_the_keys_are_now) {
    first.answers = true;
    client_ask(MSG_DEL, 1, OWNER, 0);
    UNTIL(client.answers == 1);
    first.answers = false;
    client_ask(MSG_DEL, 2, OWNER, 0);
    client_ask(MSG_GET, 3, OWNER, 0);
    UNTIL(first.asked == 3);
    second.answers = true;
    uint64_t began_ms = clock_ms();
    map_send(second.me.self);
    UNTIL(client.answers == 3);
    ck_assert_uint_lt(clock_ms() - began_ms, WAIT_MS / 2);
    UNTIL(first.down);
    ck_assert_uint_eq(second.asked, 2);
    ck_assert(second.last.flags & MSGF_AGAIN);
    client_ask(MSG_DEL, 4, OWNER, 0);
    UNTIL(client.answers == 4);
    ck_assert(second.asked == 3 && !(second.last.flags & MSGF_AGAIN) && first.asked == 3);
    ck_assert_int_eq(client.last.status, 0);
}
END_TEST

START_TEST(a_value_in_pieces_is_sent_again_from_where_the_new_owner_wants_it) {
    static uint8_t piece[32768];
    uint64_t at = 0;
    value_begin(1);
    for (; at < LARGE / 2; at += sizeof piece, turn())
        client_send(
            (struct msg){.type = MSG_DATA, .id = 1, .aux = at, .len = MSG_HEADER + sizeof piece},
            piece);
    UNTIL(first.bytes == LARGE / 2);
    map_send(second.me.self);
    UNTIL(second.asked == 1);
    ck_assert(second.last.type == MSG_PUT && second.last.flags & MSGF_AGAIN);
    second.answers = true;
    struct msg r = {.type = MSG_REWIND, .id = second.last.id, .manager = OWNER, .rewind = 1};
    ck_assert_int_eq(conn_send(second.c, &r, NULL, 0, NULL, 0, NULL, NULL), 0);
    UNTIL(client.rewinds == 1);
    ck_assert_uint_eq(client.last.aux, 0);
    for (at = 0; at < LARGE; at += sizeof piece, turn())
        client_send((struct msg){.type = MSG_DATA,
                                 .id = 1,
                                 .aux = at,
                                 .rewind = client.last.rewind,
                                 .flags = at + sizeof piece == LARGE ? MSGF_LAST : 0,
                                 .len = MSG_HEADER + sizeof piece},
                    piece);
    UNTIL(client.answers == 1);
    ck_assert(client.last.status == 0 && second.bytes == LARGE);
}
END_TEST

/* For longer than DD_PEER_TRIES would last. */
START_TEST(an_owner_that_can_not_be_reached_is_not_given_up) {
    int fd = first.listener.fd;
    io_remove(m.epoll_fd, &first.listener);
    close(fd);
    first.listener.fd = -1;
    client_ask(MSG_DEL, 1, OWNER, 0);
    turns_for(DD_PEER_TRY_MS * (DD_PEER_TRIES + 5) / 2);
    client_ask(MSG_DEL, 2, OWNER, 0);
    turns_for(DD_PEER_TRY_MS * (DD_PEER_TRIES + 5) / 2);
    ck_assert_uint_eq(client.answers, 0);
    /* others are served meanwhile */
    client_ask(MSG_DEL, 3, SELF, 0);
    UNTIL(client.answers == 1);
    ck_assert(client.last.id == 3 && client.last.status == DDICT_ENOKEY);
    /* its own time ends a request */
    client_ask(MSG_DEL, 4, OWNER, 100);
    UNTIL(client.answers == 2);
    ck_assert(client.last.id == 4 && client.last.status == -ETIMEDOUT);
    second.answers = true;
    map_send(second.me.self);
    UNTIL(client.answers == 4);
    ck_assert_int_eq(client.last.status, 0);
    ck_assert_uint_eq(second.asked, 2);
}
END_TEST

START_TEST(what_is_asked_after_the_move_goes_there_at_once) {
    second.answers = true;
    map_send(second.me.self);
    turns_for(20);
    client_ask(MSG_DEL, 1, OWNER, 0);
    UNTIL(client.answers == 1);
    ck_assert(first.asked == 0 && !first.up && second.asked == 1);
}
END_TEST

/* --- the lease: of a process of its own, by its own loop --- */
static struct manager_page *shared;
static unsigned answers_read(unsigned ms) {
    const uint8_t *payload;
    struct msg r;
    unsigned n = 0;
    for (uint64_t end_ms = clock_ms() + ms; clock_ms() < end_ms && n == 0; usleep(1000))
        while (ring_peek(&client.lane.cq, &r, &payload) > 0) {
            n += r.type == MSG_REPLY;
            ring_consume(&client.lane.cq, &r);
        }
    return n;
}
static void told_await(uint32_t type) {
    struct sup_msg s = {0};
    int fds[4];
    for (uint64_t end_ms = clock_ms() + WAIT_MS; s.type != type; usleep(1000)) {
        ck_assert_uint_lt(clock_ms(), end_ms);
        sup_recv(supervisor_fd, &s, fds, 4);
    }
}
static pid_t manager_fork(void) {
    struct store_options o = {.budget = MEMORY, .managers = 2, .manager_id = SELF};
    int pair[2];
    close(supervisor_fd);
    close(setup.sup_fd);
    close(setup.arena_fd);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    supervisor_fd = pair[1];
    setup.sup_fd = pair[0];
    ck_assert_int_ge(setup.arena_fd = arena_create(&o), 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    *shared = (struct manager_page){.lives = 1, .lease = UINT64_MAX};
    setup.page = shared;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(manager_run(&setup));
    told_await(SUP_READY);
    return pid;
}

START_TEST(without_a_lease_nothing_is_taken_of_lanes) {
    client_close();
    pid_t pid = manager_fork();
    struct sup_msg add = {.type = SUP_CLIENT_ADD, .id = 1, .pid = (uint32_t)getpid()},
                   stop = {.type = SUP_STOP};
    int fds[4], status;
    client_make(fds);
    ck_assert_int_eq(sup_send(supervisor_fd, &add, fds, 4), 0);
    told_await(SUP_CLIENT_ADDED);
    client_ask(MSG_DEL, 1, SELF, 0);
    ck_assert_uint_eq(answers_read(WAIT_MS), 1);
    __atomic_store_n(&shared->lease, 1, __ATOMIC_RELEASE);
    usleep(100000);
    client_ask(MSG_DEL, 2, SELF, 0);
    ck_assert_uint_eq(answers_read(300), 0);
    uint64_t turns = __atomic_load_n(&shared->turns, __ATOMIC_RELAXED);
    usleep(100000);
    ck_assert_uint_gt(__atomic_load_n(&shared->turns, __ATOMIC_RELAXED), turns); /* it lives */
    __atomic_store_n(&shared->lease, UINT64_MAX - 1, __ATOMIC_RELEASE);
    ck_assert_uint_eq(answers_read(WAIT_MS), 1);
    ck_assert_int_eq(sup_send(supervisor_fd, &stop, NULL, 0), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    close(fds[2]);
    close(fds[3]);
}
END_TEST

UNIT_MAIN_WITH("manager_moved", before, after, what_was_asked_is_asked_again_where_the_keys_are_now,
               a_value_in_pieces_is_sent_again_from_where_the_new_owner_wants_it,
               an_owner_that_can_not_be_reached_is_not_given_up,
               what_is_asked_after_the_move_goes_there_at_once,
               without_a_lease_nothing_is_taken_of_lanes)
