/* SPDX-License-Identifier: Apache-2.0 */
/* leader.h - the worker that plans the load, waits for all units, and writes the set. */
#ifndef DDICT_LOAD_LEADER_H
#define DDICT_LOAD_LEADER_H

/* The life of the leader, from the plan to the set; the user is told how it ended. The exit
 * code. */
int leader_run(void);

#endif
