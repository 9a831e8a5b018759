/* SPDX-License-Identifier: Apache-2.0 */
/* bind.c - print which GPUs the ranks of a node get: for one rank's shell, or all ranks as a table
 * or as JSON. */
#include "bind.h"

#include "cmd.h"
#include <base/error.h>
#include <base/verb.h>
#include <ddict_runtime.h>
#include <place/gpu_bind.h>
#include <place/gpu_blob.h>
#include <place/topology.h>

#include <common/columns.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX (GPU_MAX * GPU_NAME_MAX)

struct node {
    struct gpu_map map;
    struct cpus *cpus; /* one for each rank; NULL: not known */
    int ranks, local_rank;
    bool task; /* we run in a task of a step and ask for our own rank only */
};

static int stdin_complain(void) {
    verb_say("%s", dd_errmsg());
    return EXIT_FAILED;
}

/* Give each rank an equal share of consecutive cores, as `srun --cpu-bind=cores
 * --distribution=*:block` does where the number of cores divides evenly. */
static void cpus_share(struct hwloc_topology *t, struct node *n) {
    int cores = topology_cores(t);
    for (int r = 0; r < n->ranks; r++) {
        int first = (int)((long)r * cores / n->ranks),
            end = (int)((long)(r + 1) * cores / n->ranks);
        for (int c = first; c < (end > first ? end : first + 1); c++)
            topology_core(t, c, &n->cpus[r]);
    }
}

static int gpus_of_vendor(const struct gpu_map *m) {
    int n = 0;
    for (int g = 0; g < m->gpus; g++)
        n += (int)m->gpu[g].vendor == gpu_vendor_here(m);
    return n > 0 ? n : 1;
}

static void node_place(struct node *n, const struct bind_ask *ask) {
    struct ddict_rt_info me;
    /* PMIx is left to the rank itself, which becomes its client. */
    if (!ask->topology && ask->ranks == 0 && ddict_rt_init(DDICT_RT_NO_PMIX) == 0) {
        ddict_rt_get_info(&me);
        n->task = me.how != DDICT_RT_SINGLE;
        n->ranks = me.local_size;
        n->local_rank = me.local_rank;
        ddict_rt_finalize();
    }
}

/* The GPUs that ddictd knows already, or else those that hwloc finds. A table of assumed ranks
 * needs the cores, too. */
static int node_read(struct node *n, const struct bind_ask *ask) {
    struct hwloc_topology *t = NULL;
    node_place(n, ask);
    int rc = n->task ? gpu_map_ask(&n->map) : -ENOENT;
    if (rc < 0) {
        rc = ask->topology ? topology_file(&t, ask->topology) : topology_here(&t);
        if (rc < 0)
            return rc;
        rc = gpu_map_make(&n->map, t);
    }
    if (rc == 0 && !ask->topology)
        gpu_map_probe(&n->map, "");
    if (!n->task)
        n->ranks = ask->ranks > 0 ? ask->ranks : gpus_of_vendor(&n->map);
    n->cpus = rc == 0 ? calloc((size_t)n->ranks, sizeof *n->cpus) : NULL;
    if (rc == 0 && !n->cpus)
        rc = dd_error(-ENOMEM, "no memory for %d ranks", n->ranks);
    if (rc == 0 && !n->task) {
        cpus_share(t, n);
    } else if (rc == 0 && cpus_tasks(n->cpus, n->ranks, getenv("SLURM_CPU_BIND_TYPE"),
                                     getenv("SLURM_CPU_BIND_LIST")) < 0) {
        free(n->cpus);
        n->cpus = NULL;
    }
    topology_free(t);
    return rc;
}

static void rank_print(const struct gpu_plan *p, int rank, char *value) {
    if (gpu_plan_text(p, rank, value, VALUE_MAX) < 0)
        return;
    if (gpu_plan_wants_pci_order(p))
        printf("export CUDA_DEVICE_ORDER=PCI_BUS_ID\n");
    printf("export %s=%s\n", p->mask.variable, value);
}

static const char *gpu_text(const struct node *n, const struct gpu_plan *p, int rank) {
    int gpu = p->mask.gpu[p->own[rank]];
    return gpu < 0 ? "?" : n->map.gpu[gpu].pci;
}

