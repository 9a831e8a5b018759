/* SPDX-License-Identifier: Apache-2.0 */
/* task.h - a task of a step that has a dictionary, before its program begins. */
#ifndef DDICT_PLUGIN_TASK_H
#define DDICT_PLUGIN_TASK_H

#include <slurm/spank.h>

/* In the task, as the user: make its environment. Ends the task if its node does not have the
 * dictionary that was promised. */
void task_begin(spank_t sp, int ac, char **av);

#endif
