/* SPDX-License-Identifier: Apache-2.0 */
/* lost_items.h - in a refill: the items that a set lost, as far as its description has them. */
#ifndef DDICT_LOAD_LOST_ITEMS_H
#define DDICT_LOAD_LOST_ITEMS_H

#include "lost_set.h"
#include "wanted.h"

/* Claim these items for the set and add them to w, but for those that sets loaded later have
 * claimed: the values of older sets are not what was there. So sets that cannot be read any more
 * claim theirs, too. 1: the set is to be read; 0: it lost nothing, and then there is nothing to say
 * of it; or it cannot be read, which its why says. */
int items_claim(struct lost_set *l, struct wanted *w);

#endif