static int bindings_show(const struct node *n, const struct gpu_plan *p, char *value) {
    static const struct column columns[] = {{"rank", 0},     {"cpus", 1},   {"GPU", 1}, {"NUMA", 0},
                                            {"distance", 0}, {"device", 0}, {NULL, 1}};
    struct column own[7];
    struct columns t;
    char cpus[40];
    memcpy(own, columns, sizeof own);
    own[6].head = p->mask.variable;
    columns_init(&t, own, 7);
    for (int r = 0; r < p->ranks; r++) {
        int gpu = p->mask.gpu[p->own[r]];
        columns_cell(&t, "%d", r);
        columns_cell(&t, "%s", n->cpus ? cpus_text(cpus, sizeof cpus, &n->cpus[r]) : "any");
        columns_cell(&t, "%s", gpu_text(n, p, r));
        if (gpu < 0 || n->map.gpu[gpu].numa < 0)
            columns_cell(&t, "-");
        else
            columns_cell(&t, "%d", n->map.gpu[gpu].numa);
        if (p->distance[r] < 0)
            columns_cell(&t, "-");
        else
            columns_cell(&t, "%.1f", (double)p->distance[r] / GPU_DISTANCE_UNIT / 16);
        columns_cell(&t, "%d", gpu_plan_device(p, r));
        gpu_plan_text(p, r, value, VALUE_MAX);
        columns_cell(&t, "%s", value);
    }
    int rc = columns_print(&t, stdout, 0, terminal_columns(stdout));
    columns_free(&t);
    return rc < 0 ? EXIT_FAILED : EXIT_OK;
}

static int json_show(const struct node *n, const struct gpu_plan *p, int made, char *value) {
    json_t *ranks = json_array(), *o;
    for (int r = 0; made > 0 && r < p->ranks; r++) {
        int gpu = p->mask.gpu[p->own[r]];
        char cpus[1024];
        gpu_plan_text(p, r, value, VALUE_MAX);
        json_array_append_new(
            ranks,
            json_pack("{s:i, s:s?, s:s?, s:i, s:f, s:i, s:s}", "rank", r, "cpus",
                      n->cpus ? cpus_text(cpus, sizeof cpus, &n->cpus[r]) : NULL, "gpu",
                      gpu < 0 ? NULL : n->map.gpu[gpu].pci, "numa",
                      gpu < 0 ? -1 : n->map.gpu[gpu].numa, "distance",
                      p->distance[r] < 0 ? -1.0 : (double)p->distance[r] / GPU_DISTANCE_UNIT / 16,
                      "device", gpu_plan_device(p, r), "value", value));
    }
    o = json_pack("{s:s, s:s?, s:s?, s:i, s:s?, s:o}", "bind", gpu_bind_name(p->how), "vendor",
                  made > 0 ? gpu_vendor_name(p->mask.vendor) : NULL, "variable",
                  made > 0 ? p->mask.variable : NULL, "shared", p->shared, "left_alone",
                  made > 0 ? NULL : dd_errmsg(), "ranks", ranks);
    return cmd_json_print(o);
}

int bind_print(const struct bind_ask *ask) {
    struct gpu_plan *p = calloc(1, sizeof *p);
    char *value = calloc(1, VALUE_MAX);
    struct node n = {.ranks = 0};
    enum gpu_bind how;
    int rc = EXIT_OK, made;
    if (!p || !value || gpu_bind_parse(ask->how, &how) < 0 || node_read(&n, ask) < 0) {
        rc = stdin_complain();
    } else {
        made = gpu_plan_make(p, &n.map, how, n.ranks, n.cpus);
        if (ask->json)
            rc = json_show(&n, p, made, value);
        else if (made > 0 && n.task)
            rank_print(p, n.local_rank, value);
        else if (made > 0)
            rc = bindings_show(&n, p, value);
        if (made <= 0 && !ask->json && n.local_rank == 0 && how != GPU_BIND_NONE)
            verb_say("%s", dd_errmsg());
        if (made > 0 && p->shared > 1 && n.local_rank == 0)
            verb_say("%d ranks of this node share %d GPUs, up to %d on one", p->ranks,
                     p->mask.entries, p->shared);
    }
    gpu_map_free(&n.map);
    free(n.cpus);
    free(value);
    free(p);
    return rc;
}
