/* SPDX-License-Identifier: Apache-2.0 */
/* elect.h - one dictionary for a job, however many start it (ELECTION 5). */
#ifndef DDICT_SUPERVISOR_ELECT_H
#define DDICT_SUPERVISOR_ELECT_H

#include "supervisor.h"

/* Node 0 with --stay, before its node info is out: 0 the name is ours; 1 another dictionary has it
 * and is ready (s->other); negative. */
int elect_name(struct supervisor *s);
/* Node > 0 with --stay, after the node infos: node 0 has won, so the name is ours or about to be
 * given up by a dictionary that has ended. */
int elect_follow(struct supervisor *s);

#endif
