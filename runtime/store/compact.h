/* SPDX-License-Identifier: Apache-2.0 */
/* compact.h - moving items so that free memory comes together (LAYOUT 13). */
#ifndef DDICT_STORE_COMPACT_H
#define DDICT_STORE_COMPACT_H

#include "state.h"

/* n pages in a row are wanted and are not there. 0: some memory came together, try again;
 * -EINPROGRESS: call again in the next turn; DDICT_EFULL: moving does not help. */
int compact_for(struct store *s, uint64_t n);
int compact_for_index(struct store *s, uint64_t n);   /* the same, never -EINPROGRESS */
void compact_turn(struct store *s);                   /* a turn begins */
void compact_leased(struct store *s, uint64_t block); /* a lease on it was seen */
/* the time of this turn is over, and moving may help in the next one */
bool compact_later(struct store *s, uint64_t n);
/* moving was tried for as many pages and failed, and little was freed since */
bool compact_gave_up(const struct store *s, uint64_t n);

#endif
