/* SPDX-License-Identifier: Apache-2.0 */
/* attach.c - the abstract UNIX socket between clients and the ddictd of their node. */
#include "attach.h"

#include "msg.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>
#include <base/hash.h>
#include <base/user.h>
#include <base/versions.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* The part of attach_msg that is the same in all versions, so that a mismatch can be reported. */
#define ATTACH_HEAD           offsetof(struct attach_msg, managers)
#define TOO_MANY_IN_FLIGHT_MS 1 /* pause before descriptors are sent again */

const char *attach_node_name(char *buf, size_t cap) {
    const char *name = getenv("DDICT_NODE");
    if (!name || *name == 0)
        name = getenv("SLURMD_NODENAME");
    if (name && *name != 0) {
        snprintf(buf, cap, "%s", name);
        return buf;
    }
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == 0)
        strcpy(host, "localhost");
    snprintf(buf, cap, "%.*s", (int)strcspn(host, "."), host);
    return buf;
}

/* Slurm's numbers of steps that have a name instead (slurm.h). */
static const struct {
    unsigned long id;
    const char *name;
} special_steps[] = {
    {0xfffffffbul, "batch"}, {0xfffffffaul, "interactive"}, {0xfffffffcul, "extern"}};

const char *attach_step_name(char *buf, size_t cap) {
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    snprintf(buf, cap, "-");
    if (!job || *job == 0 || strspn(job, "0123456789") != strlen(job) || strlen(job) > 10)
        return buf;
    if (!step || *step == 0) /* not set in a batch script (Slurm 22.05) */
        step = "batch";
    else if (strspn(step, "0123456789") != strlen(step) || strlen(step) > 10)
        return buf;
    unsigned long id = strtoul(step, NULL, 10);
    for (size_t i = 0; i < sizeof special_steps / sizeof *special_steps; i++)
        if (id == special_steps[i].id)
            step = special_steps[i].name;
    snprintf(buf, cap, "%s.%s", job, step);
    return buf;
}

void attach_msg_init(struct attach_msg *m, enum attach_type type) {
    memset(m, 0, sizeof *m);
    m->magic = ATTACH_MAGIC;
    m->type = type;
    m->protocol = PROTOCOL_VERSION;
    m->layout = LAYOUT_VERSION;
    if (type == ATTACH_HELLO)
        attach_step_name(m->step, sizeof m->step);
}

int attach_version_check(const struct attach_msg *m) {
    if (m->protocol == PROTOCOL_VERSION && m->layout == LAYOUT_VERSION)
        return 0;
    return dd_error(DDICT_EVERSION,
                    "the managers are of another version: this program's libddict (slurm-ddict %s) "
                    "speaks protocol %u and layout %u, ddictd of this node "
                    "protocol %u and layout %u; install the cluster's slurm-ddict where the "
                    "program runs (its environment or container image)",
                    DDICT_VERSION_STRING, PROTOCOL_VERSION, (unsigned)LAYOUT_VERSION, m->protocol,
                    m->layout);
}

/* Length of the address, or a negative code. */
static int address_of(struct sockaddr_un *a, const char *name) {
    char node[256];
    size_t len = strlen(name);
    if (len == 0 || len >= DICT_NAME_MAX || strchr(name, '/'))
        return dd_error(-EINVAL, "\"%.80s\" cannot be the name of a dictionary", name);
    attach_node_name(node, sizeof node);
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    size_t cap = sizeof a->sun_path - 1;
    int n = snprintf(a->sun_path + 1, cap, "ddict/%s/%s", name, node);
    if (n < 0 || (size_t)n >= cap)
        n = snprintf(a->sun_path + 1, cap, "ddict/%s/#%016" PRIx64, name,
                     key_hash(node, strlen(node)));
    return (int)offsetof(struct sockaddr_un, sun_path) + 1 + n;
}

int attach_listen(const char *name) {
    struct sockaddr_un a;
    int len = address_of(&a, name);
    if (len < 0)
        return len;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return dd_error(-errno, "cannot make a socket: %s", strerror(errno));
    if (bind(fd, (struct sockaddr *)&a, (socklen_t)len) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int e = errno;
    close(fd);
    if (e == EADDRINUSE)
        return dd_error(-e, "a dictionary %s is on this node already", name);
    return dd_error(-e, "cannot listen on @%s: %s", a.sun_path + 1, strerror(e));
}

int attach_peer_check(int fd, pid_t *pid) {
    struct ucred u;
    socklen_t len = sizeof u;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &len) != 0)
        return dd_error(-errno, "cannot tell who is on the other side: %s", strerror(errno));
    if (len != sizeof u || u.uid != geteuid())
        return dd_error(
            DDICT_ECRED, "the other side belongs to uid %u%s, this process to uid %u", u.uid,
            user_is_one(USER_UID_MAP, u.uid) ? ""
                                             : " (a user without a number in this user namespace)",
            geteuid());
    if (!user_is_one(USER_UID_MAP, u.uid))
        return dd_error(DDICT_ECRED,
                        "uid %u stands for every user without a number in this user namespace, so "
                        "the other side cannot be told from a stranger: "
                        "start the container with a number for its user",
                        u.uid);
    if (pid)
        *pid = u.pid;
    return 0;
}

