/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clients.c - the clients of this node: who there is, what they send, and their end; the states of
 * one are in clients.h. All managers drop what a client had when it is gone.
 */
#include "clients.h"

#include "clients_inside.h"
#include "control.h"
#include "fork_leases.h"
#include "life_events.h"
#include "managers.h"
#include "places.h"
#include "rendezvous.h"
#include "save_passes.h"
#include "socket_files.h"
#include "supervisor.h"
#include "tasks.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static const char *const state_names[] = {[CLIENT_NEW] = "NEW",
                                          [CLIENT_PARKED] = "PARKED",
                                          [CLIENT_RENDEZVOUS] = "RENDEZVOUS",
                                          [CLIENT_SOCKET_FILE] = "SOCKET_FILE",
                                          [CLIENT_WATCHING] = "WATCHING",
                                          [CLIENT_TASK] = "TASK",
                                          [CLIENT_ADDING] = "ADDING",
                                          [CLIENT_WELCOMED] = "WELCOMED",
                                          [CLIENT_ATTACHED] = "ATTACHED",
                                          [CLIENT_BANNED] = "BANNED"};
void client_state_set(struct sup_client *c, enum client_state next) {
    log_debug("client pid %d: %s -> %s", (int)c->pid, state_names[c->state], state_names[next]);
    c->state = next;
}

static void client_socket_close(struct sup_client *c) {
    if (c->sock.fd < 0)
        return;
    io_remove(c->s->epoll_fd, &c->sock);
    close(c->sock.fd);
    c->sock.fd = -1;
}

void client_drop(struct sup_client *c) {
    struct supervisor *s = c->s;
    struct sup_client **at = &s->clients;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    timer_clear(&s->timers, &c->timer);
    client_socket_close(c);
    if (c->life.fd >= 0) {
        io_remove(s->epoll_fd, &c->life);
        close(c->life.fd);
    }
    bool counted = c->state >= CLIENT_ADDING, task = c->state == CLIENT_TASK;
    if (counted) {
        struct sup_msg m = {.type = SUP_CLIENT_DEL, .id = c->id};
        managers_send(s, &m);
        if (!c->helper && c->state != CLIENT_BANNED)
            s->attached--;
        log_debug("client %llu (pid %d) is gone", (unsigned long long)c->id, (int)c->pid);
    }
    if (c->lease_fd >= 0)
        close(c->lease_fd);
    if (c->client_eventfd >= 0)
        close(c->client_eventfd);
    for (unsigned i = 0; c->lane_fd && i < 2 * s->local_n; i++)
        if (c->lane_fd[i] >= 0)
            close(c->lane_fd[i]);
    free(c->lane_fd);
    socket_file_close(c->socket_file);
    free(c);
    if (counted)
        lifecycle_check(s);
    if (task)
        tasks_left(s);
}

/* The client broke a rule. It reads until its socket or its process ends. */
static void client_exclude(struct sup_client *c) {
    struct supervisor *s = c->s;
    if (c->state == CLIENT_BANNED)
        return;
    if (c->state != CLIENT_ATTACHED) {
        client_drop(c);
        return;
    }
    struct sup_msg m = {.type = SUP_CLIENT_BAN, .id = c->id};
    managers_send(s, &m);
    shutdown(c->sock.fd, SHUT_WR); /* its calls end */
    client_state_set(c, CLIENT_BANNED);
    if (!c->helper)
        s->attached--;
    lifecycle_check(s);
}

