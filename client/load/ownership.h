/* SPDX-License-Identifier: Apache-2.0 */
/* ownership.h - the leader's: which process makes the load, and the set. */
#ifndef DDICT_LOAD_OWNERSHIP_H
#define DDICT_LOAD_OWNERSHIP_H

#include "load.h"

struct taken {
    int64_t try;
    char name[LOAD_ID_CAP]; /* of the set, hashed */
    bool mine;              /* the try, and the name */
};
/* the_load.id, of what was asked for and the sources' stamps. 0 or negative. */
int take_id(void);
/* 0: the load is ours; 1: it is complete, by another, with so many items and bytes; negative. Waits
 * for another process that loads the same. */
int take_load(struct taken *t, uint64_t *items, uint64_t *bytes);
/* We had nothing to do with it. */
void take_back(const struct taken *t);

#endif
