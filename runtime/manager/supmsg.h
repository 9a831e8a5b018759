/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supmsg.h - between ddictd and a manager: messages on the SOCK_SEQPACKET pair that was made before
 * the fork. Both ends are ours, so a malformed one is a bug and ends the process. The end of the
 * pair is the end of the other side.
 */
#ifndef DDICT_MANAGER_SUPMSG_H
#define DDICT_MANAGER_SUPMSG_H

#include <base/stats.h>

#include <stdint.h>

enum sup_type {
    /* ddictd -> manager */
    /* id, pid; descriptors lease page, lane, bell and ring (eventfds: to wake it, to wake the
     * manager). Answer CLIENT_ADDED */
    SUP_CLIENT_ADD = 1,
    SUP_CLIENT_DEL, /* id */
    /* id: serve it no more; its leases and what was placed for it stay until CLIENT_DEL */
    SUP_CLIENT_BAN,
    SUP_HOLD_ADD, /* id, pid; descriptor hold page. Answer HOLD_ADDED */
    SUP_HOLD_DEL, /* id */
    SUP_STATS,    /* the end is near; answer STATS_REPLY */
    SUP_STOP,     /* end; no answer but the exit */
    /* id: epoch, status: enum freeze_state. Answer FREEZE_AT with the same when that is done */
    SUP_FREEZE,
    SUP_FREEZE_SAID, /* id: of FREEZE_ASK, status: 0 the dictionary is so, or negative */
    SUP_PING,        /* wake up and turn: watch.c sees that in manager_page */
    /* manager -> ddictd */
    SUP_READY,        /* status, text */
    SUP_CLIENT_ADDED, /* id, status, text */
    SUP_CLIENT_BAD,   /* id, text: it broke the rules of its lane; ban it everywhere */
    SUP_HOLD_ADDED,   /* id, status */
    SUP_STATS_REPLY,  /* stats */
    /* count, text, used_bytes, total_bytes: requests were refused for want of memory
     * (record_rate.c) */
    SUP_FULL,
    SUP_REFUSED,    /* count, text: connections were refused */
    SUP_FREEZE_ASK, /* id, status: 1 freeze, 0 unfreeze. Answer FREEZE_SAID */
    SUP_FREEZE_AT   /* id, status */
};

struct sup_msg {
    uint32_t type;
    int32_t status;
    uint64_t id;
    uint32_t pid;
    uint32_t room;
    uint64_t count, used_bytes, total_bytes;
    char text[256];
    struct manager_stats stats; /* travels with STATS_REPLY only */
};

/* 0, -EAGAIN (non-blocking and full), or a negative code. */
int sup_send(int fd, const struct sup_msg *m, const int *fds, int nfds);
/*
 * Number of descriptors (at most max, the others are closed), -EAGAIN, -ECONNRESET at the end, or a
 * negative code. -EMFILE: the message is in *m, but its descriptors are lost: this process may have
 * no more.
 */
int sup_recv(int fd, struct sup_msg *m, int *fds, int max);

#endif
