/* SPDX-License-Identifier: Apache-2.0 */
/* batch_end.h - the end of a batch script that the managers watch. */
#ifndef DDICT_PLUGIN_BATCH_END_H
#define DDICT_PLUGIN_BATCH_END_H

#include "job_process.h"

#include <slurm/spank.h>

/* In slurmstepd, before the task: of a batch script that asked for a dictionary, make the pipe. */
void batch_end_prepare(spank_t sp);
/* In the task: whether slurmstepd will want to know of the managers' srun. */
int batch_end_is_asked(void);
/* In the task: tell slurmstepd that the managers watch the script, and which process their srun is
 * ("PID/TICKS"). saves: with --ddict-save. */
void batch_end_tell_watch(const char *srun, int saves);
/* In slurmstepd, when the script has ended: wait for that srun. */
void batch_end_wait(void);

/* Parse what batch_end_tell_watch wrote, "PID/TICKS w" or, if it saves, "PID/TICKS s". 0 or
 * -EINVAL. */
int batch_end_read_watch(const char *text, struct named *who, int *saves);

#endif
