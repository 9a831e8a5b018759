/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c - the far end of a plain TCP connection, by which a client measures the path to this node
 * (wire/probe.h). A thread with blocking calls serves it: the manager's loop goes on, and the
 * result is what TCP gives an ordinary program. The thread uses nothing of the manager, and ends
 * with the connection or the process.
 */
#include "probe.h"

#include "manager.h"
#include "requester.h"
#include <base/clock.h>
#include <wire/probe.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER (4u << 20) /* sent repeatedly: memory does not grow with the size of the value */

struct server {
    int listen_fd;
    uint8_t token[sizeof((struct probe *)NULL)->token];
};

/* Atomic: set by the manager, cleared by the thread. Acquire and release: one thread has ended
 * before the next begins. */
static uint32_t busy;

static bool receive_all(int fd, void *p, size_t n) {
    for (size_t at = 0; at < n;) {
        ssize_t k = recv(fd, (char *)p + at, n - at, 0);
        if (k == 0 || (k < 0 && errno != EINTR))
            return false;
        at += k > 0 ? (size_t)k : 0;
    }
    return true;
}

static bool send_all(int fd, const uint8_t *buffer, uint64_t n) {
    while (n > 0) {
        ssize_t k = send(fd, buffer, n < BUFFER ? n : BUFFER, MSG_NOSIGNAL);
        if (k <= 0 && errno != EINTR)
            return false;
        n -= k > 0 ? (uint64_t)k : 0;
    }
    return true;
}

/* Accept a connection whose peer sends the token; others are closed. -1: time is over. */
static int accept_requester(const struct server *s) {
    struct deadline d;
    deadline_start(&d, PROBE_WAIT_MS);
    for (int left; (left = deadline_left(&d, -1)) > 0;) {
        struct pollfd p = {.fd = s->listen_fd, .events = POLLIN};
        uint8_t said[sizeof s->token];
        struct timeval t = {.tv_sec = PROBE_WAIT_MS / 1000};
        int one = 1,
            fd = poll(&p, 1, left) == 1 ? accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (receive_all(fd, said, sizeof said) && sodium_memcmp(said, s->token, sizeof said) == 0)
            return fd;
        close(fd);
    }
    return -1;
}

static void *probe_serve(void *arg) {
    struct server *s = arg;
    uint8_t *buffer = malloc(BUFFER);
    int fd = accept_requester(s);
    close(s->listen_fd);
    free(s);
    if (buffer)
        memset(buffer, PROBE_BYTE, BUFFER);
    for (struct probe_request r; fd >= 0 && buffer && receive_all(fd, &r, sizeof r) &&
                                 r.len <= PROBE_LEN_MAX && r.count <= PROBE_COUNT_MAX;)
        if (!send_all(fd, buffer, r.len * r.count))
            break;
    if (fd >= 0)
        close(fd);
    free(buffer);
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
    return NULL;
}

static int thread_start(struct server *s) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all); /* signals are for the manager's main thread */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int e = pthread_create(&thread, NULL, probe_serve, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e == 0)
        pthread_detach(thread);
    return -e;
}

static void address_map(const struct sockaddr_storage *a, uint8_t out[16]) {
    if (a->ss_family == AF_INET6) {
        memcpy(out, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
        return;
    }
    memset(out, 0, 10);
    memset(out + 10, 0xff, 2);
    memcpy(out + 12, &((const struct sockaddr_in *)a)->sin_addr, 4);
}

static int server_open(struct manager *m, const struct link *l, struct probe *p, struct server *s) {
    struct sockaddr_storage here;
    int e = link_address(l, &here);
    if (e < 0)
        return e;
    address_map(&here, p->address);
    if (here.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&here)->sin6_port = 0;
    else
        ((struct sockaddr_in *)&here)->sin_port = 0;
    s->listen_fd = m->setup->port_low
                       ? conn_listen_range(m->setup->port_low, m->setup->port_high, &p->port)
                       : conn_listen(&here, &p->port);
    if (s->listen_fd < 0)
        return s->listen_fd;
    randombytes_buf(s->token, sizeof s->token);
    memcpy(p->token, s->token, sizeof p->token);
    p->connections = m->setup->connections;
    snprintf(p->carrier, sizeof p->carrier, "%s%s", m->fabric ? "ofi:" : "", link_carrier(l));
    return 0;
}

void probe_take(struct requester *a, const struct msg *m) {
    struct probe p = {.port = 0};
    struct msg r;
    const struct link *link = requester_link(a);
    if (!link) {
        requester_reply(a, m, -EINVAL, "this manager is on the requester's own node");
        return;
    }
    if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE) != 0) {
        requester_reply(a, m, -EBUSY, "somebody else measures the path to this manager");
        return;
    }
    struct server *s = calloc(1, sizeof *s);
    int e = s ? server_open(a->m, link, &p, s) : -ENOMEM;
    if (e == 0 && (e = thread_start(s)) < 0)
        close(s->listen_fd);
    if (e < 0) {
        free(s);
        __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
        requester_reply(a, m, e, strerror(-e));
        return;
    }
    reply_init(&r, m->id, a->m->setup->id);
    r.val_len = sizeof p;
    requester_send(a, &r, &p, sizeof p);
}
