/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wanted.h - in a refill, the records of a set that were lost. Threads that read its units ask about
 * each record; all but wanted_add() may be called by several at once.
 */
#ifndef DDICT_LOAD_WANTED_H
#define DDICT_LOAD_WANTED_H

#include "pack.h"

#include <stdbool.h>

struct wanted;
struct wanted *wanted_new(void); /* NULL without memory */
void wanted_free(struct wanted *w);
/* The record of that key, with a value of so many bytes, was lost. 0 or a negative code with the
 * sentence set. */
int wanted_add(struct wanted *w, const void *key, size_t klen, uint64_t size);
uint64_t wanted_count(const struct wanted *w);
/* Records that were put, and the bytes of their values. *missing: those that are still lost. */
uint64_t wanted_done(const struct wanted *w, uint64_t *bytes, uint64_t *missing);
/* What units left to do when all are read: links and failures as in batch_writer.c, texts. */
const struct pack *wanted_links(const struct wanted *w);
const struct pack *wanted_failures(const struct wanted *w);

/* --- of the_load.wanted --- */

bool wanted_has(const void *key, size_t klen);
/* Whether the value has the size that it had. */
bool wanted_fits(const void *key, size_t klen, uint64_t size);
bool wanted_is_there(const void *key, size_t klen);
/* It is in the dictionary again: ours, or another value. */
void wanted_put(const void *key, size_t klen, bool ours);
/* A unit is read; both are copied. 0 or a negative code with the sentence set. */
int wanted_unit_end(const struct pack *links, const struct pack *failures);

#endif
