/* SPDX-License-Identifier: Apache-2.0 */
/* step_argv.h - the command line of what is started: ddictd alone, or the hidden srun that starts
 * one on each node. */
#ifndef DDICT_LAUNCH_STEP_ARGV_H
#define DDICT_LAUNCH_STEP_ARGV_H

#include "option_table.h"

#include <signal.h>
#include <stdint.h>

/* The starter leaves the hidden srun alone, and our plugin in it makes it harmless: STARTUP 3.
 * Nothing happens where it is not caught. */
#define LEAVE_SIGNAL SIGURG

struct hidden {
    const char *ddictd; /* absolute path, the same on all nodes */
    /* what it is told: of this the options of ddictd that were said */
    const struct settings *told;
    /* The rest only for the hidden step; srun NULL: ddictd is started directly. */
    const char *srun, *job, *nodelist;
    uint32_t nodes;
    /* "none" or "auto": the addresses travel by stdin and stdout (STARTUP 2) */
    const char *mpi;
    int together; /* program: when one ends badly all are ended */
    /* run this instead of ddictd; the first two fields mean nothing then */
    const char *const *program;
};

/* malloc'ed array of malloc'ed strings, for execve; NULL without memory. */
char **hidden_argv(const struct hidden *h);
void argv_free(char **argv);
/* How the managers find each other: --wireup of ddictd. */
const char *hidden_wireup(const struct hidden *h);

#endif
