/* SPDX-License-Identifier: Apache-2.0 */
/* supmsg.c - send and receive messages between ddictd and its managers. */
#include "supmsg.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SUP_FDS   4
#define SUP_SHORT offsetof(struct sup_msg, stats)

int sup_send(int fd, const struct sup_msg *m, const int *fds, int nfds) {
    struct iovec iov = {.iov_base = (void *)(uintptr_t)m,
                        .iov_len = m->type == SUP_STATS_REPLY ? sizeof *m : SUP_SHORT};
    union {
        char buf[CMSG_SPACE(sizeof(int) * SUP_FDS)];
        struct cmsghdr align;
    } ctl;
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    if (nfds > 0) {
        memset(&ctl, 0, sizeof ctl);
        h.msg_control = ctl.buf;
        h.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nfds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nfds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)nfds);
    }
    for (;;) {
        if (sendmsg(fd, &h, MSG_NOSIGNAL) >= 0)
            return 0;
        if (errno != EINTR)
            return -errno;
    }
}

int sup_recv(int fd, struct sup_msg *m, int *fds, int max) {
    struct iovec iov = {.iov_base = m, .iov_len = sizeof *m};
    union {
        char buf[CMSG_SPACE(sizeof(int) * SUP_FDS)];
        struct cmsghdr align;
    } ctl;
    struct msghdr h = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof ctl.buf};
    ssize_t n;
    int got = 0;
    bool reset = false;
    for (;;) {
        n = recvmsg(fd, &h, MSG_CMSG_CLOEXEC);
        if (n >= 0 || (errno != EINTR && (errno != ECONNRESET || reset)))
            break;
        /* the other end has died, and had not read all: the kernel says so once, before what that
         * end has sent */
        reset |= errno == ECONNRESET;
    }
    if (n < 0)
        return -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        int count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < count; i++) {
            int one;
            memcpy(&one, CMSG_DATA(c) + sizeof(int) * (size_t)i, sizeof one);
            if (got < max)
                fds[got++] = one;
            else
                close(one);
        }
    }
    if (n == 0)
        return -ECONNRESET;
    bool broken = (size_t)n < SUP_SHORT || h.msg_flags & MSG_TRUNC;
    /* this process was out of descriptors */
    if (broken || h.msg_flags & MSG_CTRUNC)
        while (got > 0)
            close(fds[--got]);
    if (broken)
        return DDICT_EPROTO;
    m->text[sizeof m->text - 1] = 0;
    return h.msg_flags & MSG_CTRUNC ? -EMFILE : got;
}
