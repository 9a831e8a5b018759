/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_user.c - has this process the user and group that the PMIx server expects of it? In a user namespace it may call itself another. The server refuses
 * such a client, and slurmstepd with the library of PMIx 4.2 then hangs at the end of the step, so it must not be tried.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "place/backend.h"

/* The number that `id` has outside of our user namespace, by a map of lines "inside outside count"; id itself when that cannot be read. */
static unsigned long outside(const char *map, unsigned long id) {
    unsigned long in, out, count, found = id;
    FILE *f = fopen(map, "re");

    while (f != NULL && fscanf(f, "%lu %lu %lu", &in, &out, &count) == 3)
        if (id >= in && id - in < count) {
            found = out + (id - in);
            break;
        }
    if (f != NULL)
        fclose(f);
    return found;
}

static int same(const char *variable, const char *map, unsigned long id) {
    const char *v = getenv(variable);
    char *end;
    unsigned long wanted = v != NULL ? strtoul(v, &end, 10) : id;

    if (v != NULL && (end == v || *end != '\0'))
        wanted = id;
    return wanted == id && outside(map, id) == id;
}

int same_user(void) { return same("SLURM_JOB_UID", "/proc/self/uid_map", geteuid()) && same("SLURM_JOB_GID", "/proc/self/gid_map", getegid()); }
