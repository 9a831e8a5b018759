/* SPDX-License-Identifier: Apache-2.0 */
/* oom.c - /proc/self/oom_score_adj. Raising it needs no privilege, nor does lowering it again to
 * its former value. */
#include "oom.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define ADJ_FILE "/proc/self/oom_score_adj"
/* as if it had all of what may be used in addition to its own: more than any process without it */
#define ADJ_FIRST "1000"

static int oom_score(void) {
    char text[16];
    int fd = open(ADJ_FILE, O_RDONLY | O_CLOEXEC), at, value = 0;
    ssize_t n;

    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    for (at = n > 0 && text[0] == '-'; at < n && text[at] >= '0' && text[at] <= '9'; at++)
        value = 10 * value + (text[at] - '0');
    return n > 0 && text[0] == '-' ? -value : value;
}

static int score_set(int *fd, const char *text, size_t n) {
    int rc;

    if (*fd < 0)
        return *fd;
    rc = write(*fd, text, n) < 0 ? -errno : 0;
    close(*fd);
    *fd = -1;
    return rc;
}

int oom_open(void) {
    int fd = open(ADJ_FILE, O_WRONLY | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

int oom_first_by(int *fd) {
    return score_set(fd, ADJ_FIRST, sizeof ADJ_FIRST - 1);
}

int oom_first(void) {
    int fd = oom_open();

    return oom_first_by(&fd);
}

void oom_not_first(void) {
    int fd = oom_score() > 0 ? oom_open() : -1;

    (void)score_set(&fd, "0", 1); /* refused where root has set more */
}
