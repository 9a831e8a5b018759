/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h - what `up` and `run` share: signals as a descriptor, the job from the environment, whole writes. */
#ifndef DDICT_LAUNCH_SERVE_H
#define DDICT_LAUNCH_SERVE_H

#include "launch/options.h"

#include <stddef.h>

/* Block CHLD and the signals that end or are passed on, ignore PIPE; the descriptor (CLOEXEC, not blocking) or a negative errno. */
int signals_open(void);
/* All bytes, -EPIPE when nobody reads. */
int bytes_write(int fd, const char *bytes, size_t n);
/* Parse with the process's environment; $SLURM_JOB_ID is the job unless one is given. 0, or the exit code + 1: 1 for help (printed), 3 for an error. */
int command_line(struct options *o, const char *verb, int argc, char **argv, char *why, size_t cap);

#endif
