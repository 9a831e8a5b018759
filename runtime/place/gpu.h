/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - the GPUs of a node and how far each cpu is from each. Made once from the topology; after
 * that plain data, without hwloc.
 *
 * A GPU is a PCI display or accelerator device of NVIDIA, AMD or Intel. The graphics of a
 * management controller (another vendor) and an NVSwitch (a bridge) do not count. GPUs are in the
 * order of their PCI addresses: the order of CUDA with CUDA_DEVICE_ORDER=PCI_BUS_ID, of NVML, and
 * of Slurm's gres.conf.
 */
#ifndef DDICT_PLACE_GPU_H
#define DDICT_PLACE_GPU_H

#include "cpus.h"

#include <stdint.h>

#define GPU_MAX 64 /* devices of a node: 16 GPUs in the largest, times what they are cut into */

enum gpu_vendor { GPU_NVIDIA, GPU_AMD, GPU_INTEL, GPU_VENDORS };
enum gpu_visible { GPU_VISIBLE_UNKNOWN = -1, GPU_HIDDEN, GPU_VISIBLE };

struct hwloc_topology;
struct gpu {
    enum gpu_vendor vendor;
    /* can this process open it? hidden by the job's device cgroup or by a container */
    enum gpu_visible visible;
    /* kernel's number of the NUMA node that it is nearest to; -1: not known or several */
    int numa;
    int tiles;     /* Intel: parts that Level Zero may count one by one; else 1 */
    char pci[16];  /* "0000:84:00.0" */
    char uuid[48]; /* "GPU-...", "" when not known */
};
/* Cpus that are equally far from every GPU. */
struct gpu_area {
    struct cpus cpus;
    /* 16 times the firmware's latency (10 is local), plus the levels of the tree to go up */
    int distance[GPU_MAX];
};
struct gpu_map {
    int gpus, areas;
    struct gpu gpu[GPU_MAX];
    struct gpu_area *area; /* ours */
    /* what the cgroup of who read the topology allows; all cpus of a saved one */
    struct cpus allowed;
};

/* 0, -ENOMEM, -E2BIG with the sentence. gpu_map_free() it. What a topology does not tell (visible,
 * uuid, tiles) is left unknown. */
int gpu_map_make(struct gpu_map *m, struct hwloc_topology *t);
/* Look up the rest in /proc, /sys and /dev below root ("" on a real machine). Opens no device, so
 * it wakes none. */
void gpu_map_probe(struct gpu_map *m, const char *root);
void gpu_map_free(struct gpu_map *m);

/* a distance from a set of cpus is the mean over them, in thousandths */
#define GPU_DISTANCE_UNIT 1000
/* From these cpus, or from all cpus of the node where none of them is known. */
int64_t gpu_distance(const struct gpu_map *m, int gpu, const struct cpus *from);

const char *gpu_vendor_name(enum gpu_vendor v);
/* The vendor with the most GPUs that are not hidden (a desktop's own graphics beside real GPUs does
 * not count); -1: none. */
int gpu_vendor_here(const struct gpu_map *m);

#endif
