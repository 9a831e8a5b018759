/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_argv.h - the command line of what is started: ddictd alone, or the hidden srun that starts
 * one on each node. Of a heterogeneous job it is `ddict SRUNS_VERB`, which starts one srun for each
 * component and is to its starter as they were one (sruns.h).
 */
#ifndef DDICT_LAUNCH_STEP_ARGV_H
#define DDICT_LAUNCH_STEP_ARGV_H

#include "option_table.h"

#include <signal.h>
#include <stdint.h>

/* The starter leaves the hidden srun alone, and our plugin in it makes it harmless: STARTUP 3.
 * Nothing happens where it is not caught. */
#define LEAVE_SIGNAL SIGURG

struct part;

struct hidden {
    const char *ddictd; /* absolute path, the same on all nodes */
    /* what it is told: of this the options of ddictd that were said */
    const struct settings *told;
    /* The rest only for the hidden step; srun NULL: ddictd is started directly. */
    const char *srun, *job;
    const struct part *parts; /* of the step */
    size_t nparts;
    /* "none" or "auto": the addresses travel by stdin and stdout (STARTUP 2) */
    const char *mpi;
    int together; /* program: when one ends badly all are ended */
    /* run this instead of ddictd; the first two fields mean nothing then */
    const char *const *program;
};

/* malloc'ed array of malloc'ed strings, for execve; NULL without memory. */
char **hidden_argv(const struct hidden *h);
void argv_free(char **argv);
/* Whether it has an srun for each of several components. */
int argv_has_sruns(char *const *argv);
/* How the managers find each other: --wireup of ddictd. */
const char *hidden_wireup(const struct hidden *h);

#endif
