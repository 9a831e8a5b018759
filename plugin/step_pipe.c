/* SPDX-License-Identifier: Apache-2.0 */
/* step_pipe.c - a pipe from a task to slurmstepd. */
#include "step_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_ours(const struct step_pipe *p, int fd) {
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && st.st_dev == p->dev &&
           st.st_ino == p->ino;
}

int step_pipe_make(struct step_pipe *p) {
    struct stat st;
    int fds[2], rc;

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    if (fstat(fds[0], &st) < 0) {
        rc = -errno;
        close(fds[0]);
        close(fds[1]);
        return rc;
    }
    *p = (struct step_pipe){.in = fds[0], .out = fds[1], .dev = st.st_dev, .ino = st.st_ino};
    return 0;
}

int step_pipe_is_writable(const struct step_pipe *p) {
    return is_ours(p, p->out);
}

int step_pipe_take(struct step_pipe *p, char *text, size_t cap) {
    ssize_t n;

    if (!is_ours(p, p->in))
        return -EBADF;
    n = read(p->in, text, cap - 1);
    if (n < 0)
        n = 0;
    text[n] = '\0';
    if (is_ours(p, p->out))
        close(p->out);
    close(p->in);
    p->in = p->out = -1;
    return (int)n;
}
