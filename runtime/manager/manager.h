/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager.h - inside one manager process: one thread, one arena, one loop. What all its modules
 * share. Each module includes only modules below it, and calls those above it by struct upcalls.
 *
 *     main_loop      the turns: lanes, sockets, timers, deferred work; messages of ddictd
 *        |
 *     recovery       at the start of a later life: requests that the life before had taken
 *        |
 *     carriers       lanes        clients of this node       (struct carrier_ops)
 *        |           peer_server  managers of other nodes
 *        |           replica_backup  of a shadow: the changes of its primary, and nobody else
 *        |
 *     requests       who owns the key, what is asked; requester_end: undoes all of a requester
 *        |
 *        +-- queues, waiters, subscriptions, freeze, prefetch, probe, stats, alive
 *        |   anew: keys that were lost
 *        |
 *        +-- forwards     parked, forward, stream_in: to another manager, by peer_client, rma_read
 *        |                cache, transit: room for values of other nodes
 *        |
 *     replica_flight changes that the backup has not yet; replica_primary: the connection to it
 *        |
 *     answers        values and errors; rooms: waits for the spill; pending: no answer yet
 *        |
 *        +-- streams      stream_out, rma_export
 *        |
 *     requester      who sends requests, and its carrier
 *        |
 *     manager        this file; supmsg, record_rate, faults, numa_bind, aside
 *        |
 *     store, wire
 *
 * A request goes one of these ways. requester_end() ends it in each of them:
 *     answered at once                answers.c, requests.c
 *     a value comes in pieces         stream_in.c      struct put_in, until the last piece, ABORT
 *                                                      or its deadline
 *     a value goes out in pieces      stream_out.c     struct stream_out, pins its item until the
 *                                                      last piece is taken
 *     ... or its requester reads it   rma_export.c     struct rma_export, likewise
 *     waits for its key               waiters.c        struct waiter    (each with a struct
 *     ... that may be read again      anew.c           struct hold
 *     waits for room in a queue       queues.c         struct push       pending: its deadline,
 *     waits for events                subscriptions.c  struct listener   CANCEL; pending.c)
 *     waits for the backup            replica_flight.c struct flight, likewise
 *     belongs to another manager      forward.c        struct forward, until the owner's answer is
 *                                                      passed on
 *     ... that does not move          parked.c         struct parked, until it does
 */
#ifndef DDICT_MANAGER_MANAGER_H
#define DDICT_MANAGER_MANAGER_H

#include "faults.h"
#include <base/clock.h>
#include <base/deal.h>
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

