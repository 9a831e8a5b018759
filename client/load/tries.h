/* SPDX-License-Identifier: Apache-2.0 */
/* tries.h - for the leader: what tries of the_load leave in the dictionary (load.h). */
#ifndef DDICT_LOAD_TRIES_H
#define DDICT_LOAD_TRIES_H

#include "ownership.h"

/* With --refill: put the marks ("begun") that a try puts items from now on. 0 or a negative code
 * with the sentence set. */
int try_mark(void);
/* Clear what earlier tries left, because keys were lost and it may not be all of it: their units
 * are read anew. If there is any, the_load is continued. 0 or a negative code with the sentence
 * set. */
int tries_clear(void);
/* Delete what the tries left, up to ours. The set is there: waiting processes see by it that the
 * load is complete. 0 or a negative code with the sentence set. */
int tries_delete(const struct claim *c);

#endif
