/* SPDX-License-Identifier: Apache-2.0 */
/* reason.h - what srun and slurmstepd wrote on stderr of the hidden step, as a sentence for the
 * user. */
#ifndef DDICT_LAUNCH_REASON_H
#define DDICT_LAUNCH_REASON_H

#include <stddef.h>

/* Whether a line on stderr of an srun is srun's or slurmstepd's, not the program's: "srun: ...",
 * "slurmstepd-n1: error: ...", and since Slurm 25.05 "[2026-11-22T07:45:46.022] error: ...". */
int reason_is_slurm(const char *line);
/* The cause in it: prefixes, and lines that only follow from others, are left out. "" where there
 * is none. */
void reason_read(const char *text, size_t len, char *why, size_t cap);
/* Whether somebody, or a limit, cancelled the step: "Slurm's step 7.1 was cancelled due to time
 * limit". */
int reason_cancelled(const char *text, size_t len, char *what, size_t cap);
/* Whether it says no more than that Slurm ended the step, with its job. */
int reason_is_quiet(const char *text, size_t len);
/* Whether it says that a task ended. Only of one that ended badly does srun say so. */
int reason_task_gone(const char *text, size_t len);

#endif
