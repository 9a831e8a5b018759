/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.c - in a task, as the user: put its GPUs in the order of --ddict-gpu-bind. ddictd has read
 * the node's topology. Each task looks at the devices that it can open, at its environment and at
 * the cpus of all tasks of the node, so that all tasks find the same order without talking.
 */
#include "gpu.h"

#include "task_env.h"
#include <base/error.h>
#include <place/gpu_bind.h>
#include <place/gpu_blob.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct binding {
    struct gpu_map map;
    struct gpu_plan plan;
    struct cpus *cpus; /* [tasks] */
    char value[GPU_MAX * GPU_NAME_MAX];
};

/* Whether there may be GPUs. A node without any shall not make its ddictd read the topology. */
static int gpus_likely(void) {
    static const char *const variables[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                            "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
                                            "SLURM_STEP_GPUS"};
    static const char *const drivers[] = {"/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD128"};
    size_t i;

    for (i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]))
            return 1;
    for (i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (access(drivers[i], F_OK) == 0)
            return 1;
    return 0;
}

/* As gpu_plan_make(): 1, or 0 or a negative code, both with the sentence set. Reads the task's
 * environment by getenv(). */
static int binding_make(struct binding *b, enum gpu_bind how, int by_user, int rank, int tasks) {
    int known, rc = gpu_map_ask(&b->map);

    if (rc < 0)
        return dd_error(rc, "the GPUs of this node are not known: %s", dd_strerror(rc));
    gpu_map_probe(&b->map, "");
    known = cpus_tasks(b->cpus, tasks, getenv("SLURM_CPU_BIND_TYPE"),
                       getenv("SLURM_CPU_BIND_LIST")) == 0;
    rc = gpu_plan_make(&b->plan, &b->map, how, tasks, known ? b->cpus : NULL);
    if (rc > 0 && b->plan.mask.set && !by_user && !gpu_granted())
        rc = dd_error(0, "%s is not Slurm's; it is left as it is", b->plan.mask.variable);
    if (rc > 0 && gpu_plan_text(&b->plan, rank, b->value, sizeof b->value) < 0)
        rc = dd_error(-E2BIG, "%s would be too long", b->plan.mask.variable);
    return rc;
}

static void binding_set(spank_t sp, const struct binding *b) {
    const struct gpu_plan *p = &b->plan;
    char mark[sizeof b->value + 64];

    snprintf(mark, sizeof mark, "%s=%s", p->mask.variable, b->value);
    if ((gpu_plan_wants_pci_order(p) &&
         spank_setenv(sp, "CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1) != ESPANK_SUCCESS) ||
        spank_setenv(sp, GPU_MARK, mark, 1) != ESPANK_SUCCESS ||
        spank_setenv(sp, p->mask.variable, b->value, 1) != ESPANK_SUCCESS)
        task_say(sp, "the GPUs are left as they are: Slurm does not take %s", p->mask.variable);
    else if (p->shared > 1)
        task_say(sp, "%d tasks of this node share %d GPU%s, up to %d on one", p->ranks,
                 p->mask.entries, p->mask.entries > 1 ? "s" : "", p->shared);
}

void gpu_prepare(spank_t sp, const char *text, int by_user) {
    enum gpu_bind how;
    struct binding *b;
    uint32_t tasks;
    char **before;
    int rank, rc;

    if (gpu_bind_parse(text, &how) < 0 || how == GPU_BIND_NONE ||
        spank_get_item(sp, S_TASK_ID, &rank) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS || tasks < 1 ||
        rank < 0 || (uint32_t)rank >= tasks)
        return;
    if (tasks > GPU_RANKS_MAX) {
        if (by_user)
            task_say(sp, "cannot bind GPUs for %u tasks on a node: at most %d", tasks,
                     GPU_RANKS_MAX);
        return;
    }
    b = calloc(1, sizeof *b);
    if (!b || !(b->cpus = calloc(tasks, sizeof *b->cpus)) || task_environ_enter(sp, &before) < 0) {
        if (b)
            free(b->cpus);
        free(b);
        return;
    }
    rc = by_user || gpus_likely() ? binding_make(b, how, by_user, rank, (int)tasks) : 0;
    task_environ_leave(before);
    if (rc > 0)
        binding_set(sp, b);
    else if (by_user || rc < 0)
        task_say(sp, "%s", dd_errmsg());
    gpu_map_free(&b->map);
    free(b->cpus);
    free(b);
}
