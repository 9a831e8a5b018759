/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - the program ddict-load, which `ddict load` becomes: one load, seen from one of its
 * processes.
 *
 *     front   (main.c)      what the user started. If the dictionary has several nodes of a job it
 *                           starts a worker on each by an srun, and shows what the leader says;
 *                           otherwise it is the leader itself
 *     leader  (leader.c)    one worker: plans, waits for all, writes the set
 *     worker  (worker.c)    threads that claim units and read them
 *     refill  (refill.c)    what ddictd starts when a node was lost, alone: puts again what sets
 *                           had there. The leader does the same for its own set
 *
 * Those of a load meet in the dictionary, under keys that are tuples ("ddict.load", ...), all of
 * which are removed when it is complete:
 *
 *     ID, "run", g          text RUN NODE PID WORKERS: who makes try g = 0, 1, ... of load ID. Put
 *                           only if it is absent, so one try wins; the next one begins when that
 *                           one has ended or its beat has stood still for LOAD_LOST_MS
 *     RUN                   text, put every LOAD_BEAT_MS by the leader: SEQ and wait | go ID UNITS
 *                           KIND | ok | failed SENTENCE
 *     RUN, "beat", w        text, put by worker w: SEQ and its figures
 *     RUN, "claim", n       unit n is being read in this try
 *     RUN, "stop"           code and sentence of the first error, at which all stop
 *     HASH, "set"           text ID RUN NODE: the load that makes the set whose name has this hash
 *                           With --refill, if "run" was lost: which try there is that others wait for
 *     ID, "begun", n        n = 0, 1, ... LOAD_MARKS - 1, with --refill: a try has put items. By
 *                           their hashes on several nodes, so most likely one is left when a node is
 *                           lost. If none of ID is left, the next try takes items for another load's
 *     ID, "plan"            what the units are, with ID, "unit", n; put before any unit is read
 *     ID, "part", n, i      names and sizes of unit n's records, in pieces
 *     ID, "done", n         put last: unit n is complete; a continued load does not read it again
 *
 * Where keys were lost with a node all of ID but "run" is removed, and the units are read anew: a
 * record that is there with its size is passed over. So the same command goes on after a loss, too.
 *
 * ID is a hash of what the user asked for and of the sources' stamps, so the same command on the
 * same sources has the same ID.
 */
#ifndef DDICT_LOAD_LOAD_H
#define DDICT_LOAD_LOAD_H

#include "pack.h"
#include <ddict.h>

#include <errno.h>
#include <load/format/source.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define LOAD_ERROR_MAX   1024
#define LOAD_BEAT_MS     500
#define LOAD_LOST_MS     15000 /* if a beat stands still so long, its process is gone */
#define LOAD_STOP_MS     5000  /* longest wait for a thread that hangs in a read */
#define LOAD_KEY_CAP     160   /* bytes of a key of state.c */
#define LOAD_RUN_CAP     17    /* 16 hex digits */
#define LOAD_ID_CAP      33
#define LOAD_THREADS_MAX 64u
#define LOAD_MARKS       8

/* A code: a thread of ours hangs in a read of a source. It may go on at any time, so nothing that
 * it uses may be freed: the handle d, and what o, origins, plan and wanted of the_load point to. */
#define LOAD_HANGS (-EDEADLK)

struct load_plan;
struct wanted;

struct origin { /* a source */
    const char *text;
    const struct source_kind *kind;
};

struct load_options {
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
    const struct load_options *o;
    struct origin *origins; /* [o->nsources] */
    char set[256];          /* its name */
    char id[LOAD_ID_CAP], run[LOAD_RUN_CAP];
    unsigned worker, workers;
    char dictionary[33]; /* its number, hexadecimal */
    bool refills;        /* the dictionary has --refill */
    int losses;          /* managers that had lost keys with a node when the load began */
    bool continued;      /* items that are there may be ours, of an earlier try */
    uint64_t units;
    /* in a refill (refill.h), else NULL: the units, which are then not in the dictionary, and the
     * items that are to be put */
    const struct load_plan *plan;
    struct wanted *wanted;
    unsigned wanted_flags; /* they are put with these, and NEW */
    int64_t newest;        /* when the last file of a folder was changed before it was loaded, ns */
    bool moved;            /* folders in it came or went since */
    uint64_t manager_bytes; /* no value is larger */
    struct figures figures;
    int stopped; /* atomic */
    /* atomic: units that were offered to threads of this process */
    uint64_t claimed;
    pthread_t threads[LOAD_THREADS_MAX];
    unsigned nthreads, ended; /* ended: atomic */
    bool hangs;               /* another thread, which may use the handle as long as we live */
};

/* The load of this process. A refill reads one set after the other with it: o, origins, plan,
 * wanted, units, figures, newest and moved change from set to set, while no thread reads. */
extern struct load the_load;

#endif
