/* SPDX-License-Identifier: Apache-2.0 */
/* tasks_end.h - the task that sees a shared dictionary to its end (tasks.h). */
#ifndef DDICT_LAUNCH_TASKS_END_H
#define DDICT_LAUNCH_TASKS_END_H

#include <sys/types.h>

/*
 * Wait for the command, the child pid; signals are passed on to it. A byte from joined (taken over)
 * says that it is one of dictionary `name`. A command that ends badly ends this at once, as srun
 * and mpirun want it; else it ends with the dictionary, which lasts until all tasks' commands have
 * ended. The command's exit code, 128 + number for a signal. What else became our child is waited
 * for a moment: the managers' srun, which is to hear of their end. The dictionary's summary is said
 * where verbose, its loss always.
 */
int tasks_end_await(pid_t pid, int joined, const char *name, int verbose);

#endif
