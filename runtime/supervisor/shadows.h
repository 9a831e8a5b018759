/* SPDX-License-Identifier: Apache-2.0 */
/* shadows.h - what becomes of the shadows of this node by the map of owners (owner_map.h). */
#ifndef DDICT_SUPERVISOR_SHADOWS_H
#define DDICT_SUPERVISOR_SHADOWS_H

#include "supervisor.h"

/* It serves its owner's keys, so it is as a manager: always true of one. */
bool process_serves(const struct local_manager *mgr);
/* It is a backup, and the dictionary can go on without it. */
bool shadow_can_go(const struct local_manager *mgr);
/* Such a one is lost: it has no next life, and the map loses it. why: "died (signal 9)". */
void shadow_lost(struct local_manager *mgr, const char *why);
/* It serves keys and has no next life; how: "died (signal 9)". True: others serve them from now on; a
 * shadow is given up, a manager takes its node along. */
bool process_moves(struct local_manager *mgr, const char *how);
/* The one of this number that is not given up, or NULL. */
struct local_manager *shadow_find(struct supervisor *s, uint32_t number);
/* It has no next life. */
void shadow_kill(struct local_manager *mgr);
/* Ends those that the map does not name any more. The dictionary is lost where it names one that
 * was given up. */
void shadows_look(struct supervisor *s);
/* After its end: its memory and its port are given back. */
void shadow_forget(struct local_manager *mgr);

#endif
