/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refill.h - with --refill, keys that began anew on a node (new_primary.h) are read again there from the
 * sources of the sets that they were loaded from, as far as there are any (PROTOCOL 13).
 *
 *     who decides                             the node of the primary
 *     a row, REFILLING                  -->   the child reads (refill_child.h)
 *                                       <--   REFILLED: what it has read, again until the row says so
 *     the row, REFILLED                 -->
 */
#ifndef DDICT_SUPERVISOR_REFILL_H
#define DDICT_SUPERVISOR_REFILL_H

#include "control.h"
#include "refill_child.h"
#include "supervisor.h"

struct refilled_word { /* payload of CTL_REFILLED, and a sentence behind it if some set failed */
    uint64_t sets, items;
    uint32_t ms, failed, together; /* of so many other owners, too */
    uint32_t unused;
};

int refill_init(struct supervisor *s); /* behind owner_map_init(); -ENOMEM */
/* The row of this owner may have changed, or time is over. True: look again. */
bool refill_look(struct supervisor *s, uint32_t owner);
/* Behind refill_look() of all owners: the child begins. True: look again. */
bool refill_go(struct supervisor *s);
void refill_end(struct supervisor *s);

/* Of another node, to who decides. */
int refilled_heard(struct supervisor *s, const struct control_said *m);

#endif
