/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - preloaded: the wall clock is 200 s ahead (Slurm's own credentials bear 300), the
 * monotonic one a day. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    int rc;

    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    rc = real(id, t);
    if (rc == 0)
        t->tv_sec += id == CLOCK_REALTIME                            ? 200
                     : id == CLOCK_MONOTONIC || id == CLOCK_BOOTTIME ? 86400
                                                                     : 0;
    return rc;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