void client_refuse(struct sup_client *c, int status, const char *text) {
    struct attach_msg m;
    attach_msg_init(&m, c->wants_rendezvous ? ATTACH_MEET
                        : c->joins          ? ATTACH_TASK
                        : c->watches        ? ATTACH_WATCH
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
    if (c->state == CLIENT_RENDEZVOUS) {
        char text[160];
        snprintf(text, sizeof text,
                 "rank 0 of step %s was not started on any node of the dictionary within %d s",
                 c->step, DD_RENDEZVOUS_MS / 1000);
        client_refuse(c, -ETIMEDOUT, text);
        return;
    }
    log_debug("a client took too long to attach");
    client_drop(c);
}

void client_timer_start(struct sup_client *c) {
    timer_after(&c->s->timers, &c->timer, DD_HANDSHAKE_MS * 1000000ull);
}

struct sup_client *client_find(struct supervisor *s, uint64_t id) {
    struct sup_client *c = s->clients;
    while (c && (c->id != id || c->state < CLIENT_ADDING))
        c = c->next;
    return c;
}

void clients_end_tell(struct supervisor *s, const char *text) {
    struct attach_msg m;
    attach_msg_init(&m, ATTACH_WATCH);
    m.status = s->lost ? DDICT_ELOST : 0;
    if (s->lost)
        text = s->text;
    for (size_t at = 0, len = strlen(text), n; at < len;
         at += n) { /* in as many messages as it takes */
        n = len - at < sizeof m.text - 1 ? len - at : sizeof m.text - 1;
        memcpy(m.text, text + at, n);
        m.text[n] = 0;
        for (struct sup_client *c = s->clients; c; c = c->next)
            if (c->state == CLIENT_WATCHING && c->watches)
                attach_send(c->sock.fd, &m, NULL, 0);
    }
}

void client_bad(struct supervisor *s, uint64_t id) {
    struct sup_client *c = client_find(s, id);
    if (!c)
        return;
    log_warn("client %llu (pid %d) broke the rules of its lane and is dropped",
             (unsigned long long)id, (int)c->pid);
    client_exclude(c);
}

/* --- messages of clients --- */
static void client_hello(struct sup_client *c, const struct attach_msg *m) {
    struct supervisor *s = c->s;
    if (attach_version_check(m) < 0) {
        client_refuse(c, DDICT_EVERSION, dd_strerror(DDICT_EVERSION));
        return;
    }
    if (s->lost)
        client_refuse(c, DDICT_ELOST, s->text);
    else if (s->stage > STAGE_READY && !(s->stage < STAGE_ENDING && save_child_is(c->pid)))
        client_refuse(c, DDICT_EGONE, "the dictionary is ending");
    else {
        timer_clear(&s->timers, &c->timer);
        client_state_set(c, CLIENT_PARKED);
        if (s->stage >= STAGE_READY)
            client_welcome(c);
    }
}

static void client_rendezvous(struct sup_client *c, const struct attach_msg *m) {
    struct supervisor *s = c->s;
    char text[128];
    c->wants_rendezvous = true;
    if (attach_version_check(m) < 0)
        client_refuse(c, DDICT_EVERSION, dd_strerror(DDICT_EVERSION));
    else if (s->lost)
        client_refuse(c, DDICT_ELOST, s->text);
    else if (s->stage > STAGE_READY)
        client_refuse(c, DDICT_EGONE, "the dictionary is ending");
    else {
        int e = rendezvous_ask(s, m->step, m->manager, c->life.fd, text, sizeof text);
        if (e != 0)
            client_refuse(c, e < 0 ? e : 0, e < 0 ? dd_errmsg() : text);
        else {
            client_state_set(c, CLIENT_RENDEZVOUS);
            timer_after(&s->timers, &c->timer, DD_RENDEZVOUS_MS * 1000000ull);
        }
    }
}

static struct sup_client *client_at_rendezvous(struct supervisor *s, const char *step) {
    struct sup_client *c = s->clients;
    while (c && (c->state != CLIENT_RENDEZVOUS || (step && strcmp(c->step, step) != 0)))
        c = c->next;
    return c;
}

void clients_rendezvous_tell(struct supervisor *s, const char *step, const char *text) {
    for (struct sup_client *c; (c = client_at_rendezvous(s, step));)
        client_refuse(c, 0, text);
}

/* A client made this page: a manager must never take a fault on it, so it must not shrink. */
static int fork_lease_page_check(int fd) {
    off_t size = lseek(fd, 0, SEEK_END);
    int seals = fcntl(fd, F_GET_SEALS);
    return size >= (off_t)LEASE_FILE_SIZE && seals >= 0 && seals & F_SEAL_SHRINK ? 0 : DDICT_EPROTO;
}

/* Answers with rc and, where it is negative, the sentence of dd_errmsg(). */
static int client_answer(struct sup_client *c, enum attach_type type, int rc, int fd) {
    struct attach_msg r;
    attach_msg_init(&r, type);
    r.status = rc < 0 ? rc : 0;
    if (rc < 0)
        snprintf(r.text, sizeof r.text, "%s", dd_errmsg());
    return attach_send(c->sock.fd, &r, &fd, fd >= 0);
}

static void clients_accept(struct supervisor *s, int listening);

static void client_socket_file(struct sup_client *c, const struct attach_msg *m, int *fds) {
    int rc = c->s->stage > STAGE_READY
                 ? dd_error(DDICT_EGONE, "the dictionary is ending")
                 : socket_file_open(&c->socket_file, c->s, fds[0], fds[1], m->text, clients_accept);
    if (rc == 0) {
        fds[0] = fds[1] = -1; /* the socket file owns them now */
        client_state_set(c, CLIENT_SOCKET_FILE);
        timer_clear(&c->s->timers, &c->timer);
    }
    if (client_answer(c, ATTACH_LISTEN, rc, -1) < 0 || rc < 0)
        client_drop(c);
}

/* Through a socket file a client may reach another dictionary than it meant. */
static bool client_means_us(const struct supervisor *s, const struct attach_msg *m) {
    if ((m->type != ATTACH_HELLO && m->type != ATTACH_LOOK && m->type != ATTACH_MEET &&
         m->type != ATTACH_DOWN) ||
        m->text[0] == 0 || strcmp(m->text, s->opt.name) == 0)
        return true;
    dd_error(DDICT_ENODICT, "this socket is of the dictionary %s, not of %s", s->opt.name, m->text);
    return false;
}

/* --- messages of clients: the table --- */
static void hello_handle(struct sup_client *c, const struct attach_msg *m, int *fds) {
    c->looks = m->type == ATTACH_LOOK;
    c->joins = m->type == ATTACH_TASK;
    c->watches = m->type == ATTACH_WATCH;
    c->task = m->manager;
    snprintf(c->step, sizeof c->step, "%s", m->step);
    client_hello(c, m);
}

static void meet_handle(struct sup_client *c, const struct attach_msg *m, int *fds) {
    snprintf(c->step, sizeof c->step, "%s", m->step);
    client_rendezvous(c, m);
}

static void gpus_handle(struct sup_client *c, const struct attach_msg *m, int *fds) {
    int fd = gpus_fd(c->s);
    client_answer(c, ATTACH_GPUS, fd, fd);
    client_drop(c);
}

static void down_handle(struct sup_client *c, const struct attach_msg *m, int *fds) {
    client_answer(c, ATTACH_DOWN_OK, 0, -1);
    supervisor_drain(c->s, c->s->opt.drain_ms, REASON_DOWN);
}

static void message_refuse(struct sup_client *c, const struct attach_msg *m) {
    log_warn("client pid %d sent what makes no sense (type %u) and is dropped", (int)c->pid,
             m->type);
    client_exclude(c);
}

static void hold_handle(struct sup_client *c, const struct attach_msg *m, int *fds) {
    if (fork_lease_page_check(fds[0]) < 0) {
        message_refuse(c, m);
        return;
    }
    fork_lease_begin(c->s, c->id, (uint32_t)c->pid, fds[0], fds[1]);
    fds[0] = fds[1] = -1; /* the fork lease owns them now */
}

#define NEW      (1u << CLIENT_NEW)
#define ATTACHED (1u << CLIENT_ATTACHED)
static const struct client_rule {
    enum attach_type type;
    unsigned states; /* in which it may come: bits of enum client_state */
    int nfds;        /* so many descriptors must come with it; 0: what comes is closed */
    void (*handle)(struct sup_client *c, const struct attach_msg *m, int *fds);
} rules[] = {
    {.type = ATTACH_HELLO, .states = NEW, .handle = hello_handle},
    {.type = ATTACH_LOOK, .states = NEW, .handle = hello_handle},
    {.type = ATTACH_TASK, .states = NEW, .handle = hello_handle},
    {.type = ATTACH_WATCH, .states = NEW, .handle = hello_handle},
    {.type = ATTACH_MEET, .states = NEW, .handle = meet_handle},
    {.type = ATTACH_GPUS, .states = NEW, .handle = gpus_handle},
    {.type = ATTACH_LISTEN, .states = NEW, .nfds = 2, .handle = client_socket_file},
    {.type = ATTACH_DOWN, .states = NEW | ATTACHED, .handle = down_handle},
    {.type = ATTACH_HOLD, .states = ATTACHED, .nfds = 2, .handle = hold_handle},
};

static void client_message(struct sup_client *c, const struct attach_msg *m, int *fds, int nfds) {
    if (c->state == CLIENT_NEW && attach_version_check(m) == 0 && !client_means_us(c->s, m)) {
        client_answer(c, m->type == ATTACH_DOWN ? ATTACH_DOWN_OK : ATTACH_WELCOME, DDICT_ENODICT,
                      -1);
        client_drop(c);
        return;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct client_rule *rule = &rules[i];
        if (rule->type != m->type || !(rule->states & 1u << c->state) ||
            (rule->nfds != 0 && rule->nfds != nfds))
            continue;
        rule->handle(c, m, fds);
        return;
    }
    message_refuse(c, m);
}

void client_fork_lease_answer(struct supervisor *s, uint64_t client, int status) {
    struct sup_client *c = client_find(s, client);
    struct attach_msg m;
    if (!c)
        return;
    attach_msg_init(&m, ATTACH_HELD);
    m.status = status;
    /* an error: the client does not read its answers */
    if (attach_send(c->sock.fd, &m, NULL, 0) < 0)
        client_exclude(c);
}

static void client_socket_ready(struct io_handler *h, uint32_t events) {
    struct sup_client *c =
        (struct sup_client *)(void *)((char *)h - offsetof(struct sup_client, sock));
    struct attach_msg m;
    int fds[ATTACH_FDS], n;
    if (events & EPOLLOUT && c->state == CLIENT_WELCOMED) {
        client_continue(c);
        return; /* c may be freed; its message stays readable in the socket */
    }
    n = attach_recv(h->fd, &m, fds, ATTACH_FDS, 0);
    if (n == -ETIMEDOUT || n == -EAGAIN)
        return;
    if (n < 0) {
        /* Its process may have executed a program that closed the socket. */
        if ((c->state == CLIENT_SOCKET_FILE || c->state == CLIENT_TASK) && c->life.fd >= 0)
            client_socket_close(c);
        else if (n == -ECONNRESET)
            client_drop(c);
        else
            client_exclude(c);
        return;
    }
    if (c->state != CLIENT_BANNED)
        client_message(c, &m, fds, n);
    for (int i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void client_process_ended(struct io_handler *h, uint32_t events) {
    client_drop((struct sup_client *)(void *)((char *)h - offsetof(struct sup_client, life)));
}

/* --- new connections --- */
static int client_pidfd_open(int fd, pid_t pid) {
    int pidfd = -1;
    socklen_t len = sizeof pidfd;
    /* since Linux 6.5: no race with a reused pid */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0)
        return pidfd;
    return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

static void client_accept(struct supervisor *s, int fd) {
    pid_t pid = 0;
    if (attach_peer_check(fd, &pid) < 0) {
        /* logged as often as recorded; the record has their number */
        if (control_note_stranger(s, dd_errmsg()))
            log_warn("%s", dd_errmsg());
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
    c->lease_fd = c->client_eventfd = -1;
    c->sock = (struct io_handler){.fd = fd, .ready = client_socket_ready};
    c->life = (struct io_handler){.fd = client_pidfd_open(fd, pid), .ready = client_process_ended};
    c->timer.fire = client_late;
    c->next = s->clients;
    s->clients = c;
    client_timer_start(c);
    int e = io_add(s->epoll_fd, &c->sock, EPOLLIN);
    if (e == 0 && c->life.fd >= 0)
        e = io_add(s->epoll_fd, &c->life, EPOLLIN);
    if (e < 0)
        client_drop(c);
}

static void clients_accept(struct supervisor *s, int listening) {
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
            return fd; /* dd_errmsg() says whose it is */
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
    for (struct sup_client *c; (c = client_parked(s)) || (c = client_at_rendezvous(s, NULL));)
        client_refuse(c, s->lost ? DDICT_ELOST : DDICT_EGONE,
                      s->lost ? s->text : "the dictionary is ending");
}

unsigned clients_leases(struct supervisor *s, const struct lease_chunk ***maps) {
    unsigned n = 0;
    *maps = calloc(s->attached + 1, sizeof **maps); /* one more: the save child */
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
