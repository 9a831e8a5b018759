/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - the hash of a key (XXH3 64, seed 0, part of the protocol) and what follows from it. */
#ifndef DDICT_BASE_HASH_H
#define DDICT_BASE_HASH_H

#define XXH_INLINE_ALL
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

static inline uint64_t key_hash(const void *key, size_t len) { return XXH3_64bits(key, len); }

/* Owner of a hash among n managers. The multiplication mixes all bits into the top, so owner and index bits are independent enough. */
static inline unsigned hash_owner(uint64_t h, unsigned n) {
    return (unsigned)(((unsigned __int128)(h * 0x9E3779B97F4A7C15ull) * n) >> 64);
}
/* The manager of a node that stands for keys of other nodes: rank among the node's n local managers; other bits than hash_owner. */
static inline unsigned hash_proxy(uint64_t h, unsigned n) {
    return (unsigned)(((unsigned __int128)(h * 0xC2B2AE3D27D4EB4Full) * n) >> 64);
}

#endif
