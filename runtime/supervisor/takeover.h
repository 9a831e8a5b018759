/* SPDX-License-Identifier: Apache-2.0 */
/*
 * takeover.h - with --replicas=2, when another node decides than before (election.h): what node 0
 * did besides the map of owners goes on at that node (PROTOCOL 13).
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

#endif
