/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_find.c - find the GPUs in a topology and measure how far each cpu is from each GPU. */
#include "distance.h"
#include "gpu.h"
#include <base/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* a management controller's graphics, in servers of before 2012 */
enum { AMD_ES1000 = 0x515e };

static int vendor_of(const struct hwloc_pcidev_attr_s *pci) {
    int base = pci->class_id >> 8;

    /* 03 is display (0302 and 0380: without a screen), 12 accelerator: AMD's newer ones; Intel's of
     * that class is no GPU. */
    if (pci->vendor_id == 0x10de && base == 0x03)
        return GPU_NVIDIA;
    if (pci->vendor_id == 0x1002 && (base == 0x03 || base == 0x12))
        return pci->device_id == AMD_ES1000 ? -1 : GPU_AMD;
    if (pci->vendor_id == 0x8086 && base == 0x03)
        return GPU_INTEL;
    return -1;
}

struct found {
    struct gpu gpu;
    uint64_t address;
    hwloc_obj_t at; /* what the device hangs on: NUMA node's group, package, machine */
};

static int by_address(const void *a, const void *b) {
    uint64_t x = ((const struct found *)a)->address, y = ((const struct found *)b)->address;
    return x < y ? -1 : x > y;
}

static int gpus_find(hwloc_topology_t t, struct found *found) {
    hwloc_obj_t o = NULL;
    int n = 0;

    while ((o = hwloc_get_next_pcidev(t, o))) {
        const struct hwloc_pcidev_attr_s *p = &o->attr->pcidev;
        int vendor = vendor_of(p);

        if (vendor < 0)
            continue;
        if (n == GPU_MAX)
            return dd_error(-E2BIG, "this node has more than %d GPUs", GPU_MAX);
        struct found *f = &found[n++];
        memset(f, 0, sizeof *f);
        f->gpu = (struct gpu){.vendor = (enum gpu_vendor)vendor,
                              .visible = GPU_VISIBLE_UNKNOWN,
                              .numa = -1,
                              .tiles = 1};
        snprintf(f->gpu.pci, sizeof f->gpu.pci, "%04x:%02x:%02x.%x",
                 (unsigned)p->domain & 0xfffffffu, p->bus, p->dev & 0x1fu, p->func & 7u);
        f->address =
            (uint64_t)p->domain << 32 | (uint64_t)p->bus << 16 | (uint64_t)p->dev << 8 | p->func;
        f->at = hwloc_get_non_io_ancestor_obj(t, o);
    }
    qsort(found, (size_t)n, sizeof *found, by_address);
    return n;
}

/* Put the cpu with those that are as far from everything, or make a new area of it. */
static int area_add(struct gpu_map *m, int cpu, const int *distance) {
    struct gpu_area *area;

    for (int i = 0; i < m->areas; i++)
        if (memcmp(m->area[i].distance, distance, sizeof m->area[i].distance) == 0) {
            cpus_add(&m->area[i].cpus, cpu);
            return 0;
        }
    area = realloc(m->area, sizeof *area * (size_t)(m->areas + 1));
    if (!area)
        return -ENOMEM;
    m->area = area;
    area += m->areas++;
    memset(area, 0, sizeof *area);
    memcpy(area->distance, distance, sizeof area->distance);
    cpus_add(&area->cpus, cpu);
    return 0;
}

int gpu_map_make(struct gpu_map *m, struct hwloc_topology *t) {
    struct found found[GPU_MAX];
    struct distance between;
    hwloc_obj_t pu = NULL;
    int rc = 0;

    memset(m, 0, sizeof *m);
    m->gpus = gpus_find(t, found);
    if (m->gpus < 0)
        return m->gpus;
    for (int g = 0; g < m->gpus; g++) {
        hwloc_obj_t n = distance_numa(t, found[g].at->cpuset);

        m->gpu[g] = found[g].gpu;
        m->gpu[g].numa = n ? (int)n->os_index : -1;
    }
    distance_cpus(&m->allowed, hwloc_topology_get_allowed_cpuset(t));
    distance_open(&between, t);
    while (rc == 0 && (pu = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_PU, pu))) {
        int distance[GPU_MAX] = {0};

        if (pu->os_index >= CPUS_MAX)
            continue;
        for (int g = 0; g < m->gpus; g++)
            distance[g] = distance_between(&between, pu, found[g].at);
        rc = area_add(m, (int)pu->os_index, distance);
    }
    distance_close(&between);
    if (rc < 0)
        gpu_map_free(m);
    return rc;
}
