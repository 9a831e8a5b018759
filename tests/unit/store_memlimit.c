/* SPDX-License-Identifier: Apache-2.0 */
/* store_memlimit.c - the smallest limit is found in made-up cgroup trees of both versions, and the
 * arena stops before it. */
#include "store_test.h"
#include <store/heap.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define GIB (1ull << 30)

/* --- files as the test wants them: path and text; all other paths of /proc and /sys/fs/cgroup do
 * not exist. Who has one open sees what is put into it later --- */
static struct {
    const char *path;
    int memory; /* a memfd */
} file[24];
static int files, opened;
static const char *scarce; /* there is no descriptor for it */

static int fake(const char *path) {
    char name[32];
    opened++;
    if (scarce && strcmp(path, scarce) == 0) {
        errno = EMFILE;
        return -1;
    }
    for (int i = 0; i < files; i++)
        if (strcmp(file[i].path, path) == 0) {
            snprintf(name, sizeof name, "/proc/self/fd/%d", file[i].memory);
            return (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
        }
    errno = ENOENT;
    return -1;
}
int open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = va_arg(ap, mode_t);
    va_end(ap);
    if (files && (strncmp(path, "/proc/meminfo", 13) == 0 || strncmp(path, "/cg", 3) == 0))
        return fake(path);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
FILE *fopen(const char *path, const char *mode) {
    int fd = files && (strcmp(path, "/proc/self/cgroup") == 0 ||
                       strcmp(path, "/proc/self/mountinfo") == 0)
                 ? fake(path)
                 : (int)syscall(SYS_openat, AT_FDCWD, path,
                                *mode == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC, 0600);
    return fd < 0 ? NULL : fdopen(fd, *mode == 'r' ? "r" : "w");
}

/* How often memory is given back and taken again at once. */
static unsigned dropped;
int madvise(void *at, size_t len, int advice) {
    dropped += advice == MADV_DONTNEED;
    return (int)syscall(SYS_madvise, at, len, advice);
}

static void put_file(const char *path, const char *fmt, ...) {
    va_list ap;
    int i = 0;
    while (i < files && strcmp(file[i].path, path))
        i++;
    if (i == files)
        file[files++].memory = (int)syscall(SYS_memfd_create, "fake", 1u);
    file[i].path = path;
    ck_assert_int_eq(ftruncate(file[i].memory, 0), 0);
    ck_assert_int_eq((int)lseek(file[i].memory, 0, SEEK_SET), 0);
    va_start(ap, fmt);
    vdprintf(file[i].memory, fmt, ap);
    va_end(ap);
}

static void memory(uint64_t total, uint64_t available) {
    put_file("/proc/meminfo", "MemTotal: %llu kB\nMemFree: 1 kB\nMemAvailable:   %llu kB\n",
             (unsigned long long)total >> 10, (unsigned long long)available >> 10);
}
static uint64_t room(void) {
    const char *limit;
    memlimit_find();
    return memlimit_room(&limit);
}
static const char *limit_text(void) {
    const char *limit;
    memlimit_room(&limit);
    return limit;
}

static void files_remove(void) {
    while (files > 0)
        close(file[--files].memory);
}

static void before(void) {
    files_remove();
    memory(64 * GIB, 40 * GIB);
}
static void after(void) {
    files_remove();
    box_close();
    memlimit_find();
}

#define V2_MOUNT "24 1 0:22 / /cg rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT                                                                                 \
    "30 1 0:30 / /cgcpu rw - cgroup cgroup rw,cpu,cpuacct\n31 1 0:31 / /cg1 rw - cgroup cgroup " \
    "rw,memory\n"

static void v2_tree(void) {
    put_file("/proc/self/cgroup", "0::/system.slice/job_7/step_1\n");
    put_file("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda rw\n" V2_MOUNT);
    put_file("/cg/system.slice/job_7/step_1/memory.max", "max\n");
    put_file("/cg/system.slice/job_7/step_1/memory.current", "%llu\n", 100 * MIB);
    put_file("/cg/system.slice/job_7/memory.max", "%llu\n", 4 * GIB);
    put_file("/cg/system.slice/job_7/memory.current", "%llu\n", 1 * GIB);
    put_file("/cg/system.slice/memory.max", "max\n");
}

START_TEST(without_cgroups_the_node_is_the_limit) {
    ck_assert_uint_eq(room(), 40 * GIB - DD_MEM_RESERVE);
    ck_assert_ptr_nonnull(strstr(limit_text(), "MemAvailable"));
}
END_TEST

START_TEST(the_smallest_ancestor_counts_v2) {
    v2_tree();
    ck_assert_uint_eq(room(), 3 * GIB - DD_MEM_RESERVE);
    ck_assert_str_eq(limit_text(), "the memory limit of cgroup /system.slice/job_7 (4.0 GiB)");
    put_file("/cg/system.slice/job_7/step_1/memory.max", "%llu\n", 1 * GIB);
    ck_assert_uint_eq(room(), 924 * MIB - DD_MEM_RESERVE);
    ck_assert_str_eq(limit_text(),
                     "the memory limit of cgroup /system.slice/job_7/step_1 (1.0 GiB)");
}
END_TEST

/* As slurmstepd 26.05 made it: the folder of the job is its SLUID, and the tasks' limits are those of
 * their step's `user`, of which Slurm sets memory.high to the same. */
START_TEST(the_folder_of_a_job_can_be_its_sluid) {
#define JOB "/cg/system.slice/u1n1_slurmstepd.scope/s07HM83WGBX800"
    put_file("/proc/self/cgroup",
             "0::/system.slice/u1n1_slurmstepd.scope/s07HM83WGBX800/step_1/user/task_0\n");
    put_file("/proc/self/mountinfo", "30 29 0:27 / /cg rw,relatime - cgroup2 cgroup2 rw\n");
    put_file(JOB "/step_1/user/task_0/memory.max", "max\n");
    put_file(JOB "/step_1/user/task_0/memory.high", "max\n");
    put_file(JOB "/step_1/user/task_0/memory.current", "%llu\n", 470 * MIB);
    put_file(JOB "/step_1/user/memory.max", "%llu\n", 700 * MIB);
    put_file(JOB "/step_1/user/memory.high", "%llu\n", 700 * MIB);
    put_file(JOB "/step_1/user/memory.current", "%llu\n", 470 * MIB);
    put_file(JOB "/step_1/memory.max", "max\n");
    put_file(JOB "/step_1/memory.high", "max\n");
    put_file(JOB "/step_1/memory.current", "%llu\n", 474 * MIB);
    put_file(JOB "/memory.max", "%llu\n", 700 * MIB);
    put_file(JOB "/memory.high", "%llu\n", 700 * MIB);
    put_file(JOB "/memory.current", "%llu\n", 500 * MIB);
    ck_assert_uint_eq(room(), 200 * MIB - DD_MEM_RESERVE);
    ck_assert_str_eq(limit_text(), "the memory limit of cgroup /system.slice/"
                                   "u1n1_slurmstepd.scope/s07HM83WGBX800 (700.0 MiB)");
    /* the limit of the running job is lowered */
    put_file(JOB "/memory.max", "%llu\n", 520 * MIB);
    put_file(JOB "/memory.high", "%llu\n", 520 * MIB);
    ck_assert_uint_eq(room(), 0);
    ck_assert_str_eq(limit_text(), "the memory limit of cgroup /system.slice/"
                                   "u1n1_slurmstepd.scope/s07HM83WGBX800 (520.0 MiB)");
    put_file(JOB "/step_1/user/memory.events.local", "oom 0\noom_kill 0\n");
    put_file(JOB "/memory.events.local", "oom 1\noom_kill 0\n");
    ck_assert_str_eq(memlimit_reached(), limit_text());
}
END_TEST

START_TEST(memory_high_counts_as_a_limit) {
    v2_tree();
    put_file("/cg/system.slice/job_7/memory.high", "%llu\n", 2 * GIB);
    ck_assert_uint_eq(room(), 1 * GIB - DD_MEM_RESERVE);
    ck_assert_str_eq(limit_text(), "memory.high of cgroup /system.slice/job_7 (2.0 GiB)");
    /* Slurm sets both to the same */
    put_file("/cg/system.slice/job_7/memory.high", "%llu\n", 4 * GIB);
    ck_assert_uint_eq(room(), 3 * GIB - DD_MEM_RESERVE);
    ck_assert_str_eq(limit_text(), "the memory limit of cgroup /system.slice/job_7 (4.0 GiB)");
}
END_TEST

START_TEST(what_is_above_memory_high_is_slowed) {
    const char *limit;
    v2_tree();
    put_file("/cg/system.slice/job_7/step_1/memory.high", "max\n");
    put_file("/cg/system.slice/job_7/memory.high", "%llu\n", 1 * GIB);
    memlimit_find();
    ck_assert(!memlimit_slowed(&limit));
    put_file("/cg/system.slice/job_7/memory.current", "%llu\n", 1 * GIB + 4096);
    ck_assert(memlimit_slowed(&limit));
    ck_assert_str_eq(limit, "memory.high of cgroup /system.slice/job_7 (1.0 GiB)");
    put_file("/cg/system.slice/job_7/memory.high", "max\n");
    ck_assert(!memlimit_slowed(&limit));
}
END_TEST

/* To open a file takes memory, for which the kernel would stop us. */
START_TEST(a_look_at_the_limits_opens_nothing) {
    const char *limit;
    v2_tree();
    put_file("/cg/system.slice/job_7/step_1/memory.high", "max\n");
    put_file("/cg/system.slice/job_7/memory.high", "%llu\n", 512 * MIB);
    ck_assert_uint_eq(room(), 0);
    opened = 0;
    ck_assert(memlimit_slowed(&limit));
    memlimit_room(&limit);
    ck_assert_int_eq(opened, 0);
}
END_TEST

START_TEST(to_look_again_closes_what_was_open) {
    v2_tree();
    room();
    int open_before = unit_fds_with(true);
    room();
    ck_assert_int_eq(unit_fds_with(true), open_before);
}
END_TEST

/* As a manager that is forked from ddictd. */
START_TEST(a_child_goes_on_with_the_files_that_it_keeps) {
    int fds[MEMLIMIT_FDS];
    v2_tree();
    uint64_t is = room();
    size_t n = memlimit_fds(fds, MEMLIMIT_FDS);
    ck_assert_uint_eq(n, 6); /* three limits, two figures of use, meminfo */
    ck_assert_uint_eq(memlimit_fds(fds, n), n);
    ck_assert_uint_eq(memlimit_fds(fds, n - 1), 0);
    pid_t pid = fork();
    if (pid == 0) {
        const char *limit;
        for (int fd = 3; fd < 1000; fd++) {
            bool kept = false;
            for (size_t i = 0; i < n; i++)
                kept |= fds[i] == fd;
            if (!kept)
                close(fd);
        }
        opened = 0;
        _exit(memlimit_room(&limit) == is && opened == 0 ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

/* More than it may keep: it has closed them all, and finds anew. There is one more by then, so that
 * the last limit gets the number that /proc/meminfo had. */
START_TEST(a_child_that_keeps_no_file_finds_the_same_limits) {
    int fds[MEMLIMIT_FDS];
    v2_tree();
    put_file("/cg/system.slice/memory.max", "%llu\n", 2 * GIB);
    uint64_t is = room();
    size_t n = memlimit_fds(fds, MEMLIMIT_FDS);
    put_file("/cg/system.slice/job_7/memory.high", "max\n");
    pid_t pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < n; i++)
            close(fds[i]);
        _exit(room() == is ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

START_TEST(a_limit_that_could_not_be_opened_is_looked_at_again) {
    const char *limit;
    v2_tree();
    uint64_t is = room();
    scarce = "/cg/system.slice/job_7/memory.max";
    ck_assert_uint_gt(room(), is);
    scarce = NULL;
    ck_assert_uint_eq(memlimit_room(&limit), is);
}
END_TEST

START_TEST(the_limit_that_was_reached_is_named) {
    v2_tree();
    memlimit_find();
    /* nobody says which one: the smallest */
    ck_assert_str_eq(memlimit_reached(),
                     "the memory limit of cgroup /system.slice/job_7 (4.0 GiB)");
    put_file("/cg/system.slice/job_7/step_1/memory.max", "%llu\n", 3 * GIB);
    put_file("/cg/system.slice/job_7/step_1/memory.events.local", "low 0\nhigh 9\nmax 9\noom 0\n");
    put_file("/cg/system.slice/job_7/memory.events.local", "low 0\nhigh 0\nmax 9\noom 2\n");
    ck_assert_str_eq(memlimit_reached(),
                     "the memory limit of cgroup /system.slice/job_7 (4.0 GiB)");
    files_remove();
    put_file("/proc/self/cgroup", "0::/a\n");
    put_file("/proc/self/mountinfo", V2_MOUNT);
    memlimit_find();
    ck_assert_str_eq(memlimit_reached(), "");
}
END_TEST

START_TEST(file_pages_that_can_be_dropped_are_room) {
    v2_tree();
    put_file("/cg/system.slice/job_7/memory.current", "%llu\n", 4 * GIB - 10 * MIB);
    ck_assert_uint_eq(room(), 0);
    put_file(
        "/cg/system.slice/job_7/memory.stat",
        "anon 5\nfile 999999999999\nkernel 3\ninactive_file %llu\nactive_file %llu\nworkingset 1\n",
        300 * MIB, 200 * MIB);
    ck_assert_uint_eq(room(), 510 * MIB - DD_MEM_RESERVE);
}
END_TEST

START_TEST(the_smallest_ancestor_counts_v1) {
    put_file("/proc/self/cgroup", "4:memory:/slurm/uid_0/job_7\n3:cpu,cpuacct:/x\n0::/elsewhere\n");
    put_file("/proc/self/mountinfo", V1_MOUNT V2_MOUNT);
    put_file("/cg1/slurm/uid_0/job_7/memory.limit_in_bytes", "9223372036854771712\n");
    put_file("/cg1/slurm/uid_0/memory.limit_in_bytes", "%llu\n", 8 * GIB);
    put_file("/cg1/slurm/uid_0/memory.usage_in_bytes", "%llu\n", 7 * GIB);
    ck_assert_uint_eq(room(), 1 * GIB - DD_MEM_RESERVE);
    ck_assert_str_eq(limit_text(), "the memory limit of cgroup /slurm/uid_0 (8.0 GiB)");
    put_file("/cg1/slurm/uid_0/memory.usage_in_bytes", "%llu\n", 8 * GIB);
    put_file("/cg1/slurm/uid_0/memory.stat",
             "inactive_file 1\ntotal_inactive_file %llu\ntotal_active_file %llu\n", 100 * MIB,
             50 * MIB);
    ck_assert_uint_eq(room(), 150 * MIB - DD_MEM_RESERVE);
}
END_TEST

START_TEST(a_container_sees_its_cgroup_as_the_root) {
    put_file("/proc/self/cgroup", "0::/docker/abc/sub\n");
    put_file("/proc/self/mountinfo", "24 1 0:22 /docker/abc /cg rw - cgroup2 cgroup2 rw\n");
    put_file("/cg/sub/memory.max", "max\n");
    put_file("/cg/memory.max", "%llu\n", 2 * GIB);
    put_file("/cg/memory.current", "0\n");
    ck_assert_uint_eq(room(), 2 * GIB - DD_MEM_RESERVE);
    put_file("/proc/self/cgroup", "0::/../../other\n");
    ck_assert_uint_eq(room(), 2 * GIB - DD_MEM_RESERVE);
}
END_TEST

START_TEST(of_a_small_limit_an_eighth_is_kept) {
    v2_tree();
    put_file("/cg/system.slice/job_7/step_1/memory.max", "%llu\n", 160 * MIB);
    put_file("/cg/system.slice/job_7/step_1/memory.current", "%llu\n", 40 * MIB);
    ck_assert_uint_eq(room(), 100 * MIB);
}
END_TEST

START_TEST(files_that_make_no_sense_are_no_limit) {
    put_file("/proc/self/cgroup", "nonsense\n\n:::\n0::/a\n");
    put_file("/proc/self/mountinfo", "x\n - \n1 2 3 - cgroup2\n" V2_MOUNT);
    put_file("/cg/a/memory.max", "\n");
    put_file("/cg/a/memory.current", "-5\n");
    put_file("/proc/meminfo", "nonsense\n");
    ck_assert_uint_eq(room(), UINT64_MAX);
}
END_TEST

START_TEST(the_arena_stops_before_the_limit_and_names_it) {
    v2_tree();
    uint64_t n = 0;
    box_open(64 * MIB);
    /* 20 MiB are left, and every byte that is taken from them counts. */
    put_file("/cg/system.slice/job_7/step_1/memory.max", "%llu\n", 512 * MIB);
    for (int rc = 0; rc == 0;) {
        put_file("/cg/system.slice/job_7/step_1/memory.current", "%llu\n",
                 428 * MIB + (unsigned long long)box_memory());
        rc = put(n, 100000, n);
        if (rc == 0)
            n++;
        else
            ck_assert_int_eq(rc, DDICT_EFULL);
    }
    ck_assert_ptr_nonnull(
        strstr(dd_errmsg(), "the memory limit of cgroup /system.slice/job_7/step_1 (512.0 MiB)"));
    ck_assert_uint_le(box_memory(), 21 * MIB);
    ck_assert_uint_ge(n, 130);
    /* What is there can be replaced. */
    ck_assert_int_eq(del(0), 0);
    ck_assert_int_eq(put(n, 100000, n), 0);
    for (uint64_t k = 1; k <= n; k++)
        ck_assert(seen(k, 100000, k));
    /* And when there is room again, it goes on. */
    put_file("/cg/system.slice/job_7/step_1/memory.max", "max\n");
    ck_assert_int_eq(put(n + 1, 100000, 1), 0);
}
END_TEST

START_TEST(populating_stops_before_the_limit) {
    v2_tree();
    box_open(64 * MIB);
    put_file("/cg/system.slice/job_7/step_1/memory.max", "%llu\n", 512 * MIB);
    for (int64_t n = 1; n > 0;) {
        put_file("/cg/system.slice/job_7/step_1/memory.current", "%llu\n",
                 428 * MIB + (unsigned long long)box_memory());
        n = store_populate(box.s);
    }
    ck_assert_uint_le(box_memory(), 21 * MIB);
    ck_assert_uint_ge(box_memory(), 15 * MIB);
}
END_TEST

/* Runs of several classes, some of whose blocks begin pages, and extents of up to 3 MiB. */
static uint64_t length_of(uint64_t k) {
    return k % 61 == 0 ? 3 * MIB - 60 : k % 7 == 0 ? 33000 + k * 31 % 40000 : k * 37 % 9000;
}

static void reopened(unsigned parts) {
    struct manager_stats a = stats();
    dropped = 0;
    box_reopen();
    if (parts > 1)
        ck_assert(dropped + 1 > parts / 2 && dropped < parts);
    else
        ck_assert_uint_eq(dropped, 0);
    struct manager_stats b = stats();
    ck_assert_int_eq(memcmp(&a, &b, sizeof a), 0);
    for (uint64_t k = 0; k < 600; k++)
        ck_assert_int_eq(seen(k, length_of(k), k), k % 5 != 0);
}

START_TEST(an_arena_is_opened_in_parts_where_memory_is_short) {
    v2_tree();
    box_open(128 * MIB);
    for (uint64_t k = 0; k < 600; k++)
        ck_assert_int_eq(put(k, length_of(k), k), 0);
    for (uint64_t k = 0; k < 600; k += 5)
        ck_assert_int_eq(del(k), 0);
    heap_relieve(box.s, 0); /* empty runs are no runs afterwards */
    reopened(1);
    put_file("/cg/system.slice/job_7/step_1/memory.max", "%llu\n", 512 * MIB);
    put_file("/cg/system.slice/job_7/step_1/memory.current", "%llu\n", 512 * MIB);
    reopened(DD_REBUILD_PARTS);
    put_file("/cg/system.slice/job_7/step_1/memory.max", "max\n");
    ck_assert_int_eq(put(600, length_of(600), 600), 0);
    for (uint64_t k = 1; k <= 600; k++)
        if (k % 5 || k == 600)
            ck_assert(seen(k, length_of(k), k));
}
END_TEST

UNIT_MAIN_WITH("store_memlimit", before, after, without_cgroups_the_node_is_the_limit,
               the_smallest_ancestor_counts_v2, the_folder_of_a_job_can_be_its_sluid,
               memory_high_counts_as_a_limit, what_is_above_memory_high_is_slowed,
               a_look_at_the_limits_opens_nothing, to_look_again_closes_what_was_open,
               a_child_goes_on_with_the_files_that_it_keeps,
               a_child_that_keeps_no_file_finds_the_same_limits,
               a_limit_that_could_not_be_opened_is_looked_at_again,
               the_limit_that_was_reached_is_named, file_pages_that_can_be_dropped_are_room,
               the_smallest_ancestor_counts_v1, a_container_sees_its_cgroup_as_the_root,
               of_a_small_limit_an_eighth_is_kept, files_that_make_no_sense_are_no_limit,
               the_arena_stops_before_the_limit_and_names_it, populating_stops_before_the_limit,
               an_arena_is_opened_in_parts_where_memory_is_short)
