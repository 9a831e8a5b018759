/* SPDX-License-Identifier: Apache-2.0 */
/* conn_strangers.c - accepted connections that are not authenticated yet, limited in number. */
#include "conn.h"
#include "conn_inside.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#define ORIGINS 256u

static TAILQ_HEAD(, conn) strangers = TAILQ_HEAD_INITIALIZER(strangers); /* oldest first */
static unsigned strangers_n, strangers_max = DD_STRANGERS, strangers_from[ORIGINS];

void conn_strangers(unsigned n) {
    strangers_max = n;
    TAILQ_INIT(&strangers); /* those that are there belong to the parent of this process */
    strangers_n = 0;
    memset(strangers_from, 0, sizeof strangers_from);
}

static uint8_t peer_origin(int fd) {
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;
    const uint8_t *at = (const uint8_t *)&((struct sockaddr_in6 *)&a)->sin6_addr;
    size_t n = sizeof(struct in6_addr);
    unsigned sum = 0;
    if (getpeername(fd, (struct sockaddr *)&a, &len) != 0)
        return 0;
    if (a.ss_family == AF_INET) {
        at = (const uint8_t *)&((struct sockaddr_in *)&a)->sin_addr;
        n = sizeof(struct in_addr);
    }
    for (size_t i = 0; i < n; i++)
        sum = sum * 31 + at[i];
    return (uint8_t)(sum ^ sum >> 8);
}

void conn_stranger_leave(struct conn *c) {
    if (!c->stranger)
        return;
    c->stranger = false;
    TAILQ_REMOVE(&strangers, c, strangers);
    strangers_n--;
    strangers_from[c->from]--;
}

void conn_stranger_come(struct conn *c) {
    if (strangers_n >= strangers_max && strangers_n > 0) {
        unsigned most = 0;
        struct conn *old;
        for (unsigned i = 1; i < ORIGINS; i++)
            if (strangers_from[i] > strangers_from[most])
                most = i;
        TAILQ_FOREACH(old, &strangers, strangers)
        if (old->from == most)
            break;
        conn_stranger_leave(old);
        conn_end(old, -EUSERS);
        conn_socket_close(old); /* its descriptor may serve the new connection */
    }
    c->stranger = true;
    c->from = peer_origin(c->io.fd);
    TAILQ_INSERT_TAIL(&strangers, c, strangers);
    strangers_n++;
    strangers_from[c->from]++;
}
