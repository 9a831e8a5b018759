/* SPDX-License-Identifier: Apache-2.0 */
/*
 * async.h - sets of asynchronous operations (ops): what async.c, async_submit.c, async_order.c and
 * async_lane.c share. An op is
 *
 *     submitted -> unsent (a list of its lane) -> sent -> done (a list of its set) -> polled
 *              \     ^
 *               `-> follows another op
 *
 * A lane sends a bounded number of ops at a time: more than a manager takes from one lane would
 * stop it for everybody. Any thread of the process that holds lane.lock and finds an answer gives
 * the op to its set. A thread that turns a set sends on what waits on all lanes, of all sets.
 *
 * Q1 While a lane has ops and no thread turns it, LANE_POLLS was announced and the rings were
 *    looked at after that; or the manager has written the session's client_eventfd since, and it is
 *    readable. A thread that reads it turns all lanes that have ops.
 * Q2 While a set has done ops and no thread is awake in it, the set's own eventfd is readable.
 * Q3 An op belongs to its lane (under lane.lock) until it is done, then to its set (under
 *    async.lock). Only the thread that polls it frees it. An op that is `queued` is given to its
 *    set by the thread that takes it from the list.
 * Q4 Puts, dels and pops (that do not wait) of one key in one set are begun by the owner as they
 *    were submitted, since it takes the records of a lane in their order. But a pop is refused, and
 *    sent again, where its value is longer than the memory set aside; and of a value that goes to
 *    another node in pieces some may have to be sent again (REWIND). So while such an op is under
 *    way, it leads: what is submitted behind it follows, unsent, until its answer is final. Its
 *    followers, and its place among the leaders, belong to its lane also when it is done.
 *
 * Locks: lane.lock before async.lock. `users` keeps the session: detach waits until no thread is
 * inside.
 */
#ifndef DDICT_LIB_ASYNC_H
#define DDICT_LIB_ASYNC_H

#include "handle.h"

struct async_op {
    struct request r; /* first */
    struct ddict_async *q;
    struct async_op *next, **prev; /* unsent of its lane, or followers; next: done of its set */
    struct node_manager *m;
    struct outgoing out;
    struct iovec iov;
    int timeout_ms;
    uint64_t at_ns;       /* its deadline, in the set's time */
    uint32_t slot;        /* number of its lease slot, if r.slot is set */
    bool waits;           /* for its key */
    bool queued, counted; /* in unsent, or in followers; in lane.sent */
    /* see Q4. ordered: has its place in the order of its key; repeats: one among these that may
     * have to be sent again; leads: it is in lane.leaders; follows: it is in followers of such a one */
    bool ordered, repeats, leads, follows;
    struct client_lane_ops followers; /* of one that leads */
    struct async_op *chain;           /* bucket of lane.leaders */
    uint64_t hash;                    /* of its key */
    bool done, finished;              /* under async.lock; the public part is complete */
    struct ddict_op pub;
    unsigned char key[];
};

struct ddict_async {
    struct ddict_async *next; /* of the handle, under registry_lock */
    ddict_t *d;               /* NULL after detach; under registry_lock */
    uint32_t generation; /* fork_generation at its opening; another one: the set is dead here */
    int epoll_fd, event_fd, timer_fd;
    pthread_mutex_t lock;
    pthread_cond_t quiet;       /* users is 0, or shut no more */
    struct session *session;    /* NULL after detach */
    bool shut;                  /* detach or close has begun */
    bool hung_up;               /* ddictd's socket is out of the epoll set */
    bool signalled;             /* event_fd is readable */
    unsigned users, awake;      /* threads in a call; those among them that do not sleep */
    struct async_op **op_table; /* [cap], by the low half of tickets */
    uint32_t *unused;           /* [cap], the first unused_n are free numbers */
    uint32_t cap, unused_n, tickets;
    uint32_t under_way; /* not done */
    size_t len;         /* not polled */
    struct async_op *done, **done_end;
    /* the set's time is the clock minus shift: it stops while the process is stopped */
    uint64_t looked_ns, shift_ns;
    uint64_t earliest_ns; /* no op ends earlier */
    uint64_t armed_ns;    /* when timer_fd fires, by the clock; 0: not armed */
};

/* --- async_order.c; all under lane.lock --- */
/* Put the op at the end of unsent; or of the followers of the pop that it has to follow. */
void async_op_queue(struct client_lane *p, struct async_op *op);
void async_op_unqueue(struct client_lane *p, struct async_op *op); /* undo it */
/* Whether it is a pop that was refused for want of memory for its value, of *len bytes: it is to be
 * sent again. */
bool async_op_refused(const struct async_op *op, uint64_t *len);
/* The answer of an op that leads is final: its followers are unsent now. */
void async_op_lead_on(struct client_lane *p, struct async_op *op);

/* --- async_lane.c: ops on their lanes --- */
/* Put the op where it is unsent, or follows, for client_lanes_turn() to send, and give it a ticket
 * if it has none. False: no memory for that. */
bool async_op_send(struct async_op *op, uint64_t *ticket);
/* Take answers and send ops of one lane, as Q1 wants. True: there is more to do at once. */
bool client_lane_turn(struct client_lane *p);
/* Turn the lanes that have something to do; all: every lane with ops, after the eventfd was
 * read. */
void client_lanes_turn(struct session *s, bool all);
/* End the op of that ticket with code and text (may be NULL). False: there is none, or it is done
 * already. The caller is a user of the set. */
bool async_op_end(struct ddict_async *q, uint64_t ticket, int code, const char *text);
/* As async_op_lead_on(), without lock, for a done op that leads and is not sent again. */
void async_op_settle(struct async_op *op);
/* Fill the public part of a done op. */
void async_op_finish(struct session *s, struct async_op *op);

/* --- async_submit.c --- */
/* Do it by the calls for one key, in this thread. d may be NULL: -ECANCELED. */
int async_op_at_once(ddict_t *d, struct ddict_op *o);

/* --- async.c --- */
/* Under lane.lock: the op is over; give it to its set. It may be freed when this returns. */
void async_add_done(struct ddict_async *q, struct async_op *op);
void async_detach(ddict_t *d); /* before its session is closed */
/* For async_op_send(), under lane.lock: give op its ticket and its deadline. False: no memory. */
bool async_add(struct ddict_async *q, struct async_op *op);
/* Likewise, of an op that was done: it is under way again, and others may end it. */
void async_add_again(struct ddict_async *q, struct async_op *op);
/* Become a user of the set, until async_leave(). *s: its session; NULL after detach. 0, or
 * -ECANCELED in a child. */
int async_enter(struct ddict_async *q, struct session **s);
void async_leave(struct ddict_async *q);
void async_arm_timer(struct ddict_async *q); /* for the earliest deadline of what is under way */

#endif