struct peer_address { /* of one manager of the dictionary; filled by the wire-up */
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
 * What outlives a manager: shared memory that ddictd makes before the fork. Only the manager writes
 * it, with plain stores. ddictd reads it when the manager has died or does not answer; old figures
 * do no harm.
 */
struct manager_page {
    struct counters count;
    struct lease_counters departed; /* reads of clients that are gone */
    uint64_t started;
    uint64_t turns;  /* of its loop: ddictd sees by it that the manager is alive (watch.c) */
    uint32_t lives;  /* starts of the manager so far; ddictd counts them, each before its fork */
    uint64_t events; /* no event had a number above this */
    /* the life before ended by a fault of its own, not by SIGKILL; ddictd says so before its fork */
    bool fell;
    bool no_memory; /* the kernel killed it for want of memory; said likewise */
    /* With --replicas, written by ddictd alone: until then (ns of CLOCK_BOOTTIME) the node may serve
     * (PROTOCOL 13); UINT64_MAX: it needs no leave. */
    uint64_t lease;
    /* Of a shadow: it was emptied, and has not got all; the epoch in which it had, 0: none; it has
     * become the primary; its keys began anew, and CLEAR has removed all since */
    bool filling;
    uint64_t filled;
    bool promoted, cleared;
};

/* Filled by ddictd before the fork. The descriptors are the manager's from then on. */
struct manager_setup {
    uint32_t id, managers, node_id, nodes; /* id of a shadow: of its owner */
    bool survives; /* the dictionary goes on when a node is lost (PROTOCOL 13) */
    bool copies;   /* ... as there are two copies of all */
    bool refill;   /* ... or as keys that are lost can be read again: what can be is sealed */
    bool shadow;   /* it holds the copy of manager `id`, and serves nobody until SUP_MAP says so */
    /* of a shadow that is made behind the start: its arena is new, and its primary copies all to it.
     * It knows no row of the map before SUP_MAP; its later lives are such, too */
    bool fills;
    struct deal deal; /* of the keys over managers and nodes */
    unsigned local_index;
    char node[NODE_NAME_MAX];
    int arena_fd, spill_fd /* -1: none */, listen_fd /* -1: one node */, sup_fd;
    struct conn_identity identity;
    /* by shadow_slot(): managers, with --replicas the shadows of the start; NULL on one node */
    const struct peer_address *peers;
    uint16_t port_low, port_high; /* 0: any */
    /* to a peer, at most; small messages use only the first */
    unsigned connections;
    /* of libfabric, for messages between managers; "": TCP */
    const char *provider;
    bool rma;                       /* large values are read by it, too */
    const struct numa_place *place; /* NULL: nothing to bind */
    uint64_t place_need;            /* bytes of all arenas that are bound to place */
    struct manager_page *page;
    struct ledger *ledger; /* NULL without --restarts */
    /* [managers], one for each proxy; NULL without --restarts, and on one node */
    struct results *results;
    /* bytes of the arena, at most, for values of other nodes while frozen */
    uint64_t cache;
};
/* Whether it is on a node without keys. */
static inline bool manager_only_forwards(const struct manager_setup *s) {
    return !deal_owns(&s->deal, s->id);
}
struct note_pace {
    uint64_t said, count;
}; /* the last message to ddictd, and events since */

struct manager;
struct msg;
struct requester;
/* Functions that modules call in modules above them; filled in main_loop.c. */
struct upcalls {
    /* --- lanes.c, lane_clients.c, peer_server.c --- */
    void (*unstall)(struct manager *m); /* a connection has room again */
    void (*settle)(struct manager *m);  /* give up the pins of completions that were consumed */
    /* the spill made progress: requests that waited for it go on */
    void (*look)(struct manager *m);
    /* The connection to this manager ended, and it is asked again what it will be asked: values that
     * were popped there, and wait for room in a lane, are this life's alone from now on. */
    void (*popped_alone)(struct manager *m, uint32_t owner);
    void (*lane_figures)(struct manager *m, struct lease_counters *reads, uint64_t *bytes);
    bool (*has_client)(const struct manager *m, uint64_t id); /* it is of this node, and served */
    uint64_t (*links)(const struct manager *m); /* connections that peers have opened */
    /* --- requests.c, as there --- */
    int (*take)(struct requester *a, const struct msg *m, const uint8_t *payload);
    int (*again)(struct requester *a, const struct msg *req, const void *key);
    void (*commit)(struct requester *a, const struct msg *req, struct store_ref *ref,
                   uint64_t began);
    void (*run)(struct requester *a, const struct msg *req, const uint8_t *key, uint64_t hash,
                struct store_ref *ref, uint64_t began);
    void (*key_next)(struct manager *m, const void *key, uint32_t key_len, uint64_t hash);
};

struct manager {
    const struct manager_setup *setup;
    const struct upcalls *up;
    struct store *store;
    struct arena_header *header;
    int numa_node; /* the manager is bound to it; -1: to none */
    /* so is the arena's memory; written by the populating thread while that runs */
    bool bound_strictly;
    int epoll_fd;
    uint32_t spun; /* idle turns */
    bool stopping; /* atomic: the populating thread reads it */
    /* ddictd has asked for the last figures: other managers may end before this one */
    bool ending;
    bool linked;  /* there may be links (PROTOCOL 2): changes look for them */
    bool knows;   /* all clients and hold pages (SUP_GO); before that nothing in the heap changes */
    bool reap;    /* a requester is gone: free it at the end of the turn */
    uint64_t now; /* CLOCK_MONOTONIC in this turn of the loop */
    /* end of this share of the turn, set for lanes and for connections; later requests wait for the
     * next turn */
    uint64_t share_end;
    /* when this turn began; our CPU time at some moment before, and that moment */
    uint64_t turn, turn_cpu, turn_cpu_at;
    struct timers timers;
    struct counters *count; /* in setup->page */
    struct note_pace full, refused;
    uint64_t refused_all; /* conn_refused() at the last look */
    struct lane_client *clients;
    /* the watched lanes; the one at which the last turn ran out of time; NULL: it served all */
    struct lane_client *watched, *lanes_at;
    struct lane_client *unsettled; /* clients with completions that are not consumed */
    /* clients whose lanes were used since they gave memory back; where the next pass goes on; NULL:
     * at the first */
    struct lane_client *grown, *shrink_at;
    struct timer shrink;
    struct timer ledger_shrink; /* memory of the ledger that nothing used lately goes back */
    uint64_t lane_returned;     /* bytes that lanes gave back */
    unsigned watched_n;
    /* the client whose memory and counters are looked up next; NULL: the first */
    struct lane_client *figures_at;
    uint64_t lane_bytes;
    struct lease_counters lane_reads;
    unsigned clients_now;
    struct hold *holds;
    struct fabric *fabric; /* NULL: TCP */
    struct link_setup links;
    struct peer_server *peer_servers;
    /* the next to be looked at for a request that said TAKE_LATER; NULL: the first */
    struct peer_server *later_at;
    unsigned laters;     /* how many have such a request */
    struct peer **peers; /* [managers], made at the first need */
    /* [managers], with --replicas: number of the process that serves the keys of each */
    uint32_t *primaries;
    uint16_t *primary_ports;
    bool *refilling;               /* likewise: its keys are being read again (anew.h) */
    struct replica_backup *backup; /* of a shadow */
    /* of a primary that has a backup; the flight that is being run */
    struct replica_primary *primary;
    struct flights *flights;
    struct flight *flight;
    /* forwards without an answer: the manager spins a little for them */
    unsigned peers_busy;
    struct waiters *waiters;
    struct anew *anew; /* of a shadow */
    struct queues *queues;
    /* of the request that is taken again, or whose value has just come in pieces: its own if it
     * waits */
    struct ledger_entry *resumed;
    /* where the pointer to the entry is whose request is being answered; NULL: none is */
    struct ledger_entry **answering;
    bool passing; /* it is answered by a part of a value that goes on to its lane, not as a whole */
    struct subscriptions *subscriptions;
    struct forwards *forward_table;
    struct transit *transit;
    struct parking *parkings; /* of all lanes */
    bool unparks;             /* parked requests may find room now */
    struct timer unstall;     /* when stalled lanes and parked requests are tried again */
    struct timer late;        /* ends forwards whose time is over */
    struct freeze *freeze;
    bool shut;                /* writes are refused: not OPEN */
    bool restoring;           /* but for those of a restore: RESTORING */
    uint64_t frozen;          /* epoch while FROZEN, else 0 */
    unsigned puts_open;       /* streamed puts that have not ended, but for those of a refill */
    struct put_in *puts_kept; /* those of proxies whose connections have ended */
    struct rma_export *lent;  /* values that other managers are reading */
    struct cache_room *cache;
    struct prefetch *prefetch;
    struct alive *alive;
    struct io_handler sup, listener;
    struct timer tick;       /* for handshakes of connections */
    struct io_handler spill; /* eventfd of the spill's threads */
    struct timer room;       /* tries requests that wait for the spill, even without progress */
    uint64_t progress;       /* of the spill, at the last look */
    bool room_waits;
    struct aside *aside; /* NULL: no client has gone yet */
    /* looks at completions that were not consumed when the manager went to sleep */
    struct timer settle;
    char *hostname;
    /* copy of the key of the request at hand: the lane may change */
    uint8_t key[MSG_KEY_MAX];
};

struct sup_msg;
/* Send a message to ddictd; waits while its socket is full. Stops the manager if ddictd has
 * ended. */
void manager_tell(struct manager *m, struct sup_msg *s);
/* False: the lease of this node is over (PROTOCOL 13). Another may serve its keys already: nothing
 * that is asked is taken, and no change is made. */
bool manager_may_serve(const struct manager *m);
/* There was a life before this one (PROTOCOL 12). */
static inline bool manager_has_lived(const struct manager *m) {
    return m->setup->page->lives > 1;
}
/* A handshake has begun: tick until none is under way. */
void manager_ticks(struct manager *m);
void manager_stalls(struct manager *m); /* a lane that got TAKE_STALL is tried again soon */
/* There is a ledger, and it may have grown: what is not used of it goes back in time. */
void manager_ledger_look(struct manager *m);

static inline void count_latency(struct manager *m, int op, uint64_t began, uint64_t now) {
    histogram_add(&m->count->latency[op], now > began ? now - began : 0);
}

/*
 * --- a turn's work ---
 * Each request is bounded, but thousands may come at once. Lanes and connections have a share of
 * each turn; what does not fit in waits for the next. The clock is read by whoever does something
 * long, and kept in `now`.
 */
static inline void share_begin(struct manager *m) {
    m->share_end = m->now + DD_TURN_NS;
}
/* The share begins with the first request. */
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
/* As share_over(), after something long: reads the clock. */
static inline bool share_spent(struct manager *m) {
    m->now = clock_ns();
    return share_over(m);
}

#endif
