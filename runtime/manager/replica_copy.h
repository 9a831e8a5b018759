/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replica_copy.h - a primary makes a new backup: what is to be sent next (PROTOCOL 13, "A new backup").
 * replica_primary.c sends it, between changes in flight.
 *
 *     SYNC {NEW}   ---> the backup empties itself
 *                  <--- ACK 0                  or 1: it is whole already, and nothing is copied
 *     ITEM, LIMIT  ---> of each key, when no change of it is in flight
 *     RESULT       ---> of all that proxies may ask again
 *     WHOLE        --->
 *                  <--- ACK of that; then ddictd is told (SUP_COPIED)
 *
 * The walk over the keys has the keys of one segment of the index at a time, and looks each up when it
 * is sent: what is gone by then needs nothing, and what is new is in flight by itself. A key of which a
 * change is in flight has to wait (flight_copy()), and so has a key with several values, since they are
 * sent in several turns.
 */
#ifndef DDICT_MANAGER_REPLICA_COPY_H
#define DDICT_MANAGER_REPLICA_COPY_H

#include "manager.h"

struct result;
struct replica_copy {
    struct manager *m;
    enum {
        COPY_OFF,
        COPY_ASKED, /* SYNC is sent */
        COPY_KEYS,
        COPY_RESULTS,
        COPY_ENDS, /* WHOLE is sent */
        COPY_OVER
    } at;
    uint64_t cursor; /* of store_keys_and_limits() */
    bool last;       /* the segment at hand is the last */
    /* keys of the segment: length and bytes of each */
    uint8_t *keys;
    size_t used, cap, next;
    bool waits; /* the key that was asked for last waits for its turn */
    uint32_t proxy;
    uint64_t place;
    uint64_t due_ns; /* nothing before */
    struct timer wake;
};
struct copy_next {
    /* AGAIN: nothing, but there is more to be looked at */
    enum { NEXT_NOTHING, NEXT_AGAIN, NEXT_KEY, NEXT_RESULT, NEXT_WHOLE } what;
    const uint8_t *key; /* valid until the next call */
    uint32_t key_len;
    uint64_t hash;
    uint32_t proxy;
    const struct result *result;
};

void replica_copy_init(struct replica_copy *c, struct manager *m);
void replica_copy_free(struct replica_copy *c);
/* A connection begins: SYNC was sent. It ends: all is to be sent by the next one. */
void replica_copy_begin(struct replica_copy *c);
void replica_copy_stop(struct replica_copy *c);
bool replica_copy_may(struct replica_copy *c); /* not before what was sent has had its time */
/* What is to be sent now, all of it before the next call; behind a key flight_copied(). */
struct copy_next replica_copy_next(struct replica_copy *c);
/* So many bytes were sent in this turn. */
void replica_copy_sent(struct replica_copy *c, uint64_t bytes);

#endif
