/* SPDX-License-Identifier: Apache-2.0 */
/* slurmd_log.h - a line in slurmd's log when a dictionary starts, and one when it ends. */
#ifndef DDICT_PLUGIN_SLURMD_LOG_H
#define DDICT_PLUGIN_SLURMD_LOG_H

#include <slurm/spank.h>

/* Each does nothing but for the managers' step. In slurmstepd, before the task: make the pipe. */
void slurmd_log_prepare(spank_t sp);
/* In the task: hand the pipe to ddictd, and on the first node log that the dictionary starts. */
void slurmd_log_hand_over(spank_t sp);
/* In slurmstepd, when the task has ended: log what ddictd wrote into the pipe. */
void slurmd_log_write(void);

#endif
