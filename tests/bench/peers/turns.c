/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.c - the sides of a row, one after the other, again and again. Each repetition gives one
 * figure a side; who begins changes from one to the next, so that what else the machine does falls
 * on all of them.
 */
#include "peers.h"
#include <base/clock.h>
#include <base/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* operations between two looks at the clock, where they are not timed one by one */
#define PIECE      16u
#define WARM_SHARE 8

static struct {
    char name[40];
    double value;
} notes[32];
static unsigned note_count;

void row_note(const char *name, double value) {
    if (note_count == LENGTH(notes))
        return;
    snprintf(notes[note_count].name, sizeof notes[0].name, "%s", name);
    notes[note_count++].value = value;
}

int turns_fail(const struct turn *t, int rc) {
    const char *text = rc == -EILSEQ                 ? "a value read is not what was put"
                       : t->store && t->store->error ? t->store->error()
                                                     : dd_strerror(rc);
    fprintf(stderr, "measure: %s: %s\n", t->name, text && *text ? text : dd_strerror(rc));
    return rc;
}

bool store_is_there(const struct store *s, const struct where *w) {
    return s == &store_redis       ? w->redis != NULL
           : s == &store_memcached ? w->memcached != NULL
           : s == &store_lmdb      ? w->lmdb != NULL
           : s == &store_tcp       ? w->tcp != NULL
           : s == &store_redis_tcp ? w->redis_tcp != NULL
                                   : true;
}

uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- what a store is asked --- */

static void next_pair(struct turn *t, struct pair *p) {
    p->index = pair_number(t->where, random_below(&t->random, t->where->keys));
    pair_key(p->key, p->index);
}

static int once(struct turn *t) {
    if (t->op != VIEW_MANY) {
        next_pair(t, t->pairs);
        if (t->op == PUT) /* the first word makes the value this key's own; the rest is there */
            pair_fill(t->pairs->val, t->pairs->len <= 4096 ? t->pairs->len : 8, t->pairs->index);
        return t->op == VIEW  ? t->store->view(t->self, t->pairs)
               : t->op == GET ? t->store->get(t->self, t->pairs)
                              : t->store->put(t->self, t->pairs);
    }
    for (unsigned i = 0; i < t->batch; i++)
        next_pair(t, &t->pairs[i]);
    return t->store->view_many(t->self, t->pairs, t->batch);
}

/* Values are made outside the time. */
static int once_put_many(struct turn *t, uint64_t *spent) {
    uint64_t from = random_below(&t->random, t->where->keys);
    for (unsigned i = 0; i < t->batch; i++) {
        t->pairs[i].index = pair_number(t->where, (from + i * 7919ull) % t->where->keys);
        pair_key(t->pairs[i].key, t->pairs[i].index);
        pair_fill(t->pairs[i].val, t->pairs[i].len, t->pairs[i].index);
    }
    uint64_t before = clock_ns();
    int rc = t->store->put_many(t->self, t->pairs, t->batch);
    *spent += clock_ns() - before;
    return rc;
}

static int64_t go_timed(struct turn *t, uint64_t ns, uint64_t *spent) {
    uint64_t begun = clock_ns(), sum = 0, n = 0;
    t->lats = 0;
    while (clock_ns() - begun < ns || n == 0) {
        if (t->pause_us > 0)
            usleep(t->pause_us);
        next_pair(t, t->pairs);
        if (t->op == PUT && t->pairs->len <= 4096)
            pair_fill(t->pairs->val, t->pairs->len, t->pairs->index);
        uint64_t before = clock_ns();
        int rc = t->op == VIEW  ? t->store->view(t->self, t->pairs)
                 : t->op == GET ? t->store->get(t->self, t->pairs)
                                : t->store->put(t->self, t->pairs);
        uint64_t took = clock_ns() - before;
        if (rc == 0 && t->op == GET && t->store != &store_tcp)
            rc = pair_check(t->pairs->val, t->pairs->len, t->pairs->index);
        if (rc < 0)
            return rc;
        if (t->lats < LAT_MAX)
            t->lat[t->lats++] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
        sum += took;
        n++;
    }
    *spent = sum;
    return (int64_t)n;
}

static int64_t go_store(struct turn *t, uint64_t ns, uint64_t *spent) {
    if (t->latencies)
        return go_timed(t, ns, spent);
    uint64_t begun = clock_ns(), now = begun, n = 0, putting = 0;
    unsigned piece = t->batch > 1 || t->pairs->len > 65536 ? 1 : PIECE;
    while (now - begun < ns) {
        for (unsigned i = 0; i < piece; i++) {
            int rc = t->op == PUT_MANY ? once_put_many(t, &putting) : once(t);
            if (rc < 0)
                return rc;
        }
        n += (uint64_t)piece * t->batch;
        now = clock_ns();
    }
    *spent = t->op == PUT_MANY ? putting : now - begun;
    return (int64_t)n;
}

/* --- making turns --- */

int turn_other(struct turn *t, const char *name, int64_t (*go)(struct turn *, uint64_t, uint64_t *),
               const struct where *w) {
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->go = go;
    t->where = w;
    t->batch = 1;
    t->random.x = 0x9E3779B97F4A7C15ull;
    t->lat = calloc(LAT_MAX, sizeof *t->lat);
    return !t->lat ? -ENOMEM : 0;
}

