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
/* Its primary is of this node, and has no next life; why: "manager 3 on node n1 died (signal 11)".
 * False: there is no whole backup that could take its place. */
bool primary_give_up(struct supervisor *s, uint32_t owner, const char *why);
/* So it was, and who decides is told until the map has another. */
bool primary_is_given_up(const struct supervisor *s, uint32_t owner);
/* A manager of this node has no next life. Its clients have no other, so the node leaves the
 * dictionary, with them. False: others would not have all keys then, or we decide. */
bool node_leave(struct supervisor *s, const char *why);
void new_backups_end(struct supervisor *s);

/* Messages of other nodes to who decides. */
int new_backup_placed_heard(struct supervisor *s, const struct control_said *m);
int new_backup_whole_heard(struct supervisor *s, const struct control_said *m);
int primary_lost_heard(struct supervisor *s, const struct control_said *m);

#endif
