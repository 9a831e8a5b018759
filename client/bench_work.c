/* SPDX-License-Identifier: Apache-2.0 */
/* bench_work.c - what one process of the benchmark does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <base/clock.h>
#include "bench.h"

#define A 0x9E3779B97F4A7C15ull
#define B 0xC2B2AE3D27D4EB4Full
#define LOAD_BYTES (8u << 20) /* of one put_many */
#define LOAD_PAIRS 1000u
#define SAMPLE 8u             /* every so many reads one is timed: two looks at the clock cost as much as a read of 1 KiB */
#define WARM_SECONDS 0.1

const char *const bench_op_name[OP_N] = {"put_many", "put", "get", "view", "get_many"};

struct worker {
    struct bench_run *run;
    unsigned me, barriers;
    void *store;
    uint64_t random, first, count; /* own keys: of these it is the only writer */
    unsigned char *buf;
    size_t pairs;
    struct ddict_pair *pair;
    char (*key)[BENCH_KEY_MAX];
};

void bench_fill(void *val, size_t len, uint64_t index)
{
    uint64_t *w = val, x = index * A;
    for (size_t j = 0; j < len / 8; j++, x += B)
        w[j] = x;
}

int bench_check(const void *val, size_t len, uint64_t index)
{
    const uint64_t *w = val;
    uint64_t n = len / 8, sum = 0;
    for (size_t j = 0; j < n; j++)
        sum += w[j];
    uint64_t pairs = n % 2 ? n * ((n - 1) / 2) : n / 2 * (n - 1);
    return sum == n * index * A + pairs * B ? 0 : BENCH_WRONG;
}

static size_t key_make(const struct bench_run *r, char *key, uint64_t index)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = strlen(r->prefix);
    memcpy(key, r->prefix, n);
    for (int shift = 28; shift >= 0; shift -= 4)
        key[n++] = hex[index >> shift & 15];
    return n;
}

static uint64_t pick(struct worker *w, uint64_t n)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (uint64_t)(((unsigned __int128)w->random * n) >> 64);
}

static int fail(struct worker *w, const char *what, int rc)
{
    uint32_t none = 0;
    if (__atomic_compare_exchange_n(&w->run->failed, &none, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        if (rc == BENCH_WRONG)
            snprintf(w->run->text, sizeof w->run->text, "%s: a value read is not what was put", what);
        else
            snprintf(w->run->text, sizeof w->run->text, "%s: %s", what, w->run->store->error());
    }
    return -1;
}

/* Wait for the others; -1 when one of them failed. */
static int meet(struct worker *w)
{
    uint32_t all = ++w->barriers * w->run->clients;
    __atomic_fetch_add(&w->run->arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&w->run->arrived, __ATOMIC_ACQUIRE) < all) {
        if (__atomic_load_n(&w->run->failed, __ATOMIC_ACQUIRE))
            return -1;
        usleep(100);
    }
    return 0;
}

/* --- one call of each kind; returns the number of keys, or a negative code --- */

static int put_many_once(struct worker *w, uint64_t from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t index = w->first + (from + i) % w->count;
        unsigned char *val = w->buf + i * w->run->value;
        bench_fill(val, w->run->value, index);
        w->pair[i] = (struct ddict_pair){.key = w->key[i], .klen = key_make(w->run, w->key[i], index), .val = val, .vlen = w->run->value};
    }
    int rc = w->run->store->put_many(w->store, w->pair, (unsigned)n);
    return rc < 0 ? rc : (int)n;
}

static int get_many_once(struct worker *w)
{
    struct ddict_want want[BENCH_BATCH];
    uint64_t index[BENCH_BATCH];
    char key[BENCH_BATCH][BENCH_KEY_MAX];
    for (unsigned i = 0; i < BENCH_BATCH; i++) {
        index[i] = pick(w, w->run->keys);
        want[i].key = key[i];
        want[i].klen = key_make(w->run, key[i], index[i]);
    }
    int rc = w->run->store->get_many(w->store, want, index, BENCH_BATCH);
    return rc < 0 ? rc : (int)BENCH_BATCH;
}

