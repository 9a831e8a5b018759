/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill_read.h - a value in the spill that is read for somebody else: store_read_begin() and the
 * others of store.h. The thread reads ahead of what was sent, and compares each chunk with its sum.
 * A reading has a pin of its own; it is freed once it is over and its job is done.
 */
#ifndef DDICT_STORE_SPILL_READ_H
#define DDICT_STORE_SPILL_READ_H

#include "state.h"

void readings_turn(struct store *s);  /* take what the thread has read, and let it go on */
void readings_close(struct store *s); /* the threads have ended, and the arena goes with it */

#endif
