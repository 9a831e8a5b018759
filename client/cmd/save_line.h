/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save_line.h - one `ddict save` or `ddict restore`: what the files of both verbs share. save.c reads the
 * words, save_front.c is what the user started, save_state.c likewise for a state by number, and
 * save_work.c a worker, or the only process. One in a process.
 */
#ifndef DDICT_CMD_SAVE_LINE_H
#define DDICT_CMD_SAVE_LINE_H

#include "front.h"

#include <save/save.h>
#include <stdbool.h>
#include <stdint.h>

/* A restore of a state into a dictionary that has something: all workers check what they will put,
 * then all remove what is there, and then they put. */
#define PASS_VERIFY "verify"
#define PASS_CLEAR  "clear"

struct save_line {
    bool restore, files, json, quiet, keep, no_pickles;
    bool stage;  /* started by ddictd, SAVE 3 */
    bool loaded; /* started by `ddict up`: report that everything is loaded; no path */
    /* report: started by `ddict up`, print only the summary or the error, as an object; once: do
     * nothing if it was restored before */
    bool report, once;
    /* worker: this process is a worker of the save with this id */
    const char *prefix, *path, *worker;
    const char *persist; /* number of the state; NULL: PATH is ours */
    uint64_t persist_id;
    const char *checkpoint; /* of a working set; NULL: the newest */
    uint64_t checkpoint_id;
    const char *turn; /* who started us has it (client/save/persist.h) */
    uint64_t turn_version;
    bool restoring;   /* a worker of such a restore (save.h) */
    const char *pass; /* of a restore of a state; NULL: the last, which puts */
    const char *usage;
};

extern struct save_run save_run;

const char *line_verb(const struct save_line *l);
struct front line_front(const struct save_line *l);
int save_failed(const char *sentence); /* as front_failed() */

/* Save or restore in this process what is its. 0, or negative with the sentence set. */
int line_work(struct save_line *l);
/* As a worker of a front. The exit code. */
int line_run_worker(struct save_line *l);

/* What the user started. The exit code. */
int line_run_front(struct save_line *l);
int line_run_state(struct save_line *l); /* --persist=N */

/* --- of a front --- */

/* Make the temporary path that is written first; "" if the save is written in place. 0 or negative. */
int line_aside_make(const struct save_line *l, char *aside, size_t cap);
/* Run it with workers on other nodes, or in this process alone. 0 or the exit code + 1. */
int line_spread(struct save_line *l, bool alone);
/* Wait for keys that are read again now. 1: keys were lost, and a worker cannot be started on the
 * node with which they were; 0; or negative with the sentence set. */
int line_look_lost(const struct save_line *l);
/* Tell the user what was done since `began` (clock_ns()). The exit code. */
int line_summary(const struct save_line *l, uint64_t began);

#endif
