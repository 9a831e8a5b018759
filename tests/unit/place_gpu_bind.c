/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place_gpu_bind.c - for every machine, every count of ranks from 1 to twice the GPUs, ranks bound
 * in several ways or not at all, with and without a mask of Slurm's: the total distance is the
 * least there is, all of what was granted stays visible, and a script of either idiom, which sees
 * only its variable, has no GPU twice while there are no more ranks than GPUs. Prints the table of
 * what each rank gets.
 */
#include "gpu_test.h"
#include <base/error.h>

#include <errno.h>

/* cores in a row, dealt out over NUMA nodes, not at all */
enum bound { BLOCK, CYCLIC, UNBOUND, BOUNDS };
static const char *const bound_names[] = {"block", "cyclic", "unbound"};
/* nothing set; all set; every second GPU in either numbering */
enum grant { ALL, ALL_NAMED, SOME_LOCAL, SOME_GLOBAL, GRANTS };
static const char *const grant_names[] = {"no mask", "UUIDs", "local", "global"};

static int cores_of(const struct gpu_map *m) {
    return cpus_count(&m->allowed) / 2;
}

/* As Slurm would: whole cores, all of them used where ranks allow it. Core c has cpus c and c +
 * cores in all machines here. */
static void bind_ranks(const struct gpu_map *m, enum bound how, int ranks, struct cpus *of) {
    int cores = cores_of(m), each = cores / ranks > 0 ? cores / ranks : 1;

    for (int r = 0; r < ranks; r++) {
        memset(&of[r], 0, sizeof of[r]);
        for (int i = 0; i < each; i++) {
            int core = how == CYCLIC ? (r * (cores / 2 + 1) + i) % cores : (r * each + i) % cores;

            cpus_add(&of[r], core);
            cpus_add(&of[r], core + cores);
        }
    }
}

/* The environment of a step, and what is granted: GPUs of the map, in rising order. */
static int grant(const struct gpu_map *m, enum grant how, int *granted) {
    const char *variable =
        gpu_vendor_here(m) == GPU_NVIDIA ? "CUDA_VISIBLE_DEVICES" : "ROCR_VISIBLE_DEVICES";
    char mask[2048] = "", step[256] = "";
    int n = 0, vendor = gpu_vendor_here(m), index = 0;

    clearenv();
    for (int g = 0; g < m->gpus; g++) {
        if ((int)m->gpu[g].vendor != vendor)
            continue;
        if (how < SOME_LOCAL || index % 2 == 1) {
            granted[n++] = g;
            sprintf(step + strlen(step), "%s%d", n > 1 ? "," : "", index);
            sprintf(mask + strlen(mask), "%s", n > 1 ? "," : "");
            if (how == ALL_NAMED)
                sprintf(mask + strlen(mask), "%s", m->gpu[g].uuid);
            else
                sprintf(mask + strlen(mask), "%d", how == SOME_LOCAL ? n - 1 : index);
        }
        index++;
    }
    if (how != ALL) {
        setenv(variable, mask, 1);
        setenv("SLURM_STEP_GPUS", step, 1);
    }
    return n;
}

/* What a runtime makes of the variable: which GPU is its device i. Written apart from the code that
 * is tested. */
