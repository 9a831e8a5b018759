/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_files.c - socket files that `ddict socket` made and lends us, because abstract names do
 * not reach into another network namespace. We accept on them as on our own name. Whoever ends
 * first removes the file, its maker or ddictd. ddictd does so by a descriptor of its folder,
 * because the path may mean something else in ddictd's mount namespace.
 */
#include "socket_files.h"

#include "supervisor.h"
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct socket_file {
    struct supervisor *s;
    struct io_handler listening;
    void (*accept)(struct supervisor *s, int listening);
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

static bool socket_file_is_there(const struct socket_file *f, struct stat *st) {
    return fstatat(f->folder, f->name, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st->st_mode) &&
           st->st_uid == geteuid();
}

static void socket_file_ready(struct io_handler *h, uint32_t events) {
    struct socket_file *f =
        (struct socket_file *)(void *)((char *)h - offsetof(struct socket_file, listening));
    f->accept(f->s, h->fd);
}

int socket_file_open(struct socket_file **out, struct supervisor *s, int listening, int folder,
                     const char *name, void (*accept)(struct supervisor *s, int listening)) {
    struct stat st;
    struct socket_file *f = calloc(1, sizeof *f);
    if (!f)
        return dd_error(-ENOMEM, "no memory for a socket file");
    f->s = s;
    f->accept = accept;
    f->listening = (struct io_handler){.fd = listening, .ready = socket_file_ready};
    f->folder = folder;
    snprintf(f->name, sizeof f->name, "%s", name);
    int rc = 0, flags = fcntl(listening, F_GETFL);
    if (!option_is(listening, SO_DOMAIN, AF_UNIX) ||
        !option_is(listening, SO_TYPE, SOCK_SEQPACKET) || !option_is(listening, SO_ACCEPTCONN, 1) ||
        flags < 0 || strchr(name, '/') || !socket_file_is_there(f, &st))
        rc = dd_error(-EINVAL, "what was lent is no socket file with a listener");
    else if (fcntl(listening, F_SETFL, flags | O_NONBLOCK) != 0)
        rc = dd_error(-errno, "a socket file: %s", strerror(errno));
    else
        rc = io_add(s->epoll_fd, &f->listening, EPOLLIN);
    if (rc < 0) {
        free(f);
        return rc;
    }
    f->dev = st.st_dev;
    f->ino = st.st_ino;
    *out = f;
    log_debug("listening on the socket file %s too", f->name);
    return 0;
}

void socket_file_close(struct socket_file *f) {
    struct stat st;
    if (!f)
        return;
    io_remove(f->s->epoll_fd, &f->listening);
    close(f->listening.fd);
    if (socket_file_is_there(f, &st) && st.st_dev == f->dev && st.st_ino == f->ino)
        unlinkat(f->folder, f->name, 0);
    close(f->folder);
    free(f);
}
