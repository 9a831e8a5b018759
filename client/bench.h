/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h - `ddict bench`: the same work on the dictionary and, for comparison, on another store.
 *
 *     bench.c        options, processes, tables
 *     bench_work.c   what one process does: load, then each operation for a while; every word of every value is read and its sum checked
 *     bench_ddict.c  the dictionary as a store; bench_lmdb.c  LMDB as a store
 */
#ifndef DDICT_CLIENT_BENCH_H
#define DDICT_CLIENT_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ddict.h>
#include <base/stats.h>

#define BENCH_KEY_MAX 32
#define BENCH_BATCH 64      /* keys of one get_many */
#define BENCH_CLIENTS_MAX 256

enum bench_op { OP_PUT_MANY, OP_PUT, OP_GET, OP_VIEW, OP_GET_MANY, OP_N };
extern const char *const bench_op_name[OP_N];

/* Each call: 0, or a negative code with the sentence in bench_store.error(). A value that is read is handed to bench_check(). */
struct bench_store {
    const char *name;
    int (*open)(void **self, const char *where, uint64_t bytes);
    void (*close)(void *self);
    int (*put_many)(void *self, struct ddict_pair *pairs, unsigned n);
    int (*put)(void *self, const void *key, size_t klen, const void *val, size_t vlen);
    int (*get)(void *self, const void *key, size_t klen, void *buf, size_t cap, uint64_t index);  /* copies, then checks the copy */
    int (*view)(void *self, const void *key, size_t klen, uint64_t index);                         /* checks in place */
    int (*get_many)(void *self, struct ddict_want *wants, const uint64_t *index, unsigned n);
    int (*del)(void *self, const void *key, size_t klen);
    const char *(*error)(void);
};
extern const struct bench_store bench_ddict;
#ifdef HAVE_LMDB
extern const struct bench_store bench_lmdb;
#endif

#define BENCH_WRONG (-9999) /* a value was not what had been put */

/* The value of key `index`, of len bytes (a multiple of 8): word j is index * A + j * B, so the sum of the words is known. */
void bench_fill(void *val, size_t len, uint64_t index);
int bench_check(const void *val, size_t len, uint64_t index); /* 0 or BENCH_WRONG */

struct bench_result {
    uint64_t ops;
    double seconds;
    struct histogram latency;
};

/* Shared by the processes of one run. */
struct bench_run {
    const struct bench_store *store;
    const char *where;
    char prefix[16];
    uint64_t keys, bytes;
    size_t value;
    unsigned clients;
    double seconds;
    bool ops[OP_N], keep;
    uint32_t arrived;           /* atomic: at the barriers, altogether */
    uint32_t failed;            /* atomic */
    char text[400];             /* of the one that set failed from 0 to 1 */
    struct bench_result result[OP_N][BENCH_CLIENTS_MAX];
};
int bench_work(struct bench_run *r, unsigned me); /* exit code of the process */

#endif
