/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manager.h - inside one manager process: one thread, one arena, one loop (manager.c). Who asks is an `asker`: the lane of a
 * client of this node (lanes.c) or the connection of another node's manager (inbound.c). What they ask is the same (requests.c).
 *
 * A request ends in one of these ways, and asker_end() undoes what is left of each when the asker ends:
 *     answered at once              requests.c
 *     a value comes in pieces       puts.c     struct put_in, until the last piece, ABORT or its deadline
 *     a value goes out in pieces    gives.c    struct give, pins its item until the last piece is taken
 *     ... or is read by the asker   lends.c    struct lend, likewise
 *     waits for its key             waiters.c  struct waiter
 *     waits for room in a queue     queues.c   struct entry
 *     waits for events              feeds.c    struct listener
 *     belongs to another manager    forward.c  struct forward, until the owner's answer is passed on
 *     ... that does not move        parked.c   struct parked, until it does
 */
#ifndef DDICT_MANAGER_MANAGER_H
#define DDICT_MANAGER_MANAGER_H

#include <base/stats.h>
#include <ddict.h>
#include <manager/faults.h>
#include <manager/timers.h>
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
    struct histogram latency[DDICT_OP_N];
    uint64_t turns[DDICT_TURNS_N], turn_max_ns;
};
/*
 * What outlives a manager: shared memory made by ddictd before the fork. The manager is its only writer, with plain stores; ddictd reads it when the manager has
 * died or does not answer (figures that are a moment old do no harm).
 */
struct manager_page {
    struct counters count;
    struct lease_counters departed; /* reads of clients that have gone */
    uint64_t started;
    uint64_t turns; /* of its loop: ddictd sees that it goes on (watch.c) */
};

struct
    manager_setup { /* filled by ddictd before the fork; the descriptors are the manager's then */
    uint32_t id, managers, node_id, nodes;
    unsigned local_index;
    char node[NODE_NAME_MAX];
    int arena_fd, spill_fd /* -1: none */, listen_fd /* -1: one node */, sup_fd;
    struct conn_identity identity;
    const struct peer_address *peers; /* [managers]; NULL on one node */
    uint16_t port_low, port_high;     /* 0: any */
    unsigned connections;             /* to a peer, at most; the first alone for what is small */
    const char *provider; /* of libfabric, which carries messages between managers; "": TCP */
    bool rma;             /* and large values are read by it */
    const struct numa_place *place; /* NULL: nothing to bind */
    uint64_t place_need;            /* bytes of all arenas there */
    struct manager_page *page;
    uint64_t cache; /* most bytes of the arena for values of other nodes while frozen */
};
/* To ddictd; waits while its socket is full. Without it the manager stops. */
struct manager;
struct sup_msg;
void manager_tell(struct manager *m, struct sup_msg *s);
/* The life of a manager; returns its exit code. */
int manager_run(const struct manager_setup *setup);

struct note_pace {
    uint64_t said, count;
}; /* when ddictd was told last; how many since */

struct manager;
enum asker_kind { ASKER_LANE, ASKER_PEER, ASKER_SELF /* prefetch: takes no answers */ };
struct asker {
    struct manager *m;
    enum asker_kind kind;
    bool
        gone; /* broke a rule or its carrier ended: nothing more is sent; freed at the end of the turn */
    uint64_t who; /* in intents: client id, or 1 << 63 | peer manager */
    struct put_in *puts;
    struct give *gives; /* round robin: the first is next */
    struct give **gives_end;
    struct lend *lends;
    struct waiter *waits;
    struct entry *appends; /* that wait for room */
    struct listener *listens;
    uint64_t room_since; /* its put waits for room that is being made, since when; 0: none */
    struct forward *forwards, **forwards_end; /* the first is the next to be given credit */
    struct parking *parkings; /* of a lane: what is kept for managers that do not move */
    bool unparks;             /* some of that is being sent on */
    unsigned forwards_n, forward_waits_n, forward_events_n,
        streams_n; /* of forwards: those that do not and that do wait for their key, or for events; those whose reply comes in pieces */
};

