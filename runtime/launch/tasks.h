/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks.h - `ddict run` in every task of a step, or of mpirun: one dictionary for all of them
 * (ELECTION 6).
 *
 *     task 0  (first node)          task 1  (first node)         task 2  (second node)
 *     takes the right to start      sees it taken: waits         waits for the name on its node
 *     starts the managers, leaves
 *     comes, runs the command       comes, runs the command      comes, runs the command
 *
 * Nothing wakes a waiting task: it looks for the name, often at first. Nothing here uses PMIx, which
 * is left to the command.
 */
#ifndef DDICT_LAUNCH_TASKS_H
#define DDICT_LAUNCH_TASKS_H

#include "options.h"
#include <place/place.h>

/*
 * Is this one of several tasks that run the same line? 1: p says which; 0: it is alone, or asked
 * for something of its own (--local, --name, another job). Negative: it cannot be, with the
 * sentence set.
 */
int tasks_find(struct place *p, const struct options *o);
/*
 * Why no task does anything: task 0 says it for all. The others of mpirun, which kills task 0 once
 * another has ended, wait 2 s before they return.
 */
void tasks_refuse(const struct place *p, const char *why);
/* Does all. Where the command runs in place of this process, it does not return; else the exit
 * code. */
int tasks_run(const struct options *o, const struct place *p);

#endif
