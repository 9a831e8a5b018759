/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane_memory.h - the memory of lanes. A lane that is idle for DD_LANE_IDLE_MS gives the memory of
 * its rings and of its area back to the kernel (PROTOCOL 3, R1 to R4). The timer manager.shrink runs
 * while any lane has been used since; it looks at each of them, a bounded time in a turn, and takes
 * the area in steps. All of it is the manager's own thread; clients go on writing meanwhile, and
 * R1 to R4 keep what they write.
 */
#ifndef DDICT_MANAGER_LANE_MEMORY_H
#define DDICT_MANAGER_LANE_MEMORY_H

#include "lane_client.h"

void lane_grown(struct lane_client *c); /* into the list of used lanes */
/* A record has gone through it. */
static inline void lane_used(struct lane_client *c) {
    c->used = true;
    if (!c->g_prev)
        lane_grown(c);
}
void lane_small(struct lane_client *c); /* out of the list */
/* Look up how much memory the lane has, and keep the sum in manager.lane_bytes. */
uint64_t bytes_look(struct lane_client *c);
/* Timer manager.shrink: idle lanes give memory back. */
void lanes_shrink(struct timer *t);

#endif
