/* SPDX-License-Identifier: Apache-2.0 */
/* compact.h - moving items so that free memory comes together (LAYOUT 13). */
#ifndef DDICT_STORE_COMPACT_H
#define DDICT_STORE_COMPACT_H

#include "state.h"

/* n pages in a row are wanted and are not there. 0: something was done, try again; -EINPROGRESS: go
 * on in the next turn; DDICT_EFULL: nothing can be done. */
int compact_for(struct store *s, uint64_t n);
int compact_for_index(struct store *s, uint64_t n);   /* the same, never -EINPROGRESS */
void compact_turn(struct store *s);                   /* a turn begins */
void compact_leased(struct store *s, uint64_t block); /* a lease on it was seen */
/* this turn's time is over, and there is something to be done */
bool compact_later(struct store *s, uint64_t n);
/* n pages are not to be had by moving, as far as is known */
bool compact_gave_up(const struct store *s, uint64_t n);

#endif
