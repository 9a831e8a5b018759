/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clients.c - processes of this node that attach. A client is NEW until it says hello, PARKED until the dictionary is ready (or ASKING, when all it wants is to know where
 * its step meets), ADDING until all managers
 * know it, WELCOMED while its descriptors are sent, then ATTACHED until its socket or its process ends. What it had is dropped then, everywhere at once. One that breaks
 * a rule is BANNED: it is told by the end of what it reads, and nobody serves it, but it may go on reading in place, so its leases count until it ends. A DOOR is no client:
 * it lends us the socket file on which the processes of a container reach us, for as long as it lives (doors.c).
 */
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <manager/supervisor.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

enum client_state {
    CLIENT_NEW,
    CLIENT_PARKED,
    CLIENT_ASKING,
    CLIENT_DOOR,
    CLIENT_WATCHING,
    CLIENT_TASK,
    CLIENT_ADDING,
    CLIENT_WELCOMED,
    CLIENT_ATTACHED,
    CLIENT_BANNED
};
struct sup_client {
    struct supervisor *s;
    struct sup_client *next;
    enum client_state state;
    bool looks,
        meets;   /* it only wants to know when the dictionary is ready; where its step meets */
    bool helper; /* it saves for us: it does not hold the dictionary's life */
    bool joins, watches; /* it is one of --tasks; it wants to know the end */
    uint32_t task;
    struct io_handler sock, life; /* life: its pidfd; fd -1 when its pid is not visible here */
    uint64_t id;
    pid_t pid;
    char step[STEP_NAME_MAX];
    int lease_fd, bell_fd, *lane_fd,
        *ring_fd;       /* the last two: [shards]; a ring until both its ends have it */
    unsigned waits;     /* answers of managers */
    int status;         /* the first bad one */
    unsigned sent;      /* of WELCOME and the MANAGER messages */
    struct timer timer; /* until ATTACHED: how long it may take */
    struct door *door;  /* of a DOOR */
};

static void sock_close(struct sup_client *c) {
    if (c->sock.fd < 0)
        return;
    io_remove(c->s->epoll_fd, &c->sock);
    close(c->sock.fd);
    c->sock.fd = -1;
}

static void client_drop(struct sup_client *c) {
    struct supervisor *s = c->s;
    struct sup_client **at = &s->clients;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    timer_clear(&s->timers, &c->timer);
    sock_close(c);
    if (c->life.fd >= 0) {
        io_remove(s->epoll_fd, &c->life);
        close(c->life.fd);
    }
    bool counted = c->state >= CLIENT_ADDING, task = c->state == CLIENT_TASK;
    if (counted) {
        struct sup_msg m = {.type = SUP_CLIENT_DEL, .id = c->id};
        shards_send(s, &m);
        if (!c->helper && c->state != CLIENT_BANNED)
            s->attached--;
        log_debug("client %llu (pid %d) is gone", (unsigned long long)c->id, (int)c->pid);
    }
    if (c->lease_fd >= 0)
        close(c->lease_fd);
    if (c->bell_fd >= 0)
        close(c->bell_fd);
    for (unsigned i = 0; c->lane_fd && i < 2 * s->shards_n; i++)
        if (c->lane_fd[i] >= 0)
            close(c->lane_fd[i]);
    free(c->lane_fd);
    door_close(c->door);
    free(c);
    if (counted)
        ending_look(s);
    if (task)
        tasks_left(s);
}

/* It broke a rule. Only an end of its socket or of its process says that it reads no more. */
static void client_exclude(struct sup_client *c) {
    struct supervisor *s = c->s;
    if (c->state == CLIENT_BANNED)
        return;
    if (c->state != CLIENT_ATTACHED) {
        client_drop(c);
        return;
    }
    struct sup_msg m = {.type = SUP_CLIENT_BAN, .id = c->id};
    shards_send(s, &m);
    shutdown(c->sock.fd, SHUT_WR); /* its calls end */
    c->state = CLIENT_BANNED;
    if (!c->helper)
        s->attached--;
    ending_look(s);
}

