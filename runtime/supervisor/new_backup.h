/* SPDX-License-Identifier: Apache-2.0 */
/*
 * new_backup.h - a second copy in place of one that is lost (PROTOCOL 13). Who decides chooses a node
 * and writes it into the map of owners; that node starts a shadow there and says where it listens;
 * the primary copies all to it. Each step is told again until the map has it, so that nothing is lost
 * with who decided before.
 *
 *     who decides                        the node of the new backup      the node of the primary
 *     a row with it, without a port -->
 *                                   <--  PLACED, its port
 *     the row with its port         ----------------------------------->
 *                                                                   <--  WHOLE, it has all
 *     the row says that it is whole -->
 */
#ifndef DDICT_SUPERVISOR_NEW_BACKUP_H
#define DDICT_SUPERVISOR_NEW_BACKUP_H

#include "control.h"
#include "supervisor.h"

struct
    placed_word { /* payload of CTL_PLACED, and a sentence behind it where port is 0: it can not be */
    uint16_t port;
};

int new_backups_init(struct supervisor *s); /* behind owner_map_init(); -ENOMEM */
/* The map has changed, or who decides, or a new shadow is ready: begin what is to be done. */
void new_backups_look(struct supervisor *s);
/* We decide from now on: what was tried when we did before is forgotten. */
void new_backups_decide(struct supervisor *s);
/* Its primary is of this node, and has copied all to the backup of this epoch. */
void new_backup_copied(struct supervisor *s, uint32_t owner, uint64_t epoch);
void new_backups_end(struct supervisor *s);

/* Messages of other nodes to who decides. */
int new_backup_placed_heard(struct supervisor *s, const struct control_said *m);
int new_backup_whole_heard(struct supervisor *s, const struct control_said *m);

#endif
