/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oom.h - which process the kernel ends first when a job, or the machine, has no memory left. By
 * default that is the process with most memory: a manager, as soon as its share of the dictionary
 * is larger than a rank. To end a manager frees nothing, because ddictd has that memory too, and
 * loses the whole content of the dictionary. So the processes that use a dictionary are made to go
 * first. libc only; async-signal-safe.
 */
#ifndef DDICT_BASE_OOM_H
#define DDICT_BASE_OOM_H

/* Of this process, and what it starts: it is ended before any other that has not said so. It may be
 * taken back by /proc/self/oom_score_adj. 0 or a negative code: nothing changed. */
int oom_first(void);
/* The same in two steps, for a process that has left root's rights and has not run a program since:
 * /proc/self is root's there. Open it as root; *fd becomes -1 in the second. */
int oom_open(void); /* a descriptor, closed on exec, or a negative code */
int oom_first_by(int *fd);
/* The same is not to hold for this process any more, which inherited it. Does what the kernel
 * allows: not below what root has set. */
void oom_not_first(void);

#endif
