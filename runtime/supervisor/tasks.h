/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.h - --tasks N. */
#ifndef DDICT_SUPERVISOR_TASKS_H
#define DDICT_SUPERVISOR_TASKS_H

#include "supervisor.h"

int tasks_init(struct supervisor *s);
/* the dictionary is ready, or (takeover.h) all nodes have said how many are there */
void tasks_ready(struct supervisor *s);
void tasks_below(struct supervisor *s); /* say it to who decides now */
/* A task of this node came: 0; -EALREADY: it was here before; -EINVAL; with a sentence. To be
 * followed by tasks_left() at its end. */
int tasks_join(struct supervisor *s, uint32_t task);
void tasks_left(struct supervisor *s);
/* who decides: so many of another node */
void tasks_set(struct supervisor *s, uint32_t node, uint32_t came, uint32_t here);
void tasks_node_lost(struct supervisor *s, uint32_t node); /* who decides: its tasks are gone */
void tasks_end(struct supervisor *s);

#endif
