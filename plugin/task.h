/* SPDX-License-Identifier: Apache-2.0 */
/* task.h - a task of a step that has a dictionary, before its program begins. */
#ifndef DDICT_PLUGIN_TASK_H
#define DDICT_PLUGIN_TASK_H

#include <slurm/spank.h>

/* The task, as the user: its environment; ends the task when its node has no dictionary. */
void task_begin(spank_t sp, int ac, char **av);

#endif
