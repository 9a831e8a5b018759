/* SPDX-License-Identifier: Apache-2.0 */
/*
 * once.h - `ddict restore --once`: several starters of one dictionary may each want to restore it.
 * Each worker has a key that says "begun" with a count of seconds, or "done". A worker whose count
 * stops is taken for dead, and another one takes its place: putting the same values again does no
 * harm. One restore a process. once_beat() is called from a thread of its own, between once_begin()
 * and once_end().
 */
#ifndef DDICT_SAVE_ONCE_H
#define DDICT_SAVE_ONCE_H

#include "save.h"

/* 0: we are to restore; 1: it is done already; negative with the sentence set. signal_came: the
 * signal that stopped the run. */
int once_begin(struct save_run *run, int (*signal_came)(void));
void once_beat(struct save_run *run); /* once a second: we are alive */
/* rc: result of the restore, which is returned where it is negative; else 0 or a negative code. */
int once_end(struct save_run *run, int rc);
void once_free(void);

#endif
