/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front.h - what `ddict save`, `restore` and `copy` share: signals, progress, and the front, which has
 * a worker on each node and adds up what they did. One run in a process.
 */
#ifndef DDICT_CMD_FRONT_H
#define DDICT_CMD_FRONT_H

#include <save/save.h>
#include <stdbool.h>
#include <stdint.h>

struct front {
    struct save_run *run;
    const char *verb;
    bool quiet, worker;
    /* once a second while work is done, in a thread of its own; NULL: nothing is to be done */
    void (*beat)(struct save_run *run);
};

/* A signal that ends stops the run. */
void front_signals(struct save_run *run);
int front_signal(void); /* 0: none came */
/* This process is a worker of a front: mark what it says. */
void front_mark(void);
/* Print nothing but an error, as an object on stdout. */
void front_report(void);
/* What is true from now on when the run fails; it is said behind the error. */
void front_consequence(const char *text);
/* Tell the user the error. Returns EXIT_FAILED. */
int front_failed(const char *sentence, int code);
/* Call work() with progress; bytes: how much it will be, 0: unknown. What work() gave. */
int front_work(const struct front *f, uint64_t bytes, int (*work)(void *arg), void *arg);
/* The sentence of a work that failed. Returns -ECANCELED. */
int front_why(const struct save_run *run);
/* A worker's last word to its front: what it did. */
void front_worker_done(const struct save_run *run);
/* Forget what workers did, before they do something else. */
void front_figures_reset(struct save_run *run);
/*
 * Run argv on all nodes of the dictionary of that name (NULL: $DDICT_NAME, else the job's); argv[0]
 * becomes this program. f->run becomes the sum. 0; -ENOENT: impossible here; else the exit code + 1,
 * with the error told.
 */
int front_spread(const struct front *f, const char *name, const char **argv);

#endif
