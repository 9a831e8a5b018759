/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - a private hash table of non-zero 64-bit keys, each with a 32-bit value: leased blocks,
 * pins. */
#ifndef DDICT_STORE_TABLE_H
#define DDICT_STORE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct table { /* all 0 is an empty table */
    uint64_t *key;
    uint32_t *value;
    size_t cap, used; /* cap: 0 or a power of two */
    /* the table that it has outgrown, in which keys from `at` on still are: a large one moves a few
     * slots with each key that is added */
    struct {
        uint64_t *key;
        uint32_t *value;
        size_t cap, at;
    } old;
};

/* The value of key, or NULL. Valid until the next change. */
uint32_t *table_find(const struct table *t, uint64_t key);
/* The same, added with value 0 when absent; NULL without memory. */
uint32_t *table_add(struct table *t, uint64_t key);
/* an empty one, with room for n keys; -1 without memory */
int table_make(struct table *t, size_t n);
void table_remove(struct table *t, uint64_t key);
void table_clear(struct table *t); /* keeps room for about as many keys as it held */
void table_free(struct table *t);

#endif
