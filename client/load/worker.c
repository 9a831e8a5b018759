/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - threads that claim and read units, and the main loop of a worker that is not the
 * leader. */
#include "worker.h"

#include "batch_writer.h"
#include "format/sources.h"
#include "load.h"
#include "signals.h"
#include "state.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/verb.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#define THREADS_LEAST 4u
#define THREADS_MOST  16u

/* Claim a unit that nobody reads: 1 and *n, 0: there is none, or negative. Each worker begins at
 * another place. */
static int unit_claim(uint64_t *n) {
    struct load *l = &the_load;
    for (;;) {
        /* gives each thread its own number; it orders nothing */
        uint64_t i = __atomic_fetch_add(&l->claimed, 1, __ATOMIC_RELAXED);
        if (i >= l->units || load_stopped())
            return 0;
        if (l->plan) { /* nobody else reads */
            *n = i;
            return 1;
        }
        *n = (i + l->units / l->workers * l->worker) % l->units;
        int rc = l->continued ? state_has(l->id, "done", (int64_t)*n) : 0;
        if (rc == 1)
            continue;
        if (rc == 0)
            rc = state_put(l->run, "claim", (int64_t)*n, -1, l->info.node, strlen(l->info.node),
                           DDICT_NEW | DDICT_TAG(LOAD_TAG_STR));
        if (rc == 0)
            return 1;
        if (rc != DDICT_EEXISTS)
            return rc;
    }
}

