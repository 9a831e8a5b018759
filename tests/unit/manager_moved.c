/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager_moved.c - a manager as the proxy of a client, with replicas: its owners are made by hand.
 * It asks the process that the map names, asks again there what it had asked before, and keeps what
 * it cannot ask yet.
 */
#include "unit.h"
#include <base/clock.h>
#include <base/shadow.h>
#include <manager/lanes.h>
#include <manager/ledger.h>
#include <manager/main_loop.h>
#include <manager/supmsg.h>
#include <wire/conn.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { OWNER = 0, SELF = 1, MEMORY = 32 << 20, WAIT_MS = 20000, NUMBERS = 4, LARGE = 1 << 20 };

static const struct deal deal = {.owners = 2, .nodes = 2, .keyed = 2};
static uint8_t keys[2][KEY_SIZE];
static struct manager m;
static struct manager_setup setup;
static struct manager_page page;
static struct peer_address peers[NUMBERS];
static int supervisor_fd;

struct owner { /* the process of a number */
    struct io_handler listener;
    struct conn_identity me;
    struct conn *c;
    bool up, down, answers;
    struct msg last; /* other than DATA */
    unsigned asked;
    uint64_t bytes; /* of DATA */
};
static struct owner first, second;

static struct {
    struct lane lane;
    int lease_fd, lane_fd, client_eventfd, lane_eventfd;
    uint64_t *leases;
    struct msg last;
    unsigned answers, rewinds;
} client;

/* --- owners --- */
static void owner_answer(struct owner *o, uint64_t id) {
    struct msg r = {.type = MSG_REPLY, .id = id, .manager = OWNER, .version = 11};
    ck_assert_int_eq(conn_send(o->c, &r, NULL, 0, NULL, 0, NULL, NULL), 0);
}
static void owner_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    struct owner *o = arg;
    o->up = true;
    ck_assert(peer == SELF && role == ROLE_DATA);
}
static int owner_message(struct conn *c, void *arg, const struct msg *r, void *payload) {
    struct owner *o = arg;
    if (r->type == MSG_DATA) {
        o->bytes += r->len - MSG_HEADER;
        if (o->answers && r->flags & MSGF_LAST)
            owner_answer(o, r->id);
        return 0;
    }
    o->last = *r;
    o->asked++;
    if (o->answers && !(r->flags & MSGF_STREAM))
        owner_answer(o, r->id);
    return 0;
}
static void owner_down(struct conn *c, void *arg, int code) {
    ((struct owner *)arg)->down = true;
}
static const struct conn_ops owner_ops = {
    .up = owner_up, .message = owner_message, .down = owner_down};

static void owner_accept(struct io_handler *h, uint32_t events) {
    struct owner *o = (struct owner *)(void *)h;
    int fd;
    while ((fd = conn_take(h->fd)) >= 0) {
        conn_free(o->c);
        o->up = o->down = false;
        ck_assert_int_eq(conn_accept(&o->c, m.epoll_fd, &o->me, fd, &owner_ops, o), 0);
    }
}

/* A port of its own, at which it listens or not. */
static void owner_open(struct owner *o, uint32_t number) {
    struct sockaddr_in *in =
        (struct sockaddr_in *)(void *)&peers[shadow_slot(&deal, number)].addr[0];
    uint16_t port;
    *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *o = (struct owner){
        .listener = {.fd = conn_listen(&peers[shadow_slot(&deal, number)].addr[0], &port),
                     .ready = owner_accept},
        .me = {.keys = (const uint8_t(*)[KEY_SIZE])keys, .nodes = 2, .self = number}};
    ck_assert_int_ge(o->listener.fd, 0);
    in->sin_port = htons(port);
    peers[shadow_slot(&deal, number)].naddr = 1;
    ck_assert_int_eq(io_add(m.epoll_fd, &o->listener, EPOLLIN), 0);
}
static void owner_close(struct owner *o) {
    conn_free(o->c);
    if (o->listener.fd >= 0) {
        io_remove(m.epoll_fd, &o->listener);
        close(o->listener.fd);
    }
    o->c = NULL;
    o->listener.fd = -1;
}

