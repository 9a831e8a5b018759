/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks.h - the processes of `ddict run`: one command, or with -n several, which then are ranks to
 * each other. When one of several ends badly, the others are asked to end (SIGTERM) and,
 * DD_RANKS_STOP_MS later, made to: a rank that waits for a dead one would wait long.
 */
#ifndef DDICT_LAUNCH_RANKS_H
#define DDICT_LAUNCH_RANKS_H

#include <base/clock.h>

#include <sys/types.h>

struct ranks {
    int n, left; /* started; of them not ended yet */
    int several; /* -n was given: they have a rank each */
    pid_t *pid;  /* ours, [n]; 0: reaped */
    /* of the first that ended badly, else 0; a signal counts as 128 + number */
    int code;
    int port;              /* holds $MASTER_PORT for rank 0; -1 */
    int stopping;          /* those left were asked to end */
    struct deadline limit; /* when stopping: the SIGKILL is due */
};

/*
 * Start n processes of cmd. prepare: called in each before exec, to set its environment. With
 * several: id, unique among runs, goes to $DDICT_RUN_ID. 0 or a negative code with the sentence
 * set, and then none runs.
 */
int ranks_start(struct ranks *r, int n, int several, const char *id, char **cmd,
                void (*prepare)(void *arg), void *arg);
/* After SIGCHLD. 1: all have ended. */
int ranks_reap(struct ranks *r);
void ranks_signal(struct ranks *r, int signo);
/* What is due is done; milliseconds to the next time, -1: never. */
int ranks_turn(struct ranks *r);
void ranks_free(struct ranks *r);
/* Become it, with all signals as they were made; or say why not, and exit with 127 (there is none)
 * or 126. */
void command_exec(char **cmd) __attribute__((noreturn));

#endif
