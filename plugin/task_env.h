/* SPDX-License-Identifier: Apache-2.0 */
/* task_env.h - the environment of a task, and what the first task of a node says. */
#ifndef DDICT_PLUGIN_TASK_ENV_H
#define DDICT_PLUGIN_TASK_ENV_H

#include <slurm/spank.h>

/* "" where it is not set; longer values are cut. */
const char *task_variable(spank_t sp, const char *name, char *buf, int cap);
/* Code that reads getenv() sees the task's environment between the two, not slurmstepd's. 0 or -1:
 * Slurm does not give it. */
int task_environ_enter(spank_t sp, char ***before);
void task_environ_leave(char **before);
/*
 * The kernel ends this task before the managers when the job has no memory left (base/oom.h).
 * task_prepare: in the task, as root; the file belongs to root until the program runs. task_first:
 * as the user, so that the user may take it back.
 */
void task_prepare(void);
void task_first(void);
/* For the user, by the first task of a node alone. */
void task_say(spank_t sp, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
