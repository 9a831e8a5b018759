/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shadow.h - which process holds the second copy of an owner's keys with --replicas=2: part of the
 * protocol (PROTOCOL 13). The shadow of owner m is a process of its own, at the start on the next
 * keyed node in a circle, later on any node but that of its primary. Processes that are connected to
 * by others have a number; that of manager m is m. Those of shadows follow: each owner has one for
 * each node. A process of number n is on node n modulo nodes, as the keys of conn_identity want it.
 * With 3 nodes, all keyed, and 4 owners, of which 6 is the first number of a shadow,
 *
 *     node                  0   1   2
 *     managers              0   1   2
 *                           3
 *     shadows, of 0         6  *7   8      * at the start
 *              of 1         9  10 *11
 *              of 2       *12  13  14
 *              of 3        15 *16  17
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
    return shadow_base(d) + deal_managers(d) * d->nodes;
}
static inline uint32_t shadow_on(const struct deal *d, uint32_t owner, uint32_t node) {
    return shadow_base(d) + owner * d->nodes + node;
}
/* Of an owner: the number of its shadow at the start. */
static inline uint32_t shadow_of(const struct deal *d, uint32_t owner) {
    return shadow_on(d, owner, (owner % d->nodes + 1) % d->keyed);
}
/* Of a keyed node: whose managers have their shadows there at the start. */
static inline uint32_t shadowed_node(const struct deal *d, uint32_t node) {
    return (node + d->keyed - 1) % d->keyed;
}
static inline bool is_shadow(const struct deal *d, uint32_t number) {
    return number >= shadow_base(d);
}
/* Whose keys a process holds: the owner of a shadow; a manager itself. */
static inline uint32_t shadow_owner(const struct deal *d, uint32_t number) {
    return is_shadow(d, number) ? (number - shadow_base(d)) / d->nodes : number;
}
/* Of the processes of the start: the place in a table, of managers, then of shadows by owner. */
static inline uint32_t shadow_slot(const struct deal *d, uint32_t number) {
    return is_shadow(d, number) ? deal_managers(d) + shadow_owner(d, number) : number;
}

#endif
