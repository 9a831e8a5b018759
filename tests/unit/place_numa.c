/* SPDX-License-Identifier: Apache-2.0 */
/* place_numa.c - managers over NUMA nodes: which, in what order, and that binding changes what it
 * says or nothing. */
#include "gpu_test.h"
#include <place/numa.h>

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *places(const struct machine *of, const char *cpus, const char *nodes,
                    const char *network) {
    static char text[256];
    struct hwloc_topology *t;
    struct cpus c, n;
    struct numa_map m;
    size_t len;
    char *xml = machine_xml(of, &len);

    ck_assert_int_eq(topology_xml(&t, xml, len + 1), 0);
    free(xml);
    if (cpus)
        ck_assert_int_eq(cpus_list(&c, cpus), 0);
    if (nodes)
        ck_assert_int_eq(cpus_list(&n, nodes), 0);
    numa_map_make(&m, t, cpus ? &c : NULL, nodes ? &n : NULL, network);
    topology_free(t);
    text[0] = '\0';
    for (int i = 0; i < m.places; i++)
        sprintf(text + strlen(text), "%s%d", i ? " " : "", m.place[i].node);
    return text;
}

START_TEST(nearest_to_the_network_comes_first) {
    ck_assert_str_eq(places(&machines[0], NULL, NULL, NULL), "1 0");
    /* the fabric's card before the other */
    ck_assert_str_eq(places(&machines[1], NULL, NULL, NULL), "5 4 6 7 0 1 2 3");
    ck_assert_str_eq(places(&machines[1], NULL, NULL, "eth0"), "7 4 5 6 0 1 2 3");
    ck_assert_str_eq(places(&machines[1], NULL, NULL, "br0"), "5 4 6 7 0 1 2 3");
    ck_assert_str_eq(places(&machines[2], NULL, NULL, NULL), "0 1 2 3 4 5 6 7"); /* no card */
    /* one package, no latencies */
    ck_assert_str_eq(places(&machines[3], NULL, NULL, NULL), "0 1 2 3");
    ck_assert_str_eq(places(&machines[4], NULL, NULL, NULL), "0");
    ck_assert_str_eq(places(&machines[5], NULL, NULL, "eth0"), "0 1");
}
END_TEST

START_TEST(only_what_the_job_has_counts) {
    /* half of the cores */
    ck_assert_str_eq(places(&machines[1], "0-31,64-95", NULL, NULL), "0 1 2 3");
    /* one core of node 5 is a rank's */
    ck_assert_str_eq(places(&machines[1], "0-31,40,64-95", NULL, NULL), "0 1 2 3");
    ck_assert_str_eq(places(&machines[1], "0-31,40-43,64-95", NULL, NULL), "5 0 1 2 3");
    /* memory of three nodes */
    ck_assert_str_eq(places(&machines[1], NULL, "2,3,6", NULL), "6 2 3");
    ck_assert_str_eq(places(&machines[1], "0-15", "4", NULL), "");
    ck_assert_str_eq(places(&machines[0], "3", NULL, NULL), "0");
}
END_TEST

START_TEST(managers_go_round) {
    struct numa_map m = {.places = 3, .place = {{.node = 5}, {.node = 4}, {.node = 7}}};

    for (int i = 0; i < 9; i++)
        ck_assert_int_eq(numa_map_place(&m, i)->node, m.place[i % 3].node);
    m.places = 1;
    ck_assert_ptr_null(numa_map_place(&m, 0));
    m.places = 0;
    ck_assert_ptr_null(numa_map_place(&m, 3));
}
END_TEST

START_TEST(saved_machines_have_places) {
    glob_t files;

    saved_topologies(&files);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct hwloc_topology *t;
        struct numa_map m;

        ck_assert_int_eq(topology_file(&t, files.gl_pathv[i]), 0);
        numa_map_make(&m, t, NULL, NULL, NULL);
        topology_free(t);
        ck_assert_int_gt(m.places, 0);
        printf("%s:", files.gl_pathv[i]);
        for (int p = 0; p < m.places; p++) {
            char text[256];
            printf(" node %d (cpus %s, network at %d)", m.place[p].node,
                   cpus_text(text, sizeof text, &m.place[p].cpus), m.place[p].network);
        }
        printf("\n");
        if (strstr(files.gl_pathv[i], "2-socket-3-gpu.xml"))
            /* InfiniBand is on the second socket */
            ck_assert(m.places == 2 && m.place[0].node == 1);
    }
    globfree(&files);
}
END_TEST

