/* SPDX-License-Identifier: Apache-2.0 */
/* place_gpu_env.c - the variables that say which GPUs are visible: read, understood, left alone
 * where they cannot be. */
#include "gpu_test.h"
#include <base/error.h>

#include <errno.h>

static struct gpu_map map;

/* Eight GPUs of NVIDIA, named GPU-a0..., GPU-a1..., each in its NUMA node's package. */
static void map_make(void) {
    clearenv();
    machine_map(&machines[0], &map);
    for (int g = 0; g < map.gpus; g++)
        snprintf(map.gpu[g].uuid, sizeof map.gpu[g].uuid,
                 "GPU-a%c000000-0000-0000-0000-000000000000", '0' + g);
}
static void map_drop(void) {
    gpu_map_free(&map);
}

static void vendor_is(enum gpu_vendor v) {
    for (int g = 0; g < map.gpus; g++)
        map.gpu[g].vendor = v;
}

static void visible_are(const char *list) {
    struct cpus set;

    ck_assert_int_eq(cpus_list(&set, list), 0);
    for (int g = 0; g < map.gpus; g++)
        map.gpu[g].visible = cpus_has(&set, g) ? GPU_VISIBLE : GPU_HIDDEN;
}

/* What is read, as "entry=GPU ..."; "?" for a GPU that is not known. */
static const char *reads(void) {
    static char text[1024];
    struct gpu_mask m;
    char *at = text;
    int n = gpu_mask_read(&m, &map);

    if (n <= 0) {
        snprintf(text, sizeof text, "%s", n == 0 ? "none" : n == -EINVAL ? "left" : "?");
        ck_assert_int_gt((int)strlen(dd_errmsg()), 10);
        return text;
    }
    ck_assert_int_eq(n, m.entries);
    for (int i = 0; i < n; i++)
        at += m.gpu[i] < 0 ? sprintf(at, "%s%s=?", i ? " " : "", m.name[i])
                           : sprintf(at, "%s%s=%d", i ? " " : "", m.name[i], m.gpu[i]);
    return text;
}

static const char *reads_with(const char *value) {
    setenv("CUDA_VISIBLE_DEVICES", value, 1);
    return reads();
}

START_TEST(indices_are_read) {
    ck_assert_str_eq(reads_with("0,1,2"), "0=0 1=1 2=2");
    ck_assert_str_eq(reads_with("7,3"), "7=7 3=3");
    ck_assert_str_eq(reads_with(" 4, 5"), "4=4 5=5");
}
END_TEST

START_TEST(an_order_of_ours_counts_in_the_order_of_the_GPUs) {
    setenv("DDICT_GPU_SET", "CUDA_VISIBLE_DEVICES=7,3,5", 1);
    ck_assert_str_eq(reads_with("7,3,5"), "3=3 5=5 7=7");
    ck_assert_str_eq(reads_with("7,5,3"), "7=7 5=5 3=3"); /* somebody else's */
    setenv("DDICT_GPU_SET", "CUDA_VISIBLE_DEVICES=MIG-b,MIG-a,GPU-a1", 1);
    ck_assert_str_eq(reads_with("MIG-b,MIG-a,GPU-a1"), "MIG-a=? MIG-b=? GPU-a1=1");
}
END_TEST

START_TEST(names_are_kept) {
    ck_assert_str_eq(reads_with("GPU-a3000000-0000-0000-0000-000000000000,GPU-a1"),
                     "GPU-a3000000-0000-0000-0000-000000000000=3 GPU-a1=1");
    /* of several: the runtime refuses it, we keep it */
    ck_assert_str_eq(reads_with("GPU-a"), "GPU-a=?");
    ck_assert_str_eq(reads_with("GPU-b7"), "GPU-b7=?");
    ck_assert_str_eq(reads_with("MIG-GPU-a5000000-0000-0000-0000-000000000000/1/"
                                "0,MIG-12345678-0000-0000-0000-000000000000"),
                     "MIG-GPU-a5000000-0000-0000-0000-000000000000/1/0=5 "
                     "MIG-12345678-0000-0000-0000-000000000000=?");
}
END_TEST

START_TEST(none_is_none) {
    ck_assert_str_eq(reads_with(""), "none");
    ck_assert_str_eq(reads_with("NoDevFiles"), "none");
    ck_assert_str_eq(reads_with("-1"), "none");
    map.gpus = 0;
    unsetenv("CUDA_VISIBLE_DEVICES");
    ck_assert_str_eq(reads(), "none");
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "no GPU on this node"));
}
END_TEST

