/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coordinator.h - with --replicas=2, where it is decided: what the loss of a node changes in the map of
 * owners (PROTOCOL 13). One thread.
 */
#ifndef DDICT_SUPERVISOR_COORDINATOR_H
#define DDICT_SUPERVISOR_COORDINATOR_H

#include "supervisor.h"

int coordinator_init(struct supervisor *s); /* -ENOMEM */
/* We decide, and the dictionary could go on without this node. */
bool coordinator_can_lose(const struct supervisor *s, uint32_t node);
/* No keys are there alone. */
bool coordinator_can_spare(const struct supervisor *s, uint32_t node);
/*
 * Node `node` was lost; how: for the sentence, heard: when anything came from it last, by our
 * timers. True: the dictionary goes on without it. Its backups are dropped now; what it was the
 * primary of goes to the backups when its lease is over. False: keys are gone with it, or it is not
 * the time for that; nothing was done.
 */
bool coordinator_node_lost(struct supervisor *s, uint32_t node, uint64_t heard, const char *how);
/* False: the keys of a node that is lost are served by nobody yet. */
bool coordinator_all_served(const struct supervisor *s);
/* A map counts that we have proposed. */
void coordinator_counts(struct supervisor *s);
/* We decide from now on, or not any more. */
void coordinator_begin(struct supervisor *s);
void coordinator_pause(struct supervisor *s);
/* The dictionary goes on without it, so it must not come back. */
bool coordinator_is_lost(const struct supervisor *s, uint32_t node);
void coordinator_end(struct supervisor *s);

#endif
