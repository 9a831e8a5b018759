/* SPDX-License-Identifier: Apache-2.0 */
/* place_gpu.c - GPUs are found in topologies, distances make sense, and what only the machine knows
 * is read below a folder. */
#include "gpu_test.h"
#include <base/error.h>
#include <place/gpu_blob.h>

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t from_cpu(const struct gpu_map *m, int gpu, int cpu) {
    struct cpus one = {{0}};

    cpus_add(&one, cpu);
    return gpu_distance(m, gpu, &one);
}

START_TEST(gpus_stand_in_the_order_of_their_addresses) {
    struct gpu_map m;

    machine_map(&machines[1], &m);
    static const int numa[] = {3, 3, 1, 1, 7, 7, 5, 5};
    ck_assert_int_eq(m.gpus, 8); /* not the management controller's, not the network card */
    for (int g = 0; g < 8; g++) {
        ck_assert_int_eq(m.gpu[g].vendor, GPU_NVIDIA);
        ck_assert_int_eq(m.gpu[g].numa, numa[g]);
        ck_assert_int_eq(m.gpu[g].visible, GPU_VISIBLE_UNKNOWN);
    }
    ck_assert_str_eq(m.gpu[2].pci, "0000:47:00.0");
    ck_assert_int_eq(cpus_count(&m.allowed), 128);
    ck_assert_int_eq(gpu_vendor_here(&m), GPU_NVIDIA);
    gpu_map_free(&m);
}
END_TEST

START_TEST(graphics_of_management_controllers_are_no_gpus) {
    struct gpu_map m;

    machine_map(&machines[0], &m); /* with one of ASPEED's and one of AMD's */
    ck_assert_int_eq(m.gpus, 8);
    for (int g = 0; g < 8; g++)
        ck_assert_int_eq(m.gpu[g].vendor, GPU_NVIDIA);
    gpu_map_free(&m);
}
END_TEST

START_TEST(nearer_is_less) {
    struct gpu_map m;

    /* NUMA node n has the cores 8n to 8n + 7; GPU 0 hangs on node 3, GPU 2 on node 1, GPU 4 on node
     * 7 */
    machine_map(&machines[1], &m);
    ck_assert_int_lt(from_cpu(&m, 0, 24), from_cpu(&m, 2, 24));
    ck_assert_int_lt(from_cpu(&m, 2, 24), from_cpu(&m, 4, 24));
    ck_assert_int_eq(from_cpu(&m, 0, 24), from_cpu(&m, 1, 24));
    /* the second thread of the core */
    ck_assert_int_eq(from_cpu(&m, 0, 24), from_cpu(&m, 0, 24 + 64));
    struct cpus none = {{0}}, all = {{0}};
    for (int c = 0; c < 128; c++)
        cpus_add(&all, c);
    ck_assert_int_eq(gpu_distance(&m, 0, &none), gpu_distance(&m, 0, &all));
    gpu_map_free(&m);
    machine_map(&machines[4], &m); /* a virtual machine */
    ck_assert_int_eq(from_cpu(&m, 0, 0), from_cpu(&m, 3, 7));
    gpu_map_free(&m);
}
END_TEST

START_TEST(a_real_machine_is_read) {
    struct hwloc_topology *t;
    struct gpu_map m;
    glob_t files;
    int done = 0;

    saved_topologies(&files);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        if (!strstr(files.gl_pathv[i], "2-socket-3-gpu.xml"))
            continue;
        ck_assert_int_eq(topology_file(&t, files.gl_pathv[i]), 0);
        ck_assert_int_eq(gpu_map_make(&m, t), 0);
        topology_free(t);
        ck_assert_int_eq(m.gpus, 4);
        ck_assert_str_eq(m.gpu[0].pci, "0000:03:00.0");
        ck_assert_str_eq(m.gpu[1].pci, "0000:83:00.0");
        ck_assert_str_eq(m.gpu[2].pci, "0000:84:00.0");
        ck_assert_int_eq(m.gpu[3].vendor, GPU_AMD);
        ck_assert_int_eq(gpu_vendor_here(&m), GPU_NVIDIA);
        ck_assert_int_eq(m.gpu[0].numa, 0);
        ck_assert_int_eq(m.gpu[1].numa, 1);
        /* second threads: 16 to 23 on the first package */
        ck_assert_int_lt(from_cpu(&m, 0, 16), from_cpu(&m, 1, 16));
        ck_assert_int_lt(from_cpu(&m, 1, 31), from_cpu(&m, 0, 31));
        gpu_map_free(&m);
        done++;
    }
    if (done == 0)
        printf("no saved topology here: only made-up ones were tried\n");
    globfree(&files);
}
END_TEST

START_TEST(this_machine_is_read) {
    struct hwloc_topology *t;
    struct gpu_map m;
    struct cpus mine;

    ck_assert_int_eq(topology_here(&t), 0);
    ck_assert_int_eq(gpu_map_make(&m, t), 0);
    topology_free(t);
    gpu_map_probe(&m, "");
    ck_assert_int_eq(cpus_mine(&mine), 0);
    ck_assert_int_eq(cpus_shared(&mine, &m.allowed), cpus_count(&mine));
    gpu_map_free(&m);
}
END_TEST

START_TEST(what_is_no_topology_is_refused) {
    struct hwloc_topology *t;

    ck_assert_int_eq(topology_file(&t, "/nonexistent/machine.xml"), -ENOENT);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "machine.xml"));
    ck_assert_int_eq(topology_file(&t, "/dev/null"), -EINVAL);
    ck_assert_int_eq(topology_xml(&t, "<topology>", 11), -EINVAL);
}
END_TEST

/* --- below a folder that looks like a machine --- */

static char root[160];

