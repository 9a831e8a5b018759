/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h - the same work on the dictionary and on its peers, taken in turn in one process.
 *
 *     main.c      options, and which row of the table is measured
 *     turns.c     takes the sides in turn, in pieces of a fraction of a second, and prints what
 *                 each piece gave
 *     pairs.c     keys and values: what is stored under a key follows from its number, so that all
 *                 that is read is checked
 *     workers.c   processes that work at the same time
 *     store_*.c   the sides: each a store with the same few calls
 *     rows_*.c    the rows
 *
 * The output is one JSON object; peers.py makes ratios of it. Nothing here knows a goal.
 */
#ifndef DDICT_BENCH_PEERS_H
#define DDICT_BENCH_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- pairs --- */

#define KEY_BYTES 16u
struct where;
struct pair {
    char key[KEY_BYTES];
    uint64_t index;
    void *val; /* put: what is stored; get: where it goes */
    size_t len;
};
void pair_key(char key[KEY_BYTES], uint64_t index);
uint64_t pair_number(const struct where *w, uint64_t i);
void pair_fill(void *val, size_t len, uint64_t index); /* len: a multiple of 8 */
/* Reads a word of each cache line; 0, or -EILSEQ when they are not those of pair_fill(). */
int pair_check(const void *val, size_t len, uint64_t index);

struct random {
    uint64_t x;
};
uint64_t random_below(struct random *r, uint64_t n);

/* --- stores --- */

#define BATCH_MAX 1024u
struct where {
    /* socket paths, a folder, HOST:PORT; NULL: there is none */
    const char *redis, *memcached, *lmdb, *tcp, *redis_tcp;
    uint64_t keys;
    size_t len;
    const uint64_t *number; /* of the pairs; NULL: 0 .. keys - 1 */
};
/* Each call: 0 or a negative code. What is read is touched line by line and checked. */
struct store {
    const char *name;
    int (*open)(void **self, const struct where *w);
    void (*close)(void *self);
    int (*put)(void *self, const struct pair *p);
    int (*put_many)(void *self, const struct pair *p, unsigned n);
    /* in place where the store can, checked */
    int (*view)(void *self, const struct pair *p);
    int (*view_many)(void *self, const struct pair *p, unsigned n);
    /* a copy of the value into p->val, unchecked */
    int (*get)(void *self, const struct pair *p);
    /* of the last failure; may be NULL */
    const char *(*error)(void);
};
extern const struct store store_ddict, store_table, store_lmdb, store_redis, store_redis_tcp,
    store_memcached, store_tcp;
/* Whether the place that the store needs was given. */
bool store_is_there(const struct store *s, const struct where *w);
/* the other end of store_tcp, until its stdin ends */
int tcp_serve(const char *port_file, size_t len);

/* --- turns --- */

enum op { VIEW, VIEW_MANY, GET, PUT, PUT_MANY };
struct turn {
    char name[40];
    /* Work for about ns nanoseconds; returns operations done (> 0) and in *spent the time, or a
     * negative code. */
    int64_t (*go)(struct turn *t, uint64_t ns, uint64_t *spent);
    const struct store *store;
    void *self;
    const struct where *where;
    enum op op;
    unsigned batch;    /* of the _MANY */
    unsigned pause_us; /* between operations, outside the time */
    bool latencies;    /* each operation timed by itself */
    unsigned clients;  /* rows of several processes */
    struct random random;
    /* set by a go whose work other processes do: processor time of its last call; else 0 */
    uint64_t cpu;
    double given[3];    /* likewise p50, p99, max */
    struct pair *pairs; /* [batch] */
    uint32_t *lat;      /* [LAT_MAX] */
    uint64_t lats;
    struct {
        double ns, cpu, p50, p99, max;
    } * sample; /* cpu: of this thread */
};
#define LAT_MAX (1u << 20)
struct plan {
    double seconds;
    unsigned reps;
};
/* A turn that does op on an open store. */
int turn_store(struct turn *t, const struct store *s, void *self, const struct where *w, enum op op,
               unsigned batch);
/* A turn whose go is the caller's. */
int turn_other(struct turn *t, const char *name, int64_t (*go)(struct turn *, uint64_t, uint64_t *),
               const struct where *w);
void turn_free(struct turn *t);
/* of its last go, when it timed each operation */
void turn_lats(struct turn *t, double *p50, double *p99, double *max);
uint64_t cpu_ns(void); /* of this thread: what it costs, whoever else runs on the machine */
/* All turns, plan.reps times, each time beginning with the next one; prints the object of the row.
 * 0 or a negative code. */
int turns_run(const char *row, struct turn *t, unsigned n, const struct plan *p);
int turns_fail(const struct turn *t, int rc);
/* Facts beside the turns, printed with the next row. */
void row_note(const char *name, double value);

/* Store all pairs of w and read them all once, so that pages are there. */
int store_load(const struct store *s, void *self, const struct where *w);
int store_warm(const struct store *s, void *self, const struct where *w);

/* --- several stores --- */

#define SIDES_MAX 8u
struct sides {
    struct turn turn[SIDES_MAX];
    unsigned n;
};
/* Open, fill and read each of these stores that is there. After a failure, which was said, too:
 * sides_close(). */
int sides_open(struct sides *s, const struct store *const *stores, unsigned count,
               const struct where *w, enum op op, unsigned batch);
void sides_close(struct sides *s);
/* A whole row of it. */
int sides_run(const char *row, const struct store *const *stores, unsigned count,
              const struct where *w, enum op op, unsigned batch, const struct plan *p,
              bool latencies);

/* --- processes --- */

struct workers;
/* n processes, each with the stores opened anew and warmed. */
int workers_start(struct workers **out, unsigned n, const struct store *const *stores,
                  unsigned count, const struct where *w);
struct job {
    const struct store *store; /* NULL: nothing */
    enum op op;
    unsigned batch;
    int cpu; /* -1: any */
    bool latencies;
};
struct done {
    uint64_t ops, ns, cpu;
    double p50, p99, max;
    int rc;
};
/* Give worker i job[i], all at once, for so long; wait for all. */
int workers_do(struct workers *w, const struct job *job, uint64_t ns, struct done *done);
void workers_end(struct workers *w);
void cpu_only(int cpu); /* -1: all that the process had when it began */

/* --- rows --- */

struct row {
    const char *name;
    int (*run)(const struct row *r, const struct where *w, const struct plan *p);
    const char *what;
};
extern const struct row rows[];
extern const unsigned row_count;

int rows_view(const struct row *, const struct where *, const struct plan *);
int rows_get_many(const struct row *, const struct where *, const struct plan *);
int rows_wait(const struct row *, const struct where *, const struct plan *);
int rows_two(const struct row *, const struct where *, const struct plan *);
int rows_put(const struct row *, const struct where *, const struct plan *);
int rows_put_many(const struct row *, const struct where *, const struct plan *);
int rows_copy(const struct row *, const struct where *, const struct plan *);
int rows_big_view(const struct row *, const struct where *, const struct plan *);
int rows_made(const struct row *, const struct where *, const struct plan *);
int rows_writer(const struct row *, const struct where *, const struct plan *);
int rows_frozen(const struct row *, const struct where *, const struct plan *);
int rows_remote(const struct row *, const struct where *, const struct plan *);
int rows_memory(const struct row *, const struct where *, const struct plan *);

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#endif
