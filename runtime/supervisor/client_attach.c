/* SPDX-License-Identifier: Apache-2.0 */
/* client_attach.c - how a client attaches, from PARKED to ATTACHED. */
#include "attach_counts.h"
#include "clients.h"
#include "clients_inside.h"
#include "managers.h"
#include "refill_child.h"
#include "save_passes.h"
#include "supervisor.h"
#include "tasks.h"
#include <base/error.h>
#include <base/log.h>
#include <store/spill_file.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

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
    c->client_eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->client_eventfd < 0)
        return -errno;
    c->lane_fd = calloc(s->local_n, 2 * sizeof *c->lane_fd + sizeof *c->added);
    if (!c->lane_fd)
        return -ENOMEM;
    c->lane_eventfd = c->lane_fd + s->local_n;
    c->added = (bool *)(c->lane_eventfd + s->local_n);
    for (unsigned i = 0; i < 2 * s->local_n; i++)
        c->lane_fd[i] = -1;
    for (unsigned i = 0; i < s->local_n; i++) {
        if ((c->lane_fd[i] = lane_create()) < 0)
            return c->lane_fd[i];
        if ((c->lane_eventfd[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
            return -errno;
    }
    return 0;
}

static void client_welcome_fill(const struct sup_client *c, struct attach_msg *m) {
    const struct supervisor *s = c->s;
    attach_msg_init(m, ATTACH_WELCOME);
    m->managers = s->managers;
    m->nodes = s->nodes;
    m->node_id = s->node_id;
    m->local_managers = s->local_n;
    m->client = c->id;
    m->keyed_nodes = s->deal.keyed;
    m->refill = s->opt.refill;
    m->working_set = s->opt.working_set;
    m->working_flags = s->opt.working_flags;
    m->total_bytes = s->total_bytes;
    m->spill_bytes = s->spill_bytes;
    memcpy(m->dict_id, s->identity.dict_id, sizeof m->dict_id);
    snprintf(m->node, sizeof m->node, "%s", s->node);
}

/* A task that came before stays and watches, to see when it can come again. */
static void client_join(struct sup_client *c) {
    struct attach_msg m;
    attach_msg_init(&m, c->joins ? ATTACH_TASK : ATTACH_WATCH);
    m.manager = c->life.fd >= 0;
    m.status = c->joins ? tasks_join(c->s, c->task) : 0;
    client_state_set(c, c->joins && m.status == 0 ? CLIENT_TASK : CLIENT_WATCHING);
    if (m.status < 0)
        snprintf(m.text, sizeof m.text, "%s", dd_errmsg());
    if (attach_send(c->sock.fd, &m, NULL, 0) < 0)
        client_drop(c);
}

static void client_tell(struct sup_client *c, unsigned i);

void client_welcome(struct sup_client *c) {
    struct supervisor *s = c->s;
    if (c->joins || c->watches) {
        client_join(c);
        return;
    }
    if (c->looks) {
        struct attach_msg m;
        client_welcome_fill(c, &m);
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
    client_state_set(c, CLIENT_ADDING);
    c->id = ++s->next_id;
    c->helper = save_child_is(c->pid) || refill_child_is(c->pid);
    if (!c->helper) {
        s->attached++;
        attach_counts_add(s, c->step, c->pid);
    }
    c->waits = s->local_n;
    for (unsigned i = 0; i < s->local_n; i++)
        client_tell(c, i);
}

static void client_tell(struct sup_client *c, unsigned i) {
    struct sup_msg m = {
        .type = SUP_CLIENT_ADD, .id = c->id, .pid = (uint32_t)c->pid, .count = c->added[i]};
    int fds[4] = {c->lease_fd, c->lane_fd[i], c->client_eventfd, c->lane_eventfd[i]};
    manager_send(&c->s->local[i], &m, fds, 4);
}

void clients_tell(struct local_manager *mgr) {
    struct supervisor *s = mgr->s;
    unsigned i = (unsigned)(mgr - s->local);
    for (struct sup_client *c = s->clients; c; c = c->next) {
        if (c->state < CLIENT_ADDING)
            continue;
        struct sup_msg ban = {.type = SUP_CLIENT_BAN, .id = c->id};
        client_tell(c, i);
        if (c->state == CLIENT_BANNED)
            manager_send(mgr, &ban, NULL, 0);
    }
}

static int client_welcome_send(struct sup_client *c) {
    struct supervisor *s = c->s;
    struct attach_msg m;
    client_welcome_fill(c, &m);
    int fds[3] = {s->status_page_ro_fd, c->lease_fd, c->client_eventfd};
    return attach_send(c->sock.fd, &m, fds, 3);
}

static int client_manager_send(struct sup_client *c, unsigned i) {
    struct local_manager *mgr = &c->s->local[i];
    struct attach_msg m;
    attach_msg_init(&m, ATTACH_MANAGER);
    m.manager = mgr->id;
    m.pid = (uint32_t)mgr->pid;
    int fds[4] = {mgr->arena_ro_fd, c->lane_fd[i], c->lane_eventfd[i], mgr->spill_ro_fd};
    int e = attach_send(c->sock.fd, &m, fds, mgr->spill_ro_fd < 0 ? 3 : 4);
    if (e < 0)
        return e;
    if (c->s->opt.restarts > 0)
        return 0; /* the next life of the manager needs it */
    close(c->lane_eventfd[i]);
    c->lane_eventfd[i] = -1;
    return 0;
}

/* Send what the socket takes; the rest when it is writable again. */
void client_continue(struct sup_client *c) {
    struct supervisor *s = c->s;
    while (c->sent <= s->local_n) {
        int e = c->sent == 0 ? client_welcome_send(c) : client_manager_send(c, c->sent - 1);
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
    client_state_set(c, CLIENT_ATTACHED);
    timer_clear(&s->timers, &c->timer);
    io_change(s->epoll_fd, &c->sock, EPOLLIN);
    log_debug("client %llu (pid %d) is attached", (unsigned long long)c->id, (int)c->pid);
}

void client_added(struct local_manager *mgr, const struct sup_msg *m) {
    struct sup_client *c = client_find(mgr->s, m->id);
    if (!c || c->state != CLIENT_ADDING)
        return; /* it went away meanwhile */
    c->added[mgr - mgr->s->local] = true;
    if (m->status < 0 && c->status == 0)
        c->status = m->status;
    if (--c->waits > 0)
        return;
    if (c->status < 0) {
        char text[200];
        snprintf(text, sizeof text, "a manager on %s can not take another client: %s", mgr->s->node,
                 dd_strerror(c->status));
        client_refuse(c, c->status, text);
        return;
    }
    client_state_set(c, CLIENT_WELCOMED);
    client_timer_start(c);
    client_continue(c);
}
