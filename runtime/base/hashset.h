/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hashset.h - a set of hashes, and what its owner keeps with each. An element is a struct of the
 * owner's that begins with the hash: `words` numbers of 64 bits, of which the first is not 0 and has
 * good low bits. Two keys of one hash are one.
 *
 *     struct seen { uint64_t hash[2], version; };
 *     struct hashset set = HASHSET_OF(struct seen, 2);
 *
 * 4/3 to 8/3 of the elements' size in memory. Elements move: a pointer to one is valid until the
 * next change.
 */
#ifndef DDICT_BASE_HASHSET_H
#define DDICT_BASE_HASHSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hashset {
    size_t size, words; /* of an element; of its hash */
    size_t n, cap;      /* cap: elements that fit, 0 or a power of two */
    uint8_t *element;   /* [cap]; free where the first word is 0 */
};
#define HASHSET_OF(type, hash_words)                \
    (struct hashset) {                              \
        .size = sizeof(type), .words = (hash_words) \
    }

void *hashset_find(const struct hashset *s, const uint64_t *hash); /* NULL: it is not in it */
/* The element with that hash. *is_new: it was not there, and is 0 behind the hash. NULL without
 * memory, and then nothing has changed. */
void *hashset_add(struct hashset *s, const uint64_t *hash, bool *is_new);
/* Each element, in any order: *at is 0 at first. NULL: there is none more. */
void *hashset_next(const struct hashset *s, size_t *at);
bool hashset_remove(struct hashset *s, const uint64_t *hash); /* whether it was in it */
void hashset_free(struct hashset *s);                         /* it is empty then */

#endif
