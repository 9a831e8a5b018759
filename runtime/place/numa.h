/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numa.h - on which NUMA node a manager runs and has its memory: round robin over the NUMA nodes
 * that the job has, nearest to the network card first. ddictd makes the map once, before it starts
 * managers; managers bind themselves, without hwloc. No manager depends on the result: what cannot
 * be found or bound is left to the kernel.
 */
#ifndef DDICT_PLACE_NUMA_H
#define DDICT_PLACE_NUMA_H

#include "cpus.h"

#include <stdint.h>

#define NUMA_PLACES_MAX 64
#define NUMA_NODES_MAX  1024 /* numbers of NUMA nodes that the kernel may use */

struct hwloc_topology;
struct numa_place {
    int node; /* the kernel's number */
    /* how far the nearest network card is, as in gpu.h; 0 where none is known */
    int network;
    struct cpus cpus; /* those of it that the job has */
};
struct numa_map {
    int places; /* 0 or 1: nothing to choose, so nothing is bound */
    struct numa_place place[NUMA_PLACES_MAX];
};

/*
 * The NUMA nodes with memory and cpus in both sets; NULL: what the topology says is allowed. One
 * with less than a quarter of the cpus of the largest does not count: a job that got one core there
 * has it for a rank. network: an interface; NULL, or one that hwloc does not know: the fabric's
 * cards, else all network cards. Nearest to it first, then in order of number.
 */
void numa_map_make(struct numa_map *m, struct hwloc_topology *t, const struct cpus *cpus,
                   const struct cpus *nodes, const char *network);
/*
 * Of this machine, for the calling process. Reads the topology only where there is more than one
 * NUMA node. 0 or a negative errno with the sentence; the map is empty then. root: "" but in tests.
 */
int numa_map_here(struct numa_map *m, const char *network, const char *root);
/* The place of the i-th manager of the node; NULL: nothing to bind. The map's own. */
const struct numa_place *numa_map_place(const struct numa_map *m, int i);

/* The calling process from here on: on these cpus, its memory here while there is some. 0, or a
 * negative errno: then nothing has changed. */
int numa_bind_process(const struct numa_place *p);
/*
 * A mapping that has not been touched yet, for whoever touches it: `need` bytes in all will be put
 * on this NUMA node. Where they fit into what is free or cached there, they shall come from nowhere
 * else (cached files give way); else from here while there is some. 1 or 0 by that, or a negative
 * errno.
 */
int numa_bind_range(const struct numa_place *p, void *addr, uint64_t len, uint64_t need,
                    const char *root);
/* Bytes of a NUMA node that are free or hold cached files; 0 when not known. */
uint64_t numa_available(int node, const char *root);

#endif
