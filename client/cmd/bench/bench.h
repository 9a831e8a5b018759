/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h - `ddict bench`: how fast the dictionary is from this node.
 *
 *     bench.c         options; what is measured, one run after the other
 *     bench_run.c     the processes of one run, and the progress bar
 *     bench_work.c    what one process does: load, then each operation for a while, again and
 *                     again, then remove
 *     bench_keys.c    keys and values, which follow from a number
 *     bench_report.c  text and JSON
 *     bench_net.c     --net: the path to another node, beside plain TCP
 *     bench_plot.c    rate and latency over the size of a value, as SVG
 *
 * The parent attaches and makes struct bench_run in shared memory; its children are the clients.
 * They put only keys with a prefix of this bench, and remove them however the run ends: done,
 * failed, interrupted, or without its parent.
 */
#ifndef DDICT_CMD_BENCH_BENCH_H
#define DDICT_CMD_BENCH_BENCH_H

#include <base/stats.h>
#include <ddict.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_KEY_MAX     48
#define BENCH_CLIENTS_MAX 256
#define BENCH_REPS_MAX    32

enum bench_op { OP_PUT, OP_PUT_MANY, OP_ADD, OP_GET, OP_VIEW, OP_GET_MANY, OP_MIXED, OP_N };
extern const char *const bench_op_name[OP_N];
enum bench_place { PLACE_LOCAL, PLACE_REMOTE, PLACE_N };
extern const char *const bench_place_name[PLACE_N];

/* --- keys and values --- */

struct bench_keys {
    char prefix[24];
    /* the managers that shall own them, in turn: key i belongs to owner[i % owners] */
    const unsigned *owner;
    unsigned owners;
};
size_t bench_key(const struct bench_keys *k, ddict_t *d, char key[BENCH_KEY_MAX], uint64_t index);
/* The key of a number that add counts in, beside key `index`. */
size_t bench_sum_key(const struct bench_keys *k, ddict_t *d, char key[BENCH_KEY_MAX],
                     uint64_t index);
/* The value of key `index`, of len bytes (a multiple of 8). */
void bench_fill(void *val, size_t len, uint64_t index);
/* Reads a word of each cache line, so that all of the value came here. 0, or -EILSEQ: it is not
 * what was put. */
int bench_check(const void *val, size_t len, uint64_t index);

/* --- one run: a size, a number of clients, a place --- */

/* time within the calls, and the client's processor time in them */
struct bench_slice {
    uint64_t ops, ns, cpu_ns;
};

/* Shared by the processes of a run. Pointers are those of the parent, and memory that was there
 * before the fork. */
struct bench_run {
    const char *name; /* of the dictionary, NULL: as ddict_attach() finds it */
    struct bench_keys keys;
    enum bench_place place;
    uint64_t count;  /* keys */
    uint64_t memory; /* that they take, estimated */
    size_t value;
    unsigned clients, reps;
    double seconds; /* of a slice */
    bool ops[OP_N], touch;
    bool freeze;                 /* the dictionary, between load and removal */
    const uint32_t *manager_pid; /* of this node */
    unsigned manager_pids;
    uint32_t arrived; /* atomic: at the barriers, altogether */
    uint32_t stop;    /* atomic: interrupted */
    uint32_t failed;  /* atomic */
    uint32_t froze;   /* atomic: client 0 froze it, or is about to */
    uint32_t steps;   /* atomic: slices, loads and removals that client 0 has done */
    char text[400];   /* of the one that set failed from 0 to 1 */
    struct bench_slice slice[OP_N][BENCH_REPS_MAX][BENCH_CLIENTS_MAX];
    /* processor time of the managers of this node meanwhile; UINT64_MAX: not known */
    uint64_t manager_ns[OP_N][BENCH_REPS_MAX];
    struct histogram latency[OP_N][BENCH_CLIENTS_MAX];
};
int bench_work(struct bench_run *r, unsigned me); /* exit code of the process */
unsigned bench_steps(const struct bench_run *r);

/* steps of all runs; those of the runs that ended */
struct bench_progress {
    unsigned total, done;
    bool shown;
};
/* Fork the clients and wait for them. EXIT_OK or EXIT_FAILED, which was said; with r->stop set the
 * results mean nothing. */
int bench_processes(struct bench_run *r, struct bench_progress *p);
/* Signals that end a terminal's command stop the run instead. Returns the one that came, or 0. */
void bench_catch(struct bench_run *r);
int bench_caught(void);

/* --- results --- */

struct bench_result {
    enum bench_place place;
    enum bench_op op;
    size_t value;
    unsigned clients, reps;
    uint64_t keys, memory;
    bool cached; /* the set fits the last cache of this node */
    /* keys a second: median and extremes of the repetitions */
    double rate, low, high;
    double all[BENCH_REPS_MAX];
    /* processor time of an operation; manager_ns < 0: not known */
    double client_ns, manager_ns;
    struct ddict_latency latency;
};
struct bench_setting { /* of all results */
    const struct ddict_info *info;
    char cpus[128]; /* that this process may use, as a list */
    unsigned cpus_allowed, cpus_online;
    uint64_t cache; /* bytes of the last cache, 0: not known */
    double seconds;
    unsigned reps;
    bool touch, freeze;
};
void bench_result_of(const struct bench_run *r, enum bench_op op, uint64_t cache,
                     struct bench_result *out);
void bench_print_head(const struct bench_setting *s);
void bench_print(const struct bench_result *e);
void bench_print_notes(const struct bench_result *e, size_t n);
/* JSON: the exit code. */
int bench_print_json(const struct bench_setting *s, const struct bench_result *e, size_t n);
/* Its parts, the caller's; NULL without memory. x rounded; seconds, without a fraction if whole. */
struct json_t;
struct json_t *bench_number(double x, int decimals);
struct json_t *bench_seconds(double s);
/* Takes o, as cmd_json_print(). bad: something of it is missing, there was no memory. */
int bench_print_object(struct json_t *o, int bad);
double bench_median(const double *v, unsigned n); /* n <= BENCH_REPS_MAX */
/* The path to a manager of another node. EXIT_OK or EXIT_FAILED, which was said. */
int bench_net(ddict_t *d, const struct bench_setting *s, const struct bench_run *r,
              unsigned manager, const char *node, bool json);
/* 0 or -EIO */
int bench_plot(FILE *f, const struct bench_setting *s, const struct bench_result *e, size_t n);

#endif