static int in_child(int (*check)(const struct numa_place *), const struct numa_place *p) {
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(check(p));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void policy(int *mode, unsigned long *nodes) {
    unsigned long mask[16] = {0};

    syscall(SYS_get_mempolicy, mode, mask, 1024ul, NULL, 0);
    *nodes = mask[0];
}

static int binds(const struct numa_place *p) {
    struct cpus now;
    unsigned long nodes;
    int mode;

    if (numa_bind_process(p) < 0)
        return 1;
    cpus_mine(&now);
    policy(&mode, &nodes);
    return memcmp(&now, &p->cpus, sizeof now) != 0             ? 2
           : mode != MPOL_PREFERRED || nodes != 1ul << p->node ? 3
                                                               : 0;
}

static int changes_nothing(const struct numa_place *p) {
    struct cpus before, after;
    unsigned long nodes;
    int mode;

    cpus_mine(&before);
    if (numa_bind_process(p) >= 0)
        return 1;
    cpus_mine(&after);
    policy(&mode, &nodes);
    return memcmp(&before, &after, sizeof before) != 0 ? 2 : mode != MPOL_DEFAULT ? 3 : 0;
}

START_TEST(a_process_is_bound_or_left_as_it_was) {
    struct numa_place p = {.node = 0};
    struct cpus mine;
    int first = 0;

    cpus_mine(&mine);
    while (!cpus_has(&mine, first))
        first++;
    cpus_add(&p.cpus, first);
    /* A container may forbid the system call: that is one of the failures that must not matter. */
    if (syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0) == 0)
        ck_assert_int_eq(in_child(binds, &p), 0);
    p.node = 63; /* there is none */
    ck_assert_int_eq(in_child(changes_nothing, &p), 0);
    p.node = NUMA_NODES_MAX;
    ck_assert_int_eq(in_child(changes_nothing, &p), 0);
    p.node = 0;
    memset(&p.cpus, 0, sizeof p.cpus);
    cpus_add(&p.cpus, CPUS_MAX - 1); /* nor this one */
    ck_assert_int_eq(in_child(changes_nothing, &p), 0);
}
END_TEST

START_TEST(a_mapping_is_bound_strictly_where_it_fits) {
    struct numa_place p = {.node = 0};
    uint64_t there = numa_available(0, ""), len = 1 << 20;
    unsigned long nodes[16] = {0};
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int mode, rc = numa_bind_range(&p, at, len, len, "");

    if (rc != -EPERM && rc != -ENOSYS) {
        ck_assert_int_eq(rc, there > 2 * len);
        ck_assert_int_eq(syscall(SYS_get_mempolicy, &mode, nodes, 1024ul, at, MPOL_F_ADDR), 0);
        ck_assert_int_eq(mode, rc ? MPOL_BIND : MPOL_PREFERRED);
        ck_assert_uint_eq(nodes[0], 1);
        ck_assert_int_eq(numa_bind_range(&p, at, len, UINT64_MAX, ""), 0);
        ck_assert_int_eq(syscall(SYS_get_mempolicy, &mode, nodes, 1024ul, at, MPOL_F_ADDR), 0);
        ck_assert_int_eq(mode, MPOL_PREFERRED);
        memset(at, 1, len);
        p.node = 63;
        ck_assert_int_eq(numa_bind_range(&p, at, len, len, ""), -EINVAL);
    }
    ck_assert_uint_eq(numa_available(63, ""), 0);
    munmap(at, len);
}
END_TEST

START_TEST(one_numa_node_is_left_alone) {
    struct numa_map m = {.places = 7};

    ck_assert_int_eq(numa_map_here(&m, NULL, "/nonexistent"), 0);
    ck_assert_int_eq(m.places, 0);
    ck_assert_int_eq(numa_map_here(&m, NULL, ""), 0);
    printf("this machine: %d places\n", m.places);
}
END_TEST

UNIT_MAIN("place_numa", nearest_to_the_network_comes_first, only_what_the_job_has_counts,
          managers_go_round, saved_machines_have_places, a_process_is_bound_or_left_as_it_was,
          a_mapping_is_bound_strictly_where_it_fits, one_numa_node_is_left_alone)
