/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user.h - users as a process in a user namespace sees them. The kernel compares users by numbers of its own and shows each namespace what its map makes of them: a user
 * that the map has gets a number that no other one has there, and all whom it has not are shown as one and the same (/proc/sys/kernel/overflowuid, 65534). That one
 * number tells nobody apart, not even from ourselves.
 */
#ifndef DDICT_BASE_USER_H
#define DDICT_BASE_USER_H

#include <stdbool.h>
#include <sys/types.h>

#define USER_UID_MAP "/proc/self/uid_map"
#define USER_GID_MAP "/proc/self/gid_map"

/* The number that id has outside of our namespace (one level up), by a map of lines "inside outside count"; id itself where the map cannot be read or lacks it. */
unsigned long user_outside(const char *map, unsigned long id);
/* Is a user shown as uid that user and no other? false: uid is the number of all who have none here. */
bool user_is_one(const char *map, uid_t uid);
/* Who a job's dictionary is named after: $SLURM_JOB_UID, else our effective uid as it is outside. A name only: no trust depends on it. */
unsigned long user_of_job(void);

#endif
