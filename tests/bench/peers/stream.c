/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - a blocking connection with buffers. */
#include "stream.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BUFFER (1u << 20)

static int open_path(const char *path) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path)
        return -ENAMETOOLONG;
    strcpy(a.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd < 0 ? -errno : fd;
    int rc = -errno;
    close(fd);
    return rc;
}

static int open_port(const char *to) {
    char host[128];
    const char *colon = strrchr(to, ':');
    struct addrinfo *a, hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    snprintf(host, sizeof host, "%.*s", (int)(colon - to), to);
    if (getaddrinfo(host, colon + 1, &hints, &a) != 0)
        return -EHOSTUNREACH;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc = fd < 0 ? -errno : 0;
    if (rc == 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0)
        rc = -errno;
    freeaddrinfo(a);
    if (rc == 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

int stream_open(struct stream *s, const char *to) {
    *s = (struct stream){.cap = BUFFER, .in = malloc(BUFFER), .out = malloc(BUFFER)};
    s->fd = !s->in || !s->out                     ? -ENOMEM
            : !strchr(to, '/') && strchr(to, ':') ? open_port(to)
                                                  : open_path(to);
    if (s->fd >= 0)
        return 0;
    int rc = s->fd;
    stream_close(s);
    return rc;
}

void stream_close(struct stream *s) {
    if (s->fd >= 0)
        close(s->fd);
    free(s->in);
    free(s->out);
}

int sent_all(int fd, const void *p, size_t n) {
    for (size_t at = 0; at < n;) {
        ssize_t k = send(fd, (const char *)p + at, n - at, MSG_NOSIGNAL);
        if (k < 0 && errno != EINTR)
            return -errno;
        at += k > 0 ? (size_t)k : 0;
    }
    return 0;
}

int received_all(int fd, void *p, size_t n) {
    for (size_t at = 0; at < n;) {
        ssize_t k = recv(fd, (char *)p + at, n - at, 0);
        if (k == 0)
            return -ECONNRESET;
        if (k < 0 && errno != EINTR)
            return -errno;
        at += k > 0 ? (size_t)k : 0;
    }
    return 0;
}

int stream_flush(struct stream *s) {
    size_t n = s->out_end;
    s->out_end = 0;
    return sent_all(s->fd, s->out, n);
}

int stream_write(struct stream *s, const void *p, size_t n) {
    if (s->out_end + n > BUFFER) {
        int rc = stream_flush(s);
        if (rc < 0 || n > BUFFER / 2)
            return rc < 0 ? rc : sent_all(s->fd, p, n);
    }
    memcpy(s->out + s->out_end, p, n);
    s->out_end += n;
    return 0;
}

/* More bytes behind those that are there. */
static int fill(struct stream *s) {
    if (s->in_at == s->in_end)
        s->in_at = s->in_end = 0;
    if (s->in_end == s->cap) {
        memmove(s->in, s->in + s->in_at, s->in_end - s->in_at);
        s->in_end -= s->in_at;
        s->in_at = 0;
    }
    if (s->in_end == s->cap)
        return -EMSGSIZE;
    ssize_t k = recv(s->fd, s->in + s->in_end, s->cap - s->in_end, 0);
    if (k <= 0)
        return k == 0 ? -ECONNRESET : errno == EINTR ? 0 : -errno;
    s->in_end += (size_t)k;
    return 0;
}

/* Room to receive n bytes at once. */
static int grow(struct stream *s, size_t n) {
    char *more = realloc(s->in, n + BUFFER);
    if (!more)
        return -ENOMEM;
    s->in = more;
    s->cap = n + BUFFER;
    return 0;
}

int stream_line(struct stream *s, char **line, size_t *len) {
    for (size_t seen = 0;;) {
        char *from = s->in + s->in_at,
             *end = memchr(from + seen, '\n', s->in_end - s->in_at - seen);
        if (end && end > from) {
            end[-1] = 0;
            *line = from;
            *len = (size_t)(end - from) - 1;
            s->in_at += *len + 2;
            return 0;
        }
        seen = s->in_end - s->in_at;
        int rc = fill(s);
        if (rc < 0)
            return rc;
    }
}

int stream_read(struct stream *s, const void **p, void *into, size_t n) {
    if (!into) {
        int rc = n > s->cap ? grow(s, n) : 0;
        while (rc == 0 && s->in_end - s->in_at < n)
            rc = fill(s);
        *p = s->in + s->in_at;
        s->in_at += rc == 0 ? n : 0;
        return rc;
    }
    size_t have = s->in_end - s->in_at;
    have = have < n ? have : n;
    memcpy(into, s->in + s->in_at, have);
    s->in_at += have;
    return received_all(s->fd, (char *)into + have, n - have);
}
