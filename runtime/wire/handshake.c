/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handshake.c - HELLO, CHALLENGE, ANSWER on a non-blocking socket.
 *
 *     opener    sends hello, waits for challenge, sends answer
 *     acceptor  waits for hello, sends challenge, waits for answer
 */
#include "handshake.h"

#include <errno.h>
#include <sys/socket.h>

static void send_next(struct handshake *h, const void *data, uint32_t len) {
    h->out = data;
    h->out_len = len;
}

static void handshake_expect(struct handshake *h, void *to, uint32_t len) {
    h->in = to;
    h->need = len;
    h->got = 0;
}

void handshake_open(struct handshake *h, const struct conn_identity *me) {
    h->me = me;
    h->opener = true;
    auth_hello_make(&h->hello, me, h->role, h->peer);
    send_next(h, &h->hello, sizeof h->hello);
    handshake_expect(h, &h->challenge, sizeof h->challenge);
}

void handshake_accept(struct handshake *h, const struct conn_identity *me) {
    h->me = me;
    h->opener = false;
    send_next(h, NULL, 0);
    handshake_expect(h, &h->hello, sizeof h->hello);
}

/* An expected message is complete. */
static int handshake_take_step(struct handshake *h) {
    int e;
    if (h->opener) {
        e = auth_challenge_check(&h->challenge, &h->hello, h->me, &h->answer);
        if (e == 0)
            send_next(h, &h->answer, sizeof h->answer);
    } else if (h->in == (uint8_t *)&h->hello) {
        e = auth_hello_check(&h->hello, h->me, &h->challenge);
        if (e == 0) {
            send_next(h, &h->challenge, sizeof h->challenge);
            handshake_expect(h, &h->answer, sizeof h->answer);
            return 0;
        }
    } else {
        e = auth_answer_check(&h->answer, &h->hello, &h->challenge, h->me);
        if (e == 0) {
            h->peer = h->hello.from;
            h->role = (enum conn_role)h->hello.role;
        }
    }
    if (e == 0)
        h->need = 0;
    return e;
}

static int write_some(struct handshake *h, int fd) {
    while (h->out_len > 0) {
        ssize_t n = send(fd, h->out, h->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : errno == EPIPE ? -ECONNRESET : -errno;
        h->out += n;
        h->out_len -= (uint32_t)n;
    }
    return 0;
}

static int read_some(struct handshake *h, int fd) {
    int e = 0;
    while (h->need > 0 && e == 0) {
        ssize_t n = recv(fd, h->in + h->got, h->need - h->got, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return n < 0 ? -errno : -ECONNRESET;
        h->got += (uint32_t)n;
        if (h->got == h->need)
            e = handshake_take_step(h);
    }
    return e;
}

int handshake_run(struct handshake *h, int fd) {
    int e = write_some(h, fd);
    if (e == 0)
        e = read_some(h, fd);
    if (e == 0)
        e = write_some(h, fd);
    return e < 0 ? e : h->need == 0 && h->out_len == 0;
}
