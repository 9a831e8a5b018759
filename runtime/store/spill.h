/* SPDX-License-Identifier: Apache-2.0 */
/* spill.h - the file behind the memory (LAYOUT 11). The store's own thread calls these functions. */
#ifndef DDICT_STORE_SPILL_H
#define DDICT_STORE_SPILL_H

#include "state.h"

void spill_open(struct store *s, int fd);
/* ends the threads and drops what is under way */
void spill_close(struct store *s);
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

#endif
