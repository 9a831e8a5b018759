/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holds.c - leases that outlive a fork: a page that a client filled before it forked, kept by all managers until the other end of its pipe, which
 * the child holds, is closed: by the child when it has let go of the last view, by its exec, or by its death.
 */
#include <base/log.h>
#include <manager/supervisor.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct sup_hold {
    struct supervisor *s;
    struct sup_hold *next;
    uint64_t id, client;
    struct io_handler pipe;
    int page_fd, status;
    unsigned waits;
};

static void hold_drop(struct sup_hold *h) {
    struct supervisor *s = h->s;
    struct sup_msg m = {.type = SUP_HOLD_DEL, .id = h->id};
    struct sup_hold **at = &s->holds;
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    if (h->waits > 0)
        client_held(s, h->client, DDICT_EPROTO); /* the pipe ended before the page was known */
    shards_send(s, &m);
    io_remove(s->epoll_fd, &h->pipe);
    close(h->pipe.fd);
    close(h->page_fd);
    free(h);
}

static void pipe_ready(struct io_handler *io, uint32_t events) {
    hold_drop((struct sup_hold *)(void *)((char *)io - offsetof(struct sup_hold, pipe)));
}

void hold_begin(struct supervisor *s, uint64_t client, uint32_t pid, int page_fd, int pipe_fd) {
    struct sup_hold *h = calloc(1, sizeof *h);
    int e = -ENOMEM;
    if (h) {
        h->pipe = (struct io_handler){.fd = pipe_fd, .ready = pipe_ready};
        e = io_add(s->epoll_fd, &h->pipe, 0); /* hang-up and error come without being asked for */
    }
    if (e < 0) {
        free(h);
        close(page_fd);
        close(pipe_fd);
        client_held(s, client, e);
        return;
    }
    h->s = s;
    h->id = ++s->next_id;
    h->client = client;
    h->page_fd = page_fd;
    h->waits = s->shards_n;
    h->next = s->holds;
    s->holds = h;
    struct sup_msg m = {.type = SUP_HOLD_ADD, .id = h->id, .pid = pid};
    for (unsigned i = 0; i < s->shards_n; i++)
        shard_send(&s->shards[i], &m, &page_fd, 1);
}

void hold_added(struct supervisor *s, const struct sup_msg *m) {
    struct sup_hold *h = s->holds;
    while (h && h->id != m->id)
        h = h->next;
    if (!h)
        return;
    if (m->status < 0 && h->status == 0)
        h->status = m->status;
    if (--h->waits > 0)
        return;
    client_held(s, h->client, h->status);
    if (h->status < 0)
        hold_drop(h);
}

void holds_end(struct supervisor *s) {
    while (s->holds)
        hold_drop(s->holds);
}
