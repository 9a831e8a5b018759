/* SPDX-License-Identifier: Apache-2.0 */
/* srun_leave.c - leave an srun of ours alone while its step runs. */
#include "srun_leave.h"

#include "step_argv.h"
#include <base/process.h>

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void srun_children_kill(pid_t srun) {
    DIR *d = opendir("/proc");
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (isdigit((unsigned char)e->d_name[0]) && process_parent((pid_t)atoi(e->d_name)) == srun)
            kill((pid_t)atoi(e->d_name), SIGKILL);
    if (d)
        closedir(d);
}

/* Whether a process has a handler for sig. */
static int signal_is_caught(pid_t pid, int sig) {
    char path[64], text[4096], *line;
    int fd;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    line = strstr(text, "\nSigCgt:");
    return line && (strtoull(line + 8, NULL, 16) >> (sig - 1) & 1) != 0;
}

int srun_leave_tell(pid_t srun) {
    return signal_is_caught(srun, LEAVE_SIGNAL) && kill(srun, LEAVE_SIGNAL) == 0;
}
