/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_end.c - the end of a batch script that has a dictionary. When the script has ended,
 * slurmstepd ends the job's processes on this node, among them the managers' srun, a moment before
 * that could hear of the managers' end (srun_detach.c). So ddictd on this node watches the script,
 * the managers end with it, and slurmstepd waits for their srun:
 *
 *     init_post_opt   slurmstepd, root     makes the pipe (step_pipe.h)
 *     task_init       the task, the user   where the managers have said that they watch: which
 *                                          process srun is goes in, as a number
 *     task_exit       slurmstepd, root     one read, without waiting; then, until that process has
 *                                          ended, at most DD_SCRIPT_END_MS, with --ddict-save
 *                                          DD_SCRIPT_SAVE_MS: all the time that the job has left
 *
 * What is read is the user's word. Root waits only for a process of that user alone which began
 * when the word says, and longer than DD_SCRIPT_END_MS only for a process that Slurm kills with
 * this step whatever its user does (job_process.c); it looks again every LOOK_MS. So scancel, the
 * time limit and the end of an allocation end the wait, too, because srun is killed then. Root
 * waits for nothing that can be handed to another process.
 */
#include "batch_end.h"

#include "dictionary.h"
#include "step_pipe.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/io.h>
#include <wire/attach.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_MS  1000
#define WORD_MAX 64

static struct {
    struct step_pipe pipe;
    uint32_t job;
    uid_t uid;
} script = {.pipe = STEP_PIPE_NONE};

void batch_end_prepare(spank_t sp) {
    uint32_t step;
    char text[8];
    spank_err_t rc;

    if (spank_get_item(sp, S_JOB_STEPID, &step) != ESPANK_SUCCESS || step != STEP_BATCH)
        return;
    rc = spank_getenv(sp, JOB_VARIABLE, text, sizeof text);
    if ((rc == ESPANK_SUCCESS || rc == ESPANK_NOSPACE) &&
        spank_get_item(sp, S_JOB_ID, &script.job) == ESPANK_SUCCESS &&
        spank_get_item(sp, S_JOB_UID, &script.uid) == ESPANK_SUCCESS)
        (void)step_pipe_make(&script.pipe);
}

int batch_end_is_asked(void) {
    return step_pipe_is_writable(&script.pipe);
}

void batch_end_tell_watch(const char *srun, int saves) {
    char word[WORD_MAX];
    int n = snprintf(word, sizeof word, "%s %c", srun, saves ? 's' : 'w');

    if (n < (int)sizeof word && step_pipe_is_writable(&script.pipe))
        write_all(script.pipe.out, word, (size_t)n);
}

int batch_end_read_watch(const char *text, struct named *who, int *saves) {
    char pid[10], began[20], which, more;

    if (sscanf(text, "%9[0-9]/%19[0-9] %c%c", pid, began, &which, &more) != 3 ||
        (which != 's' && which != 'w') || strlen(pid) + 1 + strlen(began) + 2 != strlen(text))
        return -EINVAL;
    who->pid = (pid_t)strtol(pid, NULL, 10);
    who->began = strtoull(began, NULL, 10);
    *saves = which == 's';
    return who->pid > 0 && who->began > 0 ? 0 : -EINVAL;
}

static void srun_await(const struct named *srun, int saves) {
    struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, srun->pid, 0), .events = POLLIN};
    struct deadline limit;
    int left, sure;

    if (p.fd < 0) /* it has ended, or never was */
        return;
    /* Looked at only now: the process that has this number is the one that the descriptor is of, or
     * that one has ended. */
    sure = belongs_to_step(srun, script.job);
    deadline_start(&limit, saves && sure ? DD_SCRIPT_SAVE_MS : DD_SCRIPT_END_MS);
    while (belongs_to_user(srun, script.uid) && (!sure || belongs_to_step(srun, script.job)) &&
           (left = deadline_left(&limit, LOOK_MS)) > 0 && poll(&p, 1, left) <= 0)
        continue;
    close(p.fd);
}

void batch_end_wait(void) {
    char word[WORD_MAX + 1];
    struct named srun;
    int saves;

    if (step_pipe_take(&script.pipe, word, sizeof word) > 0 &&
        batch_end_read_watch(word, &srun, &saves) == 0)
        srun_await(&srun, saves);
}
