/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane_placed.h - answers with PLACED, which name a block of our arena instead of carrying its bytes.
 * Each has a pin of the block until the client has consumed it: by then it has stored its lease
 * (LAYOUT 6). Clients with such answers are in the list manager.unsettled.
 */
#ifndef DDICT_MANAGER_LANE_PLACED_H
#define DDICT_MANAGER_LANE_PLACED_H

#include "lane_client.h"

/* Such an answer ends at pos of CQ; takes over a pin of the block. False: no memory, and the pin
 * stays the caller's. */
bool placed_add(struct lane_client *c, uint64_t pos, uint64_t off);
/* Of a life that is not the first: pin what the answers in CQ name. 0 or negative. */
int placed_find(struct lane_client *c);
void lane_settle(struct lane_client *c);  /* give up the pins of those that were consumed */
void lanes_settle(struct manager *m);     /* of all clients */
void lane_settled(struct lane_client *c); /* out of the list; the pins stay */
void placed_end(struct lane_client *c);   /* give up all pins: the client has ended */
/* Forget them; what they pinned stays pinned. */
void placed_forget(struct lane_client *c);

#endif
