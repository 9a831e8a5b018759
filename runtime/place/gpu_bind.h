/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_bind.h - what --ddict-gpu-bind does: from the node's GPUs, the environment and the cpus of
 * the node's ranks to the variable of each rank.
 *
 *     closest   one order for all ranks of the node; entry LOCAL_RANK is the GPU for that rank.
 *               For scripts that call set_device(LOCAL_RANK), with more ranks than GPUs
 *               set_device(LOCAL_RANK % device_count())
 *     rotate    the rank's own GPU is device 0, the others follow. For scripts that use device 0
 *     none      nothing changes
 *
 * No GPU has two ranks while there are at most as many ranks as GPUs; with more ranks each GPU has
 * as many as the others, or one more.
 *
 * Every rank computes the same from the same input. So the input must be the same on all ranks of
 * the node: the environment that Slurm gives, and the cpus of all ranks.
 *
 * Level Zero (Intel) ignores the order of its variable: closest leaves the variable alone, rotate
 * leaves only the rank's own GPU in it.
 */
#ifndef DDICT_PLACE_GPU_BIND_H
#define DDICT_PLACE_GPU_BIND_H

#include "gpu.h"
#include "gpu_env.h"
#include "gpu_order.h"

enum gpu_bind { GPU_BIND_NONE, GPU_BIND_CLOSEST, GPU_BIND_ROTATE };

struct gpu_plan {
    enum gpu_bind how;
    struct gpu_mask mask;
    int ranks;
    int shared;             /* most ranks on one GPU */
    int own[GPU_RANKS_MAX]; /* the entry of the mask that is the rank's */
    /* from the rank to it, in 1/GPU_DISTANCE_UNIT; -1: not known which GPU it is */
    int64_t distance[GPU_RANKS_MAX];
    int order[GPU_MAX]; /* closest: the entries in the order of all ranks */
};

/* "closest", "rotate", "none": 0, or -EINVAL with a sentence. */
int gpu_bind_parse(const char *text, enum gpu_bind *how);
const char *gpu_bind_name(enum gpu_bind how);

/*
 * The plan for all ranks of a node: cpus[r] of each, NULL where they are not known (then all are
 * taken to have what the job may use there). 1; 0: nothing to set, the sentence says why; negative:
 * nothing can be set, the sentence says why and that the variable stays as it is.
 */
int gpu_plan_make(struct gpu_plan *p, const struct gpu_map *map, enum gpu_bind how, int ranks,
                  const struct cpus *cpus);
/* The value of p->mask.variable for this rank. Its length, or -E2BIG. */
int gpu_plan_text(const struct gpu_plan *p, int rank, char *buf, size_t cap);
/* CUDA counts its numbers by speed unless CUDA_DEVICE_ORDER=PCI_BUS_ID is set beside them. */
int gpu_plan_wants_pci_order(const struct gpu_plan *p);
/* Which device of its runtime is the rank's, once the variable is set: LOCAL_RANK (modulo the
 * devices) or 0. */
int gpu_plan_device(const struct gpu_plan *p, int rank);

#endif
