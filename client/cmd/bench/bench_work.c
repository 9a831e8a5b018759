/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_work.c - one process of the benchmark. Operations are done in blocks: keys and values are
 * made before, so that only the calls (and the check of their results) are timed. In some blocks
 * each call is timed separately, for the percentiles; these blocks do not count for the rate,
 * because reading the clock costs as much as a short read.
 */
#include "bench.h"
#include <base/clock.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_MAX 256u
#define BLOCK_NS  1000000u /* a block grows until it takes this time */
/* calls; a smaller block is timed call by call, and counts for the rate, too */
#define BLOCK_SMALL      4u
#define TIMED_EVERY      4u         /* one block in so many is timed call by call */
#define BUFFER           (8u << 20) /* size of the values made in advance, and of one put_many */
#define PUT_BATCH        1000u
#define GET_BATCH        64u
#define SUMS             1024u /* keys of a client that add counts in, at most */
#define PUT_SHARE        10u   /* mixed: one call in so many is a put */
#define WARM_SECONDS     0.1
#define UNFREEZE_TRIES   100u /* another client may be about to freeze */
#define UNFREEZE_WAIT_US 10000u

struct worker {
    struct bench_run *run;
    unsigned me, barriers;
    ddict_t *d;
    uint64_t random, first, count; /* this client's keys, which no other client writes */
    uint64_t sums;                 /* numbers that add counts in, of the first of these */
    char *buf;                     /* [pairs] values */
    unsigned pairs, block[OP_N];
    struct ddict_pair *pair;    /* [pairs] */
    char (*key)[BENCH_KEY_MAX]; /* [BLOCK_MAX or more] */
    size_t *klen;
    uint64_t *index;
    unsigned keys;
};

static struct bench_run *run_to_stop; /* for the signal handler */

static void on_signal(int sig) {
    (void)sig;
    __atomic_store_n(&run_to_stop->stop, 1, __ATOMIC_RELEASE);
}

static bool run_is_over(struct worker *w) {
    return __atomic_load_n(&w->run->stop, __ATOMIC_ACQUIRE) ||
           __atomic_load_n(&w->run->failed, __ATOMIC_ACQUIRE);
}

static uint64_t random_below(struct worker *w, uint64_t n) {
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (uint64_t)(((unsigned __int128)w->random * n) >> 64);
}

static int worker_fail(struct worker *w, const char *what, int rc) {
    uint32_t none = 0;
    if (__atomic_compare_exchange_n(&w->run->failed, &none, 1, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        const char *text = rc == -EILSEQ   ? "a value read is not what was put"
                           : rc == -ENOMEM ? "no memory"
                                           : ddict_errmsg();
        snprintf(w->run->text, sizeof w->run->text, "%s: %s", what, text);
    }
    return -1;
}

/* Wait for the other clients; -1 if the run is over. */
static int barrier_wait(struct worker *w) {
    uint32_t all = ++w->barriers * w->run->clients;
    __atomic_fetch_add(&w->run->arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&w->run->arrived, __ATOMIC_ACQUIRE) < all) {
        if (run_is_over(w))
            return -1;
        usleep(100);
    }
    return run_is_over(w) ? -1 : 0;
}

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Processor time of this node's managers from the scheduler's statistics; UINT64_MAX if they cannot
 * be read. */
static uint64_t managers_cpu_ns(const struct bench_run *r) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < r->manager_pids; i++) {
        char path[300];
        snprintf(path, sizeof path, "/proc/%u/task", r->manager_pid[i]);
        DIR *tasks = opendir(path);
        if (!tasks)
            return UINT64_MAX;
        for (struct dirent *e; (e = readdir(tasks));) {
            unsigned long long ns;
            snprintf(path, sizeof path, "/proc/%u/task/%s/schedstat", r->manager_pid[i], e->d_name);
            FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
            if (f && fscanf(f, "%llu", &ns) == 1)
                sum += ns;
            if (f)
                fclose(f);
        }
        closedir(tasks);
    }
    return r->manager_pids > 0 ? sum : UINT64_MAX;
}

/* --- a block of calls --- */

static bool is_put(enum bench_op op, unsigned i) {
    return op == OP_PUT || op == OP_PUT_MANY || (op == OP_MIXED && i % PUT_SHARE == PUT_SHARE - 1);
}

