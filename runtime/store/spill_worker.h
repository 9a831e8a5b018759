/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill_worker.h - a thread of the spill, which does jobs in order, so that only requests for what
 * is on the disk wait for a slow disk. A job is part of what it is for; from job_give() until
 * job_done() it and what it names are the thread's, otherwise the store's. Only the store's thread
 * calls these functions.
 */
#ifndef DDICT_STORE_SPILL_WORKER_H
#define DDICT_STORE_SPILL_WORKER_H

#include <pthread.h>
#include <stdbool.h>

struct spill_job {
    struct spill_job *next;
    void (*run)(struct spill_job *j); /* sets rc */
    int rc;
    bool busy, done; /* done: atomic; the thread sets it last */
};
struct spill_worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t come;
    struct spill_job *first, **end;
    bool runs, stop;
    int wake_fd;
};

/* The thread writes wake_fd (8 bytes, as to an eventfd) after each job. 0, or a negative code with a
 * sentence. */
int worker_start(struct spill_worker *w, int wake_fd);
void worker_end(struct spill_worker *w); /* once the job under way is over; drops the others */
/* Without a thread, the job is done at once. */
void job_give(struct spill_worker *w, struct spill_job *j);
bool job_done(struct spill_job *j); /* true once, when a busy job is over */

#endif