struct manager {
    const struct manager_setup *setup;
    struct store *store;
    struct arena_header *header;
    int numa_node;       /* bound to it; -1: not */
    bool bound_strictly; /* the arena's memory, too; the populating thread's once that runs */
    int epoll_fd;
    uint32_t spun; /* idle turns */
    bool stopping; /* set atomically: the thread that populates looks at it */
    bool ending;   /* ddictd asked for the last figures: other managers may end before us */
    bool reap;     /* somebody is gone: free him at the end of the turn */
    uint64_t now;  /* of this turn of the loop */
    uint64_t turn, turn_cpu,
        turn_cpu_at; /* when this turn began; our CPU time at some moment before, and that moment */
    struct timers timers;
    struct counters *count; /* in setup->page */
    struct note_pace full, refused;
    uint64_t refused_all; /* conn_refused() when it was looked at last */
    struct lane_client *clients;
    struct lane_client *watched,
        *lanes_at; /* those that turns look at; the last one got so far; NULL: round all */
    struct lane_client *unsettled; /* those with completions that were not consumed */
    unsigned watched_n;
    unsigned clients_now;
    struct hold *holds;
    struct fabric *fabric; /* NULL: TCP */
    struct link_setup links;
    struct inbound *inbounds;
    unsigned laters;     /* of them, that have a request that said TAKE_LATER */
    struct peer **peers; /* [managers], made at the first need */
    unsigned peers_busy; /* forwards under way: spin a little for them */
    struct waiters *waiters;
    struct queues *queues;
    struct feeds *feeds;
    struct forwards *forward_table;
    struct transit *transit;
    struct parking *parkings; /* of all lanes */
    bool unparks;             /* there may be room for what is parked */
    struct timer unstall;     /* lanes that stall, and what is parked, are looked at again */
    struct timer late;        /* forwards whose askers' time is over */
    struct freeze *freeze;
    bool shut;          /* writes are refused: not OPEN */
    uint64_t frozen;    /* the epoch while FROZEN, else 0 */
    unsigned puts_open; /* values that are being streamed in */
    struct lend *lent;  /* values that others are reading */
    struct cache_room *cache;
    struct prefetch *prefetch;
    struct io_handler sup, listener;
    struct timer tick;       /* handshakes of connections */
    struct io_handler spill; /* its threads wake us */
    struct timer room;       /* somebody waits for room in memory, which the spill makes */
    uint64_t progress;       /* of the store's spill, when it was looked at last */
    bool room_waits;
    struct timer settle; /* completions that were not consumed when we went to sleep */
    char *hostname;
    uint8_t key[MSG_KEY_MAX]; /* the key of the request at hand, copied from where it may change */
};

/* --- asker.c: answers --- */
void asker_init(struct asker *a, struct manager *m, enum asker_kind kind, uint64_t who);
void asker_end(struct asker *a); /* undo everything that it has under way */
/* Send a message with a copied payload (at most DD_MSG_INLINE bytes). Never fails: an asker that can not be told anything any more is `gone`. */
void asker_send(struct asker *a, struct msg *r, const void *payload, size_t len);
void asker_reply(struct asker *a, const struct msg *req, int status,
                 const char *text); /* text NULL: none */
/* The asker broke a rule (or memory is out): it is dropped, nobody else suffers. */
void asker_drop(struct asker *a, const char *why);
static inline void reply_init(struct msg *r, uint64_t id, uint32_t manager) {
    *r = (struct msg){.type = MSG_REPLY, .id = id, .manager = manager};
}

/* --- requests.c --- */
enum { TAKE_DONE = 0, TAKE_STALL = 1, TAKE_LATER = 2, TAKE_PAUSE = 3 };
/*
 * One message of an asker. TAKE_LATER: room is being made for its value; again in the next turn, before anything else of this asker. TAKE_STALL: not now, leave it where it is (of connections
 * only what waits for the spill, see rooms.c). TAKE_PAUSE: it was taken; the next one only when puts_look() says so. Negative: it broke a rule.
 */
int request_take(struct asker *a, const struct msg *m, const uint8_t *payload);
/* Answer a GET, POP or HEAD whose item was found; pinned: the item has a pin that is ours to give up. */
void request_give(struct asker *a, const struct msg *req, const struct store_ref *ref, bool pinned);
/* Try a GET, POP or HEAD now. 0 when answered, DDICT_ENOKEY. */
int request_look(struct asker *a, const struct msg *req, const void *key);
/* A put that is complete: publish, wake who waits for it, answer. */
void request_commit(struct asker *a, const struct msg *req, struct store_ref *ref, uint64_t began);
void request_failed(struct asker *a, const struct msg *m,
                    int code); /* answer so, with the sentence that belongs to it */