START_TEST(what_no_runtime_takes_is_left_as_it_is) {
    static const char *const bad[] = {"0,,1",
                                      "0,",
                                      ",",
                                      "0;1",
                                      "a",
                                      "0x1",
                                      "0,-1",
                                      "8",
                                      "0,99",
                                      "1,1",
                                      "GPU-a1,gpu-A1,0,GPU-a1",
                                      "all",
                                      "0-3",
                                      "GPU-",
                                      "MIG-",
                                      "GPU_1",
                                      "99999999999999999999",
                                      "$(reboot)",
                                      "0 1"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(strcmp(reads_with(bad[i]), "left") == 0, "%s: %s", bad[i], reads());
        ck_assert_msg(strstr(dd_errmsg(), "left as it is") != NULL, "%s", dd_errmsg());
        ck_assert_msg(strstr(dd_errmsg(), "CUDA_VISIBLE_DEVICES=") != NULL, "%s", dd_errmsg());
        ck_assert_str_eq(getenv("CUDA_VISIBLE_DEVICES"), bad[i]);
    }
    char many[400] = "0";
    for (int i = 1; i < 70; i++)
        sprintf(many + strlen(many), ",%d", i);
    ck_assert_str_eq(reads_with(many), "left");
    memset(many, 'a', sizeof many - 1);
    memcpy(many, "GPU-", 4);
    ck_assert_str_eq(reads_with(many), "left");
}
END_TEST

START_TEST(without_a_variable_all_are_seen) {
    ck_assert_str_eq(reads(), "0=0 1=1 2=2 3=3 4=4 5=5 6=6 7=7");
    setenv("SLURM_STEP_GPUS", "2,3", 1); /* granted, and nothing hides the others */
    ck_assert_str_eq(reads(), "2=2 3=3");
    visible_are("2-3");
    ck_assert_str_eq(reads(), "0=2 1=3");
    unsetenv("SLURM_STEP_GPUS");
    ck_assert_str_eq(reads(), "0=2 1=3");
}
END_TEST

START_TEST(what_can_be_opened_tells_local_numbers) {
    visible_are("4-7");
    ck_assert_str_eq(reads_with("0,1,2,3"), "0=4 1=5 2=6 3=7");
    ck_assert_str_eq(reads_with("1"), "1=5");
    /* a global number would be out of range for CUDA too */
    ck_assert_str_eq(reads_with("4"), "left");
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "sees 4"));
    visible_are("0-7");
    /* all can be opened: the numbers are those of the node */
    setenv("SLURM_STEP_GPUS", "4,5,6,7", 1);
    ck_assert_str_eq(reads_with("0,1"), "0=0 1=1");
}
END_TEST

START_TEST(slurms_global_numbers_tell_local_ones) {
    setenv("SLURM_STEP_GPUS", "4,5,6,7", 1);
    ck_assert_str_eq(reads_with("0,1,2,3"), "0=4 1=5 2=6 3=7");
    ck_assert_str_eq(reads_with("4,5,6,7"), "4=4 5=5 6=6 7=7");
    ck_assert_str_eq(reads_with("2"), "2=6");
    ck_assert_str_eq(reads_with("0,4"), "left"); /* neither */
    ck_assert_str_eq(reads_with("4,5,6,7,0"), "left");
    ck_assert_str_eq(reads_with("GPU-a6"), "GPU-a6=6");
    setenv("SLURM_STEP_GPUS", "0-3", 1);
    ck_assert_str_eq(reads_with("0,1,2,3"), "0=0 1=1 2=2 3=3");
    ck_assert_str_eq(reads_with("3"), "3=3");
    setenv("SLURM_STEP_GPUS", "1,2", 1);
    ck_assert_str_eq(reads_with("1"), "left"); /* local 1 is GPU 2, global 1 is GPU 1 */
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "SLURM_STEP_GPUS"));
    ck_assert_str_eq(reads_with("0,1"), "0=1 1=2");
    ck_assert_str_eq(reads_with("1,2"), "1=1 2=2");
    unsetenv("SLURM_STEP_GPUS");
    setenv("SLURM_JOB_GPUS", "1,2", 1);
    ck_assert_str_eq(reads_with("0,1"), "0=1 1=2");
}
END_TEST

START_TEST(another_device_order_is_left_alone) {
    setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1);
    ck_assert_str_eq(reads_with("0,1"), "left");
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "CUDA_DEVICE_ORDER"));
    ck_assert_str_eq(reads_with("GPU-a1,GPU-a0"), "GPU-a1=1 GPU-a0=0");
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    ck_assert_str_eq(reads_with("0,1"), "0=0 1=1");
}
END_TEST

START_TEST(the_vendor_that_is_there_counts) {
    struct gpu_mask m;

    /* Slurm without env flags in gres.conf sets all of them. */
    setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
    setenv("ROCR_VISIBLE_DEVICES", "0,1", 1);
    setenv("ZE_AFFINITY_MASK", "0,1", 1);
    setenv("GPU_DEVICE_ORDINAL", "0,1", 1);
    ck_assert_int_eq(gpu_mask_read(&m, &map), 2);
    ck_assert_str_eq(m.variable, "CUDA_VISIBLE_DEVICES");
    ck_assert(gpu_mask_orders(&m));
    vendor_is(GPU_AMD);
    ck_assert_int_eq(gpu_mask_read(&m, &map), 2);
    ck_assert_str_eq(m.variable, "ROCR_VISIBLE_DEVICES");
    ck_assert(gpu_mask_orders(&m));
    vendor_is(GPU_INTEL);
    ck_assert_int_eq(gpu_mask_read(&m, &map), 2);
    ck_assert_str_eq(m.variable, "ZE_AFFINITY_MASK");
    ck_assert(!gpu_mask_orders(&m));
    vendor_is(GPU_NVIDIA);
    map.gpu[0].vendor = GPU_INTEL; /* a desktop's own graphics */
    ck_assert_int_eq(gpu_mask_read(&m, &map), 2);
    ck_assert_str_eq(m.variable, "CUDA_VISIBLE_DEVICES");
    ck_assert_int_eq(m.gpu[0], 1);
}
END_TEST