static void *thread_run(void *unused) {
    struct sink *s = sink_new();
    uint64_t n;
    int rc = !s ? dd_error(-ENOMEM, "out of memory") : 0;
    while (rc == 0 && (rc = unit_claim(&n)) == 1) {
        rc = sink_unit(s, n);
        if (rc == 0)
            /* a counter; it orders nothing */
            __atomic_fetch_add(&the_load.figures.units, 1, __ATOMIC_RELAXED);
    }
    if (rc < 0 && rc != -ECANCELED)
        load_fail(rc, dd_errmsg());
    sink_free(s);
    /* pairs with the acquire in worker_join(): its figures are complete */
    __atomic_fetch_add(&the_load.ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

void worker_start(void) {
    struct load *l = &the_load;
    unsigned want = l->o->threads, cpus = (unsigned)get_nprocs();
    if (want == 0)
        want = 2 * cpus < THREADS_LEAST  ? THREADS_LEAST
               : 2 * cpus > THREADS_MOST ? THREADS_MOST
                                         : 2 * cpus;
    if (want > LOAD_THREADS_MAX)
        want = LOAD_THREADS_MAX;
    if (want > l->units)
        want = l->units > 0 ? (unsigned)l->units : 1;
    for (l->nthreads = 0; l->nthreads < want; l->nthreads++)
        if (pthread_create(&l->threads[l->nthreads], NULL, thread_run, NULL) != 0)
            break;
    if (l->nthreads == 0)
        load_fail(-EAGAIN, "cannot start a thread");
}

bool worker_join(void) {
    struct deadline limit;
    deadline_start(&limit, LOAD_STOP_MS);
    /* Acquire pairs with the release at the end of thread_run(). */
    while (load_stopped() &&
           __atomic_load_n(&the_load.ended, __ATOMIC_ACQUIRE) < the_load.nthreads &&
           deadline_left(&limit, 10) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    if (load_stopped() && __atomic_load_n(&the_load.ended, __ATOMIC_ACQUIRE) < the_load.nthreads)
        return false;
    for (unsigned i = 0; i < the_load.nthreads; i++)
        pthread_join(the_load.threads[i], NULL);
    the_load.nthreads = 0;
    return true;
}

/* --- workers other than the leader --- */

/* counters; they order nothing */
static uint64_t figure_load(const uint64_t *f) {
    return __atomic_load_n(f, __ATOMIC_RELAXED);
}

/* bye: text of the last beat, else "". */
static int worker_beat(uint64_t seq, const char *bye) {
    const struct figures *f = &the_load.figures;
    char text[200];
    snprintf(text, sizeof text,
             "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
             "%s",
             seq, figure_load(&f->units), figure_load(&f->items), figure_load(&f->bytes),
             figure_load(&f->read), figure_load(&f->there), figure_load(&f->failed), bye);
    return state_put(the_load.run, "beat", the_load.worker, -1, text, strlen(text),
                     DDICT_TAG(LOAD_TAG_STR));
}

/* Read the leader's beat: 'w' wait, 'g' go, 'e' the load has ended, or negative. */
static int leader_ask(struct deadline *lost, char last[LOAD_ERROR_MAX]) {
    char text[LOAD_ERROR_MAX], word[16] = "", kind[16];
    uint64_t units;
    int rc = state_peek(the_load.run, NULL, -1, text, sizeof text);
    if (rc < 0 && rc != DDICT_ENOKEY && rc != -EAGAIN)
        return rc;
    if (rc == DDICT_ENOKEY && *last != 0)
        return 'e'; /* complete, and its keys deleted */
    if (rc == 0 && strcmp(text, last) != 0) {
        deadline_start(lost, LOAD_LOST_MS);
        snprintf(last, LOAD_ERROR_MAX, "%s", text);
    }
    if (deadline_over(lost))
        return dd_error(-ETIMEDOUT, "the leader of the load has not been heard of for %d s",
                        LOAD_LOST_MS / 1000);
    if (rc < 0)
        return the_load.units > 0 ? 'g' : 'w';
    sscanf(text, "%*u %15s", word);
    if (strcmp(word, "go") == 0 && the_load.units > 0)
        return 'g';
    if (strcmp(word, "go") == 0 &&
        sscanf(text, "%*u go %32s %" SCNu64 " %15s", the_load.id, &units, kind) == 3) {
        for (unsigned i = 0; i < the_load.o->nsources; i++)
            the_load.origins[i] = (struct origin){the_load.o->sources[i], source_named(kind)};
        if (!the_load.origins[0].kind)
            return dd_error(
                -EINVAL, "the leader of the load loads \"%s\", which this ddict-load does not know",
                kind);
        the_load.units = units;
        the_load.continued = strstr(text, " continued") != NULL;
        return 'g';
    }
    return strcmp(word, "wait") == 0 ? 'w' : 'e';
}

int worker_run(void) {
    struct deadline lost;
    char last[LOAD_ERROR_MAX] = "", stop[LOAD_ERROR_MAX];
    uint64_t seq = 0;
    bool going = false;
    int said = 'w', rc = 0, sig = 0;
    deadline_start(&lost, LOAD_LOST_MS);
    while (rc == 0 && sig == 0 && (said = leader_ask(&lost, last)) > 0 && said != 'e') {
        if (said == 'g' && !going) {
            worker_start();
            going = true;
        }
        if (going && (rc = worker_beat(++seq, "")) == 0 &&
            (rc = state_peek(the_load.run, "stop", -1, stop, sizeof stop)) == 0)
            break; /* the leader reports the reason */
        if (rc == DDICT_ENOKEY || rc == -EAGAIN)
            rc = 0;
        /* Acquire pairs with the release at the end of thread_run(): the last beat has all
         * figures. */
        if (going && __atomic_load_n(&the_load.ended, __ATOMIC_ACQUIRE) == the_load.nthreads)
            break;
        sig = signals_wait(going ? LOAD_BEAT_MS / 2 : LOAD_BEAT_MS / 10);
    }
    if (said < 0)
        rc = said;
    if (rc < 0)
        verb_say("%s: %s", the_load.info.node, dd_errmsg());
    if (rc < 0 || sig != 0 || said == 'e' || !going ||
        __atomic_load_n(&the_load.ended, __ATOMIC_ACQUIRE) < the_load.nthreads)
        /* a flag alone; it orders nothing */
        __atomic_store_n(&the_load.stopped, 1, __ATOMIC_RELAXED);
    bool joined = worker_join();
    if (rc == 0)
        worker_beat(++seq, " bye");
    if (!joined)
        _exit(rc < 0 || sig != 0 ? 1 : 0);
    return rc < 0 || sig != 0;
}
