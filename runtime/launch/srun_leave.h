/* SPDX-License-Identifier: Apache-2.0 */
/* srun_leave.h - leave an srun of ours alone while its step runs: STARTUP 3. */
#ifndef DDICT_LAUNCH_SRUN_LEAVE_H
#define DDICT_LAUNCH_SRUN_LEAVE_H

#include <sys/types.h>

/* Its child would end the step when srun dies. */
void srun_children_kill(pid_t srun);
/* Tell it LEAVE_SIGNAL; it closes our pipes when it has obeyed. 0: it would not know the signal. */
int srun_leave_tell(pid_t srun);

#endif
