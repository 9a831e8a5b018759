/* SPDX-License-Identifier: Apache-2.0 */
/* relay.h - where the managers of a dictionary are. */
#ifndef DDICT_LAUNCH_RELAY_H
#define DDICT_LAUNCH_RELAY_H

#include <stddef.h>

struct step;
/*
 * The job and the nodes of dictionary name (NULL: $DDICT_NAME, else the job's own), and the srun
 * that reaches them with its environment (malloc'ed; step is to be freed always). 0, -ENOENT (it is
 * of no Slurm job of ours, or there is no srun), or another negative code with the sentence set.
 */
int relay_find(const char *name, char *job, size_t job_cap, char *srun, size_t srun_cap,
               struct step *step, char ***envp);

#endif
