/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h - the hash of a key, part of the protocol, and what follows from it. Keys of 9 to 16 bytes, the common ones, are folded twice by a multiplication;
 * all others have XXH3 64 with seed 0.
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
 * len is 9 to 16: two words that overlap are the whole key. Each bit of a product depends on all bits of lower worth, in its upper half on nearly all; folding it and
 * once more spreads them over all.
 */
static inline void hash_multiply(uint64_t *low, uint64_t *high) { /* both are factors first */
#ifdef __x86_64__
    __asm__("mulq %1" : "+a"(*low), "+d"(*high) : : "cc"); /* gcc moves the factors about first */
#else
    unsigned __int128 x = (unsigned __int128)*low * *high;
    *low = (uint64_t)x;
    *high = (uint64_t)(x >> 64);
#endif
}
/* a ^= HASH_3, b ^= HASH_4 */
static inline void hash_turn(uint64_t *a, uint64_t *b) {
#ifdef __x86_64__
    static const uint64_t digits[2] = {HASH_3, HASH_4};
    __asm__(
        "xorq %1, %0"
        : "+r"(*a)
        : "m"(digits[0])
        : "cc"); /* from memory: one instruction, where gcc takes two to have a number of 64 bits at hand */
    __asm__("xorq %1, %0" : "+r"(*b) : "m"(digits[1]) : "cc");
#else
    *a ^= HASH_3;
    *b ^= HASH_4;
#endif
}
static inline uint64_t hash_common(const void *key, size_t len) {
    uint64_t a, b;
    memcpy(&a, key, 8);
    memcpy(&b, (const char *)key + len - 8, 8);
    a ^= HASH_1;
    b = (b ^ HASH_2) + len;
    hash_multiply(&a, &b);
    hash_turn(&a, &b);
    hash_multiply(&a, &b);
    return a ^ b;
}
static __attribute__((noinline, unused)) uint64_t hash_other(const void *key, size_t len) {
    return XXH3_64bits(key, len);
}
static inline uint64_t key_hash(const void *key, size_t len) {
    return __builtin_expect(len - 9 < 8, 1) ? hash_common(key, len) : hash_other(key, len);
}

/* Owner of a hash among n managers. The multiplication mixes all bits into the top, so owner and index bits are independent enough. */
static inline uint64_t hash_owner_of(uint64_t h, uint64_t n) {
#ifdef __x86_64__
    static const uint64_t golden = 0x9E3779B97F4A7C15ull;
    __asm__("imulq %1, %0" : "+a"(h) : "m"(golden) : "cc"); /* where the next one wants it */
#else
    h *= 0x9E3779B97F4A7C15ull;
#endif
    return (uint64_t)(((unsigned __int128)h * n) >> 64);
}
static inline unsigned hash_owner(uint64_t h, unsigned n) {
    return (unsigned)hash_owner_of(h, n);
}
/* Of a node with `local` managers that which asks `owner`, a manager of another node, for all of the node: its rank. Manager m is the (m / nodes)-th of node m % nodes: where all
 * nodes have as many, each stands in for one of each other node. */
static inline unsigned stand_in(unsigned owner, unsigned nodes, unsigned local) {
    return (owner / nodes + owner % nodes) % local;
}

#endif
