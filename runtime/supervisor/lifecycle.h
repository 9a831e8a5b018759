/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lifecycle.h - the life of a dictionary in its ddictd, from start to over. The arrows are events
 * (life_events.h); lifecycle.c has a table of them. Each wait ends by a deadline of its own.
 *
 *     STARTING ---ready---> READY            clients are served
 *        |                    |
 *        +-------drain--------+              stdin, SIGTERM, `ddict down`, DRAIN of another node
 *                  v
 *               DRAINING                     no new clients; who decides waits for those of all
 *                  |     \                   nodes, the others for its END
 *                  |   who decides, with --save
 *                  |       v
 *                  |     SAVING              the last pass (save_passes.c)
 *                  |       |
 *                  v       v
 *                 ENDING <---lost, in any    our managers give their statistics
 *                  |         stage above
 *        +---------+----------+
 *        | the head           | others
 *        v                    v
 *     GATHERING <--head-- REPORTED           GATHERING: the other nodes give theirs;
 *        |                    |              REPORTED: ours are given, DONE is awaited
 *        v                    |
 *     RECORDING               |              the record is written, the others go
 *        |                    |
 *        +------> OVER <------+              when clients had DD_DRAIN_GRACE_MS to see the end
 *
 * Who decides is node 0, with --replicas=2 after its loss another one (election.h). The head is who decides, or where
 * that is gone the lowest node that lives (control.c). The status page says READY, DRAINING, then GONE or LOST.
 */
#ifndef DDICT_SUPERVISOR_LIFECYCLE_H
#define DDICT_SUPERVISOR_LIFECYCLE_H

#include "supervisor.h"

int lifecycle_init(struct supervisor *s);
/* Nothing is to be served: OVER at once, without a report. Also before lifecycle_init(). */
void lifecycle_abandon(struct supervisor *s);

#endif
