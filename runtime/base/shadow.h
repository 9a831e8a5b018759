/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shadow.h - which process holds the second copy of an owner's keys with --replicas=2: part of the
 * protocol (PROTOCOL 13). The shadow of owner m is a process of its own, on the next keyed node in
 * a circle. Processes that are connected to by others have a number; that of manager m is m. The
 * numbers of shadows follow those of managers, and a process of number n is on node n modulo nodes,
 * as the keys of conn_identity want it. With 3 nodes, all keyed, and 4 owners
 *
 *     node           0   1   2
 *     managers       0   1   2
 *                    3
 *     shadows        8   6   7       of 2 0 1
 *                        9             3
 */
#ifndef DDICT_BASE_SHADOW_H
#define DDICT_BASE_SHADOW_H

#include "deal.h"

#define SHADOW_NONE UINT32_MAX

/* The numbers of shadows begin here: those of managers, rounded up to whole rounds of nodes. */
static inline uint32_t shadow_base(const struct deal *d) {
    return (deal_managers(d) + d->nodes - 1) / d->nodes * d->nodes;
}
/* All numbers, of managers and shadows, are below. */
static inline uint32_t shadow_end(const struct deal *d) {
    return 2 * shadow_base(d);
}
/* Of an owner: the number of its shadow. */
static inline uint32_t shadow_of(const struct deal *d, uint32_t owner) {
    return shadow_base(d) + owner / d->nodes * d->nodes + (owner % d->nodes + 1) % d->keyed;
}
static inline bool is_shadow(const struct deal *d, uint32_t number) {
    return number >= shadow_base(d);
}
/* Whose keys a process holds: the owner of a shadow; a manager itself. */
static inline uint32_t shadow_owner(const struct deal *d, uint32_t number) {
    if (!is_shadow(d, number))
        return number;
    uint32_t n = number - shadow_base(d);
    return n / d->nodes * d->nodes + (n % d->nodes + d->keyed - 1) % d->keyed;
}

#endif
