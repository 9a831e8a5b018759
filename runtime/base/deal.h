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
/* The manager that owns a hash. */
static inline uint32_t deal_owner(const struct deal *s, uint64_t h) {
    uint32_t nth = hash_owner(h, s->owners);
    return s->keyed == s->nodes ? nth : nth + nth / s->keyed * (s->nodes - s->keyed);
}

#endif