/* --- turns --- */
static void turn(void) {
    const uint8_t *payload;
    struct msg r;
    m.now = clock_ns();
    share_begin(&m);
    lanes_turn(&m);
    ck_assert_int_ge(io_wait(m.epoll_fd, 1), 0);
    manager_work(&m);
    ck_assert(!m.stopping);
    while (ring_peek(&client.lane.cq, &r, &payload) > 0) {
        client.rewinds += r.type == MSG_REWIND;
        client.answers += r.type == MSG_REPLY;
        client.last = r;
        ring_consume(&client.lane.cq, &r);
    }
}
#define UNTIL(cond)                                                     \
    do {                                                                \
        uint64_t end_ms_ = clock_ms() + WAIT_MS;                        \
        while (!(cond)) {                                               \
            ck_assert_msg(clock_ms() < end_ms_, "not in time: " #cond); \
            turn();                                                     \
        }                                                               \
    } while (0)
static void turns_for(unsigned ms) {
    for (uint64_t end_ms = clock_ms() + ms; clock_ms() < end_ms;)
        turn();
}

/* --- the client --- */
static void client_make(int fds[4]) {
    client.lease_fd = memfd_create("leases", MFD_CLOEXEC);
    client.lane_fd = lane_create();
    client.client_eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client.lane_eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_eq(ftruncate(client.lease_fd, (off_t)LEASE_FILE_SIZE), 0);
    client.leases =
        mmap(NULL, LEASE_CHUNK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, client.lease_fd, 0);
    ck_assert_ptr_ne(client.leases, MAP_FAILED);
    ((struct lease_chunk *)(void *)client.leases)->chunks = 1;
    ck_assert_int_eq(lane_map(&client.lane, client.lane_fd, true), 0);
    fds[0] = client.lease_fd;
    fds[1] = client.lane_fd;
    fds[2] = fcntl(client.client_eventfd, F_DUPFD_CLOEXEC, 3);
    fds[3] = fcntl(client.lane_eventfd, F_DUPFD_CLOEXEC, 3);
}
static void client_open(void) {
    int fds[4];
    client_make(fds);
    ck_assert_int_eq(client_add(&m, 1, 1, fds), 0);
}
static void client_close(void) {
    lane_unmap(&client.lane);
    munmap(client.leases, LEASE_CHUNK_SIZE);
    close(client.lease_fd);
    close(client.lane_fd);
    close(client.client_eventfd);
    close(client.lane_eventfd);
}
static void client_send(struct msg r, const void *payload) {
    uint64_t one = 1;
    bool bad = false;
    uint8_t *to = ring_reserve(&client.lane.sq, r.len, &bad);
    ck_assert(to && !bad);
    memcpy(to, &r, sizeof r);
    memcpy(to + MSG_HEADER, payload, r.len - MSG_HEADER);
    ring_commit(&client.lane.sq);
    ck_assert_int_eq(write(client.lane_eventfd, &one, sizeof one), sizeof one);
}
/* A key of this owner. */
static const char *key_of(uint32_t owner) {
    static char key[64];
    for (unsigned i = 0;; i++) {
        snprintf(key, sizeof key, "key %u", i);
        if (deal_owner(&deal, key, strlen(key), key_hash(key, strlen(key))) == owner)
            return key;
    }
}
static void client_ask(unsigned type, uint64_t id, uint32_t owner, uint32_t patience_ms) {
    const char *key = key_of(owner);
    uint32_t len = (uint32_t)strlen(key);
    client_send((struct msg){.type = (uint16_t)type,
                             .id = id,
                             .len = MSG_HEADER + len,
                             .key_len = len,
                             .patience_ms = patience_ms},
                key);
}

static void map_send(uint32_t number) {
    struct sup_msg s = {
        .type = SUP_MAP, .id = OWNER, .count = 2, .pid = number, .room = SHADOW_NONE};
    ck_assert_int_eq(sup_send(supervisor_fd, &s, NULL, 0), 0);
}

/* --- */
/* A process that accepts keeps one for want of others (conn_take_ready()). */
static bool spare_old[64];
static void spares_look(bool end) {
    for (int fd = 3; fd < 64; fd++) {
        char name[32], to[32] = "";
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        bool is = readlink(name, to, sizeof to - 1) > 0 && strcmp(to, "/dev/null") == 0;
        if (!end)
            spare_old[fd] = is;
        else if (is && !spare_old[fd])
            close(fd);
    }
}

static void before(void) {
    struct store_options o = {.budget = MEMORY, .managers = 2, .manager_id = SELF};
    int pair[2];
    spares_look(false);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    supervisor_fd = pair[1];
    setup = (struct manager_setup){
        .id = SELF,
        .managers = 2,
        .node_id = 1,
        .nodes = 2,
        .survives = true,
        .copies = true,
        .deal = deal,
        .node = "n",
        .spill_fd = -1,
        .listen_fd = -1,
        .connections = 2,
        .provider = "",
        .sup_fd = pair[0],
        .page = &page,
        .peers = peers,
        .ledger = ledger_map(),
        .cache = UINT64_MAX,
        .identity = {
            .keys = (const uint8_t(*)[KEY_SIZE])keys, .nodes = 2, .life = 1, .self = SELF}};
    page = (struct manager_page){.lives = 1, .lease = UINT64_MAX};
    ck_assert_ptr_nonnull(setup.ledger);
    ck_assert_int_ge(setup.arena_fd = arena_create(&o), 0);
    manager_begin(&m, &setup);
    m.numa_node = -1;
    ck_assert_int_eq(manager_open(&m), 0);
    client_open();
    owner_open(&first, OWNER);
    owner_open(&second, shadow_of(&deal, OWNER));
}
static void after(void) {
    owner_close(&first);
    owner_close(&second);
    manager_close(&m);
    client_close();
    close(m.epoll_fd);
    close(m.spill.fd);
    close(setup.arena_fd);
    close(setup.sup_fd);
    close(supervisor_fd);
    munmap(setup.ledger, sizeof *setup.ledger);
    spares_look(true);
}

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
    const char *key = key_of(OWNER);
    uint32_t len = (uint32_t)strlen(key);
    uint64_t at = 0;
    client_send((struct msg){.type = MSG_PUT,
                             .flags = MSGF_STREAM,
                             .id = 1,
                             .key_len = len,
                             .len = MSG_HEADER + len,
                             .val_len = LARGE},
                key);
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