int turn_store(struct turn *t, const struct store *s, void *self, const struct where *w, enum op op,
               unsigned batch) {
    int rc = turn_other(t, s->name, go_store, w);
    t->store = s;
    t->self = self;
    t->op = op;
    t->batch = batch;
    t->pairs = rc == 0 ? calloc(batch, sizeof *t->pairs) : NULL;
    for (unsigned i = 0; t->pairs && i < batch; i++) {
        t->pairs[i].len = w->len;
        if (op != VIEW && op != VIEW_MANY &&
            (!(t->pairs[i].val = aligned_alloc(64, (w->len + 63) / 64 * 64))))
            return -ENOMEM;
        if (t->pairs[i].val)
            memset(t->pairs[i].val, 1, w->len);
    }
    return !t->pairs ? -ENOMEM : 0;
}

void turn_free(struct turn *t) {
    for (unsigned i = 0; t->pairs && i < t->batch; i++)
        free(t->pairs[i].val);
    free(t->pairs);
    free(t->lat);
    free(t->sample);
}

int store_warm(const struct store *s, void *self, const struct where *w) {
    struct pair p = {.len = w->len};
    for (uint64_t i = 0; i < w->keys && s->view; i++) {
        p.index = pair_number(w, i);
        pair_key(p.key, p.index);
        int rc = s->view(self, &p);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int store_load(const struct store *s, void *self, const struct where *w) {
    unsigned batch = w->len > 65536 ? 1 : 256;
    struct pair *p = calloc(batch, sizeof *p);
    char *val = aligned_alloc(64, batch * ((w->len + 63) / 64 * 64));
    int rc = !p || !val ? -ENOMEM : 0;
    for (uint64_t i = 0; i < w->keys && rc == 0 && s->put_many; i += batch) {
        unsigned n = w->keys - i < batch ? (unsigned)(w->keys - i) : batch;
        for (unsigned k = 0; k < n; k++) {
            p[k] = (struct pair){
                .index = pair_number(w, i + k), .val = val + k * w->len, .len = w->len};
            pair_key(p[k].key, p[k].index);
            pair_fill(p[k].val, w->len, p[k].index);
        }
        rc = s->put_many(self, p, n);
    }
    free(val);
    free(p);
    return rc < 0 ? rc : store_warm(s, self, w);
}

/* --- taking them --- */

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

void turn_lats(struct turn *t, double *p50, double *p99, double *max) {
    if (t->lats == 0)
        return;
    qsort(t->lat, t->lats, sizeof *t->lat, compare);
    *p50 = t->lat[t->lats / 2];
    *p99 = t->lat[t->lats * 99 / 100];
    *max = t->lat[t->lats - 1];
}

static void print_list(const struct turn *t, unsigned reps, const char *name, size_t field) {
    printf(", \"%s\": [", name);
    for (unsigned i = 0; i < reps; i++)
        printf("%s%.2f", i ? ", " : "", *(const double *)((const char *)&t->sample[i] + field));
    printf("]");
}

static void print(const char *row, const struct turn *t, unsigned n, const struct plan *p) {
    printf("{\"row\": \"%s\", \"seconds\": %g, \"notes\": {", row, p->seconds);
    for (unsigned i = 0; i < note_count; i++)
        printf("%s\"%s\": %.6g", i ? ", " : "", notes[i].name, notes[i].value);
    note_count = 0;
    printf("}, \"sides\": {");
    for (unsigned i = 0; i < n; i++) {
        printf("%s\n  \"%s\": {\"batch\": %u", i ? "," : "", t[i].name, t[i].batch);
        print_list(&t[i], p->reps, "ns", offsetof(__typeof__(*t->sample), ns));
        print_list(&t[i], p->reps, "cpu", offsetof(__typeof__(*t->sample), cpu));
        if (t[i].sample[0].p50 > 0) {
            print_list(&t[i], p->reps, "p50", offsetof(__typeof__(*t->sample), p50));
            print_list(&t[i], p->reps, "p99", offsetof(__typeof__(*t->sample), p99));
            print_list(&t[i], p->reps, "max", offsetof(__typeof__(*t->sample), max));
        }
        printf("}");
    }
    printf("}}\n");
    fflush(stdout);
}

int turns_run(const char *row, struct turn *t, unsigned n, const struct plan *p) {
    uint64_t ns = (uint64_t)(p->seconds * 1e9), spent;
    for (unsigned i = 0; i < n; i++)
        if (!(t[i].sample = calloc(p->reps, sizeof *t[i].sample)))
            return -ENOMEM;
    for (unsigned rep = 0; rep < p->reps; rep++) {
        for (unsigned k = 0; k < n; k++) {
            struct turn *x = &t[(k + rep) % n];
            int64_t done = x->go(x, ns / WARM_SHARE, &spent);
            uint64_t before = cpu_ns();
            if (done >= 0)
                done = x->go(x, ns, &spent);
            if (done < 0)
                return turns_fail(x, (int)done);
            x->sample[rep].cpu = (double)(x->cpu > 0 ? x->cpu : cpu_ns() - before) / (double)done;
            x->sample[rep].ns = (double)spent / (double)done;
            x->sample[rep].p50 = x->given[0];
            x->sample[rep].p99 = x->given[1];
            x->sample[rep].max = x->given[2];
            turn_lats(x, &x->sample[rep].p50, &x->sample[rep].p99, &x->sample[rep].max);
        }
    }
    print(row, t, n, p);
    return 0;
}