static unsigned get_batch_size(const struct bench_run *r) {
    size_t n = BUFFER / r->value;
    return n == 0 ? 1 : n < GET_BATCH ? (unsigned)n : GET_BATCH;
}

/* Make keys, and values of puts, for n calls of op; for a _MANY op n is the size of the batch. */
static void block_prepare(struct worker *w, enum bench_op op, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        bool puts = is_put(op, i);
        if (op == OP_ADD) {
            w->index[i] = w->first + random_below(w, w->sums);
            w->klen[i] = bench_sum_key(&w->run->keys, w->d, w->key[i], w->index[i]);
            continue;
        }
        w->index[i] = puts ? w->first + random_below(w, w->count) : random_below(w, w->run->count);
        w->klen[i] = bench_key(&w->run->keys, w->d, w->key[i], w->index[i]);
        if (puts)
            bench_fill(w->buf + i % w->pairs * w->run->value, w->run->value, w->index[i]);
    }
}

static int batch_put(struct worker *w, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        w->pair[i] = (struct ddict_pair){.key = w->key[i],
                                         .klen = w->klen[i],
                                         .val = w->buf + i * w->run->value,
                                         .vlen = w->run->value};
    ssize_t rc = ddict_put_many(w->d, w->pair, n, -1);
    for (unsigned i = 0; rc >= 0 && i < n; i++)
        if (w->pair[i].status < 0)
            return w->pair[i].status;
    return rc < 0 ? (int)rc : 0;
}

static int value_check(struct worker *w, const void *val, size_t len, uint64_t index) {
    return len != w->run->value ? -EILSEQ : w->run->touch ? bench_check(val, len, index) : 0;
}

static int batch_get(struct worker *w, unsigned n) {
    struct ddict_want want[GET_BATCH];
    for (unsigned i = 0; i < n; i++) {
        want[i].key = w->key[i];
        want[i].klen = w->klen[i];
    }
    ssize_t found = ddict_get_many(w->d, want, n, 0, -1);
    int rc = found < 0 ? (int)found : 0;
    for (unsigned i = 0; i < n && found >= 0; i++) {
        if (want[i].status < 0) {
            rc = want[i].status;
            continue;
        }
        if (rc == 0)
            rc = value_check(w, want[i].view.data, want[i].view.len, w->index[i]);
        ddict_release(&want[i].view);
    }
    return rc;
}

static int call_make(struct worker *w, enum bench_op op, unsigned i) {
    size_t len;
    struct ddict_view v;
    int64_t sum;
    int rc;
    if (is_put(op, i))
        return ddict_put(w->d, w->key[i], w->klen[i], w->buf + i % w->pairs * w->run->value,
                         w->run->value, 0, -1);
    if (op == OP_ADD) /* of this client alone: never 0 */
        return (rc = ddict_add(w->d, w->key[i], w->klen[i], 1, &sum, -1)) < 0 ? rc
               : sum < 1                                                      ? -EILSEQ
                                                                              : 0;
    if (op == OP_GET) {
        rc = ddict_get(w->d, w->key[i], w->klen[i], w->buf, w->run->value, &len, NULL, 0, -1);
        return rc < 0 ? rc : value_check(w, w->buf, len, w->index[i]);
    }
    rc = ddict_view(w->d, w->key[i], w->klen[i], &v, 0, -1);
    if (rc < 0)
        return rc;
    rc = value_check(w, v.data, v.len, w->index[i]);
    ddict_release(&v);
    return rc;
}

static int block_do(struct worker *w, enum bench_op op, unsigned n, struct histogram *h) {
    int rc = 0;
    uint64_t before = h ? clock_ns() : 0, now;
    if (op == OP_PUT_MANY || op == OP_GET_MANY) {
        rc = op == OP_PUT_MANY ? batch_put(w, n) : batch_get(w, n);
        if (h)
            histogram_add(h, clock_ns() - before);
        return rc;
    }
    for (unsigned i = 0; i < n && rc == 0; i++) {
        rc = call_make(w, op, i);
        if (!h)
            continue;
        now = clock_ns();
        histogram_add(h, now - before);
        before = now;
    }
    return rc;
}

