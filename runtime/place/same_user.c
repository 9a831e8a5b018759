/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_user.c - has this process the user and group that the PMIx server expects of it? In a user namespace it may call itself another. The server refuses
 * such a client, and slurmstepd with the library of PMIx 4.2 then hangs at the end of the step, so it must not be tried.
 */
#include "base/user.h"
#include "place/backend.h"

#include <stdlib.h>
#include <unistd.h>

static int same(const char *variable, const char *map, unsigned long id) {
    const char *v = getenv(variable);
    char *end;
    unsigned long wanted = v != NULL ? strtoul(v, &end, 10) : id;

    if (v != NULL && (end == v || *end != '\0'))
        wanted = id;
    return wanted == id && user_outside(map, id) == id;
}

int same_user(void) {
    return same("SLURM_JOB_UID", USER_UID_MAP, geteuid()) &&
           same("SLURM_JOB_GID", USER_GID_MAP, getegid());
}
