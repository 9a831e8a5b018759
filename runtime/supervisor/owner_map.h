/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner_map.h - where a node may be lost (survives_nodes()), who serves the keys of each owner, and
 * who has their second copy (PROTOCOL 13). Who decides changes it (coordinator.h); what counts of it (held_map.h) is known to
 * each node, which tells its managers and shadows. Numbers are those of base/shadow.h.
 */
#ifndef DDICT_SUPERVISOR_OWNER_MAP_H
#define DDICT_SUPERVISOR_OWNER_MAP_H

#include "control.h"
#include "supervisor.h"
#include <base/shadow.h>

struct owner_place {
    uint32_t primary, backup; /* numbers; backup SHADOW_NONE: there is no second copy */
    uint64_t epoch;           /* grows with each change of this row; 1 at the start */
    /* where they listen, if they were started behind the start (new_backup.h); 0: as the node infos say,
     * or, of the backup, it is being started */
    uint16_t primary_port, backup_port;
    bool whole; /* the backup has all: it can be promoted */
    enum owner_keys keys;
    uint32_t lost_node; /* with which they were lost last; not of OWNER_KEPT */
};

struct map_word { /* a row in CTL_HOLD_MAP */
    uint32_t primary, backup;
    uint16_t primary_port, backup_port;
    uint8_t whole, keys;
    uint16_t lost_node;
};

int owner_map_init(struct supervisor *s); /* when managers and nodes are known; -ENOMEM */
/* Who decides (control_decides()): the row of this owner as it was decided last. Others act on
 * owner_map, which it is part of once it counts. */
const struct owner_place *owner_map_next(const struct supervisor *s, uint32_t owner);
/* Who decides: the row of this owner from now on, but for its epoch; why: a sentence for the log and
 * the record, or NULL. It counts later, when a majority holds it, and others act on it then. */
void owner_map_change(struct supervisor *s, uint32_t owner, const struct owner_place *to,
                      const char *why);
/* Who decides: nobody serves its keys any more, and they are nowhere else: they are to begin anew. how:
 * of the process, for a sentence. */
void owner_map_lose(struct supervisor *s, uint32_t owner, const char *how);
/* The row without its backup. */
static inline struct owner_place owner_place_alone(const struct owner_place *row) {
    struct owner_place to = *row;
    to.backup = SHADOW_NONE;
    to.backup_port = 0;
    to.whole = false;
    return to;
}
/* The row with its backup as the primary. */
static inline struct owner_place owner_place_promoted(const struct owner_place *row) {
    struct owner_place to = owner_place_alone(row);
    to.primary = row->backup;
    to.primary_port = row->backup_port;
    if (to.keys == OWNER_REFILLING)
        to.keys = OWNER_READ_ON;
    return to;
}
/* A manager or shadow that starts again, before SUP_GO: the rows that are not as at the start. */
void owner_map_tell(struct local_manager *mgr);
/* Its backup can not go on, as its primary or the ddictd of the backup says; true only in this
 * epoch. Who decides drops it. */
void owner_map_backup_lost(struct supervisor *s, uint32_t owner, uint64_t epoch, const char *why);
/* That node is lost, by a map that counts: its managers without keys, which have no row that would
 * change, are gone. */
void owner_map_node_lost(struct supervisor *s, uint32_t node);
/* Whether a process of this node serves its keys. */
bool owner_is_ours(const struct supervisor *s, uint32_t owner);

/* A row that counts. */
void owner_map_set(struct supervisor *s, uint32_t owner, const struct owner_place *to);
/* Another node decides now: it is asked, too, what was asked of the one before. */
void owner_map_drops_again(struct supervisor *s);

/* CTL_DROP of a child. */
int owner_map_drop_heard(struct supervisor *s, const struct control_said *m);
#define OWNER_MAP_WHY 255u /* bytes of a sentence in CTL_DROP, at most */

#endif
