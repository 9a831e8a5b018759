/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - paths of members as keys, and which were seen. */
#ifndef DDICT_LOAD_NAMES_H
#define DDICT_LOAD_NAMES_H

#include "pack.h"

/* Add a path to out: without leading slashes, "./", and empty parts. 0, or -1: it has a part "..",
 * or nothing is left. */
int name_clean(struct pack *out, const char *name, size_t len);

/* A set of hashes of 64 bits, each with a number. 2^32 names would have to be loaded at once for
 * two to be taken for one. */
struct names;
struct names *names_new(void); /* NULL without memory */
/* 1: it is in it, and *old (may be NULL) its number before, which becomes value; 0: it was not;
 * -ENOMEM with the sentence set. */
int names_add(struct names *n, uint64_t hash, uint64_t value, uint64_t *old);
void names_free(struct names *n);

#endif
