/* SPDX-License-Identifier: Apache-2.0 */
/* rooms.h - who waits for the spill. */
#ifndef DDICT_MANAGER_ROOMS_H
#define DDICT_MANAGER_ROOMS_H

#include "manager.h"

/* TAKE_STALL: rooms_turn() will say when to try again */
int manager_waits_for_room(struct manager *m);
void rooms_turn(struct manager *m); /* each turn: has the spill made progress? */

#endif
