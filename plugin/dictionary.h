/* SPDX-License-Identifier: Apache-2.0 */
/* dictionary.h - the dictionary of a step or a job: its name, the variables that hand it on to
 * tasks, and whether it runs on this node. */
#ifndef DDICT_PLUGIN_DICTIONARY_H
#define DDICT_PLUGIN_DICTIONARY_H

#define NAME_CAP   64
#define STEP_MAX   0xfffffff0u /* above: batch script, interactive, extern */
#define STEP_BATCH 0xfffffffbu
/* Tells the tasks of a step which dictionary is theirs. The name begins with SLURM_ so that
 * --export=NONE keeps it. */
#define STEP_VARIABLE "SLURM_DDICT_STEP"
#define STEP_NONE     "none"
/* What srun has decided for its tasks: "closest default yes": --ddict-gpu-bind, who said so (user,
 * site, default), --ddict-torch-env. */
#define TASKS_VARIABLE "SLURM_DDICT_TASKS"
/*
 * An srun that ends between the creation of its step and the launch leaves the step behind until
 * the job ends; in an allocation of its own that is at once, in a longer one the step would block
 * the nodes. There the launch goes on, and the tasks end before their program begins by this
 * variable. Its value is the dictionary's name: what the user exports stays in the tasks'
 * environment whatever is unset in srun.
 */
#define REFUSED_VARIABLE "SLURM_DDICT_REFUSED"

/* "uid.job.step" or "uid.job.job". */
void step_name(char name[NAME_CAP], unsigned job, unsigned step);
void job_name(char name[NAME_CAP], unsigned job);

/* Whether a process of this user listens under the name on this node: PROTOCOL 4. */
int dictionary_is_here(const char *name, const char *node);

#endif
