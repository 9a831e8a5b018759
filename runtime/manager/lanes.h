/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h - the lanes of this node's clients, each served in its turn. */
#ifndef DDICT_MANAGER_LANES_H
#define DDICT_MANAGER_LANES_H

#include "manager.h"

struct lane_client;
extern const struct carrier_ops lane_carrier;
void lane_client_watch(struct lane_client *c); /* serve its lane in the next turns */
void lane_client_unwatch(struct lane_client *c);
/* Serve the watched lanes in turn, a bounded share of work. True: there was work. */
bool lanes_turn(struct manager *m);
/* After `sleeping` was announced: whether there is work after all. */
bool lanes_ready(struct manager *m);
void lanes_unstall(struct manager *m); /* a connection has room again: serve the stalled lanes */
/* The spill made progress: lanes that waited for it may go on. */
void lanes_look(struct manager *m);

#endif
