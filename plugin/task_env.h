/* SPDX-License-Identifier: Apache-2.0 */
/* task_env.h - the environment of a task, its rank for the OOM killer, and what the first task of a
 * node says. */
#ifndef DDICT_PLUGIN_TASK_ENV_H
#define DDICT_PLUGIN_TASK_ENV_H

#include <slurm/spank.h>

/* Read a variable of the task into buf, of cap bytes: "" if it is not set; a longer value is cut.
 * Returns buf. */
const char *task_variable(spank_t sp, const char *name, char *buf, int cap);
/* Between enter and leave, getenv() reads the task's environment instead of slurmstepd's. *before:
 * for leave. 0; -1: Slurm does not give the task's environment. */
int task_environ_enter(spank_t sp, char ***before);
void task_environ_leave(char **before);
/*
 * Have the kernel end this task before the managers when the job has no memory left (base/oom.h).
 * task_prepare, in the task as root, opens the file, which belongs to root until the program runs;
 * task_first, as the user, writes it, so that the user may take it back.
 */
void task_prepare(void);
void task_first(void);
/* Print a line for the user, in the first task of a node only. */
void task_say(spank_t sp, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
