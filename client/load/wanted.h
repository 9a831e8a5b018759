/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wanted.h - in a refill, the items of a set that were lost and are wanted again. Threads that read
 * its units ask about each record and mark what they put: all but wanted_add() may be called by
 * several at once.
 */
#ifndef DDICT_LOAD_WANTED_H
#define DDICT_LOAD_WANTED_H

#include "pack.h"

#include <stdbool.h>

struct wanted;
struct wanted *wanted_new(void); /* NULL without memory */
void wanted_free(struct wanted *w);
/* The item of that key, with a value of so many bytes, was lost. 0 or a negative code with the
 * sentence set. */
int wanted_add(struct wanted *w, const void *key, size_t klen, uint64_t size);
uint64_t wanted_count(const struct wanted *w);
bool wanted_has(const struct wanted *w, const void *key, size_t klen);
/* Whether it is wanted with a value of this size. */
bool wanted_fits(const struct wanted *w, const void *key, size_t klen, uint64_t size);
/* Mark that the item is in the dictionary again: we put it, or another value is there. */
void wanted_mark(struct wanted *w, const void *key, size_t klen, bool ours);
bool wanted_is_marked(const struct wanted *w, const void *key, size_t klen);
/* The items that we put, and the bytes of their values. *missing: those that are not marked. */
uint64_t wanted_sum(const struct wanted *w, uint64_t *bytes, uint64_t *missing);
/* A unit is read: keep its links and failures (texts, as in batch_writer.c) for when all are. Both
 * are copied. 0 or a negative code with the sentence set. */
int wanted_unit_end(struct wanted *w, const struct pack *links, const struct pack *failures);
/* Those of all units. */
const struct pack *wanted_links(const struct wanted *w);
const struct pack *wanted_failures(const struct wanted *w);

#endif
