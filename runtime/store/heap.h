/* SPDX-License-Identifier: Apache-2.0 */
/* heap.h - blocks of the heap, and the runs that small ones come from. */
#ifndef DDICT_STORE_HEAP_H
#define DDICT_STORE_HEAP_H

#include "state.h"

void heap_classes(struct heap *h);
/* Take a block in memory; DDICT_EFULL, -EINPROGRESS. */
int block_alloc(struct store *s, uint64_t size, bool aligned, uint64_t *off);
/* The same; if memory is full and there is a spill, that makes room: -EAGAIN. */
int block_alloc_any(struct store *s, uint64_t size, bool aligned, uint64_t *off);
/* The same in memory, without making room for it. */
int block_alloc_moving(struct store *s, uint64_t size, uint64_t *off);
int block_alloc_spill(struct store *s, uint64_t size, bool aligned, uint64_t *off);
void block_free(struct store *s, uint64_t off);
uint64_t block_bytes(struct store *s, uint64_t off);
/* the block that holds any offset; 0: none. Does not trust off (I15) */
uint64_t block_of(struct store *s, uint64_t off);
/*
 * Make room in steps, between tries of the caller; 0: there is no further step. Step 0 sweeps and
 * scans; from step 1 on the caller may give back memory of free pages. -EINPROGRESS: the request at
 * hand can wait, and shall wait for a scan.
 */
int heap_relieve(struct store *s, int step);
/* make the private part of a run: all its blocks are free, and it is not listed */
uint32_t run_make(struct store *s, uint32_t first, unsigned cls);
void run_list(struct store *s, uint32_t r);
void run_unlist(struct heap *h, uint32_t r);
void run_release(struct store *s, uint32_t r);
/* free bytes of memory between the blocks of runs */
uint64_t heap_scattered(const struct store *s);
static inline struct region *region_of(struct heap *h, uint64_t page) {
    return &h->region[page >> h->region_shift];
}
/* An extent of the memory comes (add) or goes. */
void regions_large(struct heap *h, uint64_t first, uint64_t pages, bool add);
/* Take a block for an item that moves out of the stretch `not`. *spend: how many pages new runs may
 * take. */
int block_alloc_beside(struct store *s, uint64_t size, struct stretch not, uint32_t *spend,
                       uint64_t *off);

#endif
