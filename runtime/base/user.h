/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user.h - users as a process in a user namespace sees them. The kernel compares users by its own
 * numbers, and shows them to each namespace through the namespace's map. A mapped user has a number
 * that no other user has there. Unmapped users all appear as one number
 * (/proc/sys/kernel/overflowuid, 65534), so this number identifies nobody, not even ourselves.
 */
#ifndef DDICT_BASE_USER_H
#define DDICT_BASE_USER_H

#include <stdbool.h>
#include <sys/types.h>

#define USER_UID_MAP "/proc/self/uid_map"
#define USER_GID_MAP "/proc/self/gid_map"

/* The number that id has outside of our namespace (one level up), by a map of lines "inside outside
 * count"; id itself where the map cannot be read or lacks it. */
unsigned long user_outside(const char *map, unsigned long id);
/* Is a user shown as uid that user and no other? false: uid is the number of all who have none
 * here. */
bool user_is_one(const char *map, uid_t uid);
/* Who a job's dictionary is named after: $SLURM_JOB_UID, else our effective uid as it is outside. A
 * name only: no trust depends on it. */
unsigned long user_of_job(void);

#endif
