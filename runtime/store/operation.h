/* SPDX-License-Identifier: Apache-2.0 */
/* operation.h - whose change of the index is under way, and whether it happened (I24). */
#ifndef DDICT_STORE_OPERATION_H
#define DDICT_STORE_OPERATION_H

#include "state.h"

/* Before the store that is the change: word goes into the slot; item: what is taken out, or 0. */
void operation_word(struct store *s, const uint64_t *slot, uint64_t word, uint64_t item);
void operation_clear(struct store *s); /* the same before a clear */
void operation_open(struct store *s);  /* of an arena that was in use: what became of it */

#endif
