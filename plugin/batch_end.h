/* SPDX-License-Identifier: Apache-2.0 */
/* batch_end.h - the end of a batch script, whose managers watch it. */
#ifndef DDICT_PLUGIN_BATCH_END_H
#define DDICT_PLUGIN_BATCH_END_H

#include "job_process.h"

#include <slurm/spank.h>

void batch_end_prepare(spank_t sp);
/* In the task: whether somebody will want to know of the managers' srun. */
int batch_end_is_asked(void);
void batch_end_tell_watch(const char *srun, int saves);
void batch_end_wait(void);

/* What batch_end_tell_watch says, "PID/TICKS w" or "... s". 0 or -EINVAL. */
int batch_end_read_watch(const char *text, struct named *who, int *saves);

#endif
