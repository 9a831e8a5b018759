/* SPDX-License-Identifier: Apache-2.0 */
/* spill.h - the file behind the memory (LAYOUT 11). */
#ifndef DDICT_STORE_SPILL_H
#define DDICT_STORE_SPILL_H

#include "state.h"

void spill_open(struct store *s, int fd);
/* ends the threads and drops what is under way */
void spill_close(struct store *s);
int spill_full(struct store *s, uint64_t need); /* the sentence; DDICT_EFULL */
/* memory was full a moment ago, and little became free since */
bool spill_tight(const struct store *s, uint64_t bytes);
void spill_tighten(struct store *s, uint64_t bytes);
/*
 * Memory is full: move values to the spill until about `bytes` of it are free for others. With
 * threads -EAGAIN: they are on their way; without, 0: some were moved. DDICT_EFULL with a sentence:
 * there is none that could be, or the spill has no room for them, or its disk failed or is silent.
 */
int spill_make_room(struct store *s, uint64_t bytes);
/* do some of the work; true while there is more */
bool spill_turn(struct store *s);
/* Reserve a block in the spill for a value that goes there at once, and its item; DDICT_EFULL. */
int spill_reserve(struct store *s, uint32_t key_len, uint64_t val_len, uint8_t tag,
                  struct store_ref *ref);
/* Before the item is published: 0 when the disk has the value, -EAGAIN, or a negative code. */
int spill_finish(struct store *s, struct store_ref *ref);
void spill_drop(struct store *s, struct store_ref *ref);
/* One more item has the block at off in the spill; -ENOMEM. */
int away_share(struct store *s, uint64_t off);
/* Free the block in the spill of the item at off, which is about to be freed, unless another item
 * has that block, too. */
void away_free(struct store *s, uint64_t off);

#endif
