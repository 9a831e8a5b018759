/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doors.c - socket files that `ddict socket` has made and lent us, because abstract names do not reach into another network namespace. We accept on them as on our own
 * name. Whoever ends first removes the file: its maker, or we, by a descriptor of its folder, as its path may mean something else here.
 */
#include <base/error.h>
#include <base/log.h>
#include <manager/supervisor.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct door {
    struct supervisor *s;
    struct io_handler listening;
    int folder;
    dev_t dev;
    ino_t ino;
    char name[256];
};

static bool option_is(int fd, int option, int wanted) {
    int got = -1;
    socklen_t len = sizeof got;
    return getsockopt(fd, SOL_SOCKET, option, &got, &len) == 0 && got == wanted;
}

static bool is_file_of(const struct door *d, struct stat *st) {
    return fstatat(d->folder, d->name, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st->st_mode) &&
           st->st_uid == geteuid();
}

static void door_ready(struct io_handler *h, uint32_t events) {
    struct door *d = (struct door *)(void *)((char *)h - offsetof(struct door, listening));
    clients_accept(d->s, h->fd);
}

int door_open(struct door **out, struct supervisor *s, int listening, int folder,
              const char *name) {
    struct stat st;
    struct door *d = calloc(1, sizeof *d);
    if (!d)
        return dd_error(-ENOMEM, "no memory for a socket file");
    d->s = s;
    d->listening = (struct io_handler){.fd = listening, .ready = door_ready};
    d->folder = folder;
    snprintf(d->name, sizeof d->name, "%s", name);
    int rc = 0, flags = fcntl(listening, F_GETFL);
    if (!option_is(listening, SO_DOMAIN, AF_UNIX) ||
        !option_is(listening, SO_TYPE, SOCK_SEQPACKET) || !option_is(listening, SO_ACCEPTCONN, 1) ||
        flags < 0 || strchr(name, '/') || !is_file_of(d, &st))
        rc = dd_error(-EINVAL, "what was lent is no socket file with a listener");
    else if (fcntl(listening, F_SETFL, flags | O_NONBLOCK) != 0)
        rc = dd_error(-errno, "a socket file: %s", strerror(errno));
    else
        rc = io_add(s->epoll_fd, &d->listening, EPOLLIN);
    if (rc < 0) {
        free(d);
        return rc;
    }
    d->dev = st.st_dev;
    d->ino = st.st_ino;
    *out = d;
    log_debug("listening on the socket file %s too", d->name);
    return 0;
}

void door_close(struct door *d) {
    struct stat st;
    if (!d)
        return;
    io_remove(d->s->epoll_fd, &d->listening);
    close(d->listening.fd);
    if (is_file_of(d, &st) && st.st_dev == d->dev && st.st_ino == d->ino)
        unlinkat(d->folder, d->name, 0);
    close(d->folder);
    free(d);
}