/* As store_reserve(), for the value of m; TAKE_LATER instead of -EINPROGRESS, for at most DD_COMPACT_WAIT_MS. */
int request_reserve(struct asker *a, const struct msg *m, const uint8_t *key,
                    struct store_ref *ref);
/* The sentence for a failed reservation; static. */
const char *request_full_text(struct manager *m, int code, uint64_t val_len);
static inline struct store_request request_who(const struct asker *a, const struct msg *m) {
    return (struct store_request){.client = a->who, .request = m->id};
}

/* --- puts.c: values that come in pieces --- */
int put_in_begin(struct asker *a, const struct msg *m, const uint8_t *key);
/* A streamed put that goes on to another manager, or was refused already (f NULL). */
int put_in_pass(struct asker *a, const struct msg *m, struct forward *f);
void put_in_forget(struct asker *a,
                   const struct forward *f); /* f ended: what still comes is dropped */
int put_in_data(struct asker *a, const struct msg *m, const uint8_t *payload);
void *put_in_place(struct asker *a,
                   const struct msg *m); /* where this DATA shall be received; NULL: anywhere */
int put_in_abort(struct asker *a, const struct msg *m);
/* A put that is complete but for the disk, which does not have it yet: takes over ref. TAKE_PAUSE, or it was answered: TAKE_DONE. */
int put_in_hold(struct asker *a, const struct msg *m, struct store_ref *ref, uint64_t began);
bool puts_look(
    struct asker *
        a); /* publish those that the disk has now; true: none waits for it any more, the asker may go on */
void puts_end(struct asker *a);

bool put_in_cancel(struct asker *a,
                   uint64_t id); /* one that goes on to another manager and is not all there yet */
void put_in_dropped(
    struct asker *a, const struct msg *m,
    bool last); /* its header was parked and was answered; last: so was its last piece */
bool put_in_parks(struct asker *a, const struct msg *m,
                  uint32_t *to); /* of DATA: that goes on to manager `to`, or will */
int put_in_park(struct asker *a, const struct msg *m,
                uint32_t to); /* its header was parked: its pieces are still to be known */

/* --- parked.c: what lanes ask of managers that do not move (PROTOCOL 2) --- */
bool parked_before(const struct asker *a,
                   uint32_t to); /* something of a is: what comes for it too goes behind */
int parked_add(struct asker *a, const struct msg *m, const uint8_t *payload,
               uint32_t to); /* TAKE_DONE or negative */
bool parked_drop(struct asker *a,
                 uint64_t id); /* the record of this request, and its pieces; true: also the last */
bool parked_cancel(struct asker *a, uint64_t id, int status);
void parked_end(struct asker *a);
bool parked_turn(struct manager *m); /* send on what there is room for */
void parked_late(struct manager *m); /* end those whose time is over */

/* --- rooms.c: who waits for the spill --- */
int manager_waits_for_room(
    struct manager *m);             /* TAKE_STALL: rooms_turn() will say when to try again */
void rooms_turn(struct manager *m); /* each turn: has the spill made progress? */

/* --- gives.c: values that go out in pieces --- */
/* Stream len bytes at data as the reply r of a: its header, then the pieces. done is called once when nothing needs the bytes any more. window 0: no limit.
 * 0 or -ENOMEM (nothing was sent, done was not called). */
int give_begin(struct asker *a, struct msg *r, const void *data, uint64_t len, uint64_t window,
               void (*done)(struct manager *m, uint64_t arg, void *ptr), uint64_t arg, void *ptr);
int give_from_spill(struct asker *a, struct msg *r, const struct store_ref *ref,
                    uint64_t window); /* the same for a value that is there */
bool gives_pump(struct asker *a); /* send what there is room for; true when something was sent */
void give_more(struct asker *a, uint64_t id, uint64_t upto);
bool give_cancel(struct asker *a, uint64_t id, int status);
void gives_end(struct asker *a);

/* --- lends.c: values that the asker reads out of our arena --- */
int lends_init(struct manager *m);
/* The value of ref, which has a pin that is the lend's then, as the reply r. false: not this one; nothing was done. */
bool lend_begin(struct asker *a, struct msg *r, const struct store_ref *ref);
bool lend_more(struct asker *a, uint64_t id, uint64_t read); /* false: none such */
bool lend_cancel(struct asker *a, uint64_t id, int status);
void lends_end(struct asker *a);

