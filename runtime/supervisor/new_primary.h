/* SPDX-License-Identifier: Apache-2.0 */
/*
 * new_primary.h - with --refill, keys of which no copy is left begin anew, empty, in a shadow on another
 * node (PROTOCOL 13). Who decides has it started as the backup of the row (shadow_tries.h), and makes it
 * the primary once it listens (new_backup.h: PLACED); refill.h then has sources read there.
 *
 *     lost with their process or node -->  LOST  -- the shadow listens -->  REFILLING
 *
 * The dictionary is lost where no node can have them, or where their process died too often.
 */
#ifndef DDICT_SUPERVISOR_NEW_PRIMARY_H
#define DDICT_SUPERVISOR_NEW_PRIMARY_H

#include "control.h"
#include "owner_map.h"
#include "supervisor.h"

/* Times that the keys of each owner have begun anew, as their process had died. */
int new_primaries_init(struct supervisor *s); /* behind owner_map_init(); -ENOMEM */
void new_primaries_end(struct supervisor *s);
/* We decide from now on: what we had counted when we did before is forgotten. */
void new_primaries_clear(struct supervisor *s);

/* All of who decides. */
/* The process of that node which served the keys is lost, and they are nowhere else; why: "manager 3 on
 * node n1 died (signal 11)". They are LOST, or, without --refill, the dictionary is. */
void new_primary_need(struct supervisor *s, uint32_t owner, uint32_t node, const char *why);
/* The keys are LOST: the next step to a process that has them. True: look again. */
bool new_primary_look(struct supervisor *s, uint32_t owner, uint64_t now);
/* The backup of that row is this process: it is there, and empty. */
void new_primary_begin(struct supervisor *s, uint32_t owner, const struct owner_place *row);

#endif
