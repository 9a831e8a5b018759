/* SPDX-License-Identifier: Apache-2.0 */
/* spill.h - the file behind the memory (LAYOUT 11). */
#ifndef DDICT_STORE_SPILL_H
#define DDICT_STORE_SPILL_H

#include "state.h"

void spill_open(struct store *s, int fd);
/* the threads end, what is under way is dropped */
void spill_close(struct store *s);
int spill_full(struct store *s, uint64_t need); /* the sentence; DDICT_EFULL */
/* memory was full a moment ago, and little came free since */
bool spill_tight(const struct store *s, uint64_t bytes);
void spill_tighten(struct store *s, uint64_t bytes);
/*
 * Memory is full: move values to the spill until about `bytes` of it are free for others. With
 * threads -EAGAIN: they are on their way; without, 0: some were moved. DDICT_EFULL with a sentence:
 * there is none that could be, or the spill has no room for them, or its disk failed or is silent.
 */
int spill_make_room(struct store *s, uint64_t bytes);
/* some of what is to be done; true while there is more of it */
bool spill_turn(struct store *s);
/* A block for a value straight in the spill, and its item: what ref describes. DDICT_EFULL. */
int spill_reserve(struct store *s, uint32_t key_len, uint64_t val_len, uint8_t tag,
                  struct store_ref *ref);
/* before it is published: 0 when the disk has it, -EAGAIN, or why not */
int spill_finish(struct store *s, struct store_ref *ref);
void spill_drop(struct store *s, struct store_ref *ref);
/* one item more has the block at off there; -ENOMEM */
int away_share(struct store *s, uint64_t off);
/* what the item at off, which is about to be freed, has in the spill */
void away_free(struct store *s, uint64_t off);

#endif
