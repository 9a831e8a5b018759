/* SPDX-License-Identifier: Apache-2.0 */
/* existing_set.h - a set that is in the dictionary: look for it, mark it, remove it. */
#ifndef DDICT_LOAD_EXISTING_SET_H
#define DDICT_LOAD_EXISTING_SET_H

#include "load.h"

struct names;
struct set_found {
    char id[LOAD_ID_CAP]; /* of its load */
    uint64_t items, bytes;
    bool is_incomplete; /* it is being replaced or removed, or that was broken off */
    bool lost;          /* there is none, but it may have been lost with nodes */
    char once[100];     /* with --refill: why it is not read again; "": it is */
};
/* Look for the set of that name. 1; 0: there is none; or a negative code with the sentence set. */
int set_look(const char *name, struct set_found *found);
/* Mark the set of that name: its items will be replaced or removed. It is not read again any
 * more, and no load takes it for complete. 0, also if there is none; or a negative code with the
 * sentence set. */
int set_mark_incomplete(const char *name);
/* Remove the items of the set of that name, but for those whose keys have their hashes in keep
 * (NULL: none). Returns as set_mark_incomplete(), which is called first. */
int set_items_remove(const char *name, const struct names *keep);
/* Remove its description. Returns as set_mark_incomplete(). */
int set_remove(const char *name);

#endif
