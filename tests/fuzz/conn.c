/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.c - a connection between nodes as its acceptor reads it: from its first byte on, by a peer
 * that has no key; with a handshake by the book that is changed in some bytes; and the messages of
 * one that proved itself.
 */
#include "conn_buffers.h"
#include "fuzz.h"
#include <base/clock.h>
#include <wire/auth.h>
#include <wire/conn.h>
#include <wire/loop.h>

#include <sys/epoll.h>
#include <sys/socket.h>

enum { OPENER = 1, ACCEPTOR = 2, NODES = 4 };
enum { PROVED = 1, CHANGED = 2, PARTS = 4, PAUSES = 8, SEALED = 16 };

struct end {
    struct conn *c;
    unsigned up, down, messages, mode;
    uint8_t place[MSG_LEN_MAX], *part; /* of part_to */
};

static void end_up(struct conn *c, void *arg, uint32_t peer, enum conn_role role) {
    struct end *e = arg;
    e->up++;
    fuzz_must(peer == OPENER && role >= ROLE_DATA && role <= ROLE_MORE);
}

static void *end_payload_to(struct conn *c, void *arg, const struct msg *m) {
    struct end *e = arg;
    fuzz_must(m->len > MSG_HEADER && m->len <= MSG_LEN_MAX && msg_check(m, MSG_LEN_MAX) == 0);
    return m->type == MSG_DATA && !(e->mode & PARTS) ? e->place : NULL;
}

static int end_message(struct conn *c, void *arg, const struct msg *m, void *payload) {
    struct end *e = arg;
    fuzz_must(e->up == 1 && msg_check(m, MSG_LEN_MAX) == 0);
    fuzz_read(payload, m->len - MSG_HEADER);
    e->messages++;
    if (e->mode & PAUSES && e->messages % 2)
        conn_pause(c, true);
    return 0;
}

static void *end_part_to(struct conn *c, void *arg, const struct msg *m, uint32_t got,
                         uint32_t *room) {
    struct end *e = arg;
    fuzz_must(*room > 0 && *room <= m->len - MSG_HEADER - got);
    if (!(e->mode & PARTS) || m->type != MSG_DATA || m->id % 3 == 0)
        return NULL;
    if (*room > m->id % 1000 + 1)
        *room = (uint32_t)(m->id % 1000) + 1;
    return e->part = e->place + got;
}

static int end_part(struct conn *c, void *arg, const struct msg *m, uint32_t got, const void *at,
                    uint32_t n) {
    fuzz_must(n > 0 && got + n <= m->len - MSG_HEADER);
    fuzz_read(at, n);
    return 0;
}

static void end_down(struct conn *c, void *arg, int code) {
    struct end *e = arg;
    fuzz_must(code < 0 && e->down++ == 0);
    conn_free(c);
    e->c = NULL;
}

static const struct conn_ops ops = {.up = end_up,
                                    .payload_to = end_payload_to,
                                    .message = end_message,
                                    .down = end_down,
                                    .part_to = end_part_to,
                                    .part = end_part};
static uint8_t keys[NODES][KEY_SIZE];
static int epoll_fd = -1;

static struct conn_identity identity(uint32_t self, enum seal_mode wire) {
    return (struct conn_identity){
        .keys = (const uint8_t(*)[KEY_SIZE])keys, .nodes = NODES, .self = self, .wire = wire};
}

/* Send all that fits; the acceptor reads meanwhile. */
static void bytes_send(int fd, const void *bytes, size_t n, size_t piece) {
    const uint8_t *at = bytes;
    while (n > 0) {
        size_t now = piece < n ? piece : n;
        ssize_t k = send(fd, at, now, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k > 0) {
            at += k;
            n -= (size_t)k;
        }
        if (io_wait(epoll_fd, 0) <= 0 && k <= 0)
            return;
    }
}

/* XOR with the next bytes of the input; true: it is changed. */
static int bytes_change(struct fuzz_input *in, void *bytes, size_t n, unsigned changed) {
    int any = 0;
    for (size_t i = 0; changed && i < n; i++) {
        uint8_t byte = fuzz_byte(in);
        ((uint8_t *)bytes)[i] ^= byte;
        any |= byte;
    }
    return any;
}

/* By the book, but for what CHANGED does. */
static void handshake_make(struct end *e, int fd, struct fuzz_input *in) {
    struct conn_identity me = identity(OPENER, e->mode & SEALED ? SEAL_AUTH : SEAL_PLAIN);
    struct auth_hello hello, sent;
    struct auth_challenge challenge;
    struct auth_answer answer = {0};
    auth_hello_make(&hello, &me, ROLE_DATA, ACCEPTOR);
    sent = hello;
    int changed = bytes_change(in, &sent, sizeof sent, e->mode & CHANGED);
    bytes_send(fd, &sent, sizeof sent, sizeof sent);
    io_wait(epoll_fd, 0);
    if (recv(fd, &challenge, sizeof challenge, MSG_DONTWAIT) != (ssize_t)sizeof challenge)
        return;
    changed |= auth_challenge_check(&challenge, &hello, &me, &answer) != 0;
    changed |= bytes_change(in, &answer, sizeof answer, e->mode & CHANGED);
    bytes_send(fd, &answer, sizeof answer, sizeof answer);
    io_wait(epoll_fd, 0);
    fuzz_must(e->up == !changed); /* what is changed in transit proves nothing */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct end e;
    struct fuzz_input in = {data, size};
    struct conn_identity me = identity(ACCEPTOR, SEAL_PLAIN);
    int fds[2];
    if (epoll_fd < 0) {
        fuzz_must(auth_init() == 0);
        fuzz_must((epoll_fd = epoll_create1(EPOLL_CLOEXEC)) >= 0);
    }
    memset(&e, 0, offsetof(struct end, place));
    e.mode = fuzz_byte(&in);
    size_t piece = fuzz_byte(&in);
    fuzz_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    fuzz_must(conn_accept(&e.c, epoll_fd, &me, fds[1], &ops, &e) == 0);
    if (e.mode & PROVED)
        handshake_make(&e, fds[0], &in);
    bytes_send(fds[0], in.at, in.left, piece ? piece : SIZE_MAX);
    for (unsigned turn = 0; turn < 64 && e.c; turn++) {
        conn_pause(e.c, false);
        if (io_wait(epoll_fd, 0) <= 0)
            break;
    }
    fuzz_must(e.mode & PROVED || e.up + e.messages == 0);
    conn_free(e.c);
    io_wait(epoll_fd, 0);
    close(fds[0]);
    return 0;
}
