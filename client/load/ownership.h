/* SPDX-License-Identifier: Apache-2.0 */
/* ownership.h - for the leader: which process makes the load, and which load makes the set. */
#ifndef DDICT_LOAD_OWNERSHIP_H
#define DDICT_LOAD_OWNERSHIP_H

#include "existing_set.h"
#include "load.h"

struct claim {
    int64_t try;
    char name[LOAD_ID_CAP];          /* of the set, hashed */
    bool mine;                       /* the try and the name are ours */
    char previous_run[LOAD_RUN_CAP]; /* of another process, which has ended: it made try - 1 */
};
/* Make the_load.id out of what was asked for and of the sources' stamps. 0 or a negative code with
 * the sentence set. */
int load_id_make(void);
/* Claim the load, after waiting for any other process that loads the same. 0: it is ours; 1:
 * another process has completed it, and *found is its set; or a negative code with the sentence
 * set. */
int load_claim(struct claim *c, struct set_found *found);
/* Give the load back: nothing of it has been put. */
void load_release(const struct claim *c);

#endif