static int once(struct worker *w, enum bench_op op)
{
    const struct bench_store *s = w->run->store;
    char key[BENCH_KEY_MAX];
    if (op == OP_PUT_MANY)
        return put_many_once(w, pick(w, w->count), w->pairs);
    if (op == OP_GET_MANY)
        return get_many_once(w);
    uint64_t index = op == OP_PUT ? w->first + pick(w, w->count) : pick(w, w->run->keys);
    size_t klen = key_make(w->run, key, index);
    int rc;
    if (op == OP_PUT) {
        bench_fill(w->buf, w->run->value, index);
        rc = s->put(w->store, key, klen, w->buf, w->run->value);
    } else if (op == OP_GET) {
        rc = s->get(w->store, key, klen, w->buf, w->run->value, index);
    } else {
        rc = s->view(w->store, key, klen, index);
    }
    return rc < 0 ? rc : 1;
}

static int work_for(struct worker *w, enum bench_op op, double seconds, struct bench_result *out)
{
    unsigned every = op == OP_GET || op == OP_VIEW ? SAMPLE : 1;
    uint64_t begun = clock_ns(), end = begun + (uint64_t)(seconds * 1e9), now = begun;
    out->ops = 0;
    while (now < end) {
        for (unsigned i = 1; i < every; i++) {
            int rc = once(w, op);
            if (rc < 0)
                return fail(w, bench_op_name[op], rc);
            out->ops += (uint64_t)rc;
        }
        uint64_t t = clock_ns();
        int rc = once(w, op);
        now = clock_ns();
        if (rc < 0)
            return fail(w, bench_op_name[op], rc);
        out->ops += (uint64_t)rc;
        histogram_add(&out->latency, now - t);
    }
    out->seconds = (double)(now - begun) * 1e-9;
    return 0;
}

static int load(struct worker *w)
{
    for (uint64_t i = 0; i < w->count; i += w->pairs) {
        size_t n = w->count - i < w->pairs ? (size_t)(w->count - i) : w->pairs;
        int rc = put_many_once(w, i, n);
        if (rc < 0)
            return fail(w, "loading", rc);
    }
    return 0;
}

static int unload(struct worker *w)
{
    char key[BENCH_KEY_MAX];
    for (uint64_t i = 0; i < w->count; i++) {
        int rc = w->run->store->del(w->store, key, key_make(w->run, key, w->first + i));
        if (rc < 0)
            return fail(w, "removing the keys", rc);
    }
    return 0;
}

static int work(struct worker *w)
{
    struct bench_run *r = w->run;
    if (load(w) < 0 || meet(w) < 0)
        return -1;
    for (enum bench_op op = 0; op < OP_N; op++) {
        if (!r->ops[op])
            continue;
        static struct bench_result warm;
        struct bench_result *out = &r->result[op][w->me];
        if (meet(w) < 0 || work_for(w, op, WARM_SECONDS, &warm) < 0 || meet(w) < 0 || work_for(w, op, r->seconds, out) < 0 || meet(w) < 0)
            return -1;
    }
    return r->keep ? 0 : unload(w);
}

int bench_work(struct bench_run *r, unsigned me)
{
    struct worker w = {.run = r, .me = me};
    w.first = r->keys * me / r->clients;
    w.count = r->keys * (me + 1) / r->clients - w.first;
    w.random = (me + 1) * A;
    w.pairs = LOAD_BYTES / r->value;
    if (w.pairs > LOAD_PAIRS)
        w.pairs = LOAD_PAIRS;
    if (w.pairs > w.count)
        w.pairs = w.count;
    if (w.pairs == 0)
        w.pairs = 1;
    w.buf = aligned_alloc(64, (w.pairs * r->value + 63) / 64 * 64);
    w.pair = calloc(w.pairs, sizeof *w.pair);
    w.key = calloc(w.pairs, sizeof *w.key);
    int rc = -1;
    if (w.buf == NULL || w.pair == NULL || w.key == NULL)
        fail(&w, "no memory", BENCH_WRONG);
    else if ((rc = r->store->open(&w.store, r->where, r->bytes)) < 0)
        fail(&w, "opening", rc);
    else {
        rc = work(&w);
        r->store->close(w.store);
    }
    free(w.buf);
    free(w.pair);
    free(w.key);
    return rc < 0 ? 1 : 0;
}
