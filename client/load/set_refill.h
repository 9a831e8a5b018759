/* SPDX-License-Identifier: Apache-2.0 */
/* set_refill.h - in a refill: read the sources of one set again, and put the items that it lost. */
#ifndef DDICT_LOAD_SET_REFILL_H
#define DDICT_LOAD_SET_REFILL_H

#include "lost_set.h"

/* Claim what the set lost, and put it with the_load.wanted_flags as far as its sources are as they
 * were. Its figures are set, and its why if not all of it is there: a failure is the set's. Of
 * the_load it changes what load.h says; o and wanted are as before in the end, origins are NULL. 0;
 * -ENOMEM with the sentence set; or LOAD_HANGS, which ends all. */
int set_refill(struct lost_set *l);

#endif
