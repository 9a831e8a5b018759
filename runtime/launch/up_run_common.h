/* SPDX-License-Identifier: Apache-2.0 */
/* up_run_common.h - what `up` and `run` share: signals as a descriptor, the job from the
 * environment, whole writes. */
#ifndef DDICT_LAUNCH_UP_RUN_COMMON_H
#define DDICT_LAUNCH_UP_RUN_COMMON_H

#include "options.h"

#include <stddef.h>

/* Block CHLD and the signals that end or are passed on, ignore PIPE; the descriptor (CLOEXEC, not
 * blocking) or a negative errno. */
int signals_open(void);
/* Parse with the process's environment; 0, or the exit code + 1: 1 for help (printed), 3 for an
 * error. */
int command_line(struct options *o, const char *verb, int argc, char **argv, char *why, size_t cap);
/* The variables that asked for a dictionary are not for what runs in it. */
void once_forget(void);

#endif
