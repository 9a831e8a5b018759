/* SPDX-License-Identifier: Apache-2.0 */
/* hashset.c - open addressing with linear probing, at most three quarters full; removal moves later
 * elements back, so there are no tombstones. */
#include "hashset.h"

#include <stdlib.h>
#include <string.h>

#define CAP_FIRST 256u

static uint64_t *element_at(const struct hashset *s, size_t i) {
    return (uint64_t *)(void *)(s->element + i * s->size);
}

/* Where it is, or where it would be. There is a free place. */
static size_t place_of(const struct hashset *s, const uint64_t *hash) {
    size_t i = hash[0] & (s->cap - 1);
    while (*element_at(s, i) != 0 && memcmp(element_at(s, i), hash, s->words * sizeof *hash) != 0)
        i = (i + 1) & (s->cap - 1);
    return i;
}

void *hashset_find(const struct hashset *s, const uint64_t *hash) {
    uint64_t *e = s->cap > 0 ? element_at(s, place_of(s, hash)) : NULL;
    return e && *e != 0 ? e : NULL;
}

static bool grow(struct hashset *s) {
    struct hashset more = *s;
    more.cap = s->cap > 0 ? 2 * s->cap : CAP_FIRST;
    more.element = calloc(more.cap, s->size);
    if (!more.element)
        return false;
    for (size_t i = 0; i < s->cap; i++)
        if (*element_at(s, i) != 0)
            memcpy(element_at(&more, place_of(&more, element_at(s, i))), element_at(s, i), s->size);
    free(s->element);
    *s = more;
    return true;
}

void *hashset_add(struct hashset *s, const uint64_t *hash, bool *is_new) {
    uint64_t *e = hashset_find(s, hash);
    *is_new = false;
    if (e)
        return e;
    if (4 * (s->n + 1) > 3 * s->cap && !grow(s))
        return NULL;
    e = element_at(s, place_of(s, hash));
    memcpy(e, hash, s->words * sizeof *hash);
    s->n++;
    *is_new = true;
    return e;
}

void *hashset_next(const struct hashset *s, size_t *at) {
    while (*at < s->cap) {
        uint64_t *e = element_at(s, (*at)++);
        if (*e != 0)
            return e;
    }
    return NULL;
}

bool hashset_remove(struct hashset *s, const uint64_t *hash) {
    if (!hashset_find(s, hash))
        return false;
    size_t hole = place_of(s, hash), mask = s->cap - 1;
    for (size_t i = (hole + 1) & mask; *element_at(s, i) != 0; i = (i + 1) & mask) {
        /* its home lies behind the hole */
        if (((i - *element_at(s, i)) & mask) < ((i - hole) & mask))
            continue;
        memcpy(element_at(s, hole), element_at(s, i), s->size);
        hole = i;
    }
    memset(element_at(s, hole), 0, s->size);
    s->n--;
    return true;
}

void hashset_free(struct hashset *s) {
    free(s->element);
    s->element = NULL;
    s->n = s->cap = 0;
}
