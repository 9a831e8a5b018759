/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - the command `ddict` as a child. Functions give 0, or a negative code with the sentence. */
#ifndef DDICT_LIB_PROGRAM_H
#define DDICT_LIB_PROGRAM_H

#include <limits.h>
#include <sys/types.h>

/* Where it is: $DDICT_COMMAND, else beside this library, else on PATH. */
int program_find(char path[PATH_MAX]);
/*
 * Start argv in a session of its own, so that ^C at the terminal is not for it. *from becomes our end
 * of its stdout, *to of its stdin; to NULL: it reads /dev/null. The lock of up.h is held, because a
 * child that another thread forks meanwhile would keep the pipes open.
 */
int program_start(pid_t *pid, char *const *argv, int *to, int *from);
void program_close(int *fd); /* -1 is allowed, and what it becomes */

#endif
