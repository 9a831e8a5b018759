/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.h - the parts of ddict.so. Which process runs what:
 *
 *     srun                  options (all), srun_step_begin before the tasks are launched,
 *                           srun_step_end when srun ends; of the managers' step alone:
 *                           srun_detach_prepare
 *     salloc, sbatch        options (all); the request goes into the job's environment
 *     slurmstepd (root)     options_register; of the managers' step alone: slurmd_log_prepare, and
 *                           slurmd_log_write when its task has ended; of a batch script that
 *                           asked for a dictionary: batch_end_prepare, and batch_end_wait when it
 *                           has ended
 *     the task (root)       task_prepare
 *     the task (the user)   task_begin; of a batch script: batch_task
 *
 * As root no file but those of /proc, no fork, socket, or allocation of a size that a user chose,
 * and no wait but that of batch_end_wait: for a process of the user's that the plugin has looked
 * at, at most DD_SCRIPT_END_MS; only where Slurm kills that process with the batch step
 * DD_SCRIPT_SAVE_MS, with --ddict-save. slurmd_log_write reads at most 400 bytes, once and without
 * waiting, from another one: nothing else of slurmd's writes what a user's process says into
 * slurmd's log, and the task itself cannot be given that log, which is root's. libc and spank.h
 * only; libslurm is the host process's.
 * Nothing is drained by us: no callback of slurmstepd, slurmd, prolog or epilog can fail. In srun,
 * salloc and sbatch, errors end the process (exit 1), in the task they end the task, because a
 * plugin that is listed as optional cannot fail otherwise.
 *
 * A dictionary belongs to a step, or to the whole job when salloc or sbatch asked for it. Slurm
 * hands the options of a job on to each srun in it as if they were its own; the job control
 * variable DDICT_SCOPE=job tells which they are. ELECTION 5.
 */
#ifndef DDICT_PLUGIN_H
#define DDICT_PLUGIN_H

#include <launch/site.h>
#include <wire/attach.h>

#include <slurm/spank.h>
#include <stdint.h>
#include <sys/types.h>

/* What is asked for: for each option of srun the text as it was typed, NULL: not said. */
struct ask_options {
    const char *value[OPTS];
};

enum scope { SCOPE_NONE, SCOPE_STEP, SCOPE_JOB };

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

/* One line to the user, then exit(1). Only in srun, salloc and sbatch. */
void plugin_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