static unsigned block_limit(const struct worker *w, enum bench_op op) {
    return op == OP_PUT && w->pairs < BLOCK_MAX ? w->pairs : BLOCK_MAX;
}

static int slice_run(struct worker *w, enum bench_op op, double seconds, struct bench_slice *out,
                     struct histogram *h) {
    bool batch = op == OP_PUT_MANY || op == OP_GET_MANY;
    uint64_t end = clock_ns() + (uint64_t)(seconds * 1e9);
    memset(out, 0, sizeof *out);
    for (unsigned turn = 0; (clock_ns() < end || out->ops == 0) && !run_is_over(w); turn++) {
        unsigned n = batch ? op == OP_PUT_MANY ? w->pairs : get_batch_size(w->run) : w->block[op];
        bool small = batch || n <= BLOCK_SMALL, timed = small || turn % TIMED_EVERY == 0;
        block_prepare(w, op, n);
        uint64_t cpu = cpu_ns(), before = clock_ns();
        int rc = block_do(w, op, n, timed ? h : NULL);
        uint64_t took = clock_ns() - before;
        if (rc < 0)
            return worker_fail(w, bench_op_name[op], rc);
        if (small || !timed) {
            out->ops += n;
            out->ns += took;
            out->cpu_ns += cpu_ns() - cpu;
        }
        if (!batch && took < BLOCK_NS / 2 && n * 2 <= block_limit(w, op))
            w->block[op] = n * 2;
    }
    return run_is_over(w) ? -1 : 0;
}

/* --- a run --- */

static int keys_load(struct worker *w) {
    for (uint64_t i = 0; i < w->count; i += w->pairs) {
        unsigned n = w->count - i < w->pairs ? (unsigned)(w->count - i) : w->pairs;
        for (unsigned k = 0; k < n; k++) {
            uint64_t index = w->first + i + k;
            w->klen[k] = bench_key(&w->run->keys, w->d, w->key[k], index);
            bench_fill(w->buf + k * w->run->value, w->run->value, index);
        }
        int rc = batch_put(w, n);
        if (rc < 0)
            return worker_fail(w, "loading", rc);
        if (run_is_over(w))
            return -1;
    }
    return 0;
}

static int dictionary_freeze(struct worker *w) {
    /* pairs with the acquire in key_remove() */
    __atomic_store_n(&w->run->froze, 1, __ATOMIC_RELEASE);
    int rc = ddict_freeze(w->d, -1);
    return rc < 0 ? worker_fail(w, "freezing", rc) : 0;
}

/* Read each value once, after which values of other nodes are in the node cache, as far as they
 * fit. */
static int values_fetch(struct worker *w) {
    for (uint64_t i = 0; i < w->count && !run_is_over(w); i++) {
        w->index[0] = w->first + i;
        w->klen[0] = bench_key(&w->run->keys, w->d, w->key[0], w->index[0]);
        int rc = call_make(w, OP_VIEW, 0);
        if (rc < 0)
            return worker_fail(w, "fetching", rc);
    }
    return 0;
}

static int key_remove(struct worker *w, const char *key, size_t klen) {
    int rc = ddict_del(w->d, key, klen, -1);
    for (unsigned tries = 0;
         rc == DDICT_EFROZEN && __atomic_load_n(&w->run->froze, __ATOMIC_ACQUIRE) &&
         tries < UNFREEZE_TRIES;
         tries++) {
        if (tries > 0)
            usleep(UNFREEZE_WAIT_US);
        if ((rc = ddict_unfreeze(w->d, -1)) == 0)
            rc = ddict_del(w->d, key, klen, -1);
    }
    return rc;
}

/* Remove this client's keys; after a failure too, as far as they exist. */
static int keys_remove(struct worker *w) {
    char key[BENCH_KEY_MAX];
    for (uint64_t i = 0; i < w->count; i++) {
        int rc = key_remove(w, key, bench_key(&w->run->keys, w->d, key, w->first + i));
        if ((rc == 0 || rc == DDICT_ENOKEY) && w->run->ops[OP_ADD] && i < w->sums)
            rc = key_remove(w, key, bench_sum_key(&w->run->keys, w->d, key, w->first + i));
        if (rc < 0 && rc != DDICT_ENOKEY)
            return worker_fail(w, "removing the keys", rc);
    }
    return 0;
}

