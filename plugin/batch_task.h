/* SPDX-License-Identifier: Apache-2.0 */
/* batch_task.h - the task of a batch script that asked for a dictionary. */
#ifndef DDICT_PLUGIN_BATCH_TASK_H
#define DDICT_PLUGIN_BATCH_TASK_H

#include <slurm/spank.h>
#include <stdint.h>

/* In the task of a batch script, as the user: start the job's dictionary if the job asked for one,
 * and wait until it is ready. Ends the task if it cannot start. */
void batch_task(spank_t sp, uint32_t job, int ac, char **av);

#endif
