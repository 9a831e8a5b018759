/* SPDX-License-Identifier: Apache-2.0 */
#include "folder_below.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int folder_below_open(int folder, const char *path, const char **name) {
    char part[NAME_MAX + 1];
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const char *slash; fd >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        if ((size_t)snprintf(part, sizeof part, "%.*s", (int)(slash - path), path) >= sizeof part) {
            close(fd);
            return -ENAMETOOLONG;
        }
        if (mkdirat(fd, part, 0777) != 0 && errno != EEXIST) {
            int e = errno;
            close(fd);
            return -e;
        }
        int next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), e = errno;
        close(fd);
        if (next < 0)
            return -e;
        fd = next;
    }
    *name = path;
    return fd < 0 ? -errno : fd;
}
