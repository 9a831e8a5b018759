/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_user.c - does this process have the user and group that the PMIx server expects? In a user
 * namespace its ids may differ. The server refuses such a client, and slurmstepd with the library
 * of PMIx 4.2 then hangs at the end of the step, so such a client must not even try.
 */
#include "backend.h"
#include <base/user.h>

#include <stdlib.h>
#include <unistd.h>

static int id_is_same(const char *variable, const char *map, unsigned long id) {
    const char *v = getenv(variable);
    char *end;
    unsigned long wanted = v ? strtoul(v, &end, 10) : id;

    if (v && (end == v || *end != '\0'))
        wanted = id;
    return wanted == id && user_outside(map, id) == id;
}

int same_user(void) {
    return id_is_same("SLURM_JOB_UID", USER_UID_MAP, geteuid()) &&
           id_is_same("SLURM_JOB_GID", USER_GID_MAP, getegid());
}