/* A blocking connect() to a UNIX socket waits only for room in the backlog; SO_SNDTIMEO bounds it.
 * */
static int connect_within(int fd, const struct sockaddr_un *a, socklen_t len, struct deadline *d) {
    for (;;) {
        if (connect(fd, (const struct sockaddr *)a, len) == 0)
            return 0;
        if (errno != EINTR && errno != EAGAIN)
            return -errno;
        int left = deadline_left(d, DD_WAIT_SLICE_MS);
        if (left <= 0)
            return -ETIMEDOUT;
        struct timeval tv = {.tv_usec = left * 1000};
        if (fcntl(fd, F_SETFL, 0) != 0 ||
            setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv) != 0)
            return -errno;
    }
}

int attach_connect(const char *name, int timeout_ms) {
    struct deadline d;
    deadline_start(&d, timeout_ms);
    return attach_connect_by(name, &d);
}

static int file_address(struct sockaddr_un *a, const char *path) {
    if (strlen(path) >= sizeof a->sun_path)
        return dd_error(-ENAMETOOLONG, "%s: a socket's name may have %zu letters", path,
                        sizeof a->sun_path - 1);
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    strcpy(a->sun_path, path);
    return (int)sizeof *a;
}

int attach_listen_file(const char *path) {
    struct sockaddr_un a;
    int len = file_address(&a, path);
    if (len < 0)
        return len;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return dd_error(-errno, "cannot make a socket: %s", strerror(errno));
    /* The file gets the mode of the socket, so it never has another. */
    if (fchmod(fd, 0600) == 0 && bind(fd, (struct sockaddr *)&a, (socklen_t)len) == 0) {
        if (listen(fd, SOMAXCONN) == 0)
            return fd;
        unlink(path);
    }
    int e = errno == EADDRINUSE ? EEXIST : errno;
    close(fd);
    return dd_error(-e, "cannot make the socket %s: %s", path, strerror(e));
}

bool attach_file_is_dead(const char *path) {
    struct sockaddr_un a;
    int len = file_address(&a, path);
    int fd = len < 0 ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool dead =
        fd >= 0 && connect(fd, (struct sockaddr *)&a, (socklen_t)len) != 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return dead;
}

int attach_socket(void) {
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return fd < 0 ? dd_error(-errno, "cannot make a socket: %s", strerror(errno)) : fd;
}

/* Connect the socket, blocking from then on, to a peer that is this user. -ECONNREFUSED or -ENOENT:
 * nobody listens there. */
static int address_connect(int fd, const struct sockaddr_un *a, int len, struct deadline *d) {
    /* Non-blocking at first, so that a timeout of 0 does not wait. */
    int e = fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ? -errno : connect_within(fd, a, (socklen_t)len, d);
    struct timeval forever = {0};
    if (e == 0 && (fcntl(fd, F_SETFL, 0) != 0 ||
                   setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof forever) != 0))
        e = -errno;
    bool abstract = a->sun_path[0] == 0;
    const char *where = a->sun_path + abstract;
    if (e < 0)
        dd_error(e, "cannot connect to %s%s: %s", abstract ? "@" : "", where, strerror(-e));
    else if ((e = attach_peer_check(fd, NULL)) == 0)
        return 0;
    if (e == DDICT_ECRED) {
        char why[300];
        snprintf(why, sizeof why, "%s", dd_errmsg());
        return dd_error(e, "%s %s%s is taken by another user: %s",
                        abstract ? "the name" : "the socket", abstract ? "@" : "", where, why);
    }
    return e;
}

