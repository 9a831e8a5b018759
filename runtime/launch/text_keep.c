/* SPDX-License-Identifier: Apache-2.0 */
/* text_keep.c - the texts, found by their hash. */
#include "text_keep.h"

#include <base/hash.h>
#include <base/hashset.h>

#include <stdlib.h>

struct kept {
    struct kept *next; /* another text with the same hash */
    char text[];
};

struct bucket {
    uint64_t hash;
    struct kept *first;
};

static struct hashset all = {.size = sizeof(struct bucket), .words = 1};

const char *text_keep(const char *text) {
    size_t n = strlen(text) + 1;
    uint64_t hash = key_hash(text, n) | 1u << 31; /* never 0 */
    bool is_new;
    struct bucket *b = hashset_add(&all, &hash, &is_new);
    struct kept *k = b ? b->first : NULL;

    while (k && strcmp(k->text, text) != 0)
        k = k->next;
    if (k || !b)
        return k ? k->text : NULL;
    k = malloc(sizeof *k + n);
    if (!k)
        return NULL;
    memcpy(k->text, text, n);
    k->next = b->first;
    b->first = k;
    return k->text;
}

size_t text_keep_clear(void) {
    struct bucket *b;
    size_t n = 0;

    for (size_t at = 0; (b = hashset_next(&all, &at));)
        for (struct kept *k = b->first, *next; k; k = next, n++) {
            next = k->next;
            free(k);
        }
    hashset_free(&all);
    return n;
}