static int runtime_sees(const struct gpu_map *m, enum grant how, const int *granted,
                        const char *value, int *device) {
    char copy[2048], *save = NULL;
    int n = 0, vendor = gpu_vendor_here(m);

    strcpy(copy, value);
    for (char *s = strtok_r(copy, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
        int found = -1, index = 0;

        for (int g = 0; g < m->gpus; g++) {
            if ((int)m->gpu[g].vendor != vendor)
                continue;
            if (how == ALL_NAMED ? strcmp(s, m->gpu[g].uuid) == 0
                                 : how != SOME_LOCAL && atoi(s) == index)
                found = g;
            index++;
        }
        if (how == SOME_LOCAL)
            found = granted[atoi(s)];
        ck_assert_int_ge(found, 0);
        device[n++] = found;
    }
    return n;
}

static const int *find(const int *in, int n, int what) {
    for (int i = 0; i < n; i++)
        if (in[i] == what)
            return in + i;
    ck_abort_msg("GPU %d was not granted", what); /* never widened */
}

static int64_t play(const struct gpu_plan *p, const struct gpu_map *m, enum grant how,
                    const int *granted, int n, int ranks, const int64_t *distance, int *of_rank) {
    int used[GPU_MAX] = {0}, floor = ranks / n, most = (ranks + n - 1) / n;
    int64_t total = 0;

    for (int r = 0; r < ranks; r++) {
        int device[GPU_MAX], seen[GPU_MAX] = {0}, mine;
        char value[2048];

        ck_assert_int_gt(gpu_plan_text(p, r, value, sizeof value), 0);
        ck_assert_int_eq(runtime_sees(m, how, granted, value, device), n);
        for (int i = 0; i < n; i++) {
            ck_assert_int_eq(seen[find(granted, n, device[i]) - granted]++, 0);
        }
        /* The script: set_device(LOCAL_RANK % device_count()), or no word about devices. */
        mine = p->how == GPU_BIND_CLOSEST ? device[r % n] : device[0];
        ck_assert_int_eq(mine, device[gpu_plan_device(p, r)]);
        of_rank[r] = mine;
        ck_assert_int_eq(p->mask.gpu[p->own[r]], mine);
        ck_assert_int_eq(p->distance[r], distance[r * n + (int)(find(granted, n, mine) - granted)]);
        used[find(granted, n, mine) - granted]++;
        total += p->distance[r];
    }
    for (int i = 0; i < n; i++)
        ck_assert_msg(used[i] >= floor && used[i] <= most, "%d ranks on one GPU", used[i]);
    ck_assert_int_eq(p->shared, most);
    return total;
}

static int checked;

static void table_row(const char *machine, const char *bound, const char *given, const char *how,
                      int ranks, const int *gpu, int64_t total, int64_t least) {
    char text[256] = "";

    for (int r = 0; r < ranks; r++)
        sprintf(text + strlen(text), "%s%d", r ? " " : "", gpu[r]);
    printf("  %-32s %-8s %-8s %-8s %5d  %8.1f %8.1f  %s\n", machine, bound, given, how, ranks,
           (double)total / GPU_DISTANCE_UNIT / 16, (double)least / GPU_DISTANCE_UNIT / 16, text);
}

static void machine_check(const char *name, struct gpu_map *m) {
    struct cpus of[2 * GPU_MAX];
    int granted[GPU_MAX], gpu[2 * GPU_MAX];

    for (int g = 0; g < m->gpus; g++)
        snprintf(m->gpu[g].uuid, sizeof m->gpu[g].uuid, "GPU-%x000000-0000-0000-0000-000000000000",
                 g % 16);
    for (int given = 0; given < GRANTS; given++) {
        int n = grant(m, (enum grant)given, granted);

        for (int bound = 0; n > 0 && bound < BOUNDS; bound++)
            for (int ranks = 1; ranks <= 2 * n; ranks++) {
                int64_t *distance = malloc(sizeof *distance * (size_t)(ranks * n));

                bind_ranks(m, (enum bound)bound, ranks, of);
                for (int i = 0; i < ranks * n; i++)
                    distance[i] = gpu_distance(m, granted[i % n],
                                               bound == UNBOUND ? &m->allowed : &of[i / n]);
                for (int how = GPU_BIND_CLOSEST; how <= GPU_BIND_ROTATE; how++) {
                    if (how == GPU_BIND_ROTATE && n > 8 && ranks > n)
                        break; /* too many ways to share them */
                    int64_t least = how == GPU_BIND_CLOSEST ? least_of_orders(ranks, n, distance)
                                                            : least_of_shares(ranks, n, distance),
                            total;
                    struct gpu_plan p;

                    ck_assert_int_eq(gpu_plan_make(&p, m, (enum gpu_bind)how, ranks,
                                                   bound == UNBOUND ? NULL : of),
                                     1);
                    total = play(&p, m, (enum grant)given, granted, n, ranks, distance, gpu);
                    ck_assert_msg(total == least, "%s, %s, %s, %s, %d ranks: %lld instead of %lld",
                                  name, bound_names[bound], grant_names[given],
                                  gpu_bind_name(p.how), ranks, (long long)total, (long long)least);
                    if (bound == BLOCK)
                        table_row(name, bound_names[bound], grant_names[given],
                                  gpu_bind_name(p.how), ranks, gpu, total, least);
                    checked++;
                }
                free(distance);
            }
    }
}

static void table_head(void) {
    printf("  %-32s %-8s %-8s %-8s %5s  %8s %8s  %s\n", "machine", "ranks", "mask", "bind", "ranks",
           "distance", "least", "GPU of rank 0, 1, ... in PCI order");
}

START_TEST(every_machine_has_the_least_distance) {
    table_head();
    checked = 0;
    for (int i = 0; i < MACHINES; i++) {
        struct gpu_map m;

        machine_map(&machines[i], &m);
        ck_assert_int_gt(m.gpus, 3);
        machine_check(machines[i].name, &m);
        gpu_map_free(&m);
    }
    printf("%d plans, each compared with trying everything\n", checked);
    ck_assert_int_gt(checked, 1000);
}
END_TEST

START_TEST(saved_machines_have_the_least_distance) {
    glob_t files;

    checked = 0;
    if (saved_topologies(&files) == 0)
        printf("no saved topology here\n");
    else
        table_head();
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct hwloc_topology *t;
        struct gpu_map m;
        const char *name = strrchr(files.gl_pathv[i], '/') + 1;

        ck_assert_int_eq(topology_file(&t, files.gl_pathv[i]), 0);
        ck_assert_int_eq(gpu_map_make(&m, t), 0);
        topology_free(t);
        machine_check(name, &m);
        gpu_map_free(&m);
    }
    printf("%d plans, each compared with trying everything\n", checked);
    globfree(&files);
}
END_TEST

