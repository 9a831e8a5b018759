/* SPDX-License-Identifier: Apache-2.0 */
/* live.c - keepalive, and what a TCP peer has acknowledged. */
#include "live.h"

#include <base/defaults.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#define LOOK_MS    1000
#define RTO_MAX_MS 1000 /* between retransmissions, at most */
#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif

void live_start(int fd, bool always_reads) {
    /* idle + probes * interval = DD_CONN_LOST_MS, in whole seconds */
    int one = 1, idle = DD_CONN_LOST_MS * 4 / 10000, interval = DD_CONN_LOST_MS * 2 / 10000,
        probes = 3, user = DD_CONN_LOST_MS, most = RTO_MAX_MS;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    /* Linux 6.15. Without it, after a network failure a retransmission may take as long again as
     * the failure. */
    setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &most, sizeof most);
    if (always_reads)
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user, sizeof user);
}

bool live_check(struct live *l, int fd, uint64_t now_ns, bool queued) {
    struct tcp_info t;
    socklen_t len = sizeof t;
    if (!l->sent || now_ns - l->looked_ns < LOOK_MS * 1000000ull)
        return true;
    l->looked_ns = now_ns;
    memset(&t, 0, sizeof t);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &t, &len) != 0)
        return true;
    if (t.tcpi_unacked == 0) { /* zero also while the peer's window is closed */
        l->unacked_ns = 0;
        l->sent = queued;
        return true;
    }
    if (l->unacked_ns == 0)
        l->unacked_ns = now_ns;
    return t.tcpi_last_ack_recv < DD_CONN_LOST_MS ||
           now_ns - l->unacked_ns < DD_CONN_LOST_MS * 1000000ull;
}
