/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_bind.c - a GPU for every rank of a node, and the value of the variable. */
#include "gpu_bind.h"

#include <base/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"none", "closest", "rotate"};

int gpu_bind_parse(const char *text, enum gpu_bind *how) {
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *how = (enum gpu_bind)i;
            return 0;
        }
    return dd_error(-EINVAL, "\"%.40s\" is no way to bind GPUs: closest, rotate or none", text);
}

const char *gpu_bind_name(enum gpu_bind how) {
    return names[how];
}

static int64_t *distances_make(const struct gpu_plan *p, const struct gpu_map *map,
                               const struct cpus *cpus) {
    int n = p->mask.entries;
    int64_t *d = malloc(sizeof *d * (size_t)n * (size_t)p->ranks), most = 0;

    for (int i = 0; d && i < n * p->ranks; i++) {
        int gpu = p->mask.gpu[i % n];

        d[i] = gpu < 0 ? -1 : gpu_distance(map, gpu, cpus ? &cpus[i / n] : &map->allowed);
        most = d[i] > most ? d[i] : most;
    }
    /* One that is not known is as far as the farthest: known ones near a rank come first. */
    for (int i = 0; d && i < n * p->ranks; i++)
        d[i] = d[i] < 0 ? most : d[i];
    return d;
}

int gpu_plan_make(struct gpu_plan *p, const struct gpu_map *map, enum gpu_bind how, int ranks,
                  const struct cpus *cpus) {
    const char *slurm = gpu_bound_by_slurm();
    int count[GPU_MAX] = {0}, n, rc;
    int64_t *d;

    memset(p, 0, sizeof *p);
    p->how = how;
    p->ranks = ranks;
    if (how == GPU_BIND_NONE)
        return dd_error(0, "GPUs are left as they are");
    if (slurm)
        return dd_error(0, "%s has given each task GPUs of its own; they are left as they are",
                        slurm);
    if (ranks < 1 || ranks > GPU_RANKS_MAX)
        return dd_error(-EINVAL, "cannot bind GPUs for %d ranks on a node: from 1 to %d", ranks,
                        GPU_RANKS_MAX);
    rc = gpu_mask_read(&p->mask, map);
    if (rc <= 0)
        return rc;
    if (gpu_mask_narrowed(&p->mask))
        return dd_error(0,
                        "%s has fewer GPUs than the step has on this node: each task may have its "
                        "own; they are left as they are",
                        p->mask.variable);
    n = p->mask.entries;
    if (how == GPU_BIND_CLOSEST && !gpu_mask_orders(&p->mask))
        return dd_error(0,
                        "%s GPUs stand in the order of the driver whatever %s says; it is left as "
                        "it is (rotate gives each rank one)",
                        gpu_vendor_name(p->mask.vendor), p->mask.variable);
    d = distances_make(p, map, cpus);
    if (!d)
        return dd_error(-ENOMEM, "no memory to bind GPUs");
    rc = how == GPU_BIND_CLOSEST ? gpu_order_closest(ranks, n, d, p->order)
                                 : gpu_order_own(ranks, n, d, p->own);
    for (int r = 0; rc == 0 && r < ranks; r++) {
        if (how == GPU_BIND_CLOSEST)
            p->own[r] = p->order[r % n];
        p->distance[r] = p->mask.gpu[p->own[r]] < 0 ? -1 : d[r * n + p->own[r]];
        if (++count[p->own[r]] > p->shared)
            p->shared = count[p->own[r]];
    }
    free(d);
    return rc < 0 ? dd_error(rc, "no memory to bind GPUs") : 1;
}

int gpu_plan_text(const struct gpu_plan *p, int rank, char *buf, size_t cap) {
    int order[GPU_MAX];

    if (p->how == GPU_BIND_CLOSEST)
        return gpu_mask_text(&p->mask, p->order, p->mask.entries, buf, cap);
    gpu_order_rotate(p->mask.entries, p->own[rank], order);
    return gpu_mask_text(&p->mask, order, gpu_mask_orders(&p->mask) ? p->mask.entries : 1, buf,
                         cap);
}

int gpu_plan_wants_pci_order(const struct gpu_plan *p) {
    return p->mask.vendor == GPU_NVIDIA;
}

int gpu_plan_device(const struct gpu_plan *p, int rank) {
    return p->how == GPU_BIND_CLOSEST ? rank % p->mask.entries : 0;
}
