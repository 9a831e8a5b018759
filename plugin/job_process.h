/* SPDX-License-Identifier: Apache-2.0 */
/* job_process.h - whether a process that a user named is of the user, and of the job. */
#ifndef DDICT_PLUGIN_JOB_PROCESS_H
#define DDICT_PLUGIN_JOB_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/* A process as a user names it: its pid, and when it began (process_began). */
struct named {
    pid_t pid;
    uint64_t began;
};
/* In slurmstepd: it lives, began then, and is the user's alone. */
int belongs_to_user(const struct named *who, uid_t uid);
/* In slurmstepd of the job's batch step: Slurm kills that process when it kills the step. */
int belongs_to_step(const struct named *who, uint32_t job);
/* Whether it is in that step, by what /proc/PID/cgroup says of slurmstepd and of it. */
int belongs_by_cgroup(const char *mine, const char *its, uint32_t job);

#endif