/* The last word to a client: no, or where its step meets. */
static void client_refuse(struct sup_client *c, int status, const char *text) {
    struct attach_msg m;
    attach_msg_init(&m, c->meets     ? ATTACH_MEET
                        : c->joins   ? ATTACH_TASK
                        : c->watches ? ATTACH_WATCH
                                     : ATTACH_WELCOME);
    m.status = status;
    snprintf(m.node, sizeof m.node, "%s", c->s->node);
    snprintf(m.text, sizeof m.text, "%s", text);
    attach_send(c->sock.fd, &m, NULL, 0);
    client_drop(c);
}

static void client_late(struct timer *t) {
    struct sup_client *c =
        (struct sup_client *)(void *)((char *)t - offsetof(struct sup_client, timer));
    if (c->state == CLIENT_ASKING) {
        char text[160];
        snprintf(text, sizeof text,
                 "rank 0 of step %s was not started on any node of the dictionary within %d s",
                 c->step, DD_MEET_MS / 1000);
        client_refuse(c, -ETIMEDOUT, text);
        return;
    }
    log_debug("a client took too long to attach");
    client_drop(c);
}

static void client_hurry(struct sup_client *c) {
    timer_after(&c->s->timers, &c->timer, DD_HANDSHAKE_MS * 1000000ull);
}

static struct sup_client *client_find(struct supervisor *s, uint64_t id) {
    struct sup_client *c = s->clients;
    while (c && (c->id != id || c->state < CLIENT_ADDING))
        c = c->next;
    return c;
}

/* --- welcome --- */
static int lease_page_make(void) {
    int fd = memfd_create("ddict-leases", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)LEASE_FILE_SIZE) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    int e = -errno;
    close(fd);
    return e;
}