static void step_count(struct worker *w) {
    if (w->me == 0)
        __atomic_fetch_add(&w->run->steps, 1, __ATOMIC_RELAXED); /* for display */
}

unsigned bench_steps(const struct bench_run *r) {
    unsigned n = 0;
    for (unsigned op = 0; op < OP_N; op++)
        n += r->ops[op];
    return n * r->reps + 2;
}

/* Do each operation in turn, and repeat all of them, so that a disturbance does not affect one
 * operation alone. */
static int operations_run(struct worker *w) {
    struct bench_run *r = w->run;
    struct bench_slice warm;
    if (keys_load(w) < 0 || barrier_wait(w) < 0)
        return -1;
    step_count(w);
    if (r->freeze &&
        ((w->me == 0 && dictionary_freeze(w) < 0) || barrier_wait(w) < 0 || values_fetch(w) < 0))
        return -1;
    for (unsigned rep = 0; rep < r->reps; rep++) {
        for (enum bench_op op = 0; op < OP_N; op++) {
            if (!r->ops[op])
                continue;
            if (barrier_wait(w) < 0 ||
                slice_run(w, op, WARM_SECONDS < r->seconds ? WARM_SECONDS : r->seconds, &warm,
                          NULL) < 0 ||
                barrier_wait(w) < 0)
                return -1;
            uint64_t before = w->me == 0 ? managers_cpu_ns(r) : 0;
            if (barrier_wait(w) < 0 ||
                slice_run(w, op, r->seconds, &r->slice[op][rep][w->me], &r->latency[op][w->me]) <
                    0 ||
                barrier_wait(w) < 0)
                return -1;
            if (w->me == 0) {
                uint64_t after = managers_cpu_ns(r);
                r->manager_ns[op][rep] =
                    before == UINT64_MAX || after == UINT64_MAX || after < before ? UINT64_MAX
                                                                                  : after - before;
            }
            step_count(w);
        }
    }
    return 0;
}

static int worker_open(struct worker *w) {
    struct bench_run *r = w->run;
    w->first = r->count * w->me / r->clients;
    w->count = r->count * (w->me + 1) / r->clients - w->first;
    w->sums = w->count < SUMS ? w->count : SUMS;
    w->random = (w->me + 1) * 0x9E3779B97F4A7C15ull;
    size_t pairs = BUFFER / r->value;
    w->pairs = pairs > PUT_BATCH ? PUT_BATCH : pairs == 0 ? 1 : (unsigned)pairs;
    if (w->pairs > w->count)
        w->pairs = (unsigned)w->count;
    w->keys = w->pairs > BLOCK_MAX ? w->pairs : BLOCK_MAX;
    for (unsigned op = 0; op < OP_N; op++)
        w->block[op] = 1;
    w->buf = aligned_alloc(64, (w->pairs * r->value + 63) / 64 * 64);
    w->pair = calloc(w->pairs, sizeof *w->pair);
    w->key = calloc(w->keys, sizeof *w->key);
    w->klen = calloc(w->keys, sizeof *w->klen);
    w->index = calloc(w->keys, sizeof *w->index);
    if (!w->buf || !w->pair || !w->key || !w->klen || !w->index)
        return worker_fail(w, "opening", -ENOMEM);
    int rc = ddict_attach(&w->d, r->name, -1);
    return rc < 0 ? worker_fail(w, "opening", rc) : 0;
}

int bench_work(struct bench_run *r, unsigned me) {
    struct worker w = {.run = r, .me = me};
    run_to_stop = r;
    signal(SIGINT, SIG_IGN); /* the terminal's SIGINT is for the parent, which decides */
    signal(SIGTERM, on_signal);
    signal(SIGHUP, on_signal);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int rc = worker_open(&w);
    if (rc == 0) {
        rc = operations_run(&w);
        if (keys_remove(&w) < 0)
            rc = -1;
        step_count(&w);
    }
    ddict_detach(w.d);
    free(w.buf);
    free(w.pair);
    free(w.key);
    free(w.klen);
    free(w.index);
    return rc < 0 ? 1 : 0;
}
