/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - what /proc/PID/stat says of a process. */
#ifndef DDICT_BASE_PROCESS_H
#define DDICT_BASE_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/* Parent of a process; 0 when it is gone. */
pid_t process_parent(pid_t pid);
/* When it began, in ticks of the kernel's clock since it booted: with its pid it is one of all that
 * there were. 0: it is gone, or cannot be seen. */
uint64_t process_began(pid_t pid);
/* Its letter of proc(5): R, S, D, T, ...; of its first thread. 0: it is gone. */
char process_state(pid_t pid);

#endif