/* --- pulls.c: values that we read so --- */
/* For f, whose reply r says in `places` where the bytes are. to: the block that they go to, or NULL: to the asker's lane. NULL: that makes no sense, or no memory. */
struct pull *pull_new(struct manager *m, struct forward *f, struct peer *peer, uint64_t id,
                      uint8_t *to, const struct msg *r, const uint8_t *places);
void pull_more(struct pull *p, uint64_t upto);       /* so many bytes may come */
int pull_heard(struct pull *p, const struct msg *r); /* DATA of the owner */
void pull_stop(
    struct pull *p); /* the asker is gone; pull_heard() comes still, or the end of the connection */
/* The forward ends. block: what is being read into, the pull's then. */
void pull_forget(struct pull *p, const struct store_ref *block);

/* --- waiters.c --- */
int waiters_init(struct manager *m);
void waiters_free(struct manager *m);
int waiter_add(struct asker *a, const struct msg *req, const void *key, uint64_t hash);
void waiters_wake(struct manager *m, const void *key, uint32_t key_len, uint64_t hash);
bool waiter_cancel(struct asker *a, uint64_t id, int status);
void waiters_end(struct asker *a);

/* --- queues.c: keys with more than one value --- */
int queues_init(struct manager *m);
void queues_free(struct manager *m);
/* A put with APPEND that is complete: takes over ref, as request_commit() does. */
void queue_append(struct asker *a, const struct msg *req, struct store_ref *ref, uint64_t began);
/* A value of key was taken, or all: there may be room for those that wait. */
void queue_next(struct manager *m, const void *key, uint32_t key_len, uint64_t hash);
void queue_open(struct asker *a, const struct msg *req, const void *key,
                uint64_t hash); /* HEAD with APPEND */
void queues_clear(struct manager *m);
uint64_t queue_more(struct manager *m,
                    const struct item *it); /* values behind this one, the first of its key */
bool queue_cancel(struct asker *a, uint64_t id, int status);
void queue_asker_end(struct asker *a);

/* --- feeds.c: who wants to know what happens to keys with a prefix --- */
int feeds_init(struct manager *m);
void feeds_free(struct manager *m);
void feed_ask(struct asker *a, const struct msg *m, const uint8_t *prefix);
bool feed_cancel(struct asker *a, uint64_t id, int status);
void feeds_asker_end(struct asker *a);
void feeds_figures(const struct manager *m, struct ddict_manager_stats *out);
void feeds_put(struct manager *m, const struct item *it, uint64_t version);
void feeds_del(struct manager *m, const void *key, uint32_t key_len);
void feeds_clear(struct manager *m);

/* --- lanes.c: clients --- */
int client_add(struct manager *m, uint64_t id, uint32_t pid,
               const int fds[4]); /* of SUP_CLIENT_ADD; 0: it keeps the last two, bell and ring */
void client_del(struct manager *m, uint64_t id);
void client_ban(struct manager *m, uint64_t id); /* of SUP_CLIENT_BAN */
int hold_add(struct manager *m, uint64_t id, uint32_t pid, int fd);
void hold_del(struct manager *m, uint64_t id);
bool lanes_turn(
    struct manager *
        m); /* serve the lanes that are watched in turn, a bounded share of work; true when there was work */
bool lanes_ready(struct manager *m); /* after `sleeping` was announced: is there work after all? */
void lanes_unstall(struct manager *m); /* a connection has room again */
void lanes_look(struct manager *m);    /* the spill made progress: those that waited for it go on */
void lanes_reap(struct manager *m);    /* drop those that broke a rule, and tell ddictd */
void lanes_end(struct manager *m);
/* lane carrier, for asker.c and gives.c */
void lane_send(struct asker *a, const struct msg *r, const void *payload, size_t len);
void lane_send_placed(struct asker *a, const struct msg *r,
                      uint64_t off); /* takes over one pin of off */
bool lane_idle_out(struct asker *a); /* nothing queued: pieces may be written */
const uint8_t *lane_place(struct asker *a, uint64_t off,
                          uint64_t len); /* in its area, until the next call; NULL: none such */
void *lane_piece(struct asker *a, uint32_t len); /* room for a piece's record, or NULL; then */
void lane_piece_done(struct asker *a, const struct msg *r);
/* Room for the payload of a piece of up to *room bytes that comes from a connection: *room receives how many. NULL: none; with *room 0 it is worth to wait for peers_resume(). */
void *lane_part(struct asker *a, uint32_t *room);
void lane_part_done(struct asker *a, struct msg *r, const void *at,
                    uint32_t n);      /* n bytes of it came */
