/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork_leases.c - leases that a child inherits over a fork. The client fills a page with them
 * before it forks; all managers respect the page until the child closes its end of a pipe: when it
 * releases its last view, by its exec, or by its death.
 */
#include "fork_leases.h"

#include "managers.h"
#include "supervisor.h"
#include <base/log.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct fork_lease {
    struct supervisor *s;
    struct fork_lease *next;
    uint64_t id, client;
    uint32_t pid;
    struct io_handler pipe;
    int page_fd, status;
    unsigned waits;
    bool added[]; /* [local_n]: this manager has answered */
};

static void fork_lease_drop(struct fork_lease *h) {
    struct supervisor *s = h->s;
    struct sup_msg m = {.type = SUP_HOLD_DEL, .id = h->id};
    struct fork_lease **at = &s->fork_leases;
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    /* the pipe ended before all managers knew the page */
    if (h->waits > 0)
        client_fork_lease_answer(s, h->client, DDICT_EPROTO);
    managers_send(s, &m);
    io_remove(s->epoll_fd, &h->pipe);
    close(h->pipe.fd);
    close(h->page_fd);
    free(h);
}

static void fork_lease_pipe_ready(struct io_handler *io, uint32_t events) {
    fork_lease_drop((struct fork_lease *)(void *)((char *)io - offsetof(struct fork_lease, pipe)));
}

static void fork_lease_tell(struct fork_lease *h, struct local_manager *mgr) {
    struct sup_msg m = {
        .type = SUP_HOLD_ADD, .id = h->id, .pid = h->pid, .count = h->added[mgr - h->s->local]};
    manager_send(mgr, &m, &h->page_fd, 1);
}

void fork_lease_begin(struct supervisor *s, uint64_t client, uint32_t pid, int page_fd,
                      int pipe_fd) {
    struct fork_lease *h = calloc(1, sizeof *h + s->local_n * sizeof *h->added);
    int e = -ENOMEM;
    if (h) {
        h->pipe = (struct io_handler){.fd = pipe_fd, .ready = fork_lease_pipe_ready};
        /* epoll reports hang-up and error without being asked for */
        e = io_add(s->epoll_fd, &h->pipe, 0);
    }
    if (e < 0) {
        free(h);
        close(page_fd);
        close(pipe_fd);
        client_fork_lease_answer(s, client, e);
        return;
    }
    h->s = s;
    h->id = ++s->next_id;
    h->client = client;
    h->page_fd = page_fd;
    h->waits = s->local_n;
    h->next = s->fork_leases;
    s->fork_leases = h;
    h->pid = pid;
    for (unsigned i = 0; i < s->local_n; i++)
        fork_lease_tell(h, &s->local[i]);
}

/* In the order in which they were made (LAYOUT I23); the list has the last one first. */
void fork_leases_tell(struct local_manager *mgr) {
    for (uint64_t told = 0, next; told != UINT64_MAX; told = next) {
        next = UINT64_MAX;
        for (struct fork_lease *h = mgr->s->fork_leases; h; h = h->next) {
            if (h->id == told)
                fork_lease_tell(h, mgr);
            if (h->id > told && h->id < next)
                next = h->id;
        }
    }
}

void fork_lease_added(struct local_manager *mgr, const struct sup_msg *m) {
    struct supervisor *s = mgr->s;
    struct fork_lease *h = s->fork_leases;
    while (h && h->id != m->id)
        h = h->next;
    if (!h)
        return;
    h->added[mgr - s->local] = true;
    if (m->status < 0 && h->status == 0)
        h->status = m->status;
    if (--h->waits > 0)
        return;
    client_fork_lease_answer(s, h->client, h->status);
    if (h->status < 0)
        fork_lease_drop(h);
}

void fork_leases_end(struct supervisor *s) {
    while (s->fork_leases)
        fork_lease_drop(s->fork_leases);
}
