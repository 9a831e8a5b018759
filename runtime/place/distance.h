/* SPDX-License-Identifier: Apache-2.0 */
/* distance.h - how far a cpu is from a device's place in a topology of hwloc. Private to this
 * folder. */
#ifndef DDICT_PLACE_DISTANCE_H
#define DDICT_PLACE_DISTANCE_H

#include "cpus.h"

#include <hwloc.h>

struct distance {
    hwloc_topology_t topology;
    struct hwloc_distances_s *latencies; /* NULL: the firmware says none */
};

void distance_open(struct distance *d, hwloc_topology_t t);
void distance_close(struct distance *d);
/* 16 times the latency between the NUMA nodes (10 is local), plus the levels of the tree to go up
 * from `at` until the cpu is below. */
int distance_between(const struct distance *d, hwloc_obj_t cpu, hwloc_obj_t at);
/* The NUMA node with the fewest cpus that has all of this set; the first of several (memory beside
 * the main one). NULL: spans several. */
hwloc_obj_t distance_numa(hwloc_topology_t t, hwloc_const_cpuset_t set);
void distance_cpus(struct cpus *c, hwloc_const_bitmap_t set);

#endif
