/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_process.c - in slurmstepd, as root: whose process it is that a user has named. Only the
 * kernel's word counts: /proc/PID/status, and /proc/PID/cgroup with cgroups that Slurm made beside
 * our own, which no user can leave or make. Reads nothing else and starts nothing.
 */
#include "job_process.h"

#include <base/io.h>
#include <base/process.h>

#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CGROUPS_MAX 8192 /* bytes of /proc/PID/cgroup; a longer one is not believed */
#define SLUID_LEN   14

/* The whole file, 0-terminated; 0 or -1. */
static int file_read(const char *path, char *text, size_t cap) {
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    n = read_all(fd, text, cap - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 && (size_t)n < cap - 1 ? 0 : -1;
}

int belongs_to_user(const struct named *who, uid_t uid) {
    char path[64], text[4096], *at;
    unsigned long real, effective, saved;

    snprintf(path, sizeof path, "/proc/%d/status", (int)who->pid);
    if (file_read(path, text, sizeof text) < 0 || !(at = strstr(text, "\nUid:")) ||
        sscanf(at, "\nUid: %lu %lu %lu", &real, &effective, &saved) != 3)
        return 0;
    return real == uid && effective == uid && saved == uid && process_began(who->pid) == who->began;
}

/* Find, in the text of /proc/PID/cgroup, the path in the hierarchy by which Slurm kills a step (v1:
 * freezer; v2: the only one). *len: its bytes, up to the end of the line. NULL: none. */
static const char *cgroup_find(const char *text, int v2, size_t *len) {
    static const char freezer[] = "freezer:/";
    const char *line;

    for (line = text; *line != '\0'; line += *line == '\n') {
        const char *path =
            v2 ? (strncmp(line, "0::/", 4) == 0 ? line + 3 : NULL) : strchr(line, ':');

        if (!v2 && path)
            path = strncmp(path + 1, freezer, sizeof freezer - 1) == 0 ? path + sizeof freezer - 1
                                                                       : NULL;
        *len = strcspn(line, "\n");
        if (path && path < line + *len) {
            *len -= (size_t)(path - line);
            return path;
        }
        line += *len;
    }
    return NULL;
}

/* Whether the n bytes at `name` are a job's id as Slurm writes it since 26.05, also for a folder of
 * cgroup v2: "s6KSM812C9N100". */
static int is_sluid(const char *name, size_t n) {
    static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

    return n == SLUID_LEN && *name == 's' && strspn(name + 1, digits) >= n - 1;
}

/* The bytes of slurmstepd's own path up to the end of its job's folder, the last one that may be
 * it: a whole cluster can run in a job of another one. 0: none. */
static size_t folder_find(const char *mine, size_t len, uint32_t job, int v2) {
    char folder[32];
    size_t n = (size_t)snprintf(folder, sizeof folder, "job_%" PRIu32, job), at, part, head = 0;

    for (at = 0; at < len; at += 1 + part) {
        const char *name = mine + at + 1; /* behind the slash */

        part = 0;
        while (at + 1 + part < len && name[part] != '/')
            part++;
        if ((part == n && memcmp(name, folder, n) == 0) || (v2 && is_sluid(name, part)))
            head = at + 1 + part;
    }
    return head;
}

/* Whether both are in the same folder of this job, and `its` is below that in the batch step's;
 * with v2 in `user` of that, because slurmstepd itself is beside `user`. */
static int cgroups_agree(const char *mine, const char *its, uint32_t job, int v2) {
    const char *below = v2 ? "/step_batch/user" : "/step_batch";
    size_t mine_len, its_len, head, n = strlen(below);

    mine = cgroup_find(mine, v2, &mine_len);
    its = cgroup_find(its, v2, &its_len);
    head = mine && its ? folder_find(mine, mine_len, job, v2) : 0;
    if (head == 0 || its_len < head + n || memcmp(mine, its, head) != 0 ||
        memcmp(its + head, below, n) != 0)
        return 0;
    return its_len == head + n || its[head + n] == '/';
}

int belongs_by_cgroup(const char *mine, const char *its, uint32_t job) {
    return cgroups_agree(mine, its, job, 0) || cgroups_agree(mine, its, job, 1);
}

static int on_library(struct dl_phdr_info *info, size_t size, void *arg) {
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

    return name && strncmp(name, "/proctrack_cgroup.", 18) == 0;
}

int belongs_to_step(const struct named *who, uint32_t job) {
    char path[64], mine[CGROUPS_MAX], its[CGROUPS_MAX];

    /* Without proctrack/cgroup Slurm kills what it finds below slurmstepd: a process that has left
     * its parent lives on. */
    if (dl_iterate_phdr(on_library, NULL) == 0)
        return 0;
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)who->pid);
    return file_read("/proc/self/cgroup", mine, sizeof mine) == 0 &&
           file_read(path, its, sizeof its) == 0 && belongs_by_cgroup(mine, its, job);
}
