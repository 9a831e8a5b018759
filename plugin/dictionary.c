/* SPDX-License-Identifier: Apache-2.0 */
/* dictionary.c - names of dictionaries, and whether one runs on this node. */
#include "dictionary.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

unsigned job_of_component(unsigned job, const char *het_size, const char *job_id) {
    char *end;
    unsigned long id;

    if (!het_size || *het_size == '\0' || !job_id)
        return job;
    id = strtoul(job_id, &end, 10);
    return end != job_id && *end == '\0' && id > 0 && id <= UINT32_MAX ? (unsigned)id : job;
}

void step_name(char name[NAME_CAP], unsigned job, unsigned step) {
    snprintf(name, NAME_CAP, "%u.%u.%u", geteuid(), job, step);
}

void job_name(char name[NAME_CAP], unsigned job) {
    snprintf(name, NAME_CAP, "%u.%u.job", geteuid(), job);
}

void component_name(char name[NAME_CAP], unsigned job, unsigned step, unsigned component) {
    snprintf(name, NAME_CAP, "%u.%u.%u.%u", geteuid(), job, step, component);
}

int dictionary_is_here(const char *name, const char *node) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t cap = sizeof a.sun_path - 1;
    struct ucred other;
    socklen_t len = sizeof other;
    int n = snprintf(a.sun_path + 1, cap, "ddict/%s/%s", name, node), fd, rc;

    if (n < 0 || (size_t)n >= cap)
        return 1; /* such long names are built otherwise */
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return 1;
    rc = connect(fd, (struct sockaddr *)&a,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0
             ? errno
             : 0;
    if (rc == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &len) == 0 &&
        other.uid != geteuid())
        rc = ECONNREFUSED; /* a stranger has bound the name */
    close(fd);
    return rc != ECONNREFUSED;
}
