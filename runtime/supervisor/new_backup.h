/* SPDX-License-Identifier: Apache-2.0 */
/*
 * new_backup.h - a second copy in place of one that is lost (PROTOCOL 13). Who decides chooses a node
 * (shadow_tries.h) and writes it into the map of owners; that node starts a shadow there and says where
 * it listens; the primary copies all to it.
 *
 *     who decides                        the node of the new backup      the node of the primary
 *     a row with it, without a port -->
 *                                   <--  PLACED, its port
 *     the row with its port         ----------------------------------->
 *                                                                   <--  WHOLE, it has all
 *     the row says that it is whole -->
 *
 * Keys that are LOST take the first two steps, too: with PLACED they begin anew (new_primary.h).
 */
#ifndef DDICT_SUPERVISOR_NEW_BACKUP_H
#define DDICT_SUPERVISOR_NEW_BACKUP_H

#include "control.h"
#include "supervisor.h"

/* payload of CTL_PLACED, and a sentence behind it where port is 0: it can not be */
struct placed_word {
    uint16_t port;
};

int new_backups_init(struct supervisor *s); /* behind owner_map_init(); -ENOMEM */
void new_backups_end(struct supervisor *s);
/* We decide from now on: since when copies are missing is not known. */
void new_backups_clear(struct supervisor *s);

/* The next step of this node for an owner, which has the new backup or the primary. True: look again. */
bool new_backup_look(struct supervisor *s, uint32_t owner);
/* The next step of who decides for an owner whose keys are served. True: look again. */
bool new_backup_decide(struct supervisor *s, uint32_t owner, uint64_t now);
/* Its primary is of this node, and has copied all to the backup of this epoch. */
void new_backup_copied(struct supervisor *s, uint32_t owner, uint64_t epoch);

/* Messages of other nodes to who decides. */
int new_backup_placed_heard(struct supervisor *s, const struct control_said *m);
int new_backup_whole_heard(struct supervisor *s, const struct control_said *m);

#endif
