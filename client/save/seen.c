/* SPDX-License-Identifier: Apache-2.0 */
/* seen.c - a table of hashes of keys, open addressing. Two keys of one 128-bit hash do not happen. */
#include "seen.h"

#include <stdlib.h>
#include <xxhash.h>

#define CAP_FIRST 1024u

struct save_seen_slot {
    uint64_t low, high; /* of the key */
    uint64_t version;   /* 0: free */
};

static struct save_seen_slot *slot_find(const struct save_seen *s, XXH128_hash_t h) {
    size_t i = h.low64 & (s->cap - 1);
    while (s->slot[i].version != 0 && (s->slot[i].low != h.low64 || s->slot[i].high != h.high64))
        i = (i + 1) & (s->cap - 1);
    return &s->slot[i];
}

bool save_seen_has(const struct save_seen *s, const void *key, size_t klen, uint64_t version) {
    return s->cap > 0 && version != 0 && slot_find(s, XXH3_128bits(key, klen))->version == version;
}

static bool grow(struct save_seen *s) {
    struct save_seen more = {.n = s->n, .cap = s->cap > 0 ? 2 * s->cap : CAP_FIRST};
    more.slot = calloc(more.cap, sizeof *more.slot);
    if (more.slot == NULL)
        return false;
    for (size_t i = 0; i < s->cap; i++)
        if (s->slot[i].version != 0)
            *slot_find(&more, (XXH128_hash_t){.low64 = s->slot[i].low, .high64 = s->slot[i].high}) =
                s->slot[i];
    free(s->slot);
    *s = more;
    return true;
}

void save_seen_note(struct save_seen *s, const void *key, size_t klen, uint64_t version) {
    if (version == 0 || (4 * (s->n + 1) > 3 * s->cap && !grow(s)))
        return;
    XXH128_hash_t h = XXH3_128bits(key, klen);
    struct save_seen_slot *at = slot_find(s, h);
    s->n += at->version == 0;
    *at = (struct save_seen_slot){.low = h.low64, .high = h.high64, .version = version};
}

void save_seen_free(struct save_seen *s) {
    free(s->slot);
    *s = (struct save_seen){0};
}
