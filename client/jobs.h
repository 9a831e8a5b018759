/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobs.h - many requests under way without a thread that waits for each: what jobs.c, submit.c and job.c share.
 *
 *     submitted -> unsent (a list of its port) -> sent -> done (a list of its set) -> polled
 *
 * A port sends a bounded number of jobs at a time: more than a manager takes of one lane would stop it for everybody. Whoever holds port.lock and finds
 * an answer gives the job to its set, any thread of the process; whoever turns a set sends on what waits on all ports, of all sets.
 *
 *  Q1  While a port has jobs and nobody turns it, LANE_POLLS was announced and the rings were looked at after it; or the manager has rung since, and the
 *      session's eventfd is readable. Who reads the eventfd turns all ports that have jobs.
 *  Q2  While a set has done jobs and no thread is awake in it, its own eventfd is readable.
 *  Q3  A job is its port's (under port.lock) until it is done, then its set's (under jobs.lock). Only who polls frees it. A job that is `queued` is not given to
 *      its set: who takes it from the list does that.
 *
 * Locks: port.lock before jobs.lock. `users` keeps the session: detach waits until nobody is inside.
 */
#ifndef DDICT_CLIENT_JOBS_H
#define DDICT_CLIENT_JOBS_H

#include "handle.h"

struct job {
    struct request r; /* first */
    struct ddict_jobs *q;
    struct job *next, **prev; /* unsent of its port; next: done of its set */
    struct node_manager *m;
    struct outgoing out;
    struct iovec iov;
    int timeout_ms;
    uint64_t at_ns;       /* when it is over, in the set's time */
    uint32_t slot;        /* number of its lease slot, where r.slot is set */
    bool waits;           /* for its key */
    bool queued, counted; /* in unsent; in port.sent */
    bool done, finished;  /* under jobs.lock; the public part is complete */
    struct ddict_job pub;
    unsigned char key[];
};

struct ddict_jobs {
    struct ddict_jobs *next; /* of the handle, under registry_lock */
    ddict_t *d;              /* NULL after detach; under registry_lock */
    uint32_t generation;     /* of fork_generation: in another process it is dead */
    int epoll_fd, event_fd, timer_fd;
    pthread_mutex_t lock;
    pthread_cond_t quiet;    /* users is 0, or shut no more */
    struct session *session; /* NULL after detach */
    bool shut;               /* detach has begun */
    bool hung_up;            /* ddictd's socket is out of the epoll set */
    bool signalled;          /* event_fd is readable */
    unsigned users, awake;   /* threads in a call; of them those that do not sleep */
    struct job **job;        /* [cap], by the low half of tickets */
    uint32_t *unused;        /* [cap], the first unused_n are free numbers */
    uint32_t cap, unused_n, tickets;
    uint32_t under_way; /* not done */
    size_t len;         /* not polled */
    struct job *done, **done_end;
    uint64_t looked_ns,
        shift_ns; /* the set's time is the clock's less shift: it stops while the process is stopped */
    uint64_t earliest_ns; /* no job ends earlier */
    uint64_t armed_ns;    /* when timer_fd fires, by the clock; 0: not armed */
};

/* --- job.c: jobs on their ports --- */
/* To the end of its port's list; ports_turn() sends it. One that has no ticket gets it; false: no memory for that. */
bool job_send(struct job *j, uint64_t *ticket);
/* Take and send what is there; for port.lock and Q1. True: there is more to do at once. */
bool port_turn(struct port *p);
void ports_turn(struct session *s,
                bool all); /* all: also those where nothing is to be seen (the eventfd was read) */
/* End it with code unless it is done. False: there is none, or it is. The caller is a user of the set. text: may be NULL. */
bool job_end(struct ddict_jobs *q, uint64_t ticket, int code, const char *text);
void job_finish(struct session *s, struct job *j); /* it is done: fill the public part */

/* --- jobs.c --- */
/* From who has port.lock: the job is over. It may be gone when this returns. */
void jobs_done(struct ddict_jobs *q, struct job *j);
void jobs_detach(ddict_t *d); /* before its session is closed */
bool jobs_add(
    struct ddict_jobs *q,
    struct job
        *j); /* by job_send(), under port.lock: j gets its ticket and its time; false: no memory */
int jobs_enter(struct ddict_jobs *q, struct session **s); /* *s NULL: detached. 0 or -ECANCELED */
void jobs_leave(struct ddict_jobs *q);
void jobs_arm(struct ddict_jobs *q); /* the timer for what is under way */

#endif
