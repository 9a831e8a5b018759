/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_open.c - a connection until it is up: addresses, connect, and the turns of its handshake,
 * which handshake.c knows.
 *
 *     opener    CONNECTING -> AUTH (hello sent, waits for challenge) -> UP
 *     acceptor                AUTH (waits for hello, then answer)    -> UP
 */
#include "conn.h"
#include "conn_counts.h"
#include "conn_inside.h"
#include <base/clock.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#define AGAIN_NS 500000000ull /* until all addresses are tried again */

void conn_socket_close(struct conn *c) {
    if (c->io.fd < 0)
        return;
    io_remove(c->epoll_fd, &c->io);
    close(c->io.fd);
    c->io.fd = -1;
    c->interest = 0;
}

int conn_socket_take(struct conn *c, int fd, uint32_t interest) {
    int one = 1;
    c->io.fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int e = io_add(c->epoll_fd, &c->io, interest);
    if (e < 0) {
        close(fd);
        c->io.fd = -1;
        return e;
    }
    c->interest = interest;
    return 0;
}

static socklen_t address_len(const struct sockaddr_storage *a) {
    return a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

void conn_gap_extend(struct conn *c, uint64_t now) {
    if (now <= c->tick_ns)
        return;
    uint64_t gap = now - c->tick_ns;
    c->tick_ns = now;
    if (gap < DD_SUSPEND_GAP_MS * 1000000ull)
        return;
    c->deadline_ns += gap;
    c->give_up_ns += gap;
    live_extend(&c->live, gap);
}

/* The network refuses, not the peer: that may pass. */
static bool error_is_transient(int code) {
    return code == -ENETUNREACH || code == -EHOSTUNREACH || code == -ENETDOWN ||
           code == -EHOSTDOWN || code == -ETIMEDOUT;
}

int conn_next_address(struct conn *c, int code) {
    uint64_t now = clock_ns();
    conn_gap_extend(c, now);
    /* the caller's clock may be ahead, and deadlines are measured by it */
    if (now < c->tick_ns)
        now = c->tick_ns;
    conn_socket_close(c);
    c->state = CONNECTING;
    c->late |= c->patient && code == -ETIMEDOUT;
    while (c->next_addr < c->naddr && now < c->give_up_ns) {
        const struct sockaddr_storage *a = &c->addr[c->next_addr];
        unsigned left = (unsigned)(c->naddr - c->next_addr++);
        int fd = socket(a->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            code = -errno;
            continue;
        }
        if (connect(fd, (const struct sockaddr *)a, address_len(a)) != 0 && errno != EINPROGRESS &&
            errno != EINTR) {
            code = -errno;
            close(fd);
            continue;
        }
        int e = conn_socket_take(c, fd, EPOLLOUT);
        if (e < 0)
            return e;
        c->deadline_ns = now + (c->give_up_ns - now) / left;
        return 0;
    }
    /* conn_tick() tries all addresses once more after a while */
    if ((c->late || (!c->auth_code && error_is_transient(code))) &&
        now + AGAIN_NS < c->give_up_ns) {
        c->next_addr = 0;
        c->deadline_ns = now + AGAIN_NS;
        return 0;
    }
    if (c->late)
        return -ETIMEDOUT;
    return c->auth_code ? c->auth_code : code;
}

void conn_patience(struct conn *c, int ms) {
    uint64_t now = clock_ns();
    c->patient = true;
    c->give_up_ns = now + (uint64_t)ms * 1000000;
    c->deadline_ns = now + (c->give_up_ns - now) / (unsigned)c->naddr;
}

void conn_connect_finish(struct conn *c) {
    int e = 0;
    socklen_t len = sizeof e;
    if (getsockopt(c->io.fd, SOL_SOCKET, SO_ERROR, &e, &len) != 0)
        e = errno;
    if (e != 0) {
        conn_fail(c, -e);
        return;
    }
    handshake_open(&c->hs, &c->me);
    c->state = AUTH; /* before the deadline of this address */
}

/* The handshake is done. */
static void come_up(struct conn *c) {
    c->in = malloc(IN_BUFFER);
    int e = !c->in ? -ENOMEM : sealed_begin(c);
    if (e < 0) {
        conn_fail(c, e);
        return;
    }
    conn_stranger_leave(c);
    live_start(c->io.fd, c->hs.role == ROLE_CONTROL || c->hs.role == ROLE_VOTE);
    c->state = UP;
    conn_counts_up(c->opener);
    free(c->addr);
    c->addr = NULL;
    io_defer(&c->later); /* messages that were queued meanwhile */
    if (c->ops->up)
        c->ops->up(c, c->arg, c->hs.peer, c->hs.role);
}

void conn_handshake(struct conn *c) {
    int e = handshake_run(&c->hs, c->io.fd);
    if (e < 0)
        conn_fail(c, e);
    else if (e > 0)
        come_up(c);
}
