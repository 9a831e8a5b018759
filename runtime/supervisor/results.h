/* SPDX-License-Identifier: Apache-2.0 */
/* results.h - --results. */
#ifndef DDICT_SUPERVISOR_RESULTS_H
#define DDICT_SUPERVISOR_RESULTS_H

#include "supervisor.h"

void program_find(char *path, size_t cap); /* the command `ddict` */
void results_start(struct supervisor *s);
void results_below(struct supervisor *s); /* takeover.h: another node writes them */
void results_reap(struct supervisor *s);
void results_end(struct supervisor *s);

#endif
