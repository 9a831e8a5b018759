/* SPDX-License-Identifier: Apache-2.0 */
/* distance.c - distances in a topology. */
#include "distance.h"

#include <string.h>

/* Where the firmware gives no latencies: the same NUMA node, the same package, another one. 10 and
 * 20 are what it gives for two plain sockets. */
enum { LATENCY_LOCAL = 10, LATENCY_PACKAGE = 15, LATENCY_FAR = 20, LEVELS = 16 };

void distance_open(struct distance *d, hwloc_topology_t t) {
    unsigned n = 1;

    d->topology = t;
    if (hwloc_distances_get_by_type(t, HWLOC_OBJ_NUMANODE, &n, &d->latencies,
                                    HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) < 0 ||
        n == 0)
        d->latencies = NULL;
}

void distance_close(struct distance *d) {
    if (d->latencies)
        hwloc_distances_release(d->topology, d->latencies);
}

hwloc_obj_t distance_numa(hwloc_topology_t t, hwloc_const_cpuset_t set) {
    hwloc_obj_t best = NULL, n = NULL;

    while ((n = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, n))) {
        if (hwloc_bitmap_iszero(n->cpuset) || !hwloc_bitmap_isincluded(set, n->cpuset))
            continue;
        if (!best || hwloc_bitmap_weight(n->cpuset) < hwloc_bitmap_weight(best->cpuset))
            best = n;
    }
    return best;
}

static int latency_of(hwloc_topology_t t, struct hwloc_distances_s *matrix, hwloc_obj_t pu,
                      hwloc_obj_t at) {
    hwloc_obj_t from = distance_numa(t, pu->cpuset), to = distance_numa(t, at->cpuset);
    hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_PACKAGE, pu);

    if (hwloc_bitmap_isincluded(pu->cpuset, at->cpuset) && to)
        return LATENCY_LOCAL;
    if (matrix && from) {
        int a = hwloc_distances_obj_index(matrix, from), least = -1;

        /* A device that hangs on a package of several NUMA nodes is as far as the nearest of them.
         * */
        for (unsigned i = 0; a >= 0 && i < matrix->nbobjs; i++) {
            uint64_t v = matrix->values[(unsigned)a * matrix->nbobjs + i];
            hwloc_obj_t n = matrix->objs[i];

            if (!n || v == 0 || v > 254 || hwloc_bitmap_iszero(n->cpuset))
                continue;
            if ((n == to || hwloc_bitmap_isincluded(n->cpuset, at->cpuset)) &&
                (least < 0 || (int)v < least))
                least = (int)v;
        }
        if (least >= 0)
            return least;
    }
    if (hwloc_bitmap_isincluded(pu->cpuset, at->cpuset))
        return LATENCY_LOCAL;
    return package && hwloc_bitmap_intersects(package->cpuset, at->cpuset) ? LATENCY_PACKAGE
                                                                           : LATENCY_FAR;
}

static int levels_of(hwloc_topology_t t, hwloc_obj_t pu, hwloc_obj_t at) {
    hwloc_obj_t common = hwloc_get_common_ancestor_obj(t, pu, at);
    int n = at->depth - (common ? common->depth : 0);

    return n < 0 ? 0 : n < LEVELS ? n : LEVELS - 1;
}

void distance_cpus(struct cpus *c, hwloc_const_bitmap_t set) {
    int i;

    memset(c, 0, sizeof *c);
    for (i = hwloc_bitmap_first(set); i >= 0 && i < CPUS_MAX; i = hwloc_bitmap_next(set, i))
        cpus_add(c, i);
}

int distance_between(const struct distance *d, hwloc_obj_t cpu, hwloc_obj_t at) {
    return latency_of(d->topology, d->latencies, cpu, at) * LEVELS +
           levels_of(d->topology, cpu, at);
}
