/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rt_gpu.c - ddict_rt_bind_gpu() as training processes call it: eight tasks of a step as
 * processes of their own, hwloc reading a made-up machine in place of this one (HWLOC_XMLFILE).
 */
#include "machine_xml.h"
#include "unit.h"
#include <ddict_runtime.h>

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

static char file[160];

static void machine_put(void) {
    size_t len;
    char *text = machine_xml(&machines[1], &len);
    int fd;

    snprintf(file, sizeof file, "%s/ddict-runtime-gpu.XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    fd = mkstemp(file);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
    close(fd);
    free(text);
    setenv("HWLOC_XMLFILE", file, 1);
}
static void machine_remove(void) {
    unlink(file);
}

static void task_of(int rank, int tasks, const char *list) {
    static const char *const not_here[] = {
        "SLURM_STEP_GPUS",  "SLURM_JOB_GPUS",       "SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND",
        "SLURMD_TRES_BIND", "SLURM_GPUS_ON_NODE",   "CUDA_DEVICE_ORDER",   "DDICT_NAME",
        "DDICT_RUN_ID",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",           "TORCHELASTIC_RUN_ID"};
    char n[16];

    for (size_t i = 0; i < sizeof not_here / sizeof *not_here; i++)
        unsetenv(not_here[i]);
    snprintf(n, sizeof n, "%d", rank);
    setenv("SLURM_JOB_ID", "7", 1);
    setenv("SLURM_STEP_ID", "0", 1);
    setenv("SLURM_PROCID", n, 1);
    setenv("SLURM_LOCALID", n, 1);
    snprintf(n, sizeof n, "%d", tasks);
    setenv("SLURM_STEP_NUM_TASKS", n, 1);
    setenv("SLURM_STEP_TASKS_PER_NODE", n, 1);
    setenv("SLURM_NODEID", "0", 1);
    setenv("SLURM_STEP_NUM_NODES", "1", 1);
    setenv("SLURM_STEP_NODELIST", "n1", 1);
    setenv("SLURM_CPU_BIND_TYPE", "mask_cpu:", 1);
    setenv("SLURM_CPU_BIND_LIST", list, 1);
}

/* What a task that was started so gets: -1000 - errno or "variable=value device" over a pipe. */
static int task_run(int rank, int tasks, const char *list, const char *mask, int how, char *text,
                    size_t cap) {
    int ends[2], status;
    pid_t pid;

    ck_assert_int_eq(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        struct ddict_rt_gpu gpu;
        char line[512];
        int rc;

        task_of(rank, tasks, list);
        setenv("CUDA_VISIBLE_DEVICES", mask, 1);
        if (ddict_rt_init(DDICT_RT_NO_PMIX) < 0)
            _exit(99);
        rc = ddict_rt_bind_gpu(how, &gpu);
        const char *order = getenv("CUDA_DEVICE_ORDER");
        int n = rc < 0 ? snprintf(line, sizeof line, "%s", ddict_rt_errmsg())
                       : snprintf(line, sizeof line, "%s %s device %d of %d at %s near %d",
                                  order ? order : "-", getenv("CUDA_VISIBLE_DEVICES"), gpu.device,
                                  gpu.devices, gpu.pci, gpu.numa);
        if (rc > 0 && strcmp(gpu.value, getenv(gpu.variable)) != 0)
            _exit(98);
        if (write(ends[1], line, (size_t)n) != n)
            _exit(97);
        ddict_rt_finalize();
        _exit(rc < 0 ? -rc : rc == 0 ? 100 : 0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], text, cap - 1);
    text[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Eight tasks with a NUMA node each, in order. GPUs 0 1 hang on node 3, 2 3 on 1, 4 5 on 7, 6 7 on
 * 5. */
#define EIGHT                                                                \
    "0x00000000000000ff00000000000000ff,0x000000000000ff00000000000000ff00," \
    "0x0000000000ff00000000000000ff0000,"                                    \
    "0x00000000ff00000000000000ff000000,0x000000ff00000000000000ff00000000," \
    "0x0000ff00000000000000ff0000000000,"                                    \
    "0x00ff00000000000000ff000000000000,0xff00000000000000ff00000000000000"

START_TEST(eight_tasks_get_a_gpu_each) {
    static const char *const pci[] = {"07", "47", "4e", "0f", "87", "b7", "bd", "90"};
    char text[512], want[512];

    for (int r = 0; r < 8; r++) {
        ck_assert_int_eq(
            task_run(r, 8, EIGHT, "0,1,2,3,4,5,6,7", DDICT_RT_GPU_CLOSEST, text, sizeof text), 0);
        snprintf(want, sizeof want,
                 "PCI_BUS_ID 0,2,3,1,4,6,7,5 device %d of 8 at 0000:%s:00.0 near %d", r, pci[r],
                 "31137557"[r] - '0');
        ck_assert_str_eq(text, want);
    }
    ck_assert_int_eq(
        task_run(5, 8, EIGHT, "0,1,2,3,4,5,6,7", DDICT_RT_GPU_ROTATE, text, sizeof text), 0);
    ck_assert_str_eq(text, "PCI_BUS_ID 6,7,0,1,2,3,4,5 device 0 of 8 at 0000:b7:00.0 near 5");
}
END_TEST

START_TEST(what_cannot_be_bound_stays) {
    char text[512];

    ck_assert_int_eq(task_run(0, 2, EIGHT, "0,one", DDICT_RT_GPU_CLOSEST, text, sizeof text),
                     EINVAL);
    ck_assert_ptr_nonnull(strstr(text, "left as it is"));
    ck_assert_int_eq(task_run(0, 2, EIGHT, "NoDevFiles", DDICT_RT_GPU_CLOSEST, text, sizeof text),
                     100);
    ck_assert_str_eq(text, "- NoDevFiles device -1 of 0 at  near -1");
    ck_assert_int_eq(task_run(0, 2, EIGHT, "1,0", DDICT_RT_GPU_NONE, text, sizeof text), 100);
    ck_assert_str_eq(text, "- 1,0 device -1 of 0 at  near -1");
    ck_assert_int_eq(task_run(0, 2, EIGHT, "1,0", 7, text, sizeof text), EINVAL);
}
END_TEST

START_TEST(without_hwloc_it_says_so) {
    char text[512];

    setenv("DDICT_TOPOLOGY", "/nonexistent/ddict-topology.so", 1);
    ck_assert_int_eq(task_run(0, 2, EIGHT, "0,1", DDICT_RT_GPU_CLOSEST, text, sizeof text), ENOENT);
    ck_assert_ptr_nonnull(strstr(text, "/nonexistent/ddict-topology.so"));
}
END_TEST

START_TEST(it_wants_init_first) {
    ck_assert_int_eq(ddict_rt_bind_gpu(DDICT_RT_GPU_CLOSEST, NULL), -EINVAL);
}
END_TEST

UNIT_MAIN_WITH("runtime_gpu", machine_put, machine_remove, eight_tasks_get_a_gpu_each,
               what_cannot_be_bound_stays, without_hwloc_it_says_so, it_wants_init_first)
