/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - where this node listens, and which of its addresses a peer may try. */
#include "conn.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* between log messages about one thing that strangers may do as often as they like */
#define SAY_MS 60000u

static int listen_at(const struct sockaddr *a, socklen_t len, uint16_t *port, int reuse) {
    int off = 0, on = 1, fd = socket(a->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (a->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (reuse)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    struct sockaddr_storage got;
    socklen_t got_len = sizeof got;
    /* Later binds beside connections that remain of this listener need the option on it, too. */
    if (bind(fd, a, len) != 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        listen(fd, SOMAXCONN) != 0 || getsockname(fd, (struct sockaddr *)&got, &got_len) != 0) {
        int e = -errno;
        close(fd);
        return e;
    }
    conn_take_ready();
    *port = ntohs(got.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
                                            : ((struct sockaddr_in *)&got)->sin_port);
    return fd;
}

static int listen_any(uint16_t *port, int reuse) {
    struct sockaddr_in6 any6 = {
        .sin6_family = AF_INET6, .sin6_addr = in6addr_any, .sin6_port = htons(*port)};
    struct sockaddr_in any4 = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY), .sin_port = htons(*port)};
    int fd = listen_at((struct sockaddr *)&any6, sizeof any6, port, reuse);
    if (fd < 0 && fd != -EADDRINUSE) /* IPv6 is off */
        fd = listen_at((struct sockaddr *)&any4, sizeof any4, port, reuse);
    return fd;
}

int conn_listen(const struct sockaddr_storage *addr, uint16_t *port) {
    int fd;
    *port = 0;
    if (addr)
        fd = listen_at((const struct sockaddr *)addr,
                       addr->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                   : sizeof(struct sockaddr_in),
                       port, 0);
    else
        fd = listen_any(port, 0);
    return fd >= 0 ? fd : dd_error(fd, "cannot listen on TCP: %s", strerror(-fd));
}

int conn_listen_range(uint16_t low, uint16_t high, uint16_t *port) {
    unsigned n = high - low + 1u, from = randombytes_uniform(n);
    /* The second round also takes ports that are kept by remains of closed connections, and cannot
     * tell those from ports of conn_hold(). */
    for (unsigned i = 0; i < 2 * n; i++) {
        *port = (uint16_t)(low + (from + i) % n);
        int fd = listen_any(port, i >= n);
        if (fd >= 0)
            return fd;
        if (fd != -EADDRINUSE && fd != -EACCES)
            return dd_error(fd, "cannot listen on TCP: %s", strerror(-fd));
    }
    return dd_error(-EADDRINUSE, "no port of %u-%u is free to listen on", low, high);
}

/* Bind without SO_REUSEADDR: nobody else has the port, and a second conn_hold() is refused. Then
 * set it, so that the program for which the port is kept is not. */
static int hold_at(int family, uint16_t *port) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a;
    socklen_t len = family == AF_INET6 ? sizeof a.v6 : sizeof a.v4;
    int off = 0, on = 1, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    memset(&a, 0, sizeof a);
    a.any.sa_family = (sa_family_t)family;
    *(family == AF_INET6 ? &a.v6.sin6_port : &a.v4.sin_port) = htons(*port);
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, &a.any, len) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        getsockname(fd, &a.any, &len) != 0) {
        int e = -errno;
        close(fd);
        return e;
    }
    *port = ntohs(family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
    return fd;
}

int conn_hold(uint16_t low, uint16_t high, uint16_t *port) {
    unsigned n = high - low + 1u, from = low != 0 ? randombytes_uniform(n) : 0;
    int fd = -EADDRINUSE;
    for (unsigned i = 0; i < n && (fd == -EADDRINUSE || fd == -EACCES); i++) {
        *port = low != 0 ? (uint16_t)(low + (from + i) % n) : 0;
        fd = hold_at(AF_INET6, port);
        if (fd < 0 && fd != -EADDRINUSE && fd != -EACCES) /* IPv6 is off */
            fd = hold_at(AF_INET, port);
    }
    if (fd >= 0)
        return fd;
    return low != 0 ? dd_error(fd, "no port of %u-%u is free", low, high)
                    : dd_error(fd, "no TCP port is free: %s", strerror(-fd));
}

