/* SPDX-License-Identifier: Apache-2.0 */
/* manager_events.h - what the managers of this node say, and their end. */
#ifndef DDICT_SUPERVISOR_MANAGER_EVENTS_H
#define DDICT_SUPERVISOR_MANAGER_EVENTS_H

#include "managers.h"

/* For managers_start(). */
extern const struct manager_handlers manager_events;

/* Tell node 0 if everything on this node is ready. */
void managers_ready(struct supervisor *s);
/* For the end: those processes of this node that serve shall give their statistics. A shadow that is
 * a backup alone has none of its own. */
void managers_stats_ask(struct supervisor *s);
/* All of those have. */
bool managers_stats_are_in(const struct supervisor *s);
/* The statistics of managers that did not send them, from the memory that outlives a manager. */
void managers_stats_rescue(struct supervisor *s);

#endif