int attach_connect_by(const char *name, struct deadline *d) {
    int fd = attach_socket();
    int rc = fd < 0 ? fd : attach_socket_connect(fd, name, d);
    if (fd >= 0 && rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

int attach_socket_connect(int fd, const char *name, struct deadline *d) {
    struct sockaddr_un a;
    int len = address_of(&a, name);
    if (len < 0)
        return len;
    int rc = address_connect(fd, &a, len, d);
    if (rc != -ECONNREFUSED)
        return rc;
    const char *file = getenv("DDICT_SOCKET");
    if (!file || *file == 0)
        return dd_error(DDICT_ENODICT, "no dictionary %s on this node: nothing listens on @%s",
                        name, a.sun_path + 1);
    if ((len = file_address(&a, file)) < 0)
        return len;
    rc = address_connect(fd, &a, len, d);
    if (rc != -ECONNREFUSED && rc != -ENOENT)
        return rc;
    return dd_error(DDICT_ENODICT,
                    "no dictionary %s on this node: nothing listens on its name, nor on the socket "
                    "%s of $DDICT_SOCKET (%s)",
                    name, file, strerror(-rc));
}

int attach_send(int fd, const struct attach_msg *m, const int *fds, int nfds) {
    struct deadline d;
    deadline_start(&d, DD_HANDSHAKE_MS);
    return attach_send_by(fd, m, fds, nfds, &d);
}

int attach_send_by(int fd, const struct attach_msg *m, const int *fds, int nfds,
                   struct deadline *d) {
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(ATTACH_FDS * sizeof(int))];
    } ctl;
    if (nfds < 0 || nfds > ATTACH_FDS)
        return dd_error(-EINVAL, "%d descriptors in one message", nfds);
    struct iovec iov = {.iov_base = (void *)(uintptr_t)m, .iov_len = sizeof *m};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    if (nfds > 0) {
        memset(&ctl, 0, sizeof ctl);
        h.msg_control = &ctl;
        h.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)nfds * sizeof(int));
    }
    for (;;) {
        ssize_t n = sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n == (ssize_t)sizeof *m)
            return 0;
        if (n >= 0)
            return dd_error(DDICT_EPROTO, "a message was cut");
        int e = errno;
        if (e == EINTR)
            continue;
        /* ETOOMANYREFS: more of this user's descriptors are in flight than RLIMIT_NOFILE allows;
         * wait until some arrive. */
        if (e != EAGAIN && e != ETOOMANYREFS)
            return dd_error(e == EPIPE ? -ECONNRESET : -e, "cannot send: %s", strerror(e));
        int flags = fcntl(fd, F_GETFL);
        if (flags < 0 || (flags & O_NONBLOCK))
            return -EAGAIN;
        int left = deadline_left(d, DD_WAIT_SLICE_MS);
        if (left <= 0)
            return dd_error(-ETIMEDOUT, "the other side takes nothing");
        struct pollfd p = {.fd = fd, .events = e == EAGAIN ? POLLOUT : 0};
        poll(&p, 1, e == EAGAIN ? left : TOO_MANY_IN_FLIGHT_MS);
    }
}

/* Take the descriptors of a received message; those beyond max are closed. */
static int take_fds(struct msghdr *h, int *fds, int max) {
    int got = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (got < max)
                fds[got++] = fd;
            else
                close(fd);
        }
    }
    return got;
}

static void close_all(int *fds, int n) {
    for (int i = 0; i < n; i++) {
        close(fds[i]);
        fds[i] = -1;
    }
}

/* -EAGAIN when nothing is there. */
static int receive_once(int fd, struct attach_msg *m, int *fds, int max_fds) {
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(ATTACH_FDS * sizeof(int))];
    } ctl;
    struct attach_msg t;
    memset(&t, 0, sizeof t);
    struct iovec iov = {.iov_base = &t, .iov_len = sizeof t};
    struct msghdr h = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ctl, .msg_controllen = sizeof ctl};
    ssize_t n = recvmsg(fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return -errno;
    int got = take_fds(&h, fds, max_fds);
    if (n == 0) {
        close_all(fds, got);
        return -ECONNRESET;
    }
    bool whole = n == (ssize_t)sizeof t && (h.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
    bool foreign = n >= (ssize_t)ATTACH_HEAD && t.protocol != PROTOCOL_VERSION;
    if (n < (ssize_t)ATTACH_HEAD || t.magic != ATTACH_MAGIC || (!whole && !foreign)) {
        close_all(fds, got);
        return (h.msg_flags & MSG_CTRUNC) && n == (ssize_t)sizeof t && t.magic == ATTACH_MAGIC
                   ? -EMFILE
                   : DDICT_EPROTO;
    }
    if (foreign) {
        close_all(fds, got);
        got = 0;
        memset((char *)&t + ATTACH_HEAD, 0, sizeof t - ATTACH_HEAD);
    }
    t.node[sizeof t.node - 1] = 0;
    t.step[sizeof t.step - 1] = 0;
    t.text[sizeof t.text - 1] = 0;
    *m = t;
    return got;
}

int attach_recv(int fd, struct attach_msg *m, int *fds, int max_fds, int timeout_ms) {
    struct deadline d;
    deadline_start(&d, timeout_ms);
    return attach_recv_by(fd, m, fds, max_fds, &d);
}

int attach_recv_by(int fd, struct attach_msg *m, int *fds, int max_fds, struct deadline *d) {
    if (max_fds > ATTACH_FDS)
        max_fds = ATTACH_FDS;
    for (;;) {
        int n = receive_once(fd, m, fds, max_fds);
        if (n >= 0)
            return n;
        switch (n) {
        case -EINTR:
            continue;
        case -EAGAIN:
            break;
        case -EMFILE:
            return dd_error(n, "no room for descriptors that were sent (ulimit -n)");
        case -ECONNRESET:
            return dd_error(n, "the other side has closed");
        case DDICT_EPROTO:
            return dd_error(n, "a malformed message");
        default:
            return dd_error(n, "cannot receive: %s", strerror(-n));
        }
        int left = deadline_left(d, DD_WAIT_SLICE_MS);
        if (left <= 0)
            return dd_error(-ETIMEDOUT, "no answer");
        struct pollfd p = {.fd = fd, .events = POLLIN};
        poll(&p, 1, left);
    }
}
