/* SPDX-License-Identifier: Apache-2.0 */
/* seen.c - hashes of keys. Two keys of one 128-bit hash do not happen. */
#include "seen.h"

#include <xxhash.h>

struct seen {
    uint64_t hash[2]; /* of the key */
    uint64_t version;
};

static void hash_make(uint64_t hash[2], const void *key, size_t klen) {
    XXH128_hash_t h = XXH3_128bits(key, klen);
    hash[0] = h.low64 + (h.low64 == 0);
    hash[1] = h.high64;
}

bool save_seen_has(const struct save_seen *s, const void *key, size_t klen, uint64_t version) {
    uint64_t hash[2];
    hash_make(hash, key, klen);
    const struct seen *e = hashset_find(&s->keys, hash);
    return e && e->version == version;
}

void save_seen_note(struct save_seen *s, const void *key, size_t klen, uint64_t version) {
    uint64_t hash[2];
    bool is_new;
    if (version == 0)
        return;
    if (s->keys.cap == 0)
        s->keys = HASHSET_OF(struct seen, 2);
    hash_make(hash, key, klen);
    struct seen *e = hashset_add(&s->keys, hash, &is_new);
    if (e)
        e->version = version;
}

void save_seen_free(struct save_seen *s) {
    hashset_free(&s->keys);
}
