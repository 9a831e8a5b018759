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
/* where there is a spill, the first two leave something to those behind them (LAYOUT 11) */
enum taker { FOR_VALUES, FOR_INDEX, FOR_MOVES };
/* Make sure that fresh more bytes may be touched. punch: free pages may be given back for it, all
 * but keep. DDICT_EFULL. */
int budget_take(struct store *s, uint64_t fresh, enum taker who, bool punch, struct stretch keep);
uint64_t budget_spare(const struct store *s); /* what values leave */
void budget_publish(struct store *s);         /* after heap_top, segments or directory grew */

#endif
