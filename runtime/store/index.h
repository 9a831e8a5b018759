/* SPDX-License-Identifier: Apache-2.0 */
/* index.h - from hash to item: looking up, clearing, sweeping. */
#ifndef DDICT_STORE_INDEX_H
#define DDICT_STORE_INDEX_H

#include "state.h"

struct index_place {
    uint64_t hash;
    struct segment *segment;
    uint64_t *slot;   /* where the key stands; NULL: absent */
    uint64_t word;    /* in it */
    uint64_t *vacant; /* a free slot for it; NULL: the segment must be split */
    struct bucket *home;
    unsigned distance; /* of vacant from home */
};
int index_open(struct store *s, bool fresh);
void index_close(struct store *s);
void index_find(struct store *s, uint64_t hash, const void *key, uint32_t key_len,
                struct index_place *p);
struct segment *index_segment(struct store *s, uint64_t hash);
void index_prefetch(struct store *s, uint64_t hash);
/* Some time behind that: the item in its bucket. */
void index_prefetch_item(struct store *s, uint64_t hash);
int index_clear(struct store *s);
bool index_sweep(struct store *s); /* one segment; true while more is waiting */

#endif
