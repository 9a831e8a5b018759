/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_gpu.c - ddict_rt_bind_gpu(): choose the order of the calling rank's GPUs with regard to
 * all ranks of its node. */
#include "gpu_module.h"
#include <base/error.h>
#include <ddict_runtime.h>
#include <place/gpu_bind.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char value[GPU_MAX * GPU_NAME_MAX]; /* the text of the last call */

static int mark_set(const char *variable) {
    static char mark[sizeof value + 64];

    snprintf(mark, sizeof mark, "%s=%s", variable, value);
    return setenv(GPU_MARK, mark, 1);
}

/*
 * Find the cpus of all ranks of this node: from Slurm's list, which is the same for all, else by an
 * exchange of each rank's own cpus. 1; 0: not known; or a negative code: the exchange failed. All
 * ranks of a job take the same way, because all or none have the list.
 */
static int cpus_find(const struct ddict_rt_info *me, struct cpus *of) {
    struct ddict_rt_bytes *all;
    struct cpus mine;
    int *ranks, n, rc;

    if (me->how == DDICT_RT_SLURM || me->how == DDICT_RT_PMIX) {
        const char *type = getenv("SLURM_CPU_BIND_TYPE"), *list = getenv("SLURM_CPU_BIND_LIST");

        if (getenv("SLURM_LOCALID"))
            return cpus_tasks(of, me->local_size, type, list) == 0;
    }
    if (me->peers == DDICT_RT_PEERS_NONE)
        return 0;
    if (cpus_mine(&mine) < 0)
        memset(&mine, 0, sizeof mine);
    rc = ddict_rt_exchange(&mine, sizeof mine, &all, -1);
    if (rc < 0)
        return rc;
    ranks = calloc((size_t)me->local_size, sizeof *ranks);
    n = ranks ? ddict_rt_ranks_of(me->node_id, ranks, me->local_size) : 0;
    for (int i = 0; i < n; i++)
        if (all[ranks[i]].len == sizeof mine)
            memcpy(&of[i], all[ranks[i]].data, sizeof mine);
        else
            n = 0;
    free(ranks);
    free(all);
    return n == me->local_size;
}

static void binding_answer(const struct gpu_plan *p, const struct gpu_map *map, int rank,
                           struct ddict_rt_gpu *gpu) {
    int g = p->mask.gpu[p->own[rank]];

    gpu->variable = p->mask.variable;
    gpu->value = value;
    gpu->device = gpu_plan_device(p, rank);
    gpu->devices = p->mask.entries;
    gpu->pci_order = gpu_plan_wants_pci_order(p);
    gpu->shared = p->shared;
    if (g >= 0) {
        snprintf(gpu->pci, sizeof gpu->pci, "%s", map->gpu[g].pci);
        gpu->numa = map->gpu[g].numa;
    }
}

static int bind_with(struct gpu_plan *p, struct cpus *cpus, const struct ddict_rt_info *me,
                     enum gpu_bind how, struct ddict_rt_gpu *gpu) {
    struct gpu_map map;
    int known = how == GPU_BIND_NONE ? 0 : cpus_find(me, cpus), rc;

    if (known < 0)
        return known;
    if (how == GPU_BIND_NONE)
        memset(&map, 0, sizeof map);
    else if ((rc = gpu_map_read(&map)) < 0)
        return rc;
    rc = gpu_plan_make(p, &map, how, me->local_size, known ? cpus : NULL);
    if (rc > 0 && gpu_plan_text(p, me->local_rank, value, sizeof value) < 0)
        rc = dd_error(-E2BIG, "%s would be too long", p->mask.variable);
    if (rc > 0 &&
        ((gpu_plan_wants_pci_order(p) && setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1) < 0) ||
         setenv(p->mask.variable, value, 1) < 0 || mark_set(p->mask.variable) < 0))
        rc = dd_error(-ENOMEM, "no memory for %s", p->mask.variable);
    if (rc > 0)
        binding_answer(p, &map, me->local_rank, gpu);
    gpu_map_free(&map);
    return rc;
}

int ddict_rt_bind_gpu(int how, struct ddict_rt_gpu *gpu) {
    struct ddict_rt_info me;
    struct ddict_rt_gpu none = {.device = -1, .numa = -1};
    struct gpu_plan *p;
    struct cpus *cpus;
    int rc = ddict_rt_get_info(&me);

    if (rc < 0)
        return rc;
    if (how != DDICT_RT_GPU_NONE && how != DDICT_RT_GPU_CLOSEST && how != DDICT_RT_GPU_ROTATE)
        return dd_error(-EINVAL, "ddict_rt_bind_gpu: %d is no way to bind", how);
    p = calloc(1, sizeof *p);
    cpus = calloc((size_t)me.local_size, sizeof *cpus);
    if (!p || !cpus)
        rc = dd_error(-ENOMEM, "no memory to bind GPUs");
    else
        rc = bind_with(p, cpus, &me, (enum gpu_bind)how, gpu ? &none : &(struct ddict_rt_gpu){0});
    if (gpu && rc >= 0)
        *gpu = none;
    free(cpus);
    free(p);
    return rc;
}
