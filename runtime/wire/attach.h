/* SPDX-License-Identifier: Apache-2.0 */
/* attach.h - between a client and the ddictd of its node: UNIX SOCK_SEQPACKET, fixed messages,
 * descriptors by SCM_RIGHTS. PROTOCOL 4. */
#ifndef DDICT_WIRE_ATTACH_H
#define DDICT_WIRE_ATTACH_H

#include <base/clock.h>
#include <base/persist_text.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ATTACH_MAGIC  0x484341545444ull
#define DICT_NAME_MAX 64 /* "1000.4294967295.4294967295" and room */
#define NODE_NAME_MAX 64
#define ATTACH_FDS    4
#define STEP_NAME_MAX 40 /* "4294967295.interactive" and room */
/* Set by a job's request for a dictionary (doc/ELECTION.md), for the batch script and, where it
 * survives, the shell of salloc: the job's first srun starts the dictionary. */
#define JOB_VARIABLE "SLURM_DDICT_JOB"

enum attach_type {
    ATTACH_HELLO = 1,
    ATTACH_WELCOME,
    ATTACH_MANAGER,
    ATTACH_HOLD,
    ATTACH_HELD,
    ATTACH_DOWN,
    ATTACH_DOWN_OK,
    ATTACH_LOOK,
    ATTACH_GPUS,
    ATTACH_MEET,
    ATTACH_LISTEN,
    ATTACH_TASK,
    ATTACH_WATCH
};

struct attach_msg {
    uint64_t magic;
    uint32_t type;     /* enum attach_type */
    uint32_t protocol; /* PROTOCOL_VERSION */
    uint32_t layout;   /* LAYOUT_VERSION */
    /* WELCOME: 0, or a negative code with text */
    int32_t status;
    uint32_t managers, nodes, node_id, local_managers; /* WELCOME */
    /* MANAGER: id in the whole dictionary; MEET: rank of the requester; TASK: number of the task,
     * in the answer 1: ddictd watches the process, so it may hang up */
    uint32_t manager;
    uint32_t pid;         /* MANAGER: its pid as ddictd sees it */
    uint32_t keyed_nodes; /* WELCOME: the nodes 0 .. keyed_nodes - 1 have keys */
    uint32_t refill;      /* WELCOME: 1: with --refill */
    /* WELCOME: checkpoints that are kept, 0: it has none; DDICT_WAIT_FOR_* */
    uint32_t working_set, working_flags;
    uint64_t client;      /* WELCOME: client id */
    uint64_t total_bytes; /* WELCOME: of the whole dictionary */
    /* WELCOME: of the whole dictionary, if every node with keys has as much as this one, or, where
     * this one has none, as node 0 */
    uint64_t spill_bytes;
    uint8_t dict_id[16];
    char node[NODE_NAME_MAX];
    /* HELLO, MEET: the client's step: "12.3", "12.batch", "12.interactive", "-" outside of Slurm */
    char step[STEP_NAME_MAX];
    /* with a negative status: the sentence; MEET: address, blank, port; HELLO, LOOK, DOWN: name of
     * the dictionary; LISTEN: name of the file */
    char text[256];
};

enum status_page_state {
    STATUS_STARTING = 0,
    STATUS_READY,
    STATUS_DRAINING,
    STATUS_GONE = 4,
    STATUS_LOST = 5
};
/* Set in all states in which the dictionary does not serve any more: readers test this bit
 * alone. */
#define STATUS_ENDED 4u
/* Beside READY or DRAINING (PROTOCOL 13). SUSPENDED: this node has no lease, nobody reads in place.
 * LEASED: it needs one, so a reader looks at `lease`, too: ddictd may stand still. */
#define STATUS_SUSPENDED 8u
#define STATUS_LEASED    16u
#define STATUS_BITS      (STATUS_SUSPENDED | STATUS_LEASED)
/* A page that ddictd writes and clients map read-only. Text is written before state (release, which
 * pairs with the reader's acquire). */
struct status_page {
    uint64_t magic;
    uint32_t state;
    /* ddictd's thread id; the kernel adds FUTEX_OWNER_DIED when ddictd ends (status_page.h) */
    uint32_t keeper;
    char text[512];
    uint64_t lease; /* where LEASED: ns of CLOCK_MONOTONIC, until then this node may serve */
    char persist[PERSIST_TEXT]; /* --persist, or ""; written before the first WELCOME */
};

/* This node's name: $DDICT_NODE (no Slurm, or several nodes on one host), else $SLURMD_NODENAME,
 * else the host name up to the first dot. Returns buf. */
const char *attach_node_name(char *buf, size_t cap);
/* The step that this process belongs to, by $SLURM_JOB_ID and $SLURM_STEP_ID, as in attach_msg.
 * Returns buf. */
const char *attach_step_name(char *buf, size_t cap);
/* All zero but magic, type and versions, and in a HELLO the step. */
void attach_msg_init(struct attach_msg *m, enum attach_type type);
/* 0; or DDICT_EVERSION with a sentence: m is of another version of protocol or layout, and its
 * other fields mean nothing. */
int attach_version_check(const struct attach_msg *m);
/* Listen on, or connect to, the abstract name of dictionary `name` on this node. A descriptor
 * (CLOEXEC), or: -EINVAL (the name is empty, too long, or has a slash), -EADDRINUSE, DDICT_ENODICT,
 * DDICT_ECRED (the listener is another user, whose uid the sentence names), ... The listening
 * descriptor is non-blocking. */
int attach_listen(const char *name);
/* If nothing listens there, it connects to the file of $DDICT_SOCKET, if that is set. */
int attach_connect(const char *name, int timeout_ms);
/* With a deadline that covers other steps, too, and so notices all suspensions. */
int attach_connect_by(const char *name, struct deadline *d);
/* The same in two steps, of which the first does not wait: a socket; and 0, or a code where it is
 * not connected. */
int attach_socket(void);
int attach_socket_connect(int fd, const char *name, struct deadline *d);
/* Listen on a new socket file that only this user may open; -EEXIST: there is a file. Abstract
 * names belong to one network namespace, a file is seen wherever it is mounted. CLOEXEC. */
int attach_listen_file(const char *path);
/* a socket file is there, but nobody listens on it */
bool attach_file_is_dead(const char *path);
/* 0: the peer of fd has our euid; else DDICT_ECRED. *pid (may be NULL) receives its pid. Both as
 * this process's namespaces show them: two processes of one user agree, whatever each calls itself,
 * and a uid that stands for many users (user.h) matches nobody. */
int attach_peer_check(int fd, pid_t *pid);

/*
 * Send one message with up to ATTACH_FDS descriptors, or receive one (descriptors are CLOEXEC;
 * surplus ones are closed). attach_send(): 0; if the socket's buffer is full, a blocking fd waits
 * DD_HANDSHAKE_MS (-ETIMEDOUT), a non-blocking one gives -EAGAIN. attach_recv(): number of
 * descriptors; waits timeout_ms (0: not at all); -ECONNRESET at the end of the stream, -ETIMEDOUT,
 * DDICT_EPROTO. Strings in a received message are terminated. Of a message of another protocol
 * version only the head (up to status) is filled, for attach_version_check().
 */
int attach_send(int fd, const struct attach_msg *m, const int *fds, int nfds);
int attach_send_by(int fd, const struct attach_msg *m, const int *fds, int nfds,
                   struct deadline *d);
int attach_recv(int fd, struct attach_msg *m, int *fds, int max_fds, int timeout_ms);
int attach_recv_by(int fd, struct attach_msg *m, int *fds, int max_fds, struct deadline *d);

#endif
