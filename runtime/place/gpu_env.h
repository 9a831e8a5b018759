/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_env.h - the variables that say which GPUs a process sees: CUDA_VISIBLE_DEVICES (NVIDIA);
 * ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and also CUDA_VISIBLE_DEVICES (AMD); ZE_AFFINITY_MASK
 * (Intel). They are read once and never widened: what is written back has the same entries, each
 * unchanged, in another order.
 *
 * The hardware tells which vendor counts: unless gres.conf says otherwise, Slurm sets the variables
 * of all vendors.
 *
 * What an index means:
 *
 *   - With a device cgroup (ConstrainDevices=yes), or in a container that has only some of the
 *     device nodes, a runtime counts the GPUs that it can open, from 0: local numbers. We detect
 *     that by looking whether the device nodes can be opened, else by comparing with
 *     SLURM_STEP_GPUS, which is global (except for tasks with GPUs of their own, which are left
 *     alone).
 *   - Otherwise it counts all GPUs of the vendor in the order of their PCI addresses: global
 *     numbers.
 *
 * Names ("GPU-...", or the beginning of one, as CUDA allows; "MIG-...") mean the same everywhere. A
 * name whose GPU cannot be found is kept, and taken to be equally far from all ranks.
 */
#ifndef DDICT_PLACE_GPU_ENV_H
#define DDICT_PLACE_GPU_ENV_H

#include "gpu.h"

#include <stddef.h>

/* "CUDA_VISIBLE_DEVICES=2,0,1,3": the order that a binding has given; read again, the entries count
 * in the order of the GPUs, alike for all ranks */
#define GPU_MARK     "DDICT_GPU_SET"
#define GPU_NAME_MAX 96 /* "MIG-GPU-<uuid>/gi/ci" has 53 */

struct gpu_mask {
    enum gpu_vendor vendor;
    const char *variable; /* the one that says the order: static text */
    /* it was there. Else the entries are those that the process sees anyway */
    int set;
    int entries;
    char name[GPU_MAX][GPU_NAME_MAX]; /* as it stands in the variable */
    int gpu[GPU_MAX];                 /* of the map; -1: not known */
};

/*
 * What the environment says of the GPUs of this node. The count of entries; 0 with the sentence set
 * where there is nothing to order (no GPU here, "", "NoDevFiles", "-1"); -EINVAL with a sentence
 * that says why the variable cannot be understood and had better be left as it is: text that no
 * runtime takes, a GPU that is not here or stands there twice, numbers that may be local or global,
 * CUDA_DEVICE_ORDER set to another order.
 */
int gpu_mask_read(struct gpu_mask *m, const struct gpu_map *map);
/* The value with entry order[0] first, n of them. Its length, or -E2BIG. */
int gpu_mask_text(const struct gpu_mask *m, const int *order, int n, char *buf, size_t cap);
/* Does the vendor's runtime count devices in the order of its variable? Level Zero does not: there
 * the variable only says which. */
int gpu_mask_orders(const struct gpu_mask *m);
/* Slurm has already given this task GPUs of its own (--gpus-per-task, --gpu-bind): the option that
 * did, static text; else NULL. */
const char *gpu_bound_by_slurm(void);
/* The variable has fewer GPUs than the step has on this node, so it may not be the same for all
 * tasks. */
int gpu_mask_narrowed(const struct gpu_mask *m);

/* Does Slurm say that it gave this step, or its job, GPUs here? Else a variable that is set is the
 * user's own. */
int gpu_granted(void);

#endif
