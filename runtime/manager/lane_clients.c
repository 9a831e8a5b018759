/* SPDX-License-Identifier: Apache-2.0 */
/* lane_clients.c - the clients of this node: who comes, who goes, and what they read. */
#include "lane_clients.h"

#include "aside.h"
#include "forward_end.h"
#include "lane_answers.h"
#include "lane_memory.h"
#include "lane_placed.h"
#include "lanes.h"
#include "requester_end.h"
#include "stats.h"
#include "supmsg.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* clients whose memory and counters are looked up for one STATS, in turn: each is a system call,
 * and at first a page fault and a page table; a millisecond or two together */
#define FIGURE_LOOKS 512u

/* the leases of a forked child, see LAYOUT 6 */
struct hold {
    struct hold *next;
    uint64_t id;
    const struct lease_chunk *leases;
};

static void lane_on_eventfd(struct io_handler *h, uint32_t events) {
    lane_client_watch(
        (struct lane_client *)(void *)((char *)h - offsetof(struct lane_client, eventfd)));
}

static const struct lease_chunk *leases_map(int fd) {
    void *map = mmap(NULL, LEASE_FILE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

static void reads_add(struct lease_counters *sum, const struct lease_counters *r) {
    sum->gets += r->gets;
    sum->misses += r->misses;
    sum->bytes += r->bytes;
    sum->cached += r->cached;
}

static void reads_take(struct lease_counters *sum, const struct lease_counters *r) {
    sum->gets -= r->gets;
    sum->misses -= r->misses;
    sum->bytes -= r->bytes;
    sum->cached -= r->cached;
}

static void reads_look(struct manager *m, const struct lease_chunk *leases,
                       struct lease_counters *sum) {
    lease_reads(leases, m->setup->local_index, sum);
}

/* Exact at the end; before, only some clients are looked up at a time. */
void lanes_figures(struct manager *m, struct lease_counters *reads, uint64_t *bytes) {
    struct lane_client *c = m->ending ? m->clients : m->figures_at;
    unsigned most = m->ending ? m->clients_now : FIGURE_LOOKS;
    for (unsigned n = m->clients_now < most ? m->clients_now : most; n > 0; n--, c = c->next) {
        if (!c)
            c = m->clients;
        bytes_look(c);
        reads_take(&m->lane_reads, &c->reads);
        c->reads = (struct lease_counters){0};
        reads_look(m, c->leases, &c->reads);
        reads_add(&m->lane_reads, &c->reads);
    }
    m->figures_at = c;
    *bytes = m->lane_bytes;
    *reads = m->setup->page->departed;
    reads_add(reads, &m->lane_reads);
    for (struct hold *h = m->holds; h; h = h->next)
        reads_look(m, h->leases, reads);
}

struct lane_client *lane_client_find(const struct manager *m, uint64_t id) {
    struct lane_client *c = m->clients;
    while (c && c->id != id)
        c = c->next;
    return c;
}

bool client_is_served(const struct manager *m, uint64_t id) {
    const struct lane_client *c = lane_client_find(m, id);
    return c && !c->a.gone;
}

int client_add(struct manager *m, uint64_t id, uint32_t pid, const int fds[4]) {
    struct lane_client *c = calloc(1, sizeof *c);
    int e = -ENOMEM;
    if (!c)
        return e;
    requester_init(&c->a, m, REQUESTER_LANE, &lane_carrier, id);
    c->part_timer.fire = lane_part_late;
    c->id = id;
    c->pid = pid;
    c->leases = leases_map(fds[0]);
    if (!c->leases)
        goto no_leases;
    e = lane_map(&c->lane, fds[1], false);
    if (e < 0)
        goto no_lane;
    e = store_leases_add(m->store, id, c->leases, pid);
    if (e < 0)
        goto no_store;
    c->eventfd = (struct io_handler){.fd = fds[3], .ready = lane_on_eventfd};
    /* edge-triggered: each write is an event, and nothing has to be read */
    e = io_add(m->epoll_fd, &c->eventfd, EPOLLIN | EPOLLET);
    if (e < 0)
        goto no_eventfd;
    if (!m->knows && (e = placed_find(c)) < 0)
        goto no_placed;
    c->lane.client_eventfd = fds[2];
    c->next = m->clients;
    m->clients = c;
    if (!lane_leave(&c->lane))
        lane_client_watch(c);
    bytes_look(c);
    if (!m->knows) { /* an earlier life has served it */
        lane_resume(&c->lane);
        lane_used(c);
    }
    if (++m->clients_now > m->count->clients_peak)
        m->count->clients_peak = m->clients_now;
    return 0;
no_placed:
    io_remove(m->epoll_fd, &c->eventfd);
    placed_forget(c); /* what was pinned stays: nobody says when it is not read any more */
no_eventfd:
    store_leases_remove(m->store, id);
no_store:
    lane_unmap(&c->lane);
no_lane:
    munmap((void *)(uintptr_t)c->leases, LEASE_FILE_SIZE);
no_leases:
    free(c);
    return e;
}

static void answer_drop(void *client, const struct backlog_answer *r) {
    struct manager *m = ((struct lane_client *)client)->a.m;
    if (r->msg.flags & MSGF_PLACED)
        store_unpin(m->store, r->off);
    if (backlog_ends(r))
        forward_entry_over(m, r->entry);
}

/* Undo all its requests. A client that is banned ends long before it is freed. */
static void client_end(struct lane_client *c) {
    requester_end(&c->a);
    if (c->part_waits)
        lane_parts_go_on(c);
    lane_client_unwatch(c);
    lane_settled(c);
    lane_small(c);
    if (c->eventfd.fd >= 0) {
        io_remove(c->a.m->epoll_fd, &c->eventfd);
        close(c->eventfd.fd);
        c->eventfd.fd = -1;
    }
    backlog_end(&c->backlog, answer_drop, c);
    aside_backlog(c->a.m, &c->backlog);
}

static void client_free(struct lane_client *c) {
    struct manager *m = c->a.m;
    client_end(c);
    placed_end(c);
    reads_take(&m->lane_reads, &c->reads);
    reads_look(m, c->leases, &m->setup->page->departed);
    store_leases_remove(m->store, c->id);
    close(c->lane.client_eventfd);
    aside_free(m, &c->lane, c->leases);
    m->clients_now--;
    m->lane_bytes -= c->bytes;
    if (m->figures_at == c)
        m->figures_at = c->next;
    free(c);
}

void client_del(struct manager *m, uint64_t id) {
    for (struct lane_client **at = &m->clients; *at; at = &(*at)->next) {
        if ((*at)->id != id)
            continue;
        struct lane_client *c = *at;
        *at = c->next;
        client_free(c);
        return;
    }
}

/* The process lives on and reads in place, so its leases and the values placed in its CQ stay. */
void client_ban(struct manager *m, uint64_t id) {
    for (struct lane_client *c = m->clients; c; c = c->next) {
        if (c->id != id)
            continue;
        client_end(c);
        c->told = true;
    }
}

int hold_add(struct manager *m, uint64_t id, uint32_t pid, int fd) {
    struct hold *h = calloc(1, sizeof *h);
    int e = -ENOMEM;
    if (!h)
        return e;
    h->id = id;
    h->leases = leases_map(fd);
    if (h->leases)
        e = store_leases_add(m->store, id, h->leases, pid);
    if (e < 0) {
        if (h->leases)
            munmap((void *)(uintptr_t)h->leases, LEASE_FILE_SIZE);
        free(h);
        return e;
    }
    h->next = m->holds;
    m->holds = h;
    return 0;
}

void hold_del(struct manager *m, uint64_t id) {
    for (struct hold **at = &m->holds; *at; at = &(*at)->next) {
        if ((*at)->id != id)
            continue;
        struct hold *h = *at;
        *at = h->next;
        reads_look(m, h->leases, &m->setup->page->departed);
        store_leases_remove(m->store, id);
        munmap((void *)(uintptr_t)h->leases, LEASE_FILE_SIZE);
        free(h);
        return;
    }
}

void lanes_reap(struct manager *m) {
    for (struct lane_client *c = m->clients; c; c = c->next) {
        if (!c->a.gone || c->told)
            continue;
        struct sup_msg s = {.type = SUP_CLIENT_BAD, .id = c->id, .status = DDICT_EPROTO};
        c->told = sup_send(m->setup->sup_fd, &s, NULL, 0) == 0;
        if (!c->told)
            m->reap = true; /* the socket is full: try again */
    }
}

void lanes_end(struct manager *m) {
    while (m->clients)
        client_del(m, m->clients->id);
    while (m->holds)
        hold_del(m, m->holds->id);
}