START_TEST(none_and_slurms_own_binding_change_nothing) {
    struct gpu_map m;
    struct gpu_plan p;

    clearenv();
    machine_map(&machines[0], &m);
    ck_assert_int_eq(gpu_plan_make(&p, &m, GPU_BIND_NONE, 4, NULL), 0);
    setenv("SLURM_GPUS_PER_TASK", "1", 1);
    ck_assert_int_eq(gpu_plan_make(&p, &m, GPU_BIND_CLOSEST, 4, NULL), 0);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "--gpus-per-task"));
    unsetenv("SLURM_GPUS_PER_TASK");
    setenv("SLURM_GPUS_ON_NODE", "4", 1); /* and this task sees one */
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    ck_assert_int_eq(gpu_plan_make(&p, &m, GPU_BIND_CLOSEST, 4, NULL), 0);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "fewer GPUs than the step has"));
    setenv("SLURM_GPUS_ON_NODE", "1", 1);
    ck_assert_int_eq(gpu_plan_make(&p, &m, GPU_BIND_CLOSEST, 4, NULL), 1);
    unsetenv("SLURM_GPUS_ON_NODE");
    ck_assert_int_eq(gpu_plan_make(&p, &m, GPU_BIND_CLOSEST, GPU_RANKS_MAX + 1, NULL), -EINVAL);
    setenv("CUDA_VISIBLE_DEVICES", "0,zero", 1);
    ck_assert_int_eq(gpu_plan_make(&p, &m, GPU_BIND_CLOSEST, 4, NULL), -EINVAL);
    setenv("CUDA_VISIBLE_DEVICES", "NoDevFiles", 1);
    ck_assert_int_eq(gpu_plan_make(&p, &m, GPU_BIND_ROTATE, 4, NULL), 0);
    gpu_map_free(&m);
}
END_TEST

START_TEST(level_zero_is_given_one_device_or_left_alone) {
    static const struct machine intel = {
        "", 2, 1, 8, 21, 21, {INTEL(1, 0x18), INTEL(1, 0x2a), INTEL(0, 0x3c), INTEL(0, 0x4e)}};
    struct gpu_map m;
    struct gpu_plan p;
    struct cpus of[2] = {{{0}}, {{0}}};
    char value[64];

    clearenv();
    machine_map(&intel, &m);
    cpus_add(&of[0], 0);
    cpus_add(&of[1], 8);
    ck_assert_int_eq(gpu_plan_make(&p, &m, GPU_BIND_CLOSEST, 2, of), 0);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "ZE_AFFINITY_MASK"));
    ck_assert_int_eq(gpu_plan_make(&p, &m, GPU_BIND_ROTATE, 2, of), 1);
    ck_assert(!gpu_plan_wants_pci_order(&p));
    ck_assert_int_eq(gpu_plan_text(&p, 0, value, sizeof value), 1);
    ck_assert_str_eq(value, "2");
    ck_assert_int_eq(gpu_plan_text(&p, 1, value, sizeof value), 1);
    ck_assert_str_eq(value, "1");
    gpu_map_free(&m);
}
END_TEST

START_TEST(mig_names_and_unknown_ones_are_dealt_out_too) {
    struct gpu_map m;
    struct gpu_plan p;
    char value[512];

    clearenv();
    machine_map(&machines[0], &m);
    setenv("CUDA_VISIBLE_DEVICES", "MIG-1111,MIG-2222,MIG-3333", 1);
    ck_assert_int_eq(gpu_plan_make(&p, &m, GPU_BIND_ROTATE, 3, NULL), 1);
    ck_assert_int_eq(p.shared, 1);
    ck_assert_int_eq(p.distance[0], -1);
    ck_assert_int_gt(gpu_plan_text(&p, 1, value, sizeof value), 0);
    ck_assert_str_eq(value, "MIG-2222,MIG-3333,MIG-1111");
    ck_assert_int_gt(gpu_plan_text(&p, 0, value, sizeof value), 0);
    ck_assert_str_eq(value, "MIG-1111,MIG-2222,MIG-3333");
    gpu_map_free(&m);
}
END_TEST

START_TEST(ways_are_parsed) {
    enum gpu_bind how;

    ck_assert_int_eq(gpu_bind_parse("rotate", &how), 0);
    ck_assert_int_eq(how, GPU_BIND_ROTATE);
    ck_assert_int_eq(gpu_bind_parse("closest", &how), 0);
    ck_assert_int_eq(gpu_bind_parse("Closest", &how), -EINVAL);
    ck_assert_int_eq(gpu_bind_parse("", &how), -EINVAL);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "closest, rotate or none"));
}
END_TEST

UNIT_MAIN("place_gpu_bind", every_machine_has_the_least_distance,
          saved_machines_have_the_least_distance, none_and_slurms_own_binding_change_nothing,
          level_zero_is_given_one_device_or_left_alone,
          mig_names_and_unknown_ones_are_dealt_out_too, ways_are_parsed)
