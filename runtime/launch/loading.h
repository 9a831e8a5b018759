/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loading.h - what is put into a dictionary before its first user begins (--restore and --load, in
 * this order; load_spec.h): `ddict restore` and ddict-load as children, one after another, seen
 * from the poll loop of their owner.
 *
 *     loading_start()     then until loading_over(): poll its descriptor too, loading_turn(), and
 *                         loading_reap() after each SIGCHLD
 *     loading_stop()      it is told to end; it is over when it has
 */
#ifndef DDICT_LAUNCH_LOADING_H
#define DDICT_LAUNCH_LOADING_H

#include "load_spec.h"
#include "startup_lines.h"
#include <base/clock.h>
#include <base/error.h>

#include <poll.h>
#include <stdint.h>
#include <sys/types.h>

#define LOADING_LINES (2 * INTAKE_SETS)

struct loading {
    pid_t pid; /* 0: not started, or reaped */
    int out;   /* its summary */
    int begun, ended;
    int stopped;             /* we told it to end */
    int signalled;           /* somebody else told it, or its part on another node */
    struct deadline limit;   /* then */
    char why[DD_ERRMSG_MAX]; /* "" or why it failed, one sentence */
    /* for the user, when it went well; "" when there was nothing to do */
    char said[DD_ERRMSG_MAX];
    struct lines lines;
    char **line[LOADING_LINES + 1]; /* command lines */
    int lines_n, at;                /* at: the next one */
    int answered;                   /* the present one did */
    char **envp, entry[128];
};

struct loading_ask {
    const char *restore, *load; /* as the user gave them; NULL: nothing */
    const char *folder;         /* of relative paths; NULL: the working folder */
    /* others may start the same dictionary and ask for the same: a key of it will say what was
     * restored */
    int shared;
    int saves;     /* it has --save, which waits for the end of this */
    int read_only; /* it is frozen at the end of this (--persist) */
    /* the dictionary; node: this node's name without Slurm, else "" */
    const char *name, *node;
};

/* The progress goes to our stderr. 0 or a negative code with the sentence set. */
int loading_start(struct loading *l, const struct loading_ask *ask);
void loading_poll(const struct loading *l, struct pollfd *p);
void loading_turn(struct loading *l);
void loading_reap(struct loading *l);
void loading_stop(struct loading *l);
static inline int loading_over(const struct loading *l) {
    return l->ended;
}
/* Kills what is left. */
void loading_free(struct loading *l);
/* The same from beginning to end, for who has no loop. 0, or negative with the sentence set. */
int loading_do(const struct loading_ask *ask, char *said, size_t cap);

#endif
