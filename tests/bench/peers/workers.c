/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.c - processes that work at the same time. They are forked once, open the stores anew,
 * read everything once, and then wait for jobs; orders and results lie in shared memory. A worker
 * ends with its parent.
 */
#include "peers.h"
#include <base/clock.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS_MAX 8u
#define STORES_MAX  4u

struct shared {
    uint32_t go; /* atomic: number of the order; UINT32_MAX: end */
    uint64_t ns;
    struct job job[WORKERS_MAX];
    uint32_t finished[WORKERS_MAX]; /* atomic: order done */
    struct done done[WORKERS_MAX];
};
struct workers {
    struct shared *s;
    unsigned n;
    pid_t pid[WORKERS_MAX];
    uint32_t order;
};

void cpu_only(int cpu) {
    static cpu_set_t all;
    static bool known;
    cpu_set_t set;
    if (!known)
        known = sched_getaffinity(0, sizeof all, &all) == 0;
    CPU_ZERO(&set);
    if (cpu >= 0)
        CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, cpu >= 0 ? &set : &all);
}

struct opened {
    const struct store *store;
    void *self;
};

static void work(struct shared *s, unsigned me, const struct opened *o, unsigned count,
                 const struct where *w) {
    const struct job *job = &s->job[me];
    struct done *d = &s->done[me];
    struct turn t;
    uint64_t spent = 0;
    memset(d, 0, sizeof *d);
    if (!job->store)
        return;
    for (unsigned i = 0; i < count && o[i].store != job->store;)
        if (++i == count) {
            d->rc = -ENOENT;
            return;
        }
    const struct opened *x = o;
    while (x->store != job->store)
        x++;
    cpu_only(job->cpu);
    d->rc = turn_store(&t, x->store, x->self, w, job->op, job->batch);
    t.random.x *= 2 * me + 1;
    t.latencies = job->latencies;
    uint64_t before = cpu_ns();
    int64_t n = d->rc < 0 ? d->rc : t.go(&t, s->ns, &spent);
    d->cpu = cpu_ns() - before;
    d->rc = n < 0 ? (int)n : 0;
    d->ops = n < 0 ? 0 : (uint64_t)n;
    d->ns = spent;
    turn_lats(&t, &d->p50, &d->p99, &d->max);
    turn_free(&t);
    cpu_only(-1);
}

static void worker(struct shared *s, unsigned me, const struct store *const *stores, unsigned count,
                   const struct where *w) {
    struct opened o[STORES_MAX];
    int rc = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = 0; i < count && rc == 0; i++) {
        o[i].store = stores[i];
        rc = stores[i]->open(&o[i].self, w);
        if (rc == 0)
            rc = store_warm(stores[i], o[i].self, w);
    }
    s->done[me].rc = rc;
    for (uint32_t order = 0;; order++) {
        /* pairs with the acquire in await() */
        __atomic_store_n(&s->finished[me], order, __ATOMIC_RELEASE);
        uint32_t go;
        /* pairs with the release in workers_do() */
        while ((go = __atomic_load_n(&s->go, __ATOMIC_ACQUIRE)) == order)
            usleep(100);
        if (go == UINT32_MAX)
            _exit(0);
        work(s, me, o, count, w);
    }
}

static int await(struct workers *w, uint32_t order) {
    for (unsigned i = 0; i < w->n; i++) {
        while (__atomic_load_n(&w->s->finished[i], __ATOMIC_ACQUIRE) != order) {
            usleep(200);
            if (waitpid(w->pid[i], NULL, WNOHANG) == w->pid[i]) {
                w->pid[i] = -1;
                return -ECHILD;
            }
        }
        if (w->s->done[i].rc < 0)
            return w->s->done[i].rc;
    }
    return 0;
}

int workers_start(struct workers **out, unsigned n, const struct store *const *stores,
                  unsigned count, const struct where *where) {
    struct workers *w = calloc(1, sizeof *w);
    if (!w || n > WORKERS_MAX || count > STORES_MAX) {
        free(w);
        return -ENOMEM;
    }
    w->s = mmap(NULL, sizeof *w->s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w->s == MAP_FAILED) {
        free(w);
        return -errno;
    }
    memset(w->s->finished, 255, sizeof w->s->finished);
    for (; w->n < n; w->n++) {
        w->pid[w->n] = fork();
        if (w->pid[w->n] == 0)
            worker(w->s, w->n, stores, count, where);
        if (w->pid[w->n] < 0)
            break;
    }
    int rc = w->n < n ? -EAGAIN : await(w, 0);
    if (rc < 0)
        workers_end(w);
    else
        *out = w;
    return rc;
}

int workers_do(struct workers *w, const struct job *job, uint64_t ns, struct done *done) {
    memcpy(w->s->job, job, w->n * sizeof *job);
    w->s->ns = ns;
    /* pairs with the acquire in worker() */
    __atomic_store_n(&w->s->go, ++w->order, __ATOMIC_RELEASE);
    int rc = await(w, w->order);
    memcpy(done, w->s->done, w->n * sizeof *done);
    return rc;
}

void workers_end(struct workers *w) {
    if (!w)
        return;
    __atomic_store_n(&w->s->go, UINT32_MAX, __ATOMIC_RELEASE); /* as above */
    for (unsigned i = 0; i < w->n; i++)
        if (w->pid[i] > 0)
            waitpid(w->pid[i], NULL, 0);
    munmap(w->s, sizeof *w->s);
    free(w);
}
