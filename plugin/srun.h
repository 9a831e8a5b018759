/* SPDX-License-Identifier: Apache-2.0 */
/* srun.h - what srun does for a step: start the managers, and end them. */
#ifndef DDICT_PLUGIN_SRUN_H
#define DDICT_PLUGIN_SRUN_H

#include <slurm/spank.h>

/* In srun: start the managers, or find the job's, and wait until they are ready. If they cannot
 * start, srun ends, or within a job its tasks end before their program begins. */
void srun_step_begin(spank_t sp, int ac, char **av);
/* In srun: end the step's managers, and tell the user if they ended badly. If not all was saved,
 * srun's exit code is 1 instead of 0. */
void srun_step_end(void);

#endif
