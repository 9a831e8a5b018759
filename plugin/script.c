/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script.c - the end of a batch script that has a dictionary: slurmstepd ends the job's processes on this node when the script has ended, and among
 * them the managers' srun, which would have heard of the managers' end had it lived a moment longer (leave.c). So their ddictd here watches the script, they end with it, and
 * slurmstepd waits for srun:
 *
 *     user_init   slurmstepd, the user's rights   a pipe, not blocking, closed on exec; `ddict up` inherits its end, and hands it to srun alone
 *     task_init   the task, the user              a byte goes in when the managers have said that they watch
 *     task_exit   slurmstepd, root                where that byte is in it: until the pipe hangs up, srun having ended, at most DD_SCRIPT_END_MS;
 *                                               with --ddict-save, where the byte says so, DD_SCRIPT_SAVE_MS: all the time that the job has left
 *
 * A user can make this wait last as long as that and no longer, and the job's time limit ends it: srun is killed then. The descriptors are known by their inode, as note.c's.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/defaults.h"
#include "plugin.h"

static struct {
    int in, out; /* in: slurmstepd waits */
    dev_t dev;
    ino_t ino;
} script = { .in = -1, .out = -1 };

static int is_ours(int fd) {
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && st.st_dev == script.dev && st.st_ino == script.ino;
}

void script_prepare(spank_t sp) {
    struct stat st;
    uint32_t step;
    char text[8];
    spank_err_t rc;
    int fds[2];

    if (spank_get_item(sp, S_JOB_STEPID, &step) != ESPANK_SUCCESS || step != STEP_BATCH)
        return;
    rc = spank_getenv(sp, JOB_VARIABLE, text, sizeof text);
    if ((rc != ESPANK_SUCCESS && rc != ESPANK_NOSPACE) || pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return;
    if (fstat(fds[0], &st) < 0) {
        close(fds[0]);
        close(fds[1]);
        return;
    }
    script.in = fds[0];
    script.out = fds[1];
    script.dev = st.st_dev;
    script.ino = st.st_ino;
}

int script_fd(void) {
    return is_ours(script.out) ? script.out : -1;
}

void script_watched(int saves) {
    if (is_ours(script.out))
        while (write(script.out, saves ? "s" : "w", 1) < 0 && errno == EINTR)
            continue;
}

void script_end(void) {
    struct pollfd p = { .fd = script.in };
    struct deadline limit;
    char watched;
    int left;

    if (!is_ours(script.in))
        return;
    if (is_ours(script.out))
        close(script.out);
    if (read(script.in, &watched, 1) == 1) {
        deadline_start(&limit, watched == 's' ? DD_SCRIPT_SAVE_MS : DD_SCRIPT_END_MS);
        while ((left = deadline_left(&limit, DD_SCRIPT_END_MS)) > 0 && (p.revents & POLLHUP) == 0)
            poll(&p, 1, left);
    }
    close(script.in);
    script.in = script.out = -1;
}
