/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_name.c - the socket name that marks the one process of a rank that takes part for it. A second
 * client of the same rank breaks the server's tables and hangs the fence of all ranks, and every
 * process that a rank starts has the variables to become such a client.
 */
#include "backend.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int name_fd = -1;

int rank_take(const char *group, const char *rank) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd, n;

    n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "ddict-rt-%u-%s-%s", (unsigned)geteuid(),
                 rank, group);
    if (n >= (int)sizeof a.sun_path - 1)
        n = (int)sizeof a.sun_path - 2;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    if (bind(fd, (struct sockaddr *)&a,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0) {
        int busy = errno == EADDRINUSE;

        close(fd);
        return busy ? -EBUSY : 0;
    }
    name_fd = fd;
    return 0;
}

int rank_taken(void) {
    return name_fd >= 0;
}

void rank_leave(void) {
    if (name_fd >= 0)
        close(name_fd);
    name_fd = -1;
}