void lanes_settle(struct manager *m); /* give up the pins of completions that were consumed */
uint64_t lanes_bytes(const struct manager *m);
/* Sum of the read counters of all clients that ever were, for this arena. */
void lanes_reads(struct manager *m, struct lease_counters *sum);

/* --- inbound.c: managers that ask us; carrier for asker.c and gives.c --- */
int inbound_listen(struct manager *m);
void inbound_send(struct asker *a, struct msg *r, const void *payload, size_t len);
bool inbound_full(struct asker *a);
struct asker *inbound_bulk(
    struct asker *a); /* of its connections one for a large value: itself where there are no more */
void inbound_piece(struct asker *a, struct msg *r, const void *data, uint32_t len,
                   void (*done)(void *), void *arg);
bool inbounds_later(struct manager *m); /* requests that said TAKE_LATER; true: there was one */
void inbounds_reap(struct manager *m);
void inbounds_end(struct manager *m);

const struct link *inbound_link(const struct asker *a);

/* --- probe.c: a plain TCP connection for who measures the path --- */
void probe_take(struct asker *a, const struct msg *m);

/* --- peers.c: managers that we ask --- */
int peers_init(struct manager *m);
void peers_end(struct manager *m);
void peers_reap(struct manager *m);
struct peer *peer_get(struct manager *m, uint32_t id, int *code); /* connecting at the first need */
/* Of its connections, `via`: 0 the first; else one of those for large values. */
unsigned peer_via(struct peer *p); /* for a large value that is to go there */
void peer_more(
    struct peer *p); /* large values are under way: open those for them, if they are not */
bool peer_full(struct peer *p, unsigned via);
bool peer_stuck(struct manager *m, uint32_t id); /* it was asked, and does not move */
void peer_asked(struct peer *p);                 /* about to be: from now on it has to */
int peer_send(struct peer *p, unsigned via, struct msg *r, const void *payload, size_t len);
void peer_tell(
    struct peer *p,
    struct msg *r); /* over the first; an error is the connection's, whose end answers everything */
int peer_read(struct peer *p, void *to, const struct fabric_place *from,
              void (*done)(void *arg, int code), void *arg); /* see link_read() */
uint64_t peer_position(struct peer *p);                      /* see link_position() */
bool peer_unsent(struct peer *p, uint64_t position);
void manager_ticks(struct manager *m); /* a connection is in its handshake: tick until none is */
void peers_resume(struct manager *m);  /* a lane has room again, or waited too long for it */
bool peers_tick(struct manager *m);
void inbounds_look(struct manager *m); /* as lanes_look() */
bool inbounds_tick(struct manager *m);
uint64_t peers_links(const struct manager *m); /* connections that are open, both kinds */
uint64_t inbounds_links(const struct manager *m);

/* --- forward.c: requests of others' keys --- */
int forwards_init(struct manager *m);
void forwards_free(struct manager *m);
/* Pass a request on to manager `to`. key: the payload's, copied from where it may change; hash: of it. TAKE_DONE, TAKE_STALL or negative. */
int forward_begin(struct asker *a, const struct msg *req, const uint8_t *payload,
                  const uint8_t *key, uint64_t hash, uint32_t to);
int forward_data(struct forward *f, const struct msg *m,
                 const uint8_t *payload); /* a piece of a put */
bool forward_stalled(struct forward *f);  /* no room for a piece now */
bool forward_parks(struct forward *f,
                   uint32_t *to); /* its pieces are for manager `to`, which does not move */
/* As forward_begin() for a record that was parked: TAKE_STALL leaves it there. */
int forward_again(struct asker *a, const struct msg *req, const uint8_t *payload,
                  const uint8_t *key, uint64_t hash, uint32_t to);
void forward_stall(struct manager *m); /* who was told TAKE_STALL is looked at again soon */
void forward_abort(struct forward *f, uint64_t id);
bool forward_cancel(struct asker *a, uint64_t id); /* answers it */
bool forwards_late(
    struct manager *m); /* a second is over: end those whose time is; false: there are none */
void forwards_end(struct asker *a); /* the asker is gone: what comes back is dropped */
/* From the owner. */
void *forward_place(struct manager *m, const struct msg *r);
/* Where bytes of a piece that is passed on may be received: in the lane itself. See part_to and part of conn_ops. */
void *forward_part_to(struct manager *m, uint32_t from, const struct msg *r, uint32_t got,
                      uint32_t *room);
