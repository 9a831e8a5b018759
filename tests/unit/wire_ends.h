/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_ends.h - for tests of connections: both ends in one process and one loop, what they were
 * told, and a peer made by hand.
 */
#ifndef DDICT_TESTS_WIRE_ENDS_H
#define DDICT_TESTS_WIRE_ENDS_H

#include "wire_test.h"
#include <base/clock.h>
#include <ddict.h>
#include <wire/auth.h>
#include <wire/conn.h>
#include <wire/loop.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { A_ID = 1, B_ID = 2 };

struct end {
    struct conn *c;
    int up, down, code, drained, messages, dones;
    uint32_t peer;
    enum conn_role role;
    struct msg last;
    uint8_t *value; /* DATA goes here, at aux */
    size_t value_cap, value_got;
    bool parts; /* DATA that has no place is taken as it comes, to value at aux */
    uint64_t random;
    int part_count, part_direct, part_paused;
    uint8_t *part;
    uint8_t *copy; /* of the last payload that came in the connection's buffer */
    size_t copy_cap;
    int refuse;      /* message() returns this */
    int pause_after; /* pause at this message */
    bool free_in_message, free_in_up, echo;
    uint64_t next_id; /* expected, when check_ids */
    bool check_ids;
};

static int ep;
static struct conn_identity id_a, id_b;
static enum seal_mode wire; /* what A wants; B wants nothing */
/* ids of both ends are below: managers 1 and 2 are of nodes 1 and 2 */
#define NODES 4
/* the same, unless a test changes one */
static uint8_t key_a[NODES][KEY_SIZE], key_b[NODES][KEY_SIZE];
static uint16_t port;
static int listener = -1;
static struct sockaddr_storage address;

static inline void on_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    struct end *e = arg;
    e->up++;
    e->peer = peer;
    e->role = role;
    if (e->free_in_up) {
        conn_free(c);
        e->c = NULL;
    }
}
static inline void *on_payload_to(struct conn *c, void *arg, const struct msg *m) {
    struct end *e = arg;
    if (m->type != MSG_DATA || !e->value || e->parts)
        return NULL;
    ck_assert_uint_le(m->aux + m->len - MSG_HEADER, e->value_cap);
    return e->value + m->aux;
}
/* Room of any size, none, or none for a while. */
static inline void *on_part_to(struct conn *c, void *arg, const struct msg *m, uint32_t got,
                               uint32_t *room) {
    struct end *e = arg;
    if (m->type != MSG_DATA || !e->parts)
        return NULL;
    ck_assert_uint_le(*room, m->len - MSG_HEADER - got);
    ck_assert_uint_gt(*room, 0);
    uint64_t r = test_random(&e->random);
    if (r % 8 == 1) {
        conn_pause(c, true);
        e->part_paused++;
    }
    if (r % 8 < 2)
        return NULL;
    if (r % 8 < 6)
        *room = 1 + (uint32_t)(test_random(&e->random) % *room);
    return e->part = e->value + m->aux + got;
}
static inline int on_part(struct conn *c, void *arg, const struct msg *m, uint32_t got,
                          const void *at, uint32_t n) {
    struct end *e = arg;
    uint8_t *to = e->value + m->aux + got;
    ck_assert_uint_gt(n, 0);
    ck_assert_uint_le(got + n, m->len - MSG_HEADER);
    ck_assert_uint_eq(m->aux + got, e->value_got); /* in order, each once */
    e->part_count++;
    if (at != to)
        memcpy(to, at, n);
    else
        e->part_direct++;
    e->value_got += n;
    return e->refuse;
}
static inline void on_done(void *arg) {
    ((struct end *)arg)->dones++;
}

static inline int on_message(struct conn *c, void *arg, const struct msg *m, void *payload) {
    struct end *e = arg;
    size_t n = m->len - MSG_HEADER;
    ck_assert_int_eq(e->up, 1);
    e->messages++;
    e->last = *m;
    if (m->type == MSG_DATA && e->parts) { /* nowhere at its beginning */
        memcpy(e->value + m->aux, payload, n);
        ck_assert_uint_eq(m->aux, e->value_got);
        e->value_got += n;
    } else if (m->type == MSG_DATA && e->value) {
        ck_assert_ptr_eq(payload, e->value + m->aux);
        e->value_got += n;
    } else if (e->copy) {
        ck_assert_uint_le(n, e->copy_cap);
        memcpy(e->copy, payload, n);
    }
    if (e->check_ids)
        ck_assert_uint_eq(m->id, e->next_id++);
    if (e->echo) {
        struct msg r = {.type = MSG_REPLY, .id = m->id};
        ck_assert_int_eq(conn_send(c, &r, NULL, 0, NULL, 0, NULL, NULL), 0);
    }
    if (e->pause_after == e->messages)
        conn_pause(c, true);
    if (e->free_in_message) {
        conn_free(c);
        e->c = NULL;
    }
    return e->refuse;
}
static inline void on_drained(struct conn *c, void *arg) {
    ((struct end *)arg)->drained++;
}
static inline void on_down(struct conn *c, void *arg, int code) {
    struct end *e = arg;
    e->down++;
    e->code = code;
    conn_free(c);
    e->c = NULL;
}
static const struct conn_ops ops = {on_up,   on_payload_to, on_message, on_drained,
                                    on_down, on_part_to,    on_part};

