/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurmd_log.c - a line for the administrator in slurmd's log when a dictionary starts, and one
 * when it ends. Both come from the managers' step.
 *
 *     init_post_opt   slurmstepd, root     makes the pipe (step_pipe.h)
 *     task_init       the task, the user   the first line; ddictd inherits the pipe's end and
 *                                          learns its number from DDICT_NOTE_FD
 *     task_exit       slurmstepd, root     one read of at most NOTE_MAX bytes, which are made
 *                                          printable and logged
 *
 * Any step can look like a managers' step. What its user gains is a line in the log, marked as
 * ours, with job and step before it as in every line.
 */

#include "slurmd_log.h"

#include "dictionary.h"
#include "step_pipe.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define NOTE_MAX 400 /* bytes; a summary is about 150 */

static struct step_pipe note = STEP_PIPE_NONE;

/* The starter of the managers sets DDICT_INTERNAL for its srun. */
static int step_is_hidden(spank_t sp) {
    char text[16];
    uint32_t step;

    return spank_get_item(sp, S_JOB_STEPID, &step) == ESPANK_SUCCESS && step <= STEP_MAX &&
           spank_getenv(sp, "DDICT_INTERNAL", text, sizeof text) == ESPANK_SUCCESS;
}

void slurmd_log_prepare(spank_t sp) {
    if (step_is_hidden(sp))
        (void)step_pipe_make(&note);
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

    if (!step_pipe_is_writable(&note) || fcntl(note.out, F_SETFD, 0) < 0)
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

    if (step_pipe_take(&note, line, sizeof line) <= 0)
        return;
    text_make_printable(line);
    slurm_info("ddict: %s", line);
}
