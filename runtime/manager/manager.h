/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager.h - inside one manager process: one thread, one arena, one loop. What all its modules
 * know; each includes those below it, and what it needs of those above it is in struct upcalls.
 *
 *     main_loop      the turns: lanes, sockets, timers, what was put off; messages of ddictd
 *        |
 *     carriers       lanes        clients of this node       (struct carrier_ops)
 *        |           peer_server  managers of other nodes
 *        |
 *     requests       whose it is, what is asked; requester_end: nothing of it is left
 *        |
 *        +-- queues, waiters, subscriptions, freeze, prefetch, probe, stats
 *        |
 *        +-- forwards     parked, forward, stream_in: to another manager, by peer_client, rma_read
 *        |                cache, transit: where values of other nodes stay
 *        |
 *     answers        what a request gets; room for a value: rooms; pending: what has none yet
 *        |
 *        +-- streams      stream_out, rma_export
 *        |
 *     requester      who asks, and its carrier: struct requester
 *        |
 *     manager        this file; supmsg, record_rate, faults, numa_bind, aside
 *        |
 *     store, wire
 *
 * A request ends in one of these ways, and requester_end() undoes what is left of each when the
 * requester ends:
 *     answered at once                answers.c, requests.c
 *     a value comes in pieces         stream_in.c      struct put_in, until the last piece, ABORT
 *                                                      or its deadline
 *     a value goes out in pieces      stream_out.c     struct stream_out, pins its item until the
 *                                                      last piece is taken
 *     ... or its requester reads it   rma_export.c     struct rma_export, likewise
 *     waits for its key               waiters.c        struct waiter    (each with a struct
 *     waits for room in a queue       queues.c         struct entry      pending: its deadline,
 *     waits for events                subscriptions.c  struct listener   CANCEL; pending.c)
 *     belongs to another manager      forward.c        struct forward, until the owner's answer is
 *                                                      passed on
 *     ... that does not move          parked.c         struct parked, until it does
 */
#ifndef DDICT_MANAGER_MANAGER_H
#define DDICT_MANAGER_MANAGER_H

#include "faults.h"
#include <base/clock.h>
#include <base/stats.h>
#include <base/timers.h>
#include <ddict_types.h>
#include <place/numa.h>
#include <store/store.h>
#include <wire/attach.h>
#include <wire/lane.h>
#include <wire/link.h>
#include <wire/loop.h>
#include <wire/msg.h>

#include <stdbool.h>
#include <stdint.h>

#define ADDRS_MAX 8 /* addresses of a node that a peer tries */

struct peer_address { /* of one manager of the dictionary; written by the wire-up */
    char node[NODE_NAME_MAX];
    struct sockaddr_storage addr[ADDRS_MAX];
    int naddr;
};

struct counters {
    uint64_t puts, gets_local, gets_remote, misses, deletes, bytes_in, bytes_out, full_errors,
        cache_hits, evictions, rma_bytes, rma_refused;
    uint64_t clients_peak;
    struct histogram latency[DDICT_LATENCY_N];
    uint64_t turns[DDICT_TURNS_N], turn_max_ns;
};
/*
 * What outlives a manager: shared memory made by ddictd before the fork. The manager is its only
 * writer, with plain stores; ddictd reads it when the manager has died or does not answer (figures
 * that are a moment old do no harm).
 */
struct manager_page {
    struct counters count;
    struct lease_counters departed; /* reads of clients that have gone */
    uint64_t started;
    uint64_t turns; /* of its loop: ddictd sees that it goes on (watch.c) */
};

/* filled by ddictd before the fork; the descriptors are the manager's then */
struct manager_setup {
    uint32_t id, managers, node_id, nodes;
    unsigned local_index;
    char node[NODE_NAME_MAX];
    int arena_fd, spill_fd /* -1: none */, listen_fd /* -1: one node */, sup_fd;
    struct conn_identity identity;
    const struct peer_address *peers; /* [managers]; NULL on one node */
    uint16_t port_low, port_high;     /* 0: any */
    /* to a peer, at most; the first alone for what is small */
    unsigned connections;
    /* of libfabric, which carries messages between managers; "": TCP */
    const char *provider;
    bool rma;                       /* and large values are read by it */
    const struct numa_place *place; /* NULL: nothing to bind */
    uint64_t place_need;            /* bytes of all arenas there */
    struct manager_page *page;
    /* most bytes of the arena for values of other nodes while frozen */
    uint64_t cache;
};
struct note_pace {
    uint64_t said, count;
}; /* when ddictd was told last; how many since */

struct manager;
struct msg;
struct requester;
/* What modules call of those above them; main_loop.c knows both ends. */
struct upcalls {
    /* --- lanes.c, peer_server.c --- */
    void (*unstall)(struct manager *m); /* a connection has room again */
    void (*settle)(struct manager *m);  /* give up the pins of completions that were consumed */
    void (*look)(struct manager *m);    /* the spill made progress: who waited for it goes on */
    void (*lane_figures)(struct manager *m, struct lease_counters *reads, uint64_t *bytes);
    uint64_t (*links)(const struct manager *m); /* connections that were accepted */
    /* --- requests.c, as there --- */
    int (*take)(struct requester *a, const struct msg *m, const uint8_t *payload);
    int (*again)(struct requester *a, const struct msg *req, const void *key);
    void (*commit)(struct requester *a, const struct msg *req, struct store_ref *ref,
                   uint64_t began);
};

