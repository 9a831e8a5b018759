/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replica_flight.h - with --replicas: changes in flight at the primary of an owner (PROTOCOL 13). A
 * change is judged and its block is filled; then it is in flight until the backup has it, and only then
 * it is made, answered and told of, by the code that does so without a backup:
 *
 *     request_commit(), request_look(), ...             waits     for the change of its key before it
 *       flight_order(): its key is busy    ------------>  |
 *       judges                             <---- run -----+     in its turn
 *       flight_send()                      ------------> in the air: replica_primary.c sends REPL
 *
 *       the same once more                 <---- run ----- ACK, in the order of sending
 *       flight_send(): 0, it is on both
 *       store_commit(), requester_changed(), answer, events, waiters
 *
 * Nothing else can have changed the key meanwhile, so it is judged as before. Of each key one change
 * is in the air; what is asked of that key by message waits behind it, in order. CLEAR waits for all
 * that came before, and all that comes behind it waits for it. Waiters and pushes of a key have their
 * turn before what waits here: they came earlier. One that waits here ends at its time.
 *
 * manager.flights is NULL where there is no backup: then each change is made at once.
 */
#ifndef DDICT_MANAGER_REPLICA_FLIGHT_H
#define DDICT_MANAGER_REPLICA_FLIGHT_H

#include "pending.h"
#include "requester.h"

enum flight_state {
    FLIGHT_WAITS,   /* behind others of its key, or behind a CLEAR */
    FLIGHT_TURN,    /* is being judged */
    FLIGHT_AIR,     /* the backup is to carry it out */
    FLIGHT_COMMITS, /* the backup has; it is being made here, or was */
    FLIGHT_COPIES   /* none: what its key has goes to a new backup, and changes of it wait */
};
struct flight {
    struct pending pending; /* first; its requester is flights.nobody once that is gone */
    enum flight_state state;
    enum requester_kind kind; /* of its requester, as is who */
    uint64_t who;
    enum repl_op op;
    uint64_t most;       /* of LIMIT */
    struct flight *next; /* in the air: in order of sending; else of those behind a CLEAR */
    /* of the same key; of the first: the first of the next key in its chain, and the last of its own */
    struct flight *behind, *chain, *last;
    struct flight *proxy_next;
    struct store_ref ref; /* of a PUT: its block */
    uint64_t began, deadline, hash;
    /* of the connection to the backup: number of its REPL there; 0: it was not sent by this one */
    uint64_t number;
    /* in the air: the backup has it; it was sent, so it may have it by an earlier connection */
    bool acked, asked;
    struct ledger_entry *note; /* in the ledger: a later life makes the key the same on both */
    bool made;                 /* this change: what fails from here on is another */
    bool cancelled;            /* nobody waits for another one */
    bool linked;               /* in its place among those of its key */
    uint32_t key_len;
    uint8_t key[];
};
/* A proxy has what it popped. */
struct flight_took {
    struct flight_took *next;
    uint64_t id, number;
    uint32_t proxy;
};

#define FLIGHT_CHAINS  1024u
#define FLIGHT_PROXIES 256u
struct flights {
    struct manager *m;
    struct flight *air, **air_end,
        *unsent;                         /* unsent: the first that this connection was not given */
    struct flight *behind, **behind_end; /* a CLEAR that waits, and what came after one */
    struct flight *clear;                /* in the air or being run */
    struct flight *chain[FLIGHT_CHAINS]; /* the first of each busy key */
    size_t keys;
    struct flight_took *took, **took_end, *took_unsent;
    struct flight *proxy[FLIGHT_PROXIES]; /* in the air for proxies, by id */
    struct flight *copy;                  /* see flight_copy() */
    bool copied;                          /* it is over: the next turn ends it */
    bool over;   /* another process serves these keys: nothing is made here any more */
    bool alone;  /* there is no backup any more: what is here is carried out, and that is all */
    bool failed; /* the first in the air could not be made here, though the backup has it */
    struct requester nobody;
};

int flights_init(struct manager *m);
void flights_free(struct manager *m);
/* A change that this client, which is gone, has asked for is in the air. Also without manager.flights. */
bool flights_of_gone(const struct manager *m, uint64_t client);
/* The same of a manager of another node (requester.who): of a connection of it that has ended. */
bool flights_of_none(const struct manager *m, uint64_t who);
/* Something is in flight, or waits for what is. */
bool flights_open(const struct manager *m);
/* What comes now for this key from within the manager (a waiter, a push) must wait: the commit of what
 * is in flight looks for it. */
bool flights_busy(const struct manager *m, const void *key, uint32_t key_len, uint64_t hash);

/*
 * --- for requests; only with manager.flights ---
 * req is run from here: whatever state the dictionary is in, it was accepted.
 */
bool flight_is_own(const struct manager *m, const struct msg *req);
bool flight_commits(const struct manager *m, const struct msg *req);
/* A request has come. 0: go on; 1: it waits behind others, and will be run; -ENOMEM: refuse it. key: of
 * req->key_len bytes, none of CLEAR; ref: of a PUT its filled block, which is taken over with 1. */
int flight_order(struct requester *a, const struct msg *req, const void *key, uint64_t hash,
                 const struct store_ref *ref, uint64_t began);
/* It was judged: this change is to be made. 0: make it now. 1: it is in flight, will be run again, and
 * has taken over ref and, of a request that waited, its entry. Negative: refuse it. most: of LIMIT. */
int flight_send(struct requester *a, const struct msg *req, enum repl_op op, const void *key,
                uint64_t hash, struct store_ref *ref, uint64_t began, uint64_t most);
/* A part of what is asked was made, and the rest is judged now. */
void flight_made(struct manager *m, const struct msg *req);
/* The change could not be made. True: the backup has it, so this is not answered before there is no
 * backup, when it is run again. */
bool flight_fails(struct manager *m, const struct msg *req);
/* Its requester is gone: a value that was popped for it is with its result, or lost. */
bool flight_for_nobody(const struct requester *a);
/* A proxy asks for this again, and it is in the air: it is answered by this connection. */
bool flight_attach(struct requester *a, const struct msg *req);
void flight_took(struct manager *m, uint32_t proxy, uint64_t id);

/*
 * --- for replica_primary.c ---
 * The first of them that are acknowledged are committed. True: there were some.
 */
bool flights_commit(struct manager *m);
/* The connection has ended: what was sent and is not acknowledged may be on the backup, or not. */
void flights_doubt(struct manager *m);
/* A new backup is to have all values of this key, as they are when no change of it is in flight; those
 * that come wait until flight_copied(). One key at a time. 0: in its turn, see flight_copies(); 1: now;
 * -ENOMEM. */
int flight_copy(struct manager *m, const void *key, uint32_t key_len, uint64_t hash);
bool flight_copies(const struct manager *m); /* it has its turn */
void flight_copied(struct manager *m);       /* or it is not to be copied any more */
/* There is no backup any more: carry out all, and be gone. */
void flights_alone(struct manager *m);
/* The life before had sent this CLEAR: it is made, whoever asked for it. 0 or -ENOMEM. */
int flight_clear_again(struct manager *m, uint32_t proxy, uint64_t id);
/* Of whom the backup writes the result of f: its id, or 0 for none. */
uint64_t flight_result_id(const struct flight *f);

#endif
