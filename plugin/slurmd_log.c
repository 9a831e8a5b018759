/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurmd_log.c - one line for the administrator in slurmd's log when a dictionary starts and one
 * when it ends, from its own (hidden) step.
 *
 *     user_init   slurmstepd, the user's rights   a pipe, not blocking, closed on exec
 *     task_init   the task, the user              the first line; ddictd inherits the pipe's end
 *                                                 and learns its number from DDICT_NOTE_FD
 *     task_exit   slurmstepd, root                one read of at most NOTE_MAX bytes, which are
 *                                                 made printable and logged
 *
 * Any step can look like a hidden one: what its user wins is a line in the log, marked as ours,
 * with job and step before it as in every line. The descriptors are known by their inode, because
 * where slurmstepd runs callbacks in a short-lived process of their own the numbers mean something
 * else later.
 */

#include "slurmd_log.h"

#include "dictionary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTE_MAX 400 /* bytes; a summary is about 150 */

static struct {
    int in, out; /* in: slurmstepd reads */
    dev_t dev;
    ino_t ino;
} note = {.in = -1, .out = -1};

static int is_ours(int fd) {
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && st.st_dev == note.dev &&
           st.st_ino == note.ino;
}

/* The starter of the managers sets it for its srun. */
static int step_is_hidden(spank_t sp) {
    char text[16];
    uint32_t step;

    return spank_get_item(sp, S_JOB_STEPID, &step) == ESPANK_SUCCESS && step <= STEP_MAX &&
           spank_getenv(sp, "DDICT_INTERNAL", text, sizeof text) == ESPANK_SUCCESS;
}

void slurmd_log_prepare(spank_t sp) {
    struct stat st;
    int fds[2];

    if (!step_is_hidden(sp) || pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return;
    if (fstat(fds[0], &st) < 0) {
        close(fds[0]);
        close(fds[1]);
        return;
    }
    note.in = fds[0];
    note.out = fds[1];
    note.dev = st.st_dev;
    note.ino = st.st_ino;
}

/* In place: what is not printable ASCII becomes '?'; the line ends at its first newline. */
static void text_make_printable(char *text) {
    text[strcspn(text, "\r\n")] = '\0';
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static const char *argument_find(int argc, char **argv, const char *name) {
    int i;

    for (i = 0; i + 1 < argc; i++)
        if (argv[i] && argv[i + 1] && strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return "?";
}

void slurmd_log_hand_over(spank_t sp) {
    char number[16], line[NOTE_MAX], **argv = NULL;
    uint32_t node = 1;
    int argc = 0;

    if (!is_ours(note.out) || fcntl(note.out, F_SETFD, 0) < 0)
        return;
    snprintf(number, sizeof number, "%d", note.out);
    spank_setenv(sp, "DDICT_NOTE_FD", number, 1);
    if (spank_get_item(sp, S_JOB_NODEID, &node) != ESPANK_SUCCESS || node != 0 ||
        spank_get_item(sp, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS)
        return;
    snprintf(line, sizeof line, "dictionary %.64s starts: %.16s managers, %.24s bytes",
             argument_find(argc, argv, "--name"), argument_find(argc, argv, "--managers"),
             argument_find(argc, argv, "--mem"));
    text_make_printable(line);
    slurm_info("ddict: %s", line);
}

void slurmd_log_write(void) {
    char line[NOTE_MAX + 1];
    ssize_t n;

    if (!is_ours(note.in))
        return;
    n = read(note.in, line, NOTE_MAX);
    if (n > 0) {
        line[n] = '\0';
        text_make_printable(line);
        slurm_info("ddict: %s", line);
    }
    if (is_ours(note.out))
        close(note.out);
    close(note.in);
    note.in = note.out = -1;
}
