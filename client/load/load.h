/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - the program ddict-load, which `ddict load` becomes: one load, seen from one of its processes.
 *
 *     front   (main.c)      what the user started. Where the dictionary has several nodes of a job it starts a worker on each by an srun, and shows what the leader says; else
 *                           it is the leader itself
 *     leader  (leader.c)    one worker: plans, waits for all, writes the set
 *     worker  (worker.c)    threads that claim units and read them
 *
 * They meet in the dictionary, by keys that are tuples of ("ddict.load", ...), all removed when the load is complete:
 *
 *     ID, "run", g          text RUN NODE PID: who makes try g = 0, 1, ... of load ID. Put once: so one try wins; a further one begins when that one has ended or its beat stood still for LOAD_LOST_MS
 *     RUN                   text, put every LOAD_BEAT_MS by the leader: SEQ and wait | go ID g | ok | failed SENTENCE
 *     RUN, "beat", w        text, put by worker w: SEQ and its figures
 *     RUN, "claim", n       unit n is being read in this try
 *     RUN, "stop"           code and sentence of the first error; all stop
 *     HASH, "set"           text ID RUN NODE: the load that makes the set whose name has this hash
 *     ID, "plan"            what the units are, and ID, "unit", n; put before the first is read
 *     ID, "part", n, i      names and sizes of unit n's records, in pieces; ID, "done", n: last, the unit is complete. These a continued load does not read again
 *
 * ID is a hash of what the user asked for and of the sources' stamps: the same command on the same sources has the same.
 */
#ifndef DDICT_LOAD_LOAD_H
#define DDICT_LOAD_LOAD_H

#include "pack.h"
#include "source.h"
#include <ddict.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define LOAD_ERROR_MAX   1024
#define LOAD_BEAT_MS     500
#define LOAD_LOST_MS     15000 /* a beat that stands still so long: its process is gone */
#define LOAD_STOP_MS     5000  /* a thread that hangs in a read is not waited for longer */
#define LOAD_KEY_CAP     160   /* bytes of a key of state.c */
#define LOAD_RUN_CAP     17    /* 16 hex digits */
#define LOAD_ID_CAP      33
#define LOAD_THREADS_MAX 64u
#define SET_PART         65536u /* items of a part, SETS */

struct origin { /* a source */
    const char *text;
    const struct source_kind *kind;
};

struct options {
    const char *name, *prefix, *set, *as; /* NULL: not said; prefix: "" */
    const char *run;                      /* we are a worker of this try; NULL: the front */
    bool skip, replace, json, quiet, anon;
    bool report;      /* errors only on stdout, as JSON */
    unsigned threads; /* 0: ours to choose */
    unsigned nsources;
    const char **sources; /* absolute paths, URLs; ours */
};

/* Counted by all threads of a process, atomic; the order does not matter. */
struct figures {
    uint64_t units, items, bytes, read, there, failed;
};

struct load {
    ddict_t *d;
    struct ddict_info info;
    const struct options *o;
    struct origin *origins; /* [o->nsources] */
    char set[256];          /* its name */
    char id[LOAD_ID_CAP], run[LOAD_RUN_CAP];
    unsigned worker, workers;
    bool continued; /* what is there may be ours, of an earlier try */
    uint64_t units;
    uint64_t manager_bytes; /* no value is larger */
    struct figures figures;
    int stopped;      /* atomic */
    uint64_t claimed; /* atomic: units that were offered to threads of this process */
    pthread_t threads[LOAD_THREADS_MAX];
    unsigned nthreads, ended; /* ended: atomic */
};

/* The load of this process: set once, before threads begin. */
extern struct load the_load;

/* --- state.c: keys and values of the load in the dictionary --- */

/* ("ddict.load", a, b, n...): b may be NULL, numbers are left out where negative. The length; key has LOAD_KEY_CAP bytes. */
size_t state_key(void *key, const char *a, const char *b, int64_t n, int64_t i);
/* Flags as ddict_put(). 0 or a negative code with the sentence set. */
int state_put(const char *a, const char *b, int64_t n, int64_t i, const void *value, size_t len,
              unsigned flags);
/* A text, 0-terminated in cap bytes; 0, DDICT_ENOKEY, or another negative code. */
int state_text(const char *a, const char *b, int64_t n, char *text, size_t cap);
/* A value, malloc'ed. */
int state_get(const char *a, const char *b, int64_t n, int64_t i, uint8_t **value, size_t *len);
int state_has(const char *a, const char *b, int64_t n);
int state_del(const char *a, const char *b, int64_t n, int64_t i);
/* The first error: told to all. Prints nothing. */
void load_fail(int code, const char *sentence);
/* It, copied into text, and its code; 0: none. */
int load_why(char *text, size_t cap);
/* A libddict call failed: its sentence as ours. */
int load_error(int code);

