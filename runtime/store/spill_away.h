/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill_away.h - items whose value is in the spill: the item's block is in memory, with key, sums
 * and the offset of the value; the value's block is in the spill. The store owns both. All but the
 * functions for the thread that writes are the store's own thread.
 */
#ifndef DDICT_STORE_SPILL_AWAY_H
#define DDICT_STORE_SPILL_AWAY_H

#include "state.h"

bool spill_pays(uint32_t key_len, uint64_t val_len); /* memory is saved by it */
/* Make both blocks of such an item, and fill in all but version, hash, key, check and the sums. */
int head_make(struct store *s, uint32_t key_len, uint64_t val_len, uint8_t tag, uint64_t *off);
/* One more item has the block at off in the spill; -ENOMEM. */
int away_share(struct store *s, uint64_t off);
/* Free the block in the spill of the item at off, which is about to be freed, unless another item
 * has that block, too. */
void away_free(struct store *s, uint64_t off);
/* Memory for a value on its way to or from the spill, for munmap(); NULL: none. */
void *room_map(uint64_t len);

/* --- for the thread that writes --- */
/* Make the file system promise the first `end` bytes of the file. */
int file_prepare(struct store *s, uint64_t end);
/* Write whole chunks of a value, or its end, and their sums. at: the offset in the value. */
int write_summed(struct store *s, struct item_away *away, const uint8_t *from, uint64_t at,
                 uint64_t len);
void begin_writeback(struct store *s);
int file_flush(struct store *s); /* does the disk have all that was written? */

#endif