struct manager {
    const struct manager_setup *setup;
    const struct upcalls *up;
    struct store *store;
    struct arena_header *header;
    int numa_node;       /* bound to it; -1: not */
    bool bound_strictly; /* the arena's memory, too; the populating thread's once that runs */
    int epoll_fd;
    uint32_t spun; /* idle turns */
    bool stopping; /* set atomically: the thread that populates looks at it */
    /* ddictd asked for the last figures: other managers may end before us */
    bool ending;
    bool reap;    /* somebody is gone: free him at the end of the turn */
    uint64_t now; /* of this turn of the loop */
    /* who asks after that waits for the next turn: set anew for lanes and for connections */
    uint64_t share_end;
    /* when this turn began; our CPU time at some moment before, and that moment */
    uint64_t turn, turn_cpu, turn_cpu_at;
    struct timers timers;
    struct counters *count; /* in setup->page */
    struct note_pace full, refused;
    uint64_t refused_all; /* conn_refused() when it was looked at last */
    struct lane_client *clients;
    /* those that turns look at; the last one got so far; NULL: round all */
    struct lane_client *watched, *lanes_at;
    struct lane_client *unsettled; /* those with completions that were not consumed */
    /* those that were used since their memory was given back; the next of them that is looked at;
     * NULL: from the start */
    struct lane_client *grown, *shrink_at;
    struct timer shrink;
    uint64_t lane_returned; /* bytes given back so */
    unsigned watched_n;
    /* whose memory and counters are looked up next; NULL: of the first */
    struct lane_client *figures_at;
    uint64_t lane_bytes;
    struct lease_counters lane_reads;
    unsigned clients_now;
    struct hold *holds;
    struct fabric *fabric; /* NULL: TCP */
    struct link_setup links;
    struct peer_server *peer_servers;
    struct peer_server *later_at; /* the next of them that is looked at for that; NULL: the first */
    unsigned laters;              /* of them, that have a request that said TAKE_LATER */
    struct peer **peers;          /* [managers], made at the first need */
    unsigned peers_busy;          /* forwards under way: spin a little for them */
    struct waiters *waiters;
    struct queues *queues;
    struct subscriptions *subscriptions;
    struct forwards *forward_table;
    struct transit *transit;
    struct parking *parkings; /* of all lanes */
    bool unparks;             /* there may be room for what is parked */
    struct timer unstall;     /* lanes that stall, and what is parked, are looked at again */
    struct timer late;        /* forwards whose requesters' time is over */
    struct freeze *freeze;
    bool shut;               /* writes are refused: not OPEN */
    uint64_t frozen;         /* the epoch while FROZEN, else 0 */
    unsigned puts_open;      /* values that are being streamed in */
    struct rma_export *lent; /* values that others are reading */
    struct cache_room *cache;
    struct prefetch *prefetch;
    struct io_handler sup, listener;
    struct timer tick;       /* handshakes of connections */
    struct io_handler spill; /* its threads wake us */
    struct timer room;       /* somebody waits for room in memory, which the spill makes */
    uint64_t progress;       /* of the store's spill, when it was looked at last */
    bool room_waits;
    struct aside *aside; /* NULL: nobody has gone yet */
    struct timer settle; /* completions that were not consumed when we went to sleep */
    char *hostname;
    /* the key of the request at hand, copied from where it may change */
    uint8_t key[MSG_KEY_MAX];
};

struct sup_msg;
/* To ddictd; waits while its socket is full. Without it the manager stops. */
void manager_tell(struct manager *m, struct sup_msg *s);
/* a connection is in its handshake: tick until none is */
void manager_ticks(struct manager *m);
void manager_stalls(struct manager *m); /* who was told TAKE_STALL is looked at again soon */

static inline void count_latency(struct manager *m, int op, uint64_t began, uint64_t now) {
    histogram_add(&m->count->latency[op], now > began ? now - began : 0);
}

/* --- a turn's work --- What is asked is bounded by itself, but thousands may ask at once: when a
 * share of the turn is over the others have to wait, each carrier's work has its own. The time is
 * that of `now`, which who has done something dear reads anew. */
static inline void share_begin(struct manager *m) {
    m->share_end = m->now + DD_TURN_NS;
}
/* it begins when somebody asks */
static inline void share_later(struct manager *m) {
    m->share_end = 0;
}
static inline bool share_over(struct manager *m) {
    if (m->share_end)
        return m->now > m->share_end;
    m->share_end = clock_ns() + DD_TURN_NS;
    return false;
}
static inline void share_for(struct manager *m, uint64_t ns) {
    m->share_end = clock_ns() + ns;
}
/* the same, for who does something dear between two looks */
static inline bool share_spent(struct manager *m) {
    m->now = clock_ns();
    return share_over(m);
}

#endif
