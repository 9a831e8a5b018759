/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sruns.h - one srun for each component of a heterogeneous job, as if they were one. It cannot be
 * one: all components of such an srun read its stdin, and what one of them has read the others
 * miss; so the managers would not learn of each other.
 *
 *     ddict SRUNS_VERB SRUNS_APART|SRUNS_TOGETHER COUNT WORD... COUNT WORD...
 *
 * What comes on stdin is for every srun. Their stdout comes line by line, their stderr as it is.
 * SIGTERM and the like go to all. One that fails before it said a line ends the others, and with
 * SRUNS_TOGETHER also one that fails later. LEAVE_SIGNAL makes this process and all sruns what
 * plugin/srun_detach.c makes of one. It ends after the last of them; its exit code is that of the
 * first one that failed.
 */
#ifndef DDICT_LAUNCH_SRUNS_H
#define DDICT_LAUNCH_SRUNS_H

#define SRUNS_VERB     "sruns" /* internal: not for users, and in no list */
#define SRUNS_APART    "apart"
#define SRUNS_TOGETHER "together"

/* argv[0] is the verb. The exit code. */
int sruns_main(int argc, char **argv);

#endif
