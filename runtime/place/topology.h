/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology.h - what hwloc knows of a machine: cores, memory, relevant PCI devices. Reading it takes
 * about 10 ms on a small node and 100 ms on a large one, so ddictd does it once for a node, or a
 * command once. Never in slurmstepd.
 */
#ifndef DDICT_PLACE_TOPOLOGY_H
#define DDICT_PLACE_TOPOLOGY_H

#include <stddef.h>

struct hwloc_topology; /* hwloc's own; only this folder includes hwloc.h */

/* This machine, all of it: what the cgroup of the caller does not allow is there too. 0 or a
 * negative errno with the sentence set. */
int topology_here(struct hwloc_topology **t);
/* A machine saved by `lstopo FILE.xml`. -ENOENT, -EINVAL with the sentence set. */
int topology_file(struct hwloc_topology **t, const char *path);
int topology_xml(struct hwloc_topology **t, const char *text, size_t len);
/* Cores of it, and the cpus of the i-th added to a set. */
struct cpus;
int topology_cores(struct hwloc_topology *t);
void topology_core(struct hwloc_topology *t, int i, struct cpus *c);
/* NULL is fine. */
void topology_free(struct hwloc_topology *t);

#endif
