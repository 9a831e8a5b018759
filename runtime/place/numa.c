/* SPDX-License-Identifier: Apache-2.0 */
/* numa.c - bind a manager to its NUMA node. System calls only: a manager needs no hwloc. */
#include "numa.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const struct numa_place *numa_map_place(const struct numa_map *m, int i) {
    return m->places > 1 ? &m->place[i % m->places] : NULL;
}

struct nodes {
    unsigned long word[NUMA_NODES_MAX / (8 * sizeof(unsigned long))];
};

static int nodes_set(struct nodes *n, int node) {
    memset(n, 0, sizeof *n);
    if (node < 0 || node >= NUMA_NODES_MAX)
        return -EINVAL;
    n->word[(size_t)node / (8 * sizeof(unsigned long))] =
        1ul << (size_t)node % (8 * sizeof(unsigned long));
    return 0;
}

int numa_bind_process(const struct numa_place *p) {
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
    struct nodes nodes;
    int rc = nodes_set(&nodes, p->node);

    if (!set)
        return -ENOMEM;
    CPU_ZERO_S(size, set);
    for (int i = 0; i < CPUS_MAX; i++)
        if (cpus_has(&p->cpus, i))
            CPU_SET_S(i, size, set);
    /* Memory first: it fails for good reasons (a filter of system calls in a container), and can be
     * taken back. */
    if (rc == 0 && syscall(SYS_set_mempolicy, MPOL_PREFERRED, &nodes, NUMA_NODES_MAX + 1) < 0)
        rc = -errno;
    if (rc == 0 && sched_setaffinity(0, size, set) < 0) {
        rc = -errno;
        syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
    }
    CPU_FREE(set);
    return rc;
}

uint64_t numa_available(int node, const char *root) {
    char path[512], line[128];
    uint64_t sum = 0;
    FILE *f;

    if (snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/meminfo", root, node) >=
            (int)sizeof path ||
        !(f = fopen(path, "re")))
        return 0;
    while (fgets(line, sizeof line, f)) {
        char what[32];
        unsigned long long kib;

        if (sscanf(line, "Node %*d %31[^:]: %llu kB", what, &kib) == 2 &&
            (strcmp(what, "MemFree") == 0 || strcmp(what, "Active(file)") == 0 ||
             strcmp(what, "Inactive(file)") == 0))
            sum += (uint64_t)kib << 10;
    }
    fclose(f);
    return sum;
}

int numa_bind_range(const struct numa_place *p, void *addr, uint64_t len, uint64_t need,
                    const char *root) {
    uint64_t there = numa_available(p->node, root);
    int only = need <= there - there / 8; /* an eighth stays for others */
    struct nodes nodes;

    if (nodes_set(&nodes, p->node) < 0)
        return -EINVAL;
    if (syscall(SYS_mbind, addr, (unsigned long)len, only ? MPOL_BIND : MPOL_PREFERRED, &nodes,
                NUMA_NODES_MAX + 1, 0) < 0)
        return -errno;
    return only;
}