static void put(const char *path, const char *text) {
    char full[512];

    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *s = full + strlen(root) + 1; (s = strchr(s, '/')); s++) {
        *s = '\0';
        mkdir(full, 0700);
        *s = '/';
    }
    if (!text) {
        mkdir(full, 0700);
        return;
    }
    FILE *f = fopen(full, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *f) {
    return remove(path);
}

static void root_make(void) {
    snprintf(root, sizeof root, "%s/ddict-gpu-test.XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(root));
}
static void root_remove(void) {
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

START_TEST(nvidia_tells_names_and_nodes) {
    struct gpu_map m;

    machine_map(&machines[4], &m);
    put("proc/driver/nvidia/gpus/0000:05:00.0/information",
        "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 170\nGPU UUID: \t "
        "GPU-11111111-2222-3333-4444-555555555555\nBus Location: \t 0000:05:00.0\nDevice Minor: \t "
        "1\n");
    put("proc/driver/nvidia/gpus/0000:06:00.0/information",
        "GPU UUID: \t GPU-?-?-?\nDevice Minor: \t 0\n");
    put("proc/driver/nvidia/gpus/0000:07:00.0/information",
        "GPU UUID: \t GPU-aaaaaaaa-2222-3333-4444-555555555555\nDevice Minor: \t 2\n");
    put("dev/nvidia1", "");
    put("dev/nvidia2", "");
    gpu_map_probe(&m, root);
    ck_assert_str_eq(m.gpu[0].uuid, "GPU-11111111-2222-3333-4444-555555555555");
    ck_assert_str_eq(m.gpu[1].uuid, "");
    ck_assert_int_eq(m.gpu[0].visible, GPU_VISIBLE);
    ck_assert_int_eq(m.gpu[1].visible, GPU_HIDDEN); /* no node: a container without it */
    ck_assert_int_eq(m.gpu[2].visible, GPU_VISIBLE);
    ck_assert_int_eq(m.gpu[3].visible, GPU_HIDDEN); /* not of this driver */
    gpu_map_free(&m);
}
END_TEST

START_TEST(amd_and_intel_tell_render_nodes_and_tiles) {
    static const struct machine intel = {"", 1, 1, 2, 0, 0, {INTEL(0, 0x18), INTEL(0, 0x2a)}};
    struct gpu_map m;

    machine_map(&machines[3], &m);
    put("sys/bus/pci/devices/0000:c1:00.0/drm/renderD128", NULL);
    put("sys/bus/pci/devices/0000:c1:00.0/unique_id", "8a5b4c3d2e1f0011\n");
    put("sys/bus/pci/devices/0000:c6:00.0/drm/renderD129", NULL);
    put("dev/dri/renderD129", "");
    gpu_map_probe(&m, root);
    ck_assert_str_eq(m.gpu[0].uuid, "GPU-8a5b4c3d2e1f0011");
    ck_assert_int_eq(m.gpu[0].visible, GPU_HIDDEN);
    ck_assert_int_eq(m.gpu[1].visible, GPU_VISIBLE);
    gpu_map_free(&m);
    machine_map(&intel, &m);
    put("sys/bus/pci/devices/0000:18:00.0/drm/card0/gt/gt0", NULL);
    put("sys/bus/pci/devices/0000:18:00.0/drm/card0/gt/gt1", NULL);
    put("sys/bus/pci/devices/0000:18:00.0/drm/card0-DP-1", NULL);
    gpu_map_probe(&m, root);
    ck_assert_int_eq(m.gpu[0].tiles, 2);
    ck_assert_int_eq(m.gpu[1].tiles, 1);
    gpu_map_free(&m);
}
END_TEST

START_TEST(a_map_travels_as_bytes) {
    struct gpu_map m, back;
    uint64_t seed = 3;
    size_t len;
    void *blob;

    machine_map(&machines[1], &m);
    ck_assert_int_eq(gpu_map_pack(&m, &blob, &len), 0);
    ck_assert_int_eq(gpu_map_unpack(&back, blob, len), 0);
    ck_assert_int_eq(back.gpus, 8);
    for (int cpu = 0; cpu < 128; cpu++)
        for (int g = 0; g < 8; g++)
            ck_assert_int_eq(from_cpu(&back, g, cpu), from_cpu(&m, g, cpu));
    gpu_map_free(&back);
    for (size_t cut = 0; cut < len; cut += 97)
        ck_assert_int_eq(gpu_map_unpack(&back, blob, cut), -EPROTO);
    ck_assert_int_eq(gpu_map_unpack(&back, blob, len - 1), -EPROTO);
    /* Whatever was altered: refused, or a map that can be used. */
    for (int i = 0; i < 2000; i++) {
        char *copy = malloc(len);
        memcpy(copy, blob, len);
        for (int k = 0; k < 3; k++)
            copy[unit_random(&seed) % (i % 2 ? len : 200)] = (char)unit_random(&seed);
        if (gpu_map_unpack(&back, copy, len) == 0) {
            for (int g = 0; g < back.gpus; g++)
                ck_assert(strlen(back.gpu[g].pci) < 16 &&
                          gpu_distance(&back, g, &back.allowed) != -1);
            gpu_map_free(&back);
        }
        free(copy);
    }
    free(blob);
    gpu_map_free(&m);
}
END_TEST

UNIT_MAIN_WITH("place_gpu", root_make, root_remove, gpus_stand_in_the_order_of_their_addresses,
               graphics_of_management_controllers_are_no_gpus, nearer_is_less,
               a_map_travels_as_bytes, a_real_machine_is_read, this_machine_is_read,
               what_is_no_topology_is_refused, nvidia_tells_names_and_nodes,
               amd_and_intel_tell_render_nodes_and_tiles)