static inline void setup(void) {
    fds_count();
    ep = epoll_create1(EPOLL_CLOEXEC);
    memset(&id_a, 0, sizeof id_a);
    memset(id_a.dict_id, 7, sizeof id_a.dict_id);
    memset(key_a, 9, sizeof key_a);
    memset(key_b, 9, sizeof key_b);
    id_a.keys = (const uint8_t(*)[KEY_SIZE])key_a;
    id_a.nodes = NODES;
    id_a.self = A_ID;
    id_a.wire = wire;
    id_b = id_a;
    id_b.keys = (const uint8_t(*)[KEY_SIZE])key_b;
    id_b.self = B_ID;
    id_b.wire = SEAL_PLAIN;
    struct sockaddr_in *in = (struct sockaddr_in *)&address;
    memset(&address, 0, sizeof address);
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = conn_listen(&address, &port);
    ck_assert_int_ge(listener, 0);
    in->sin_port = htons(port);
    ck_assert_int_eq(auth_init(), 0);
}
static inline void setup_auth(void) {
    wire = SEAL_AUTH;
    setup();
}
static inline void setup_encrypt(void) {
    wire = SEAL_ENCRYPT;
    setup();
}
static inline void teardown(void) {
    close(listener);
    close(ep);
    fds_check();
}

static inline void ticks(struct end *x, struct end *y) {
    if (x && x->c)
        conn_tick(x->c, clock_ns());
    if (y && y->c)
        conn_tick(y->c, clock_ns());
}
#define LOOP_UNTIL(cond, x, y)                                                           \
    do {                                                                                 \
        uint64_t end_ms_ = clock_ms() + WAIT_MS;                                         \
        while (!(cond)) {                                                                \
            ck_assert_msg(clock_ms() < end_ms_, "not within %d ms: %s", WAIT_MS, #cond); \
            ck_assert_int_ge(io_wait(ep, 5), 0);                                         \
            ticks(x, y);                                                                 \
        }                                                                                \
    } while (0)

static inline int accept_one(void) {
    struct pollfd p = {.fd = listener, .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    return fd;
}
static inline void pair_start(struct end *a, struct end *b) {
    ck_assert_int_eq(conn_open(&a->c, ep, &id_a, ROLE_DATA, B_ID, &address, 1, &ops, a), 0);
    ck_assert_int_eq(conn_accept(&b->c, ep, &id_b, accept_one(), &ops, b), 0);
}
static inline void pair_up(struct end *a, struct end *b) {
    pair_start(a, b);
    LOOP_UNTIL(a->up && b->up, a, b);
}
static inline void pair_end(struct end *a, struct end *b) {
    conn_free(a->c);
    conn_free(b->c);
    a->c = b->c = NULL;
}

/* A peer made by hand: a blocking socket with a receive timeout. */
static inline int raw_connect(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval t = {.tv_usec = 300000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
    return fd;
}
static inline int raw_attack(struct end *b) /* connected to an acceptor */
{
    int fd = raw_connect();
    ck_assert_int_eq(conn_accept(&b->c, ep, &id_b, accept_one(), &ops, b), 0);
    return fd;
}
static inline void raw_send(int fd, const void *p, size_t n) {
    ck_assert_int_eq(send(fd, p, n, MSG_NOSIGNAL), (ssize_t)n);
}
static inline bool raw_recv(int fd, struct end *e, void *p, size_t n) {
    size_t got = 0;
    for (uint64_t end_ms = clock_ms() + WAIT_MS; got < n && clock_ms() < end_ms;) {
        io_wait(ep, 2);
        ssize_t k = recv(fd, (char *)p + got, n - got, MSG_DONTWAIT);
        if (k == 0 || (k < 0 && errno != EAGAIN))
            return false;
        got += k > 0 ? (size_t)k : 0;
    }
    return got == n;
}
/* By the book up to `up`. */
static inline int raw_up(struct end *b) {
    struct auth_hello h;
    struct auth_challenge ch;
    struct auth_answer an;
    int fd = raw_attack(b);
    auth_hello_make(&h, &id_a, ROLE_DATA, B_ID);
    raw_send(fd, &h, sizeof h);
    ck_assert(raw_recv(fd, b, &ch, sizeof ch));
    ck_assert_int_eq(auth_challenge_check(&ch, &h, &id_a, &an), 0);
    raw_send(fd, &an, sizeof an);
    LOOP_UNTIL(b->up, b, NULL);
    return fd;
}

#endif
