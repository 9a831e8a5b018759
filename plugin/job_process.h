/* SPDX-License-Identifier: Apache-2.0 */
/* job_process.h - whether a process that a user named belongs to that user and to the job. */
#ifndef DDICT_PLUGIN_JOB_PROCESS_H
#define DDICT_PLUGIN_JOB_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/* A process as a user names it: its pid, and when it began (process_began). */
struct named {
    pid_t pid;
    uint64_t began;
};
/* In slurmstepd: whether the process lives, began then, and is the user's alone (real, effective
 * and saved uid). */
int belongs_to_user(const struct named *who, uid_t uid);
/* In slurmstepd of the job's batch step: whether Slurm kills the process when it kills the step. */
int belongs_to_step(const struct named *who, uint32_t job);
/* Whether the process is in the job's batch step. mine, its: what /proc/PID/cgroup says of
 * slurmstepd and of the process. */
int belongs_by_cgroup(const char *mine, const char *its, uint32_t job);

#endif
