/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill_fill.h - a value that goes to the spill at once, as memory has no room for it. The thread
 * writes its first bytes while the others come (store_fill()), so at most some DD_SPILL_AHEAD of it
 * are in memory. The fill belongs to the store_ref until spill_finish() or spill_drop().
 */
#ifndef DDICT_STORE_SPILL_FILL_H
#define DDICT_STORE_SPILL_FILL_H

#include "state.h"

/* Reserve a block in the spill for a value that goes there at once, and its item; DDICT_EFULL. */
int spill_reserve(struct store *s, uint32_t key_len, uint64_t val_len, uint8_t tag,
                  struct store_ref *ref);
/* Before the item is published: 0 when the disk has the value, -EAGAIN, or a negative code. */
int spill_finish(struct store *s, struct store_ref *ref);
void spill_drop(struct store *s, struct store_ref *ref);
void fills_turn(struct store *s);  /* take what the thread has written, and give it more */
void fills_close(struct store *s); /* the threads have ended, and the arena goes with it */

#endif
