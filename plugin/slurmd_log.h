/* SPDX-License-Identifier: Apache-2.0 */
/* slurmd_log.h - a line in slurmd's log when a dictionary starts, and one when it ends. */
#ifndef DDICT_PLUGIN_SLURMD_LOG_H
#define DDICT_PLUGIN_SLURMD_LOG_H

#include <slurm/spank.h>

/* All in slurmstepd or the task of the managers' step. */
void slurmd_log_prepare(spank_t sp);
void slurmd_log_hand_over(spank_t sp);
void slurmd_log_write(void);

#endif
