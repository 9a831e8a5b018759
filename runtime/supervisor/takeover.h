/* SPDX-License-Identifier: Apache-2.0 */
/*
 * takeover.h - with --replicas=2, when another node decides than before (election.h): what node 0
 * did besides the map of owners goes on at that node (PROTOCOL 13).
 *
 *     each other node                            who decides now
 *     its connection is up                       takeover_begin(); waits
 *     TASKS, MEET, FREEZE (WAS, ASK), NOTE,
 *     DRAIN, DRAINED, then READY          --->   takeover_told(): of all that are not lost: goes on
 *
 * Until then nothing is concluded from what the others have not said yet: no end, no freeze, no pass.
 * A node that does not come is lost in time (coordinator.h), so this wait needs no deadline.
 */
#ifndef DDICT_SUPERVISOR_TAKEOVER_H
#define DDICT_SUPERVISOR_TAKEOVER_H

#include "supervisor.h"

/* This node decides from now on: its map counts. The connections of others may be still to come. */
void takeover_begin(struct supervisor *s);
/* Another node decides, and our connection to it as our parent is up: it is told all that it must
 * know of us. */
void takeover_below(struct supervisor *s);
/* We decide, and that node's connection as a child is up. */
void takeover_child(struct supervisor *s, uint32_t node);
/* READY of a child: it has told all. */
void takeover_told(struct supervisor *s, uint32_t node);
/* Who decides: that node is lost, and has nothing more to tell. */
void takeover_node_lost(struct supervisor *s, uint32_t node);
/* We decide in place of another node, and not all have told yet. */
bool takeover_waits(const struct supervisor *s);
/* Nobody decides just now: kept for who will. False: somebody does. */
bool takeover_note_keep(struct supervisor *s, const struct note *n);
void takeover_end(struct supervisor *s);

#endif
