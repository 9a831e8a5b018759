/* SPDX-License-Identifier: Apache-2.0 */
/* user.c - users as a process in a user namespace sees them. */
#include "user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OVERFLOW_FILE  "/proc/sys/kernel/overflowuid"
#define OVERFLOW_USUAL 65534
#define ALL_IDS        4294967295ul /* the map of a namespace that has every user */

unsigned long user_outside(const char *map, unsigned long id) {
    unsigned long in, out, count, found = id;
    FILE *f = fopen(map, "re");

    while (f && fscanf(f, "%lu %lu %lu", &in, &out, &count) == 3)
        if (id >= in && id - in < count) {
            found = out + (id - in);
            break;
        }
    if (f)
        fclose(f);
    return found;
}

static unsigned long overflow_uid(void) {
    unsigned long uid = OVERFLOW_USUAL;
    FILE *f = fopen(OVERFLOW_FILE, "re");

    if (f) {
        if (fscanf(f, "%lu", &uid) != 1)
            uid = OVERFLOW_USUAL;
        fclose(f);
    }
    return uid;
}

bool user_is_one(const char *map, uid_t uid) {
    unsigned long in, out, count, all = 0;
    FILE *f;

    if (uid != overflow_uid())
        return true;
    f = fopen(map, "re");
    while (f && fscanf(f, "%lu %lu %lu", &in, &out, &count) == 3)
        all += count;
    if (f)
        fclose(f);
    return all >= ALL_IDS;
}

unsigned long user_of_job(void) {
    const char *uid = getenv("SLURM_JOB_UID");

    if (uid && *uid != '\0' && strlen(uid) <= 10 && uid[strspn(uid, "0123456789")] == '\0')
        return strtoul(uid, NULL, 10);
    return user_outside(USER_UID_MAP, geteuid());
}
