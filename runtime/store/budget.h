/* SPDX-License-Identifier: Apache-2.0 */
/* budget.h - what the arena has taken of the machine's memory. */
#ifndef DDICT_STORE_BUDGET_H
#define DDICT_STORE_BUDGET_H

#include "state.h"

/* header, page map and directories as far as they are used, segments */
uint64_t budget_fixed(struct store *s);
uint64_t budget_resident(struct store *s);
/* memory of the page map of so many pages of the spill */
uint64_t budget_spill_map(const struct store *s, uint64_t pages);
/* With a spill, values leave some memory to the index, and both leave some to moves (LAYOUT 11). */
enum taker { FOR_VALUES, FOR_INDEX, FOR_MOVES };
/* Make sure that `fresh` more bytes may be touched. punch: memory of free pages, but not of `keep`,
 * may be given back for that. DDICT_EFULL. */
int budget_take(struct store *s, uint64_t fresh, enum taker who, bool punch, struct stretch keep);
uint64_t budget_spare(const struct store *s); /* what values leave */
void budget_publish(struct store *s);         /* after heap_top, segments or directory grew */

#endif
