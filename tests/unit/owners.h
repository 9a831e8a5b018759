/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owners.h - for unit tests: a manager as the proxy of a client, with replicas; its owners and the client are
 * made by hand. Part of each test that includes it.
 */
#ifndef DDICT_TESTS_OWNERS_H
#define DDICT_TESTS_OWNERS_H

#include "unit.h"
#include <base/clock.h>
#include <base/shadow.h>
#include <manager/lane_clients.h>
#include <manager/lanes.h>
#include <manager/ledger.h>
#include <manager/main_loop.h>
#include <manager/peer_client.h>
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
    uint64_t aux;   /* of its answers */
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
static inline void owner_answer(struct owner *o, uint64_t id) {
    struct msg r = {.type = MSG_REPLY, .id = id, .manager = OWNER, .version = 11, .aux = o->aux};
    ck_assert_int_eq(conn_send(o->c, &r, NULL, 0, NULL, 0, NULL, NULL), 0);
}
static inline void owner_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    struct owner *o = arg;
    o->up = true;
    ck_assert(peer == SELF && role == ROLE_DATA);
}
static inline int owner_message(struct conn *c, void *arg, const struct msg *r, void *payload) {
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
static inline void owner_down(struct conn *c, void *arg, int code) {
    ((struct owner *)arg)->down = true;
}
static const struct conn_ops owner_ops = {
    .up = owner_up, .message = owner_message, .down = owner_down};

static inline void owner_accept(struct io_handler *h, uint32_t events) {
    struct owner *o = (struct owner *)(void *)h;
    int fd;
    while ((fd = conn_take(h->fd)) >= 0) {
        conn_free(o->c);
        o->up = o->down = false;
        ck_assert_int_eq(conn_accept(&o->c, m.epoll_fd, &o->me, fd, &owner_ops, o), 0);
    }
}

/* A port of its own, at which it listens or not. */
static inline void owner_open(struct owner *o, uint32_t number) {
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
/* It breaks off, and can be connected again. */
static inline void owner_break(struct owner *o) {
    conn_free(o->c);
    o->c = NULL;
    o->up = false;
}
static inline void owner_close(struct owner *o) {
    conn_free(o->c);
    if (o->listener.fd >= 0) {
        io_remove(m.epoll_fd, &o->listener);
        close(o->listener.fd);
    }
    o->c = NULL;
    o->listener.fd = -1;
}

/* --- turns --- */
static inline void turn(void) {
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
static inline void turns_for(unsigned ms) {
    for (uint64_t end_ms = clock_ms() + ms; clock_ms() < end_ms;)
        turn();
}

/* --- the client --- */
static inline void client_make(int fds[4]) {
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
static inline void client_open(void) {
    int fds[4];
    client_make(fds);
    ck_assert_int_eq(client_add(&m, 1, 1, fds), 0);
}
static inline void client_close(void) {
    lane_unmap(&client.lane);
    munmap(client.leases, LEASE_CHUNK_SIZE);
    close(client.lease_fd);
    close(client.lane_fd);
    close(client.client_eventfd);
    close(client.lane_eventfd);
}
static inline void client_send(struct msg r, const void *payload) {
    uint64_t one = 1;
    bool bad = false;
    uint8_t *to = ring_reserve(&client.lane.sq, r.len, &bad);
    ck_assert(to && !bad);
    memcpy(to, &r, sizeof r);
    memcpy(to + MSG_HEADER, payload, r.len - MSG_HEADER);
    ring_commit(&client.lane.sq);
    ck_assert_int_eq(write(client.lane_eventfd, &one, sizeof one), sizeof one);
}
/* The n-th key of this owner. */
static inline const char *key_of_n(uint32_t owner, unsigned n) {
    static char key[64];
    for (unsigned i = 0;; i++) {
        snprintf(key, sizeof key, "key %u", i);
        if (deal_owner(&deal, key, strlen(key), key_hash(key, strlen(key))) == owner && n-- == 0)
            return key;
    }
}
static inline const char *key_of(uint32_t owner) {
    return key_of_n(owner, 0);
}
static inline void client_ask(unsigned type, uint64_t id, uint32_t owner, uint32_t patience_ms) {
    const char *key = key_of(owner);
    uint32_t len = (uint32_t)strlen(key);
    client_send((struct msg){.type = (uint16_t)type,
                             .id = id,
                             .len = MSG_HEADER + len,
                             .key_len = len,
                             .patience_ms = patience_ms},
                key);
}

/* Put a value in pieces of the id-th key, and no piece of it yet. */
static inline void value_begin(uint64_t id) {
    const char *key = key_of_n(OWNER, (unsigned)id);
    uint32_t len = (uint32_t)strlen(key);
    client_send((struct msg){.type = MSG_PUT,
                             .flags = MSGF_STREAM,
                             .id = id,
                             .key_len = len,
                             .len = MSG_HEADER + len,
                             .val_len = LARGE},
                key);
}
static inline void map_send(uint32_t number) {
    struct sup_msg s = {
        .type = SUP_MAP, .id = OWNER, .count = 2, .pid = number, .room = SHADOW_NONE};
    ck_assert_int_eq(sup_send(supervisor_fd, &s, NULL, 0), 0);
}

/* --- */
/* A process that accepts keeps one for want of others (conn_take_ready()). */
static bool spare_old[64];
static inline void spares_look(bool end) {
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

static inline void before(void) {
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
static inline void after(void) {
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

#endif
