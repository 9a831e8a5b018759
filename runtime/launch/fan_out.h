/* SPDX-License-Identifier: Apache-2.0 */
/* fan_out.h - run a program once on each node of a dictionary that has several, by an srun beside
 * the job's tasks. */
#ifndef DDICT_LAUNCH_FAN_OUT_H
#define DDICT_LAUNCH_FAN_OUT_H

#include <stddef.h>

struct spread {
    const char *name;           /* of the dictionary; NULL: $DDICT_NAME, else the job's own */
    const char *const *program; /* argv, the first an absolute path; at most 24 words */
    const void *input;          /* stdin of each */
    size_t input_len;
    /* beginnings of names of variables that they get besides those of command_environment();
     * NULL-terminated */
    const char *const *variables;
    void (*on_line)(char *line); /* a line of somebody's stderr */
    int (*signal_came)(void);    /* 0, or a signal that ends all of them */
};

/*
 * stdout is ours. When one ends badly all are ended. The exit code (128 + n for a signal), or
 * -ENOENT: it is not to be done here (the dictionary is not of a Slurm job of ours, or there is no
 * srun); another negative code with the sentence set.
 */
int launch_spread(const struct spread *s);

#endif
