/* SPDX-License-Identifier: Apache-2.0 */
/* segment.h - segments of the index, and its directory. */
#ifndef DDICT_STORE_SEGMENT_H
#define DDICT_STORE_SEGMENT_H

#include "state.h"

/* An empty segment, not linked anywhere. One idle segment is always left for clear (last: take it).
 * DDICT_EFULL. */
int segment_make(struct store *s, bool last, uint64_t *off);
int segment_hand_out(struct store *s, bool opening);
/* give back memory of some idle segments; true: there are more */
bool segments_give_back(struct store *s);
bool segment_hole(struct store *s, uint64_t number); /* of an arena that is being opened */
void segment_drop(struct store *s, uint64_t number); /* it has no live word: free */
int segment_split(struct store *s, uint64_t hash);
int dir_grow(struct store *s);
int segments_recover(struct store *s);
/* Say which hashes the segment has. A reader of its life before, or of the segment before it was
 * split, may look here, too: these stores must not be seen before the word stores that tell it so
 * (I8). A release keeps them behind those; a plain store may overtake them on ARM. */
static inline void segment_cover(struct segment *g, uint64_t prefix, uint32_t depth) {
    word_store(&g->prefix, prefix);
    __atomic_store_n(&g->depth, depth, __ATOMIC_RELEASE);
}
static inline uint64_t segment_number(struct store *s, uint64_t off) {
    return (off - s->header->seg_off) / DD_SEGMENT_SIZE;
}
static inline struct segment *segment_at(struct store *s, uint64_t number) {
    return arena_at(s, s->header->seg_off + number * DD_SEGMENT_SIZE);
}

#endif