int forward_part(struct manager *m, const struct msg *r, uint32_t got, const void *at, uint32_t n);
int forward_answer(struct manager *m, uint32_t from, const struct msg *r, const uint8_t *payload);
void forward_pulled(struct manager *m, struct forward *f, const struct msg *r,
                    const uint8_t *payload); /* a piece that was read, or why no more comes */
/* again: what only reads is asked once more, over a new connection */
void forwards_lost(struct manager *m, struct peer *p, const char *text, bool again);
struct forward **peer_forwards(struct peer *p);
/* The asker has taken pieces of a reply that we pass on: ask the owner for more. */
void forwards_took(struct asker *a);

/* --- transit.c: room for remote values that are viewed --- */
int transit_init(struct manager *m);
void transit_free(struct manager *m);
bool transit_reserve(struct manager *m, uint64_t val_len, uint8_t tag, uint64_t version,
                     struct store_ref *ref);
void transit_abort(struct manager *m, struct store_ref *ref);

/* --- freeze.c: OPEN, CLOSED, FROZEN (PROTOCOL 9) --- */
struct sup_msg;
int freeze_init(struct manager *m);
void freeze_free(struct manager *m);
void freeze_ask(struct asker *a, const struct msg *req); /* a client's FREEZE */
bool freeze_cancel(struct asker *a, uint64_t id);
void freeze_asks_end(struct asker *a);
void freeze_take(struct manager *m, const struct sup_msg *s); /* SUP_FREEZE, SUP_FREEZE_SAID */
bool freeze_turn(
    struct manager *m); /* some of what CLOSED has to do; true when there was something */
void freeze_refuse(struct asker *a, const struct msg *req);
/* A streamed put that ends now is refused. */
bool freeze_refuses_end(const struct manager *m);

/* --- cache.c: the room of values of other nodes --- */
int cache_init(struct manager *m);
void cache_free(struct manager *m);
/* Room for the value of reply r, asked for in epoch; false: it is not cached. Then cache_publish() or store_abort(). */
bool cache_reserve(struct manager *m, uint64_t epoch, const uint8_t *key, uint32_t key_len,
                   const struct msg *r, struct store_ref *ref);
void cache_publish(
    struct manager *m, uint64_t epoch,
    struct store_ref
        *ref); /* or retire it, where the epoch is over: ref is pinned or of no use any more */
bool cache_look(struct asker *a, const struct msg *req,
                const uint8_t *key); /* a GET, answered from the cache */

/* --- prefetch.c --- */
int prefetch_init(struct manager *m);
void prefetch_free(struct manager *m);
int prefetch_take(struct asker *a, const struct msg *req, const uint8_t *payload);
bool prefetch_turn(struct manager *m);
void prefetch_end(struct manager *m); /* the epoch is over: what was not asked for yet is dropped */

/* --- notes.c: for the record --- */
void note_full(struct manager *m, const char *text);
void note_trouble(struct manager *m,
                  const char *text); /* once: to the log, and for the record as note_full() */
void note_refused(struct manager *m,
                  int code); /* a connection ended: was it one that failed the checks? */

/* --- bind.c --- */
void manager_bind(
    struct manager *m); /* the process; first of all: threads that are made later inherit it */
void manager_bind_arena(
    struct manager *m); /* once the store is open, before anything is populated */
/* Before each step of populating. Others may have filled the NUMA node meanwhile: then memory from elsewhere is better than being killed for it. */
void manager_bind_look(struct manager *m);
/* --- figures.c --- */
/* Add what readers counted for local manager `index`. The page is untrusted. */
void lease_reads(const struct lease_chunk *leases, unsigned index, struct lease_counters *sum);
/* Of a manager that does not answer any more, from what outlives it; leases: pages of its clients, [n] mappings. */
void figures_of_page(const struct manager_page *page, const struct arena_header *header,
                     const struct lease_chunk *const *leases, unsigned n, unsigned index,
                     struct ddict_manager_stats *out);
void manager_figures(struct manager *m, struct ddict_manager_stats *out);
static inline void count_latency(struct manager *m, int op, uint64_t began, uint64_t now) {
    histogram_add(&m->count->latency[op], now > began ? now - began : 0);
}

#endif
