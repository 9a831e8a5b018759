/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deal.h - which manager owns a key, and on which node that runs: part of the protocol
 * (PROTOCOL 1, Order). Manager m runs on node m % nodes. The managers of nodes 0 .. keyed - 1 own
 * keys; those of the other nodes, if there are any, only forward. Counted in the order of their
 * ids, the owners are dealt to the keyed nodes in rounds: with 2 keyed nodes of 3 and 5 owners
 *
 *     node           0   1   2
 *     manager ids    0   1   2       owners 0 1 -
 *                    3   4   5              2 3 -
 *                    6                      4
 */
#ifndef DDICT_BASE_DEAL_H
#define DDICT_BASE_DEAL_H

#include "hash.h"
#include "hidden_key.h"

#include <stdbool.h>
#include <stdint.h>

struct deal {
    uint32_t owners; /* managers that own keys; at least keyed */
    uint32_t nodes, keyed;
};

/* Managers of the whole dictionary. Each node has one at least. */
static inline uint32_t deal_managers(const struct deal *s) {
    uint32_t rounds = (s->owners - 1) / s->keyed;
    return rounds == 0 ? s->nodes : rounds * s->nodes + s->owners - rounds * s->keyed;
}
/* As it was before deal_managers(). */
static inline struct deal deal_known(uint32_t managers, uint32_t nodes, uint32_t keyed) {
    uint32_t last = managers % nodes;
    return (struct deal){.owners = managers / nodes * keyed + (last < keyed ? last : keyed),
                         .nodes = nodes,
                         .keyed = keyed};
}
static inline bool deal_owns(const struct deal *s, uint32_t manager) {
    return manager % s->nodes < s->keyed;
}
/* Of a manager that owns keys: its number among the owners. */
static inline uint32_t deal_nth(const struct deal *s, uint32_t manager) {
    return manager / s->nodes * s->keyed + manager % s->nodes;
}
/*
 * Keys that share a tag share a manager: the bytes between the first '{' and the first '}' behind it,
 * if there are any, are hashed in place of the key, as in Redis Cluster ("hash tags" of its
 * specification). Hidden keys have no tag: the copies of a description are to be on several nodes.
 */
static __attribute__((noinline, unused)) uint64_t tag_hash(const void *key, size_t len,
                                                           uint64_t h) {
    const uint8_t *from = memchr(key, '{', len), *end = (const uint8_t *)key + len;
    const uint8_t *to = from ? memchr(from, '}', (size_t)(end - from)) : NULL;
    if (!to || to == from + 1 || key_is_hidden(key, len))
        return h;
    return key_hash(from + 1, (size_t)(to - from) - 1);
}
/* Whether one of the eight bytes is '{'. */
static inline uint64_t has_brace(const void *at) {
    uint64_t x;
    memcpy(&x, at, sizeof x);
    x ^= 0x7b7b7b7b7b7b7b7bull;
    return (x - 0x0101010101010101ull) & ~x & 0x8080808080808080ull;
}
/* The hash by which the owner of a key is found; h: the key's own. */
static inline uint64_t owner_hash(const void *key, size_t len, uint64_t h) {
    if (__builtin_expect(len - 9 < 8, 1) &&
        __builtin_expect(!(has_brace(key) | has_brace((const uint8_t *)key + len - 8)), 1))
        return h;
    return tag_hash(key, len, h);
}
/* The manager that a directed key names; UINT32_MAX: it is none, or that manager owns no keys here, as in a
 * dictionary that was restored with fewer of them. */
static __attribute__((noinline, unused)) uint32_t deal_directed(const struct deal *s,
                                                                const void *key, size_t len) {
    uint32_t m;
    if (len <= DIRECT_HEAD || memcmp(key, DIRECT_WORD, DIRECT_LEN) != 0)
        return UINT32_MAX;
    memcpy(&m, (const uint8_t *)key + DIRECT_LEN, sizeof m);
    return m < deal_managers(s) && deal_owns(s, m) ? m : UINT32_MAX;
}
/* The manager that owns a key; h: its hash. */
static inline uint32_t deal_owner(const struct deal *s, const void *key, size_t len, uint64_t h) {
    if (__builtin_expect(len > DIRECT_HEAD, 0) && *(const uint8_t *)key == 0) {
        uint32_t m = deal_directed(s, key, len);
        if (m != UINT32_MAX)
            return m;
    }
    uint32_t nth = s->owners == 1 ? 0 : hash_owner(owner_hash(key, len, h), s->owners);
    return s->keyed == s->nodes ? nth : nth + nth / s->keyed * (s->nodes - s->keyed);
}

#endif
