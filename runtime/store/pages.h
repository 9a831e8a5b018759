/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h - stretches of pages of the heap. */
#ifndef DDICT_STORE_PAGES_H
#define DDICT_STORE_PAGES_H

#include "state.h"

int pages_open(struct store *s);
void pages_close(struct store *s);
/* Take n free pages in a row: *first is the first of them. They are no longer free, and not yet in
 * the page map. 0 or DDICT_EFULL. idle: takes no new memory, and sets no sentence. */
int pages_take(struct store *s, struct zone *z, uint64_t n, bool punch, uint32_t *first);
int pages_take_idle(struct store *s, struct zone *z, uint64_t n, uint32_t *first);
/* As pages_take() in memory, but no page of `not`. Sets no sentence. */
int pages_take_beside(struct store *s, uint64_t n, struct stretch not, uint32_t *first);
uint64_t pages_available(struct store *s); /* free ones of memory, in a row or not */
uint64_t pages_row(struct store *s);       /* the most that are free in a row, about */
bool pages_may_punch(struct store *s);
/* make n pages free, whose page map entries are FREE already */
void pages_give(struct store *s, uint32_t first, uint64_t n);
void pages_mark(struct store *s, uint32_t first, uint64_t n, enum page_kind head, unsigned cls);
void pages_unmark(struct store *s, uint32_t first, uint64_t n);
/* Lower heap_top by the free pages below it; true: there were some. */
bool pages_lower(struct store *s);
/* Give back `bytes` of memory of free pages, but not of `keep`. Returns the bytes given back. */
uint64_t pages_punch(struct store *s, uint64_t bytes, struct stretch keep);
void pages_rebuild_spans(struct store *s);
void pages_histogram(struct store *s, uint64_t *out);

#endif