static bool address_is_loopback(const struct sockaddr *a) {
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static bool address_is_same(const struct sockaddr *a, const struct sockaddr *b) {
    if (a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)b)->sin6_addr, 16) == 0;
}

/* Whether a peer could use the address: IPv4 or IPv6, the interface is up, and no scope is
 * needed. */
static bool interface_is_usable(const struct ifaddrs *i) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
        return false;
    if (i->ifa_addr->sa_family == AF_INET)
        return true;
    return i->ifa_addr->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr);
}

static int address_append(struct sockaddr_storage *out, int n, int max, const struct sockaddr *a) {
    for (int i = 0; i < n; i++)
        if (address_is_same((struct sockaddr *)&out[i], a))
            return n;
    if (n >= max)
        return n;
    memset(&out[n], 0, sizeof out[n]);
    if (a->sa_family == AF_INET) {
        struct sockaddr_in *t = (struct sockaddr_in *)&out[n];
        t->sin_family = AF_INET;
        t->sin_addr = ((const struct sockaddr_in *)a)->sin_addr;
    } else {
        struct sockaddr_in6 *t = (struct sockaddr_in6 *)&out[n];
        t->sin6_family = AF_INET6;
        t->sin6_addr = ((const struct sockaddr_in6 *)a)->sin6_addr;
    }
    return n + 1;
}

int conn_addresses(const char *node, struct sockaddr_storage *out, int max) {
    struct ifaddrs *all = NULL;
    struct addrinfo *named = NULL, hints = {.ai_socktype = SOCK_STREAM};
    int n = 0;
    if (getifaddrs(&all) != 0)
        return dd_error(-errno, "cannot list the addresses of this node: %s", strerror(errno));
    if (node && getaddrinfo(node, NULL, &hints, &named) == 0)
        for (struct addrinfo *r = named; r; r = r->ai_next)
            for (struct ifaddrs *i = all; i; i = i->ifa_next)
                if (interface_is_usable(i) && address_is_same(i->ifa_addr, r->ai_addr) &&
                    !address_is_loopback(r->ai_addr))
                    n = address_append(out, n, max, r->ai_addr);
    static const struct {
        int family;
        bool loop;
    } order[] = {{AF_INET, false}, {AF_INET6, false}, {AF_INET, true}, {AF_INET6, true}};
    for (unsigned o = 0; o < sizeof order / sizeof *order; o++)
        for (struct ifaddrs *i = all; i; i = i->ifa_next)
            if (interface_is_usable(i) && i->ifa_addr->sa_family == order[o].family &&
                address_is_loopback(i->ifa_addr) == order[o].loop)
                n = address_append(out, n, max, i->ifa_addr);
    if (named)
        freeaddrinfo(named);
    freeifaddrs(all);
    return n;
}

static int spare = -1; /* a descriptor for accept() when there is no other */

void conn_take_ready(void) {
    if (spare < 0)
        spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void conn_take_anew(void) {
    spare = -1;
    conn_take_ready();
}

/* Out of descriptors: accept the next connection and close it, so that its peer knows. */
static void turn_away(int listen_fd) {
    static uint64_t said;
    uint64_t now = clock_ns();
    if (said == 0 || now - said > SAY_MS * 1000000ull) {
        log_warn("a connection was turned away: no descriptor is free (ulimit -n)");
        said = now;
    }
    if (spare < 0)
        return;
    close(spare);
    spare = -1;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    conn_take_ready();
}

int conn_take(int listen_fd) {
    conn_take_ready();
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        turn_away(listen_fd);
    return fd >= 0 ? fd : -EAGAIN; /* other errors are of connections that are gone */
}