/* For the user: a line on stderr; with --json an object on stdout, too. */
void load_complain(const char *sentence, int code);

/* --- plan.c --- */

struct plan {
    const struct source_kind *kind;
    uint64_t units, unit_cap;
    struct pack *unit; /* [units]: source, facts, work */
    unsigned source;   /* being planned */
    uint64_t number;
    uint64_t read, need;  /* sums of what is known */
    int64_t items, bytes; /* -1: not known */
    int64_t largest;
    struct pack notes; /* texts: failures */
    uint64_t failures;
    char dtype[12];
    uint64_t shape[32];
    unsigned ndim;
    bool array, mixed; /* array: of the above shape; mixed: of several */
    int64_t *labels;   /* numbered: of each record, or NULL; ours */
    uint64_t nlabels;
};
/* Cut all sources into units. 0 or a negative code with the sentence set. plan_free() always. */
int plan_make(struct plan *p);
/* Into the dictionary, and what is there from it (without units' work). */
int plan_store(const struct plan *p);
int plan_fetch(struct plan *p);
void plan_free(struct plan *p);
/* Labels of numbered records that are in a file beside them (IDX). */
int plan_labels(struct plan *p, int64_t *labels, uint64_t n);

struct unit { /* as it is read from the dictionary */
    unsigned source;
    struct unit_facts facts;
    const void *work;
    size_t len;
    uint8_t *value; /* ours */
};
int unit_fetch(struct unit *u, uint64_t n);

/* --- sink.c --- */

struct sink *sink_new(void);
void sink_free(struct sink *s);
/* Read unit n. 0, or negative: the load ends. */
int sink_unit(struct sink *s, uint64_t n);

/* --- main.c --- */

/* Of which kind each source is, and the name of the set. 0 or a negative code with the sentence set. */
int sources_look(void);

/* --- sources.c --- */

/* The kind of text; NULL with the sentence set. as: a kind's name, or NULL. */
const struct source_kind *source_find(const char *text, const char *as);
const struct source_kind *source_named(const char *name); /* NULL: there is none */
int source_stamp(const struct source_kind *kind, const char *text, char *stamp, size_t cap);
void sources_names(char *text, size_t cap); /* for --help */

/* --- take.c: the leader's --- */

struct taken {
    int64_t try;
    char name[LOAD_ID_CAP]; /* of the set, hashed */
    bool mine;              /* the try, and the name */
};
/* the_load.id, of what was asked for and the sources' stamps. 0 or negative. */
int take_id(void);
/* 0: the load is ours; 1: it is complete, by another, with so many items and bytes; negative. Waits for another process that loads the same. */
int take_load(struct taken *t, uint64_t *items, uint64_t *bytes);
/* We had nothing to do with it. */
void take_back(const struct taken *t);

/* --- worker.c, leader.c, set.c --- */

void worker_start(void);
/* Wait until its threads have ended, at most LOAD_STOP_MS when the load is stopped; false: some hang. */
bool worker_join(void);
/* Not the leader: from the wait for the plan to the end. The exit code. */
int worker_run(void);
int leader_run(void);
/* Beat where it is time, and take a signal. 0, or negative: the load ends. */
int leader_tick(int ms);
/* All is read: put the set. 0 or a negative code with the sentence set. */
struct set_result {
    uint64_t items, bytes, failed, left_out, links, classes, twice;
    struct pack failures; /* texts */
    struct pack left;     /* texts */
};
int set_write(const struct plan *p, struct set_result *r);
/* Names need not be UTF-8; JSON is. What is not becomes U+FFFD. */
struct json_t *text_json(const void *text, size_t len);
/* What is known of set `name`: 1 and the load's ID (cap LOAD_ID_CAP) and number of items; 0 there is none. */
int set_look(const char *name, char *id, uint64_t *items, uint64_t *bytes);
int set_remove(const char *name);

/* --- progress.c --- */

struct progress {
    uint64_t read, total, items, bytes, units, units_total;
    unsigned nodes;
};
void progress_start(void);
void progress_show(const struct progress *p);
/* Before another line is printed on stderr. */
void progress_clear(void);
/* The front shows what a leader elsewhere says: a line of its stderr. */
void progress_line(char *line);

/* --- signals.c: of the main thread; all threads have them blocked --- */
void signals_block(void);
/* Wait so long; the signal that came, or 0. */
int signals_wait(int ms);

#endif
