/* SPDX-License-Identifier: Apache-2.0 */
/* dictionary.h - the dictionary of a step or a job: its name, the variables that hand it on to
 * tasks, and whether it runs on this node. */
#ifndef DDICT_PLUGIN_DICTIONARY_H
#define DDICT_PLUGIN_DICTIONARY_H

#define NAME_CAP   64          /* bytes of a name, with its 0 */
#define STEP_MAX   0xfffffff0u /* above: batch script, interactive, extern */
#define STEP_BATCH 0xfffffffbu

/* Variables by which srun tells the tasks of its step something. Their names begin with SLURM_ so
 * that --export=NONE keeps them. */

/* The name of the tasks' dictionary, or STEP_NONE. */
#define STEP_VARIABLE "SLURM_DDICT_STEP"
#define STEP_NONE     "none"
/* Behind the step's name: each component of the step has a dictionary of its own. */
#define STEP_COMPONENTS ".component"
/* What srun decided for its tasks, in three words such as "closest default yes": --ddict-gpu-bind,
 * who said so (user, site, default), --ddict-torch-env. */
#define TASKS_VARIABLE "SLURM_DDICT_TASKS"
/*
 * The name of the dictionary that could not start: the tasks end before their program begins. If
 * srun ended between creating and launching its step, the step would stay and block the nodes until
 * the job ends, so within a job srun launches it all the same. The name is the value because a
 * variable that the user exports stays in the tasks' environment whatever srun unsets.
 */
#define REFUSED_VARIABLE "SLURM_DDICT_REFUSED"

/*
 * The job whose dictionary it is. A component of a heterogeneous job is a job of its own to SPANK;
 * the job is the first component's, as $SLURM_JOB_ID says where there is $SLURM_HET_SIZE (also in a
 * job that was submitted from within a heterogeneous one: then it is its own). Texts may be NULL.
 */
unsigned job_of_component(unsigned job, const char *het_size, const char *job_id);

/* The name of the dictionary of a step, "uid.job.step", or of a whole job, "uid.job.job". */
void step_name(char name[NAME_CAP], unsigned job, unsigned step);
void job_name(char name[NAME_CAP], unsigned job);
/* That of a component of a step, "uid.job.step.component": the first one's job, and its own. */
void component_name(char name[NAME_CAP], unsigned job, unsigned step, unsigned component);

/* Whether a process of this user listens under the name on this node (PROTOCOL 4). 1, too, if that
 * cannot be found out; 0 if nobody listens, or another user. */
int dictionary_is_here(const char *name, const char *node);

#endif
