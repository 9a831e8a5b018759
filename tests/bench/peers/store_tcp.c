/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_tcp.c - the plain connection, the ceiling of what crosses it: a request of 32 bytes, the
 * bytes as answer, one at a time, or many values in a stream for one request, with ordinary
 * blocking calls. The values are the same for all numbers, so they are touched and not checked.
 * tcp_serve() is the other end.
 */
#include "peers.h"
#include "stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUEST 32u

struct tcp {
    struct stream s;
    char *buf;
    size_t len;
};

static int open_it(void **self, const struct where *w) {
    struct tcp *t = calloc(1, sizeof *t);
    int rc = !t ? -ENOMEM : stream_open(&t->s, w->tcp);
    if (rc < 0) {
        free(t);
        return rc;
    }
    t->len = w->len;
    t->buf = malloc(w->len);
    *self = t;
    return !t->buf ? -ENOMEM : 0;
}

static void close_it(void *self) {
    struct tcp *t = self;
    stream_close(&t->s);
    free(t->buf);
    free(t);
}

static int get(void *self, const struct pair *p) {
    struct tcp *t = self;
    uint64_t request[REQUEST / 8] = {p->len, 1};
    int rc = sent_all(t->s.fd, request, sizeof request);
    return rc < 0 ? rc : received_all(t->s.fd, p->val ? p->val : t->buf, p->len);
}

static int view(void *self, const struct pair *p) {
    struct tcp *t = self;
    struct pair q = *p;
    q.val = t->buf;
    int rc = get(self, &q);
    volatile int touched = pair_check(t->buf, p->len, p->index);
    (void)touched;
    return rc;
}

static int view_many(void *self, const struct pair *p, unsigned n) {
    struct tcp *t = self;
    uint64_t request[REQUEST / 8] = {p->len, n};
    int rc = sent_all(t->s.fd, request, sizeof request);
    for (unsigned i = 0; i < n && rc == 0; i++)
        rc = received_all(t->s.fd, t->buf, p->len);
    return rc;
}

const struct store store_tcp = {"raw TCP", open_it,   close_it, NULL, NULL,
                                view,      view_many, get,      NULL};

static void serve(int fd, const char *values, size_t len) {
    uint64_t request[REQUEST / 8];
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while (received_all(fd, request, sizeof request) == 0 && request[0] <= len)
        for (uint64_t i = 0; i < request[1]; i++)
            if (sent_all(fd, values, request[0]) < 0)
                break;
    close(fd);
}

int tcp_serve(const char *port_file, size_t len) {
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char *values = malloc(len);
    FILE *f;
    if (fd < 0 || !values || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) < 0 || !(f = fopen(port_file, "w"))) {
        perror("tcp");
        return 1;
    }
    memset(values, 1, len);
    fprintf(f, "%u\n", ntohs(a.sin_port));
    fclose(f);
    for (;;) {
        struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
        if (poll(p, 2, 1000) < 0 && errno != EINTR)
            return 1;
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        if (p[1].revents) /* our starter is gone */
            return 0;
        int c = p[0].revents ? accept4(fd, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (c >= 0 && fork() == 0) {
            serve(c, values, len);
            _exit(0);
        }
        if (c >= 0)
            close(c);
    }
}
