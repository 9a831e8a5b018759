/* SPDX-License-Identifier: Apache-2.0 */
/* wire_net.c - listening and accepting. */
#include "net_alone.h"
#include "wire_test.h"
#include <base/error.h>
#include <wire/conn.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int connect_to(uint16_t port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

START_TEST(a_connection_is_taken_once_and_then_there_is_none) {
    uint16_t port = 0;
    int listener = conn_listen(NULL, &port), fd;
    ck_assert_int_ge(listener, 0);
    ck_assert_int_eq(conn_take(listener), -EAGAIN);
    int peer = connect_to(port);
    ck_assert_int_ge(fd = conn_take(listener), 0);
    ck_assert_int_eq(conn_take(listener), -EAGAIN);
    close(fd);
    close(peer);
    close(listener);
}
END_TEST

/* Neither a spin nor a pause of the loop: who comes where no descriptor is free is told so at once,
 * and the next one is taken when there is. */
START_TEST(without_descriptors_a_connection_is_turned_away) {
    uint16_t port = 0;
    int listener = conn_listen(NULL, &port), peers[2] = {connect_to(port), connect_to(port)},
        full[256], n = 0, fd;
    struct rlimit was, few;
    char c;
    ck_assert_int_ge(listener, 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = was;
    few.rlim_cur = 128;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    while ((fd = dup(0)) >= 0)
        full[n++] = fd;
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_int_eq(conn_take(listener), -EAGAIN);
    struct pollfd p = {.fd = peers[0], .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
    ck_assert_int_le(read(peers[0], &c, 1), 0);
    close(full[--n]);
    ck_assert_int_ge(fd = conn_take(listener), 0);
    close(fd);
    while (n > 0)
        close(full[--n]);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
    close(peers[0]);
    close(peers[1]);
    close(listener);
}
END_TEST

/* A socket that listens at the port; reuse: as torch's stores do it. */
static int listen_at_port(uint16_t port, int reuse) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse), 0);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 4) == 0)
        return fd;
    int e = -errno;
    close(fd);
    return e;
}

START_TEST(a_port_that_is_held_is_for_its_listener_alone) {
    uint16_t port, other;
    int held = conn_hold(0, 0, &port), fd, listener;
    ck_assert_int_ge(held, 0);
    ck_assert_uint_ne(port, 0);
    ck_assert_int_eq(listen_at_port(port, 0), -EADDRINUSE);
    ck_assert_int_eq(conn_hold(port, port, &other), -EADDRINUSE);
    /* a range that has a free one */
    if (port < 65535 && (fd = conn_hold((uint16_t)(port + 1), (uint16_t)(port + 1), &other)) >= 0) {
        close(fd);
        ck_assert_int_ge(fd = conn_listen_range(port, (uint16_t)(port + 1), &other), 0);
        ck_assert_uint_eq(other, port + 1);
        close(fd);
    }
    ck_assert_int_ge(listener = listen_at_port(port, 1), 0);
    ck_assert_int_ge(fd = connect_to(port), 0);
    close(fd);
    close(held); /* takes nothing from who listens */
    ck_assert_int_eq(listen_at_port(port, 1), -EADDRINUSE);
    ck_assert_int_ge(fd = connect_to(port), 0);
    close(fd);
    close(listener);
}
END_TEST

START_TEST(ports_come_from_the_range_until_none_is_free) {
    uint16_t low = 0, port, taken[4];
    int fd[4], first;
    for (int tries = 0;; tries++) { /* four ports in a row that nobody has */
        ck_assert_int_lt(tries, 200);
        close(conn_listen(NULL, &low));
        if (low > 65000)
            continue;
        for (first = 0; first < 4 && (fd[first] = conn_listen_range(low, (uint16_t)(low + 3),
                                                                    &taken[first])) >= 0;
             first++)
            ;
        if (first == 4)
            break;
        while (first-- > 0)
            close(fd[first]);
    }
    for (int i = 0; i < 4; i++) {
        ck_assert(taken[i] >= low && taken[i] <= low + 3);
        for (int k = 0; k < i; k++)
            ck_assert_uint_ne(taken[i], taken[k]);
    }
    ck_assert_int_eq(conn_listen_range(low, (uint16_t)(low + 3), &port), -EADDRINUSE);
    char want[32];
    snprintf(want, sizeof want, "%u-%u", low, low + 3u);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), want));
    /* What is left of a closed connection does not keep the port. */
    int peer = connect_to(taken[2]), in = conn_take(fd[2]);
    ck_assert_int_ge(in, 0);
    close(in);
    close(fd[2]);
    close(peer);
    ck_assert_int_ge(fd[2] = conn_listen_range(taken[2], taken[2], &port), 0);
    ck_assert_uint_eq(port, taken[2]);
    for (int i = 0; i < 4; i++)
        close(fd[i]);
}
END_TEST

START_TEST(addresses_are_at_most_as_many_as_asked) {
    struct sockaddr_storage a[8];
    int n = conn_addresses("no-such-node.invalid", a, 8);
    ck_assert_int_ge(n, 1);
    ck_assert_int_le(n, 8);
    ck_assert_int_eq(conn_addresses("no-such-node.invalid", a, 1), 1);
}
END_TEST

int main(void) {
    (void)net_alone(); /* ports that were free a moment ago still are */
    Suite *s = suite_create("wire_net");
    TCase *c = wire_case(s, "net", 30);
    tcase_add_test(c, a_connection_is_taken_once_and_then_there_is_none);
    tcase_add_test(c, without_descriptors_a_connection_is_turned_away);
    tcase_add_test(c, a_port_that_is_held_is_for_its_listener_alone);
    tcase_add_test(c, ports_come_from_the_range_until_none_is_free);
    tcase_add_test(c, addresses_are_at_most_as_many_as_asked);
    return wire_main(s);
}
