/* SPDX-License-Identifier: Apache-2.0 */
/* set.h - the set that a load makes: its items, in parts. */
#ifndef DDICT_LOAD_SET_H
#define DDICT_LOAD_SET_H

#include "load.h"

#define SET_PART 65536u /* items of a part, SETS */

struct names;
struct set_result {
    uint64_t items, bytes, failed, left_out, links, classes, twice;
    uint64_t refused;     /* of failed: their keys were there */
    struct pack failures; /* texts */
    struct pack left;     /* texts */
};
/* Put the set, when all units are read. 0 or a negative code with the sentence set. */
int set_write(const struct load_plan *p, struct set_result *r);
/* Of a set that is put: why it can be read once only (SETS 4), or NULL. */
const char *set_why_once(const struct load_plan *p, const struct set_result *r);
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
/* Remove the items of the set of that name, but for those whose keys have their hashes in keep (NULL:
 * none). Returns as set_mark_incomplete(), which is called first. */
int set_items_remove(const char *name, const struct names *keep);
/* Remove its description. Returns as set_mark_incomplete(). */
int set_remove(const char *name);

#endif
