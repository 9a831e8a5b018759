/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin_host.h - a Slurm without Slurm for the plugin: the functions of spank.h, and the processes
 * that load the plugin, each of which calls it as Slurm 22.05 does (options of the environment
 * before those of the command line; in slurmstepd each twice). Every play is in processes of its
 * own, which begin without a state of the plugin; any call of a SPANK function can be made to fail.
 *
 *     srun      a step of one task on node n1: the process on the submit host, its slurmstepd, its
 *               task
 *     sbatch    up to the job's being submitted
 *     salloc    up to the command that it runs
 *     batch     slurmstepd and script of a job that sbatch submitted
 *     shell     as srun, for the interactive step that salloc starts
 *     ddictd    as srun, for the hidden step: nothing was typed, the plugin is inert in its srun
 */
#ifndef DDICT_TESTS_PLUGIN_HOST_H
#define DDICT_TESTS_PLUGIN_HOST_H

#include <stdint.h>

enum host_call {
    HOST_NONE,
    HOST_REGISTER,
    HOST_GETOPT,
    HOST_ITEM,
    HOST_GETENV,
    HOST_SETENV,
    HOST_UNSETENV,
    HOST_CONTROL_GETENV,
    HOST_CONTROL_SETENV,
    HOST_CONTROL_UNSETENV,
    HOST_CALLS
};

struct play {
    const char *command;
    const char *words[4]; /* of the plugin's line in plugstack.conf */
    const char *typed[6]; /* "--ddict-mem=1G" */
    const char *env;      /* "A=1\nB=2\n": of the shell, or of the job */
    const char *export;   /* NULL: ALL; or NONE: of the environment only SLURM_* goes on */
    uint32_t job, step;
    uint32_t rank, local, tasks; /* of the task, of all (0: 1), which are on one node */
    int components;              /* of a heterogeneous job; 0: 1 */
    int contained;               /* with contain_spank of Slurm 24.05 */
    const char *noted;           /* the program writes this to the descriptor $DDICT_NOTE_FD */
    enum host_call fault;        /* this call fails ... */
    int fault_at;                /* ... the first time: 1 */
};

struct outcome {
    int code;              /* of the command; 128 + signal */
    int begun;             /* the job, or the step, came to be */
    int ran;               /* programs that began */
    int task_code;         /* what ended the task before or after its program */
    int calls[HOST_CALLS]; /* calls that were made */
    char said[8192];       /* to the user */
    char log[4096];        /* to slurmd's log */
    /* as in struct play: what the program, the job or the command of salloc sees */
    char env[32768];
};

/* out is filled anew. */
void host_play(const struct play *play, struct outcome *out);
/* The value in env as of struct outcome, or NULL; in a buffer that the next call overwrites. */
const char *host_value(const char *env, const char *name);

#endif
