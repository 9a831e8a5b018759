/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill_batch.h - values on their way from memory to the spill (I18), a batch at a time:
 *
 *     chosen         some of them in a turn; each is pinned, and has its blocks in the spill
 *     written        by the thread, which asks the disk whether it has them
 *     words swung    some of them in a turn; then a scan frees their blocks in memory
 *
 * Until the last step the values are where they were, whatever becomes of the disk. The store's
 * thread calls these functions, and touches a batch that is being written only to see whether its
 * job is done.
 */
#ifndef DDICT_STORE_SPILL_BATCH_H
#define DDICT_STORE_SPILL_BATCH_H

#include "state.h"

bool batch_begin(struct store *s); /* there is none; false: no memory */
/* Begin one if spill.want says so, and go on with it. True while there is more to do at once. */
bool batch_turn(struct store *s);
bool batch_writes(const struct store *s); /* the disk is to do something for it */
void batch_close(struct store *s);        /* the threads have ended, and the arena goes with it */

#endif
