/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_pipe.h - a pipe from a task to slurmstepd, which reads it once when the task has ended:
 *
 *     init_post_opt   slurmstepd, root     step_pipe_make
 *     task_init       the task, the user   writes, where step_pipe_is_writable
 *     task_exit       slurmstepd, root     step_pipe_take
 *
 * With contain_spank (Slurm 24.05) user_init and task_exit run in short-lived processes that share
 * slurmstepd's memory and have copies of its descriptors: what is opened in user_init is open there
 * alone, and what task_exit closes stays open in slurmstepd. The ends are known by their inode, so
 * that no number is ever taken for what it is not.
 */
#ifndef DDICT_PLUGIN_STEP_PIPE_H
#define DDICT_PLUGIN_STEP_PIPE_H

#include <stddef.h>
#include <sys/types.h>

struct step_pipe {
    int in, out; /* in: slurmstepd reads; -1: none */
    dev_t dev;
    ino_t ino;
};
#define STEP_PIPE_NONE \
    { .in = -1, .out = -1 }

/* Neither end blocks, both are closed on exec. 0, or a negative code: the pipe is none. */
int step_pipe_make(struct step_pipe *p);
/* Whether p->out is still the pipe's. */
int step_pipe_is_writable(const struct step_pipe *p);
/* One read without waiting, of at most cap - 1 bytes, into text, which it ends with 0; then both
 * ends are closed. The length, 0 for nothing, or -EBADF: there is no pipe. */
int step_pipe_take(struct step_pipe *p, char *text, size_t cap);

#endif
