/* SPDX-License-Identifier: Apache-2.0 */
/* spill_worker.c - a thread of the spill. */
#include "spill_worker.h"

#include <base/error.h>

#include <signal.h>
#include <stdint.h>
#include <unistd.h>

static void *worker_main(void *arg) {
    struct spill_worker *w = arg;
    const uint64_t one = 1;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        struct spill_job *j = w->first;
        if (!j) {
            pthread_cond_wait(&w->come, &w->lock);
            continue;
        }
        if (!(w->first = j->next))
            w->end = &w->first;
        pthread_mutex_unlock(&w->lock);
        j->run(j);
        /* pairs with job_done(): from here on j belongs to the store again */
        __atomic_store_n(&j->done, true, __ATOMIC_RELEASE);
        if (write(w->wake_fd, &one, sizeof one) < 0) {
        } /* full: it is awake */
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void job_give(struct spill_worker *w, struct spill_job *j) {
    j->next = NULL;
    j->rc = 0;
    j->busy = true;
    j->done = false;
    if (!w->runs) {
        j->run(j);
        j->done = true;
        return;
    }
    pthread_mutex_lock(&w->lock);
    *w->end = j;
    w->end = &j->next;
    pthread_cond_signal(&w->come);
    pthread_mutex_unlock(&w->lock);
}

bool job_done(struct spill_job *j) {
    if (!j->busy || !__atomic_load_n(&j->done, __ATOMIC_ACQUIRE))
        return false;
    j->busy = false;
    return true;
}

int worker_start(struct spill_worker *w, int wake_fd) {
    sigset_t all, was;
    w->wake_fd = wake_fd;
    w->end = &w->first;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->come, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    int e = pthread_create(&w->thread, NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    w->runs = e == 0;
    return e ? dd_error(-e, "no thread for the spill: %s", dd_strerror(-e)) : 0;
}

void worker_end(struct spill_worker *w) {
    if (!w->runs)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->come);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL); /* at most the job under way */
    w->runs = false;
}