static int client_make(struct sup_client *c) {
    struct supervisor *s = c->s;
    c->lease_fd = lease_page_make();
    if (c->lease_fd < 0)
        return c->lease_fd;
    c->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->bell_fd < 0)
        return -errno;
    c->lane_fd = malloc(2 * s->shards_n * sizeof *c->lane_fd);
    if (!c->lane_fd)
        return -ENOMEM;
    c->ring_fd = c->lane_fd + s->shards_n;
    for (unsigned i = 0; i < 2 * s->shards_n; i++)
        c->lane_fd[i] = -1;
    for (unsigned i = 0; i < s->shards_n; i++) {
        if ((c->lane_fd[i] = lane_create()) < 0)
            return c->lane_fd[i];
        if ((c->ring_fd[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
            return -errno;
    }
    return 0;
}

static void welcome_fill(const struct sup_client *c, struct attach_msg *m) {
    const struct supervisor *s = c->s;
    attach_msg_init(m, ATTACH_WELCOME);
    m->managers = s->managers;
    m->nodes = s->nodes;
    m->node_id = s->node_id;
    m->local_managers = s->shards_n;
    m->client = c->id;
    m->total_bytes = s->budget * s->managers;
    m->spill_bytes = spill_size(s->shards[0].spill_fd) * s->managers;
    memcpy(m->dict_id, s->identity.dict_id, sizeof m->dict_id);
    snprintf(m->node, sizeof m->node, "%s", s->node);
}

/* A task that came before stays as one that watches, to see when it can come again. */
static void client_join(struct sup_client *c) {
    struct attach_msg m;
    attach_msg_init(&m, c->joins ? ATTACH_TASK : ATTACH_WATCH);
    m.manager = c->life.fd >= 0;
    m.status = c->joins ? tasks_join(c->s, c->task) : 0;
    c->state = c->joins && m.status == 0 ? CLIENT_TASK : CLIENT_WATCHING;
    if (m.status < 0)
        snprintf(m.text, sizeof m.text, "%s", dd_errmsg());
    if (attach_send(c->sock.fd, &m, NULL, 0) < 0)
        client_drop(c);
}

void clients_end_tell(struct supervisor *s, const char *text) {
    struct attach_msg m;
    attach_msg_init(&m, ATTACH_WATCH);
    m.status = s->lost ? DDICT_ELOST : 0;
    if (s->lost)
        text = s->text;
    for (size_t at = 0, len = strlen(text), n; at < len; at += n) { /* in as many as it takes */
        n = len - at < sizeof m.text - 1 ? len - at : sizeof m.text - 1;
        memcpy(m.text, text + at, n);
        m.text[n] = 0;
        for (struct sup_client *c = s->clients; c; c = c->next)
            if (c->state == CLIENT_WATCHING && c->watches)
                attach_send(c->sock.fd, &m, NULL, 0);
    }
}

static void client_welcome(struct sup_client *c) {
    struct supervisor *s = c->s;
    if (c->joins || c->watches) {
        client_join(c);
        return;
    }
    if (c->looks) {
        struct attach_msg m;
        welcome_fill(c, &m);
        attach_send(c->sock.fd, &m, NULL, 0);
        client_drop(c);
        return;
    }
    int e = client_make(c);
    if (e < 0) {
        char text[200];
        snprintf(text, sizeof text, "ddictd on %s can not take another client: %s", s->node,
                 dd_strerror(e));
        client_refuse(c, e, text);
        return;
    }
    c->state = CLIENT_ADDING;
    c->id = ++s->next_id;
    c->helper = saver_is(c->pid);
    if (!c->helper) {
        s->attached++;
        steps_attached(s, c->step, c->pid);
    }
    c->waits = s->shards_n;
    struct sup_msg m = {.type = SUP_CLIENT_ADD, .id = c->id, .pid = (uint32_t)c->pid};
    for (unsigned i = 0; i < s->shards_n; i++) {
        int fds[4] = {c->lease_fd, c->lane_fd[i], c->bell_fd, c->ring_fd[i]};
        shard_send(&s->shards[i], &m, fds, 4);
    }
}

static int welcome_send(struct sup_client *c) {
    struct supervisor *s = c->s;
    struct attach_msg m;
    welcome_fill(c, &m);
    int fds[3] = {s->board_ro_fd, c->lease_fd, c->bell_fd};
    return attach_send(c->sock.fd, &m, fds, 3);
}

static int manager_send(struct sup_client *c, unsigned i) {
    struct shard *h = &c->s->shards[i];
    struct attach_msg m;
    attach_msg_init(&m, ATTACH_MANAGER);
    m.manager = h->id;
    m.pid = (uint32_t)h->pid;
    int fds[4] = {h->arena_ro_fd, c->lane_fd[i], c->ring_fd[i], h->spill_ro_fd};
    int e = attach_send(c->sock.fd, &m, fds, h->spill_ro_fd < 0 ? 3 : 4);
    if (e < 0)
        return e;
    close(c->ring_fd[i]);
    c->ring_fd[i] = -1;
    return 0;
}

/* Send what the socket takes; the rest when it is writable again. */
static void client_continue(struct sup_client *c) {
    struct supervisor *s = c->s;
    while (c->sent <= s->shards_n) {
        int e = c->sent == 0 ? welcome_send(c) : manager_send(c, c->sent - 1);
        if (e == -EAGAIN || e == -ETOOMANYREFS) {
            io_change(s->epoll_fd, &c->sock, EPOLLIN | EPOLLOUT);
            return;
        }
        if (e < 0) {
            client_drop(c);
            return;
        }
        c->sent++;
    }
    c->state = CLIENT_ATTACHED;
    timer_clear(&s->timers, &c->timer);
    io_change(s->epoll_fd, &c->sock, EPOLLIN);
    log_debug("client %llu (pid %d) is attached", (unsigned long long)c->id, (int)c->pid);
}

void client_added(struct shard *h, const struct sup_msg *m) {
    struct sup_client *c = client_find(h->s, m->id);
    if (!c || c->state != CLIENT_ADDING)
        return; /* it went away meanwhile */
    if (m->status < 0 && c->status == 0)
        c->status = m->status;
    if (--c->waits > 0)
        return;
    if (c->status < 0) {
        char text[200];
        snprintf(text, sizeof text, "a manager on %s can not take another client: %s", h->s->node,
                 dd_strerror(c->status));
        client_refuse(c, c->status, text);
        return;
    }
    c->state = CLIENT_WELCOMED;
    client_hurry(c);
    client_continue(c);
}

void client_bad(struct supervisor *s, uint64_t id) {
    struct sup_client *c = client_find(s, id);
    if (!c)
        return;
    log_warn("client %llu (pid %d) broke the rules of its lane and is dropped",
             (unsigned long long)id, (int)c->pid);
    client_exclude(c);
}

/* --- what it says --- */
static void client_hello(struct sup_client *c, const struct attach_msg *m) {
    struct supervisor *s = c->s;
    if (attach_version_check(m) < 0) {
        client_refuse(c, DDICT_EVERSION, dd_strerror(DDICT_EVERSION));
        return;
    }
    if (s->lost)
        client_refuse(c, DDICT_ELOST, s->text);
    else if (s->stage > STAGE_READY && !(s->stage == STAGE_DRAINING && saver_is(c->pid)))
        client_refuse(c, DDICT_EGONE, "the dictionary is ending");
    else {
        timer_clear(&s->timers, &c->timer);
        c->state = CLIENT_PARKED;
        if (s->stage >= STAGE_READY)
            client_welcome(c);
    }
}

static void client_meet(struct sup_client *c, const struct attach_msg *m) {
    struct supervisor *s = c->s;
    char text[128];
    c->meets = true;
    if (attach_version_check(m) < 0)
        client_refuse(c, DDICT_EVERSION, dd_strerror(DDICT_EVERSION));
    else if (s->lost)
        client_refuse(c, DDICT_ELOST, s->text);
    else if (s->stage > STAGE_READY)
        client_refuse(c, DDICT_EGONE, "the dictionary is ending");
    else {
        int e = meet_ask(s, m->step, m->manager, c->life.fd, text, sizeof text);
        if (e != 0)
            client_refuse(c, e < 0 ? e : 0, e < 0 ? dd_errmsg() : text);
        else {
            c->state = CLIENT_ASKING;
            timer_after(&s->timers, &c->timer, DD_MEET_MS * 1000000ull);
        }
    }
}

static struct sup_client *client_asking(struct supervisor *s, const char *step) {
    struct sup_client *c = s->clients;
    while (c && (c->state != CLIENT_ASKING || (step && strcmp(c->step, step) != 0)))
        c = c->next;
    return c;
}

void clients_meet(struct supervisor *s, const char *step, const char *text) {
    for (struct sup_client *c; (c = client_asking(s, step));)
        client_refuse(c, 0, text);
}

/* A page made by a client: no page fault on it may hurt a manager. */
static int hold_page_check(int fd) {
    off_t size = lseek(fd, 0, SEEK_END);
    int seals = fcntl(fd, F_GET_SEALS);
    return size >= (off_t)LEASE_FILE_SIZE && seals >= 0 && seals & F_SEAL_SHRINK ? 0 : DDICT_EPROTO;
}

/* Answer with rc and, where it is negative, the last sentence. */
static int client_answer(struct sup_client *c, enum attach_type type, int rc, int fd) {
    struct attach_msg r;
    attach_msg_init(&r, type);
    r.status = rc < 0 ? rc : 0;
    if (rc < 0)
        snprintf(r.text, sizeof r.text, "%s", dd_errmsg());
    return attach_send(c->sock.fd, &r, &fd, fd >= 0);
}

static void client_lends(struct sup_client *c, const struct attach_msg *m, int *fds) {
    int rc = c->s->stage > STAGE_READY ? dd_error(DDICT_EGONE, "the dictionary is ending")
                                       : door_open(&c->door, c->s, fds[0], fds[1], m->text);
    if (rc == 0) {
        fds[0] = fds[1] = -1; /* the door's now */
        c->state = CLIENT_DOOR;
        timer_clear(&c->s->timers, &c->timer);
    }
    if (client_answer(c, ATTACH_LISTEN, rc, -1) < 0 || rc < 0)
        client_drop(c);
}

/* Through a socket file one may reach another dictionary than was meant. */
static bool is_meant(const struct supervisor *s, const struct attach_msg *m) {
    if ((m->type != ATTACH_HELLO && m->type != ATTACH_LOOK && m->type != ATTACH_MEET &&
         m->type != ATTACH_DOWN) ||
        m->text[0] == 0 || strcmp(m->text, s->opt.name) == 0)
        return true;
    dd_error(DDICT_ENODICT, "this socket is of the dictionary %s, not of %s", s->opt.name, m->text);
    return false;
}

static void client_said(struct sup_client *c, const struct attach_msg *m, int *fds, int nfds) {
    struct supervisor *s = c->s;
    if (c->state == CLIENT_NEW && attach_version_check(m) == 0 && !is_meant(s, m)) {
        client_answer(c, m->type == ATTACH_DOWN ? ATTACH_DOWN_OK : ATTACH_WELCOME, DDICT_ENODICT,
                      -1);
        client_drop(c);
    } else if ((m->type == ATTACH_HELLO || m->type == ATTACH_LOOK || m->type == ATTACH_TASK ||
                m->type == ATTACH_WATCH) &&
               c->state == CLIENT_NEW) {
        c->looks = m->type == ATTACH_LOOK;
        c->joins = m->type == ATTACH_TASK;
        c->watches = m->type == ATTACH_WATCH;
        c->task = m->manager;
        snprintf(c->step, sizeof c->step, "%s", m->step);
        client_hello(c, m);
    } else if (m->type == ATTACH_MEET && c->state == CLIENT_NEW) {
        snprintf(c->step, sizeof c->step, "%s", m->step);
        client_meet(c, m);
    } else if (m->type == ATTACH_GPUS && c->state == CLIENT_NEW) {
        int fd = gpus_fd(s);
        client_answer(c, ATTACH_GPUS, fd, fd);
        client_drop(c);
    } else if (m->type == ATTACH_LISTEN && c->state == CLIENT_NEW && nfds == 2) {
        client_lends(c, m, fds);
    } else if (m->type == ATTACH_DOWN && (c->state == CLIENT_NEW || c->state == CLIENT_ATTACHED)) {
        client_answer(c, ATTACH_DOWN_OK, 0, -1);
        supervisor_drain(s, s->opt.drain_ms, REASON_DOWN);
    } else if (m->type == ATTACH_HOLD && c->state == CLIENT_ATTACHED && nfds == 2 &&
               hold_page_check(fds[0]) == 0) {
        hold_begin(s, c->id, (uint32_t)c->pid, fds[0], fds[1]);
        fds[0] = fds[1] = -1; /* its own now */
    } else {
        log_warn("client pid %d sent what makes no sense (type %u) and is dropped", (int)c->pid,
                 m->type);
        client_exclude(c);
    }
}

void client_held(struct supervisor *s, uint64_t client, int status) {
    struct sup_client *c = client_find(s, client);
    struct attach_msg m;
    if (!c)
        return;
    attach_msg_init(&m, ATTACH_HELD);
    m.status = status;
    if (attach_send(c->sock.fd, &m, NULL, 0) < 0)
        client_exclude(c); /* it does not read its answers */
}

static void sock_ready(struct io_handler *h, uint32_t events) {
    struct sup_client *c =
        (struct sup_client *)(void *)((char *)h - offsetof(struct sup_client, sock));
    struct attach_msg m;
    int fds[ATTACH_FDS], n;
    if (events & EPOLLOUT && c->state == CLIENT_WELCOMED) {
        client_continue(c);
        return; /* it may be gone; what it said stays readable */
    }
    n = attach_recv(h->fd, &m, fds, ATTACH_FDS, 0);
    if (n == -ETIMEDOUT || n == -EAGAIN)
        return;
    if (n < 0) {
        /* Its process may run a program that has closed it. */
        if ((c->state == CLIENT_DOOR || c->state == CLIENT_TASK) && c->life.fd >= 0)
            sock_close(c);
        else if (n == -ECONNRESET)
            client_drop(c);
        else
            client_exclude(c);
        return;
    }
    if (c->state != CLIENT_BANNED)
        client_said(c, &m, fds, n);
    for (int i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void life_ready(struct io_handler *h, uint32_t events) {
    client_drop((struct sup_client *)(void *)((char *)h - offsetof(struct sup_client, life)));
}

/* --- coming --- */
static int life_open(int fd, pid_t pid) {
    int pidfd = -1;
    socklen_t len = sizeof pidfd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0)
        return pidfd; /* 6.5: no race with a reused pid */
    return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

static void client_accept(struct supervisor *s, int fd) {
    pid_t pid = 0;
    if (attach_peer_check(fd, &pid) < 0) {
        if (note_stranger(s, dd_errmsg()))
            log_warn("%s", dd_errmsg()); /* as often as the record is told: their number is in it */
        close(fd);
        return;
    }
    struct sup_client *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return;
    }
    c->s = s;
    c->pid = pid;
    c->lease_fd = c->bell_fd = -1;
    c->sock = (struct io_handler){.fd = fd, .ready = sock_ready};
    c->life = (struct io_handler){.fd = life_open(fd, pid), .ready = life_ready};
    c->timer.fire = client_late;
    c->next = s->clients;
    s->clients = c;
    client_hurry(c);
    int e = io_add(s->epoll_fd, &c->sock, EPOLLIN);
    if (e == 0 && c->life.fd >= 0)
        e = io_add(s->epoll_fd, &c->life, EPOLLIN);
    if (e < 0)
        client_drop(c);
}

void clients_accept(struct supervisor *s, int listening) {
    for (int i = 0; i < 64; i++) {
        int fd = conn_take(listening);
        if (fd < 0)
            return;
        client_accept(s, fd);
    }
}

static void attach_ready(struct io_handler *h, uint32_t events) {
    clients_accept((struct supervisor *)(void *)((char *)h - offsetof(struct supervisor, attach)),
                   h->fd);
}

int clients_listen(struct supervisor *s) {
    s->attach = (struct io_handler){.fd = attach_listen(s->opt.name), .ready = attach_ready};
    if (s->attach.fd == -EADDRINUSE) {
        int fd = attach_connect(s->opt.name, 0);
        if (fd == DDICT_ECRED)
            return fd; /* it has said whose it is */
        if (fd >= 0)
            close(fd);
        return dd_error(-EADDRINUSE, "a dictionary %s is on node %s already", s->opt.name, s->node);
    }
    if (s->attach.fd < 0)
        return s->attach.fd;
    return io_add(s->epoll_fd, &s->attach, EPOLLIN);
}

static struct sup_client *client_parked(struct supervisor *s) {
    struct sup_client *c = s->clients;
    while (c && c->state != CLIENT_PARKED)
        c = c->next;
    return c;
}

void clients_serve_parked(struct supervisor *s) {
    for (struct sup_client *c; s->stage == STAGE_READY && (c = client_parked(s));)
        client_welcome(c);
}

void clients_refuse_new(struct supervisor *s) {
    for (struct sup_client *c; (c = client_parked(s)) || (c = client_asking(s, NULL));)
        client_refuse(c, s->lost ? DDICT_ELOST : DDICT_EGONE,
                      s->lost ? s->text : "the dictionary is ending");
}

unsigned clients_leases(struct supervisor *s, const struct lease_chunk ***maps) {
    unsigned n = 0;
    *maps = calloc(s->attached + 1, sizeof **maps); /* one more: who saves */
    for (struct sup_client *c = s->clients; *maps && c && n < s->attached + 1; c = c->next) {
        if (c->lease_fd < 0)
            continue;
        void *map = mmap(NULL, LEASE_FILE_SIZE, PROT_READ, MAP_SHARED, c->lease_fd, 0);
        if (map != MAP_FAILED)
            (*maps)[n++] = map;
    }
    return n;
}

void clients_end(struct supervisor *s) {
    while (s->clients)
        client_drop(s->clients);
    if (s->attach.fd >= 0)
        close(s->attach.fd);
    s->attach.fd = -1;
}
