/* SPDX-License-Identifier: Apache-2.0 */
/* numa_find.c - the NUMA nodes that a job has on a node, nearest to the network first. */
#include "distance.h"
#include "numa.h"
#include "topology.h"
#include <base/error.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CARDS_MAX = 64, NETWORK_CLASS = 0x02 };

static int cards_of_kind(hwloc_topology_t t, hwloc_obj_osdev_type_t kind, const char *name,
                         hwloc_obj_t *at) {
    hwloc_obj_t o = NULL;
    int n = 0;

    while (n < CARDS_MAX && (o = hwloc_get_next_osdev(t, o))) {
        if (o->attr->osdev.type != kind || (name && (!o->name || strcmp(o->name, name) != 0)))
            continue;
        hwloc_obj_t pci = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_PCI_DEVICE, o);
        if (pci) /* else a bridge or a tunnel made of software */
            at[n++] = hwloc_get_non_io_ancestor_obj(t, pci);
    }
    return n;
}

static int cards_find(hwloc_topology_t t, const char *network, hwloc_obj_t *at) {
    hwloc_obj_t o = NULL;
    int n = network ? cards_of_kind(t, HWLOC_OBJ_OSDEV_NETWORK, network, at) : 0;

    if (n == 0)
        n = cards_of_kind(t, HWLOC_OBJ_OSDEV_OPENFABRICS, NULL, at);
    if (n > 0)
        return n;
    while (n < CARDS_MAX && (o = hwloc_get_next_pcidev(t, o)))
        if (o->attr->pcidev.class_id >> 8 == NETWORK_CLASS)
            at[n++] = hwloc_get_non_io_ancestor_obj(t, o);
    return n;
}

static int network_distance(const struct distance *between, hwloc_obj_t numa,
                            const hwloc_obj_t *card, int cards) {
    hwloc_obj_t cpu =
        hwloc_get_obj_inside_cpuset_by_type(between->topology, numa->cpuset, HWLOC_OBJ_PU, 0);
    int least = INT_MAX;

    for (int i = 0; i < cards && cpu; i++) {
        int d = distance_between(between, cpu, card[i]);

        least = d < least ? d : least;
    }
    return least == INT_MAX ? 0 : least;
}

static int numa_compare(const void *a, const void *b) {
    const struct numa_place *x = a, *y = b;

    return x->network != y->network ? x->network - y->network : x->node - y->node;
}

void numa_map_make(struct numa_map *m, struct hwloc_topology *t, const struct cpus *cpus,
                   const struct cpus *nodes, const char *network) {
    struct cpus allowed_cpus, allowed_nodes, taken = {{0}};
    hwloc_obj_t card[CARDS_MAX], n = NULL;
    int cards = cards_find(t, network, card), most = 0, kept = 0;
    struct distance between;

    m->places = 0;
    distance_cpus(&allowed_cpus, hwloc_topology_get_allowed_cpuset(t));
    distance_cpus(&allowed_nodes, hwloc_topology_get_allowed_nodeset(t));
    distance_open(&between, t);
    while (m->places < NUMA_PLACES_MAX &&
           (n = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, n))) {
        struct numa_place *p = &m->place[m->places];
        struct cpus own;

        distance_cpus(&own, n->cpuset);
        for (int w = 0; w < CPUS_MAX / 64; w++)
            p->cpus.word[w] = own.word[w] & allowed_cpus.word[w] & (cpus ? cpus->word[w] : ~0ull);
        p->node = (int)n->os_index;
        /* A node with the cpus of one before it is memory of another kind (a GPU's, high
         * bandwidth): hwloc has the plain one first. */
        if (n->attr->numanode.local_memory == 0 || cpus_count(&p->cpus) == 0 ||
            cpus_shared(&p->cpus, &taken) > 0)
            continue;
        if (!cpus_has(&allowed_nodes, p->node) || (nodes && !cpus_has(nodes, p->node)))
            continue;
        for (int w = 0; w < CPUS_MAX / 64; w++)
            taken.word[w] |= p->cpus.word[w];
        p->network = network_distance(&between, n, card, cards);
        most = cpus_count(&p->cpus) > most ? cpus_count(&p->cpus) : most;
        m->places++;
    }
    distance_close(&between);
    for (int i = 0; i < m->places; i++)
        if (cpus_count(&m->place[i].cpus) * 4 >= most)
            m->place[kept++] = m->place[i];
    m->places = kept;
    qsort(m->place, (size_t)m->places, sizeof *m->place, numa_compare);
}

/* "0" or "0-1,3": how many; 1 where it is not said. */
static int nodes_online(const char *root) {
    char path[512], text[256] = "";
    struct cpus set;
    FILE *f;

    if (snprintf(path, sizeof path, "%s/sys/devices/system/node/has_memory", root) >=
            (int)sizeof path ||
        !(f = fopen(path, "re")))
        return 1;
    if (!fgets(text, sizeof text, f))
        text[0] = '\0';
    fclose(f);
    text[strcspn(text, "\n")] = '\0';
    return cpus_list(&set, text) == 0 ? cpus_count(&set) : 1;
}

int numa_map_here(struct numa_map *m, const char *network, const char *root) {
    struct hwloc_topology *t;
    struct cpus mine;
    int rc;

    m->places = 0;
    if (nodes_online(root) < 2)
        return 0;
    rc = cpus_mine(&mine);
    if (rc < 0)
        return dd_error(rc, "cannot read which cpus there are: %s", dd_strerror(rc));
    rc = topology_here(&t);
    if (rc < 0)
        return rc;
    numa_map_make(m, t, &mine, NULL, network);
    topology_free(t);
    return 0;
}
