/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - the requester's end of a plain TCP connection to a manager (wire/probe.h). */
#include <arpa/inet.h>
#include <errno.h>
#include <lib/probe.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *probe_address(const struct probe *p, char *text, size_t cap) {
    bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)p->address);
    return inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? p->address + 12 : p->address, text,
                     (socklen_t)cap);
}

int probe_connect(const struct probe *p) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a;
    bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)p->address);
    struct timeval t = {.tv_sec = PROBE_WAIT_MS / 1000};
    memset(&a, 0, sizeof a);
    a.any.sa_family = v4 ? AF_INET : AF_INET6;
    *(v4 ? &a.v4.sin_port : &a.v6.sin6_port) = htons(p->port);
    if (v4)
        memcpy(&a.v4.sin_addr, p->address + 12, 4);
    else
        memcpy(&a.v6.sin6_addr, p->address, 16);
    int one = 1, fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t); /* limits connect(), too */
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, &a.any, v4 ? sizeof a.v4 : sizeof a.v6) == 0 &&
        send(fd, p->token, sizeof p->token, MSG_NOSIGNAL) == (ssize_t)sizeof p->token)
        return fd;
    int e = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
    close(fd);
    return e;
}

int probe_receive(int fd, void *buf, uint64_t len, uint64_t count) {
    struct probe_request r = {.len = len, .count = count};
    if (send(fd, &r, sizeof r, MSG_NOSIGNAL) != (ssize_t)sizeof r)
        return -errno;
    for (; count > 0; count--)
        for (uint64_t at = 0; at < len;) {
            ssize_t k = recv(fd, (char *)buf + at, len - at, 0);
            if (k == 0)
                return -ECONNRESET;
            if (k < 0 && errno != EINTR)
                return errno == EAGAIN ? -ETIMEDOUT : -errno;
            at += k > 0 ? (uint64_t)k : 0;
        }
    return 0;
}
