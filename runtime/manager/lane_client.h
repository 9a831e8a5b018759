/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane_client.h - one client of this node, and its lane. Private to lane_*.c, lanes.c and recovery.c;
 * lane_clients.c makes, lists and frees clients. Only the manager's own thread uses
 * it; the client writes its end of the lane and its leases, in shared memory.
 */
#ifndef DDICT_MANAGER_LANE_CLIENT_H
#define DDICT_MANAGER_LANE_CLIENT_H

#include "backlog.h"
#include "manager.h"
#include "requester.h"

struct placed {
    uint64_t pos, off;
}; /* pinned until CQ head is at pos */

struct lane_client {
    struct requester a; /* first */
    struct lane_client *next;
    /* list of watched lanes; w_prev NULL: left */
    struct lane_client *w_next, **w_prev;
    /* list of clients with completions that are not consumed; u_prev NULL: not in it */
    struct lane_client *u_next, **u_prev;
    /* lane_memory.c: list of clients whose lane was used since its memory was given back; g_prev
     * NULL: not in it */
    struct lane_client *g_next, **g_prev;
    bool used; /* since lane_shrink() looked at it last */
    /* the area below this byte has been given back in this pass */
    uint64_t shrunk_to;
    struct io_handler eventfd;   /* the client writes it: there is a request, or room in CQ */
    uint64_t bytes;              /* of the lane's memory, when it was looked up last */
    struct lease_counters reads; /* likewise */
    unsigned vain;               /* turns without work since the last record */
    uint64_t id;
    uint32_t pid;
    struct lane lane;
    const struct lease_chunk *leases;
    /* stalled: its next record waits for a connection, or for room. told: ddictd knows that it
     * broke a rule */
    bool stalled, told;
    bool paused; /* until puts_look() says so */
    bool wake;   /* its CQ tail has moved: wake the client at the end of the turn */
    /* its SQ head has, since served_from: wake the client if SQ can have been full */
    bool served;
    uint64_t served_from;
    const struct msg *at_hand; /* the request being carried out, while its record is in SQ */
    bool starved;              /* its next request waits for room in CQ */
    /* payload of the record that is reserved for part of a piece */
    uint8_t *part;
    uint32_t part_room;
    /* connections wait for room in CQ; they waited too long, so their pieces are queued until the
     * queue is empty again */
    bool part_waits, part_late;
    struct timer part_timer;
    struct backlog backlog; /* answers that did not fit */
    struct placed *placed;  /* a ring of cap entries, oldest at first */
    size_t placed_first, placed_n, placed_cap;
};

/* Its client may ask something, but nothing else is to be done for it. */
static inline bool lane_quiet(const struct lane_client *c) {
    return c->backlog.n == 0 && !c->a.streams_out && !c->part_waits && !c->stalled && !c->paused &&
           !c->wake && !c->served && !c->starved;
}

#endif
