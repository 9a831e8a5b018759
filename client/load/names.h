/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - keys of members and of numbered records, and which names were seen. */
#ifndef DDICT_LOAD_NAMES_H
#define DDICT_LOAD_NAMES_H

#include "pack.h"

/* Add a path of len bytes to out, without leading slashes, "./" and empty parts. 0; -1: it has a
 * part "..", or nothing is left. */
int name_clean(struct pack *out, const char *name, size_t len);

#define NUMBER_KEY_CAP 1024 /* bytes of a key */
/* Write the key of a record of a numbered set; its length. */
size_t number_key(char *key, const char *prefix, uint64_t number);

/* A set of 64-bit hashes, each with a number. Only among some 2^32 names two are likely to have one
 * hash. */
struct names;
struct names *names_new(void); /* NULL without memory */
/* Add hash with the number value. 0: it was not in the set; 1: it was, its number was *old
 * (old may be NULL) and is now value; -ENOMEM with the sentence set. */
int names_add(struct names *n, uint64_t hash, uint64_t value, uint64_t *old);
/* Whether hash is in the set, and its number. Several threads may ask at once while none adds. */
bool names_find(const struct names *n, uint64_t hash, uint64_t *value);
void names_free(struct names *n);

#endif
