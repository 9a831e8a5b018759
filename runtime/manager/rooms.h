/* SPDX-License-Identifier: Apache-2.0 */
/* rooms.h - requests that wait for the spill. */
#ifndef DDICT_MANAGER_ROOMS_H
#define DDICT_MANAGER_ROOMS_H

#include "manager.h"

/* returns TAKE_STALL; the carriers are told when to try again */
int manager_waits_for_room(struct manager *m);
/* in each turn: tells the carriers if the spill has made progress */
void rooms_turn(struct manager *m);

#endif
