/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h - the hash of a key, part of the protocol, and what follows from it. Keys of 9 to 16
 * bytes, the common ones, are folded twice by a multiplication; all others have XXH3 64 with seed
 * 0.
 */
#ifndef DDICT_BASE_HASH_H
#define DDICT_BASE_HASH_H

#define XXH_INLINE_ALL
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

/* Fractional digits of pi. Bytes of a key are little-endian numbers, as everything of ours. */
#define HASH_1 0x243f6a8885a308d3ull
#define HASH_2 0x13198a2e03707344ull
#define HASH_3 0xa4093822299f31d0ull
#define HASH_4 0x082efa98ec4e6c89ull

/*
 * len is 9 to 16: two words that overlap are the whole key. Each bit of a product depends on all
 * bits of lower worth, in its upper half on nearly all; folding it and once more spreads them over
 * all.
 */
static inline uint64_t hash_common(const void *key, size_t len) {
    uint64_t a, b;
    memcpy(&a, key, 8);
    memcpy(&b, (const char *)key + len - 8, 8);
    a ^= HASH_1;
    b = (b ^ HASH_2) + len;
    unsigned __int128 x = (unsigned __int128)a * b;
    a = (uint64_t)x ^ HASH_3;
    b = (uint64_t)(x >> 64) ^ HASH_4;
    x = (unsigned __int128)a * b;
    return (uint64_t)x ^ (uint64_t)(x >> 64);
}
static __attribute__((noinline, unused)) uint64_t hash_other(const void *key, size_t len) {
    return XXH3_64bits(key, len);
}
static inline uint64_t key_hash(const void *key, size_t len) {
    return __builtin_expect(len - 9 < 8, 1) ? hash_common(key, len) : hash_other(key, len);
}

/* Owner of a hash among n managers. The multiplication mixes all bits into the top, so owner and
 * index bits are independent enough. */
static inline uint64_t hash_owner_of(uint64_t h, uint64_t n) {
    h *= 0x9E3779B97F4A7C15ull;
    return (uint64_t)(((unsigned __int128)h * n) >> 64);
}
static inline unsigned hash_owner(uint64_t h, unsigned n) {
    return (unsigned)hash_owner_of(h, n);
}
/* Which of the `local` managers of a node is the proxy of `owner`, a manager of another node: its
 * index on this node. Manager m is the (m / nodes)-th of node m % nodes, so where all nodes have as
 * many managers, each is the proxy of one manager of each other node. */
static inline unsigned proxy_of(unsigned owner, unsigned nodes, unsigned local) {
    return (owner / nodes + owner % nodes) % local;
}

#endif
