/* SPDX-License-Identifier: Apache-2.0 */
/*
 * give_up.h - a manager or shadow of this node that serves keys has no next life, and others can go on
 * without it (PROTOCOL 13). A shadow is given up alone: who decides promotes its backup, or lets its
 * keys begin anew (new_primary.h). A manager has clients, which have no other: so its node leaves.
 *
 *     the node of the primary            who decides
 *     PRIMARY_LOST, until the row   -->  the row with another primary, or LOST
 *     has another primary
 */
#ifndef DDICT_SUPERVISOR_GIVE_UP_H
#define DDICT_SUPERVISOR_GIVE_UP_H

#include "control.h"
#include "supervisor.h"

int lost_primaries_init(struct supervisor *s); /* behind owner_map_init(); -ENOMEM */
void lost_primaries_end(struct supervisor *s);
/* Its primary is of this node, and has no next life; why: "manager 3 on node n1 died (signal 11)".
 * False: there is no whole backup that could take its place, and its keys can not begin anew. */
bool primary_give_up(struct supervisor *s, uint32_t owner, const char *why);
/* So it was, and who decides is told until the map has another. */
bool primary_is_given_up(const struct supervisor *s, uint32_t owner);
/* If its primary is given up who decides is told. True: look again. */
bool lost_primary_look(struct supervisor *s, uint32_t owner);
/* A manager of this node has no next life: the node leaves the dictionary, with its clients. False:
 * others would not have all keys then, or we decide. */
bool node_leave(struct supervisor *s, const char *why);

/* Of another node, to who decides. */
int primary_lost_heard(struct supervisor *s, const struct control_said *m);

#endif
