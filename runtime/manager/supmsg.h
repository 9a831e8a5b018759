/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supmsg.h - messages between ddictd and a manager, on the SOCK_SEQPACKET pair that was made before
 * the fork. Both ends are ours: a malformed message is a bug, and ends the process. The end of the
 * socket is the end of the other process.
 */
#ifndef DDICT_MANAGER_SUPMSG_H
#define DDICT_MANAGER_SUPMSG_H

#include <base/stats.h>

#include <stdbool.h>
#include <stdint.h>

enum sup_type {
    /* ddictd -> manager */
    /* id, pid; descriptors: lease page, lane, eventfd of the client, eventfd of the lane; count 1:
     * an earlier life of the manager has answered. Answer: CLIENT_ADDED, or then none */
    SUP_CLIENT_ADD = 1,
    SUP_CLIENT_DEL, /* id */
    /* id: do not serve it any more; its leases and its placed values stay until CLIENT_DEL */
    SUP_CLIENT_BAN,
    SUP_HOLD_ADD, /* id, pid, count; descriptor: hold page. Answer: HOLD_ADDED, likewise */
    SUP_HOLD_DEL, /* id */
    SUP_STATS,    /* the end is near. Answer: STATS_REPLY */
    SUP_STOP,     /* end; the exit is the answer */
    /* id: epoch, status: enum freeze_state. Answer, when that is reached: FREEZE_AT with the
     * same */
    SUP_FREEZE,
    SUP_FREEZE_SAID, /* id: of FREEZE_ASK, status: 0 (done) or negative */
    /* take a turn, so that manager_page shows that the manager is alive (watch.c) */
    SUP_PING,
    /* manager -> ddictd */
    SUP_READY,        /* status, text */
    SUP_CLIENT_ADDED, /* id, status, text */
    SUP_CLIENT_BAD,   /* id, status: it broke a rule of its lane; ban it at all managers */
    SUP_HOLD_ADDED,   /* id, status */
    SUP_STATS_REPLY,  /* stats */
    /* count, text, used_bytes, total_bytes: requests were refused for want of memory
     * (record_rate.c) */
    SUP_FULL,
    SUP_REFUSED,    /* count, text: connections were refused */
    SUP_FREEZE_ASK, /* id, status: 1 freeze, 0 unfreeze. Answer: FREEZE_SAID */
    SUP_FREEZE_AT,  /* id, status */
    /* ddictd -> manager */
    /* to a later life: you have been told all clients and hold pages. Answer: READY */
    SUP_GO,
    /* To all managers and shadows, at each change of the map, and to a later life before GO, where a
     * row is not as at the start: id: owner, count: epoch, pid: number of its primary (base/shadow.h),
     * room: of its backup, or SHADOW_NONE; used_bytes, total_bytes: ports of the two, 0: as its
     * peer_address says, or, of the backup, it does not listen yet; status: 1: the backup is whole,
     * and 2 * enum owner_keys; where that is not OWNER_KEPT text: the name of the node they were lost with. At
     * the start each owner is its own primary, its shadow the backup, whole, and the epoch is 1. Who
     * becomes a primary by it serves from then on. pid SHADOW_NONE: id owns no keys, and is gone with
     * its node. */
    SUP_MAP,
    /* manager -> ddictd */
    /* of a primary. count: epoch, text: why its backup can not go on. A MAP without it follows */
    SUP_BACKUP_LOST,
    /* of a primary. id: owner, count: epoch: its backup has all. A MAP with status 1 follows */
    SUP_COPIED
};

/* With --refill, what has become of the keys of an owner. */
enum owner_keys {
    OWNER_KEPT,
    /* Its primary is gone, and there was no copy. The backup of the row is the process that is to
     * begin anew, once it has started. */
    OWNER_LOST,
    /* Its primary began anew, empty. Sources are being read again. */
    OWNER_REFILLING,
    /* What could be read again has been. */
    OWNER_REFILLED,
    /* A second copy of REFILLING was promoted. It has what it has, and sources are read on. */
    OWNER_READ_ON
};
static inline bool owner_is_refilling(enum owner_keys keys) {
    return keys == OWNER_REFILLING || keys == OWNER_READ_ON;
}
/* A process that began empty serves its keys, or a copy of such a one. */
static inline bool owner_began_anew(enum owner_keys keys) {
    return owner_is_refilling(keys) || keys == OWNER_REFILLED;
}

struct sup_msg {
    uint32_t type;
    int32_t status;
    uint64_t id;
    uint32_t pid;
    uint32_t room;
    uint64_t count, used_bytes, total_bytes;
    char text[256];
    struct manager_stats stats; /* sent only with STATS_REPLY */
};

/* Of SUP_MAP. */
static inline bool sup_map_whole(const struct sup_msg *m) {
    return m->status & 1;
}
static inline enum owner_keys sup_map_keys(const struct sup_msg *m) {
    return (enum owner_keys)(m->status >> 1);
}

/* 0, -EAGAIN (non-blocking and full), or a negative code. */
int sup_send(int fd, const struct sup_msg *m, const int *fds, int nfds);
/*
 * Number of descriptors (at most max; further ones are closed), -EAGAIN, -ECONNRESET at the end, or
 * a negative code. -EMFILE: *m is valid, but descriptors of it are lost, because this process has
 * too many.
 */
int sup_recv(int fd, struct sup_msg *m, int *fds, int max);

#endif