START_TEST(hip_counts_in_what_rocr_left) {
    vendor_is(GPU_AMD);
    setenv("ROCR_VISIBLE_DEVICES", "4,5,6", 1);
    ck_assert_str_eq(reads(), "4=4 5=5 6=6");
    setenv("HIP_VISIBLE_DEVICES", "2,0", 1);
    ck_assert_str_eq(reads(), "2=6 0=4");
    setenv("HIP_VISIBLE_DEVICES", "3", 1);
    ck_assert_str_eq(reads(), "left");
    unsetenv("HIP_VISIBLE_DEVICES");
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    ck_assert_str_eq(reads(), "1=5");
    unsetenv("ROCR_VISIBLE_DEVICES");
    ck_assert_str_eq(reads(), "1=1");
    setenv("HIP_VISIBLE_DEVICES", "GPU-a2,3", 1);
    ck_assert_str_eq(reads(), "GPU-a2=2 3=3");
}
END_TEST

START_TEST(tiles_of_intel_are_understood) {
    vendor_is(GPU_INTEL);
    setenv("ZE_AFFINITY_MASK", "0.0,0.1,2", 1);
    ck_assert_str_eq(reads(), "0.0=0 0.1=0 2=2");
    for (int g = 0; g < map.gpus; g++)
        map.gpu[g].tiles = 2;
    setenv("ZE_AFFINITY_MASK", "0,1,2,15", 1); /* counted flat */
    ck_assert_str_eq(reads(), "0=0 1=0 2=1 15=7");
    setenv("ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE", 1);
    ck_assert_str_eq(reads(), "left");
    setenv("ZE_AFFINITY_MASK", "0,7", 1);
    ck_assert_str_eq(reads(), "0=0 7=7");
}
END_TEST

START_TEST(text_is_written_and_bounded) {
    struct gpu_mask m;
    char text[16];
    int order[] = {2, 0, 1};

    setenv("CUDA_VISIBLE_DEVICES", "4,GPU-a5,6", 1);
    ck_assert_int_eq(gpu_mask_read(&m, &map), 3);
    ck_assert_int_eq(gpu_mask_text(&m, order, 3, text, sizeof text), 10);
    ck_assert_str_eq(text, "6,4,GPU-a5");
    ck_assert_int_eq(gpu_mask_text(&m, order, 3, text, 10), -E2BIG);
}
END_TEST

START_TEST(slurms_own_binding_is_seen) {
    ck_assert_ptr_null(gpu_bound_by_slurm());
    setenv("SLURM_GPUS_PER_TASK", "1", 1);
    ck_assert_str_eq(gpu_bound_by_slurm(), "--gpus-per-task");
    setenv("SLURM_GPU_BIND", "none", 1);
    ck_assert_ptr_null(gpu_bound_by_slurm());
    setenv("SLURM_GPU_BIND", "verbose,closest", 1);
    ck_assert_str_eq(gpu_bound_by_slurm(), "--gpu-bind");
    clearenv();
    setenv("SLURMD_TRES_BIND", "gpu:per_task:1", 1); /* what a task of Slurm 22.05 has */
    ck_assert_str_eq(gpu_bound_by_slurm(), "--gpus-per-task");
    setenv("SLURMD_TRES_BIND", "gpu:mask_gpu:0x3,0xc", 1);
    ck_assert_str_eq(gpu_bound_by_slurm(), "--gpu-bind");
    setenv("SLURMD_TRES_BIND", "gpu:none", 1);
    ck_assert_ptr_null(gpu_bound_by_slurm());
    setenv("SLURMD_TRES_BIND", "nic:closest", 1);
    ck_assert_ptr_null(gpu_bound_by_slurm());
}
END_TEST

UNIT_MAIN_WITH("place_gpu_env", map_make, map_drop, indices_are_read,
               an_order_of_ours_counts_in_the_order_of_the_GPUs, names_are_kept, none_is_none,
               what_no_runtime_takes_is_left_as_it_is, without_a_variable_all_are_seen,
               what_can_be_opened_tells_local_numbers, slurms_global_numbers_tell_local_ones,
               another_device_order_is_left_alone, the_vendor_that_is_there_counts,
               hip_counts_in_what_rocr_left, tiles_of_intel_are_understood,
               text_is_written_and_bounded, slurms_own_binding_is_seen)
