/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - the GPUs of a node and how far each cpu is from each. Made once from the topology; from then on plain data, without hwloc.
 *
 * A GPU is a PCI display or accelerator device of NVIDIA, AMD or Intel. A management controller's graphics is of another vendor, an NVSwitch is a
 * bridge: neither counts. GPUs stand in the order of their PCI addresses, which is how CUDA counts with CUDA_DEVICE_ORDER=PCI_BUS_ID, NVML counts, and
 * Slurm's gres.conf counts.
 */
#ifndef DDICT_PLACE_GPU_H
#define DDICT_PLACE_GPU_H

#include "place/cpus.h"

#include <stdint.h>

#define GPU_MAX 64 /* devices of a node: 16 GPUs in the largest, times what they are cut into */

enum gpu_vendor { GPU_NVIDIA, GPU_AMD, GPU_INTEL, GPU_VENDORS };
enum gpu_visible { GPU_VISIBLE_UNKNOWN = -1, GPU_HIDDEN, GPU_VISIBLE };

struct hwloc_topology;
struct gpu {
    enum gpu_vendor vendor;
    enum gpu_visible
        visible; /* can this process open it? hidden by the job's device cgroup or by a container */
    int numa; /* kernel's number of the NUMA node that it is nearest to; -1: not known or several */
    int tiles;     /* Intel: parts that Level Zero may count one by one; else 1 */
    char pci[16];  /* "0000:84:00.0" */
    char uuid[48]; /* "GPU-...", "" when not known */
};
/* Cpus that are equally far from every GPU. */
struct gpu_area {
    struct cpus cpus;
    int distance
        [GPU_MAX]; /* 16 times the firmware's latency (10 is local), plus the levels of the tree to go up */
};
struct gpu_map {
    int gpus, areas;
    struct gpu gpu[GPU_MAX];
    struct gpu_area *area; /* ours */
    struct cpus
        allowed; /* what the cgroup of who read the topology allows; all cpus of a saved one */
};

/* 0, -ENOMEM, -E2BIG with the sentence. gpu_map_free() it. What a topology does not tell (visible, uuid, tiles) is left unknown. */
int gpu_map_make(struct gpu_map *m, struct hwloc_topology *t);
/* Look up the rest in /proc, /sys and /dev below root ("" on a real machine). Opens no device, so it wakes none. */
void gpu_map_probe(struct gpu_map *m, const char *root);
void gpu_map_free(struct gpu_map *m);

#define GPU_DISTANCE_UNIT \
    1000 /* a distance from a set of cpus is the mean over them, in thousandths */
/* From these cpus, or from all cpus of the node where none of them is known. */
int64_t gpu_distance(const struct gpu_map *m, int gpu, const struct cpus *from);

const char *gpu_vendor_name(enum gpu_vendor v);
/* The vendor with the most GPUs that are not hidden (a desktop's own graphics beside real GPUs does not count); -1: none. */
int gpu_vendor_here(const struct gpu_map *m);

#endif
