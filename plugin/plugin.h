/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.h - the parts of ddict.so. Which process runs what:
 *
 *     srun                  options (all), local_begin before the tasks are launched, local_end when srun ends
 *     salloc, sbatch        options, only to refuse them
 *     slurmstepd (root)     options_register and nothing else
 *     the task (the user)   remote_task
 *
 * libc and spank.h only; libslurm is the host process's. Nothing is drained by us: no callback of slurmstepd, slurmd, prolog or epilog
 * can fail. In srun, errors end srun (exit 1), in the task
 * they end the task, because a plugin that is listed as optional cannot fail otherwise.
 */
#ifndef DDICT_PLUGIN_H
#define DDICT_PLUGIN_H

#include <slurm/spank.h>

struct ask_options {
    const char *managers, *mem;            /* text, NULL: not given; ours */
    const char *managers_name, *mem_name;  /* the option as the user typed it */
};

struct site {                              /* words of the plugstack line; borrowed */
    const char *ddict;                     /* path of the command */
    const char *managers, *mem;            /* defaults for users who give only one of the two */
    const char *max_managers, *max_mem;
    const char *mpi, *start_timeout;
};

/* Every context that knows options. local: srun; then DDICT_MANAGERS and DDICT_MEM count as if they were typed. */
int options_register(spank_t sp, int local);
/* Whether this srun asks for a dictionary. */
int options_given(void);
/* srun was told to run in a job that exists already. */
int options_in_job(void);
/* srun, when all options are read: judge them; does not return when they are wrong. */
void options_judge(int ac, char **av);
/* salloc and sbatch: refuse them. */
void options_refuse(void);
const struct ask_options *options_get(void);
const struct site *options_site(void);
/* In the task: whether its step asked for a dictionary. */
int options_of_step(spank_t sp);

/* srun: start the managers and wait until they are ready. When they cannot start srun ends, or its tasks do before their program begins. */
void local_begin(spank_t sp);
/* srun: end them and tell the user when they ended badly. */
void local_end(void);

/* The task, as the user: its environment; ends the task when its node has no dictionary. */
void remote_task(spank_t sp);

/* "uid.job.step" into name; 0 or -1 where the step is none of srun's. */
int dictionary_name(spank_t sp, unsigned uid, char *name, size_t cap);
/* One line to the user, then exit(1). Only in srun, salloc and sbatch. */
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
