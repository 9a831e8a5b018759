/* SPDX-License-Identifier: Apache-2.0 */
/*
 * async.h - many requests under way without a thread that waits for each: what async.c,
 * async_submit.c and async_lane.c share.
 *
 *     submitted -> unsent (a list of its lane) -> sent -> done (a list of its set) -> polled
 *
 * A lane sends a bounded number of ops at a time: more than a manager takes of one lane would stop
 * it for everybody. Whoever holds lane.lock and finds an answer gives the op to its set, any
 * thread of the process; whoever turns a set sends on what waits on all lanes, of all sets.
 *
 * Q1 While a lane has ops and nobody turns it, LANE_POLLS was announced and the rings were looked
 * at after it; or the manager has rung since, and the
 *      session's eventfd is readable. Who reads the eventfd turns all lanes that have ops.
 * Q2 While a set has done ops and no thread is awake in it, its own eventfd is readable. Q3 An op
 * is its lane's (under lane.lock) until it is done, then its set's (under async.lock). Only who
 * polls frees it. An op that is `queued` is not given to
 *      its set: who takes it from the list does that.
 *
 * Locks: lane.lock before async.lock. `users` keeps the session: detach waits until nobody is
 * inside.
 */
#ifndef DDICT_LIB_ASYNC_H
#define DDICT_LIB_ASYNC_H

#include "handle.h"

struct async_op {
    struct request r; /* first */
    struct ddict_async *q;
    struct async_op *next, **prev; /* unsent of its lane; next: done of its set */
    struct node_manager *m;
    struct outgoing out;
    struct iovec iov;
    int timeout_ms;
    uint64_t at_ns;       /* when it is over, in the set's time */
    uint32_t slot;        /* number of its lease slot, where r.slot is set */
    bool waits;           /* for its key */
    bool queued, counted; /* in unsent; in lane.sent */
    bool done, finished;  /* under async.lock; the public part is complete */
    struct ddict_op pub;
    unsigned char key[];
};

struct ddict_async {
    struct ddict_async *next; /* of the handle, under registry_lock */
    ddict_t *d;               /* NULL after detach; under registry_lock */
    uint32_t generation;      /* of fork_generation: in another process it is dead */
    int epoll_fd, event_fd, timer_fd;
    pthread_mutex_t lock;
    pthread_cond_t quiet;       /* users is 0, or shut no more */
    struct session *session;    /* NULL after detach */
    bool shut;                  /* detach has begun */
    bool hung_up;               /* ddictd's socket is out of the epoll set */
    bool signalled;             /* event_fd is readable */
    unsigned users, awake;      /* threads in a call; of them those that do not sleep */
    struct async_op **op_table; /* [cap], by the low half of tickets */
    uint32_t *unused;           /* [cap], the first unused_n are free numbers */
    uint32_t cap, unused_n, tickets;
    uint32_t under_way; /* not done */
    size_t len;         /* not polled */
    struct async_op *done, **done_end;
    /* the set's time is the clock's less shift: it stops while the process is stopped */
    uint64_t looked_ns, shift_ns;
    uint64_t earliest_ns; /* no op ends earlier */
    uint64_t armed_ns;    /* when timer_fd fires, by the clock; 0: not armed */
};

/* --- async_lane.c: ops on their lanes --- */
/* To the end of its lane's list; client_lanes_turn() sends it. One that has no ticket gets it;
 * false: no memory for that. */
bool async_op_send(struct async_op *op, uint64_t *ticket);
/* Take and send what is there; for lane.lock and Q1. True: there is more to do at once. */
bool client_lane_turn(struct client_lane *p);
/* all: also those where nothing is to be seen (the eventfd was read) */
void client_lanes_turn(struct session *s, bool all);
/* End it with code unless it is done. False: there is none, or it is. The caller is a user of the
 * set. text: may be NULL. */
bool async_op_end(struct ddict_async *q, uint64_t ticket, int code, const char *text);
void async_op_finish(struct session *s, struct async_op *op); /* it is done: fill the public part */

/* --- async.c --- */
/* From who has lane.lock: the op is over. It may be gone when this returns. */
void async_add_done(struct ddict_async *q, struct async_op *op);
void async_detach(ddict_t *d); /* before its session is closed */
/* by async_op_send(), under lane.lock: op gets its ticket and its time; false: no memory */
bool async_add(struct ddict_async *q, struct async_op *op);
/* *s NULL: detached. 0 or -ECANCELED */
int async_enter(struct ddict_async *q, struct session **s);
void async_leave(struct ddict_async *q);
void async_arm_timer(struct ddict_async *q); /* the timer for what is under way */

#endif
