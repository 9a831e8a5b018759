/* SPDX-License-Identifier: Apache-2.0 */
/* place_slurm_env.c - where am I without PMIx: the variables of a step, or alone. */
#include "launch_test.h"
#include <base/error.h>
#include <place/backend.h>
#include <place/place.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* PMIx keeps four bytes of its own after a refusal. */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__lsan_default_suppressions(void) {
    return "leak:libpmix\n";
}

static void step_set(const char *procid, const char *tasks, const char *node, const char *nodes,
                     const char *local, const char *per_node) {
    clearenv();
    setenv("SLURM_PROCID", procid, 1);
    setenv("SLURM_STEP_NUM_TASKS", tasks, 1);
    setenv("SLURM_NODEID", node, 1);
    setenv("SLURM_STEP_NUM_NODES", nodes, 1);
    setenv("SLURM_LOCALID", local, 1);
    setenv("SLURM_STEP_TASKS_PER_NODE", per_node, 1);
}

START_TEST(tasks_of_a_node_are_read) {
    ck_assert_int_eq(slurm_tasks_on("2(x3),1", 0), 2);
    ck_assert_int_eq(slurm_tasks_on("2(x3),1", 2), 2);
    ck_assert_int_eq(slurm_tasks_on("2(x3),1", 3), 1);
    ck_assert_int_eq(slurm_tasks_on("7", 0), 7);
    ck_assert_int_lt(slurm_tasks_on("7", 1), 0);
    ck_assert_int_lt(slurm_tasks_on("", 0), 0);
    ck_assert_int_lt(slurm_tasks_on(NULL, 0), 0);
    ck_assert_int_lt(slurm_tasks_on("2(x", 0), 0);
    ck_assert_int_lt(slurm_tasks_on("2(x-1),3", 0), 0);
    ck_assert_int_lt(slurm_tasks_on("x", 0), 0);
}
END_TEST

START_TEST(a_task_of_a_step_knows_its_place) {
    struct place p;

    step_set("3", "5", "1", "3", "1", "2(x2),1");
    setenv("SLURMD_NODENAME", "gpu-7", 1);
    ck_assert_int_eq(place_init(&p, 0), 0);
    ck_assert_int_eq(p.how, PLACE_SLURM);
    ck_assert_int_eq(p.rank, 3);
    ck_assert_int_eq(p.size, 5);
    ck_assert_int_eq(p.node_id, 1);
    ck_assert_int_eq(p.nodes, 3);
    ck_assert_int_eq(p.local_rank, 1);
    ck_assert_int_eq(p.local_size, 2);
    ck_assert_str_eq(p.node, "gpu-7");
    place_finalize(&p);
}
END_TEST

START_TEST(several_tasks_without_pmix_cannot_exchange) {
    void *cards[5];
    size_t lens[5];
    struct place p;

    step_set("3", "5", "1", "3", "1", "2(x2),1");
    ck_assert_int_eq(place_init(&p, 0), 0);
    ck_assert_int_eq(place_exchange(&p, "x", 1, cards, lens, 100), -ENOTSUP);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "5 tasks"));
    ck_assert_int_eq(place_fence(&p, 100), -ENOTSUP);
}
END_TEST

START_TEST(the_batch_script_is_alone) {
    struct place p;
    void *card;
    size_t len;

    clearenv(); /* it has a rank and a node id, but belongs to no step of srun */
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_NODEID", "0", 1);
    setenv("SLURM_LOCALID", "0", 1);
    setenv("SLURM_NTASKS", "8", 1);
    ck_assert_int_eq(place_init(&p, 0), 0);
    ck_assert_int_eq(p.how, PLACE_SINGLE);
    ck_assert_int_eq(p.size, 1);
    ck_assert_int_eq(place_exchange(&p, "card", 4, &card, &len, 100), 0);
    ck_assert_uint_eq(len, 4);
    ck_assert_int_eq(memcmp(card, "card", 4), 0);
    ck_assert_int_eq(place_fence(&p, 100), 0);
    free(card);
}
END_TEST

START_TEST(senseless_variables_are_not_believed) {
    struct place p;

    step_set("5", "5", "0", "3", "0", "2(x2),1");
    ck_assert_int_eq(place_init(&p, 0), 0);
    ck_assert_int_eq(p.how, PLACE_SINGLE);
    step_set("1", "5", "x", "3", "0", "2(x2),1");
    ck_assert_int_eq(place_init(&p, 0), 0);
    ck_assert_int_eq(p.how, PLACE_SINGLE);
}
END_TEST

START_TEST(without_a_pmix_server_slurm_s_variables_speak) {
    struct place p;

    step_set("1", "2", "0", "1", "1", "2");
    setenv("PMIX_NAMESPACE", "nobody.1", 1);
    setenv("PMIX_RANK", "1", 1);
    ck_assert_int_eq(place_init(&p, PLACE_WITH_PMIX), 0);
    ck_assert_int_eq(p.how, PLACE_SLURM);
    ck_assert_int_eq(p.rank, 1);
    place_finalize(&p);
    ck_assert_int_eq(place_init(&p, PLACE_WITH_PMIX | PLACE_AS_TASK), 0);
    ck_assert_int_eq(p.how, PLACE_SLURM);
    ck_assert_ptr_nonnull(strstr(p.trouble, "nobody.1"));
    place_finalize(&p);
    setenv("DDICT_PMIX", "/nonexistent/libpmix.so", 1);
    ck_assert_int_eq(place_init(&p, PLACE_WITH_PMIX), 0); /* the library is open already */
    place_finalize(&p);
    fds_before = fds_open(); /* PMIx may keep some of its own after a refusal */
}
END_TEST

START_TEST(tasks_of_all_nodes_are_read) {
    int counts[5];

    ck_assert_int_eq(slurm_task_counts("2(x3),1", counts, 4), 0);
    ck_assert_int_eq(counts[2], 2);
    ck_assert_int_eq(counts[3], 1);
    ck_assert_int_eq(slurm_task_counts("7", counts, 1), 0);
    ck_assert_int_eq(slurm_task_counts("2(x3),1", counts, 5), -EINVAL);
    ck_assert_int_eq(slurm_task_counts("2(x3),1", counts, 3), -EINVAL);
    ck_assert_int_eq(slurm_task_counts("2(x2000000000)", counts, 5), -EINVAL);
    ck_assert_int_eq(slurm_task_counts(NULL, counts, 1), -EINVAL);
}
END_TEST

static void layout_is(int plane, int size, const char *wanted) {
    int counts[3] = {4, 4, 1}, node_of[9], r;
    char text[10] = "";

    ck_assert_int_eq(slurm_layout(counts, 3, plane, node_of, size), 0);
    for (r = 0; r < size; r++)
        text[r] = (char)('0' + node_of[r]);
    ck_assert_str_eq(text, wanted);
}

/* As Slurm 22.05 laid out nine tasks on nodes that take four, four and one. */
START_TEST(ranks_are_laid_out_as_slurm_does) {
    int counts[2] = {1, 1}, node_of[3];

    layout_is(1 << 30, 9, "000011112");
    layout_is(1, 9, "012010101");
    layout_is(2, 9, "001120011");
    ck_assert_int_eq(slurm_layout(counts, 2, 1, node_of, 3), -EINVAL);
    ck_assert_int_eq(slurm_layout(counts, 2, 1, node_of, 1), -EINVAL);
}
END_TEST

static void cyclic_set(void) { /* rank 4 of "012010101" */
    step_set("4", "9", "1", "3", "1", "4(x2),1");
    setenv("SLURM_GTIDS", "1,4,6,8", 1);
    setenv("SLURM_STEP_NODELIST", "n[1-3]", 1);
    setenv("SLURMD_NODENAME", "n2", 1);
    setenv("SLURM_JOB_ID", "17", 1);
    setenv("SLURM_STEP_ID", "2", 1);
}

START_TEST(a_map_is_made_when_it_fits_this_node) {
    struct place p;

    cyclic_set();
    setenv("SLURM_DISTRIBUTION", "cyclic:block", 1);
    ck_assert_int_eq(place_init(&p, PLACE_AS_TASK), 0);
    ck_assert_int_eq(place_maps(&p), 0);
    ck_assert_str_eq(p.group, "slurm.17.2");
    ck_assert_str_eq(p.names[2], "n3");
    ck_assert_int_eq(p.node_of[3], 0);
    ck_assert_int_eq(p.locals[2], 6);
    place_finalize(&p);
    unsetenv("SLURM_DISTRIBUTION"); /* a site's default may be another than Slurm's */
    ck_assert_int_eq(place_init(&p, PLACE_AS_TASK), 0);
    ck_assert_int_eq(place_maps(&p), 0);
    ck_assert_int_eq(p.node_of[2], 2);
    place_finalize(&p);
}
END_TEST

START_TEST(what_does_not_fit_is_not_guessed) {
    struct place p;

    cyclic_set();
    setenv("SLURM_DISTRIBUTION", "arbitrary", 1);
    ck_assert_int_eq(place_init(&p, PLACE_AS_TASK), 0);
    ck_assert_int_eq(place_maps(&p), 0);
    ck_assert_ptr_null(p.node_of);
    ck_assert_int_eq(p.locals[3], 8);
    place_finalize(&p);
    setenv("SLURM_DISTRIBUTION", "block", 1);
    setenv("SLURMD_NODENAME", "n3", 1); /* not the second of the list */
    ck_assert_int_eq(place_init(&p, PLACE_AS_TASK), 0);
    ck_assert_int_eq(place_maps(&p), 0);
    ck_assert_ptr_null(p.node_of);
    ck_assert_ptr_null(p.names);
    place_finalize(&p);
}
END_TEST

START_TEST(variables_of_another_step_contradict_ours) {
    struct place p;

    cyclic_set();
    /* a batch script's, among those of the step that submitted it */
    setenv("SLURM_GTIDS", "0", 1);
    ck_assert_int_eq(place_init(&p, 0), 0);
    ck_assert_int_eq(p.how, PLACE_SINGLE);
    cyclic_set();
    setenv("SLURM_JOB_NUM_NODES", "1", 1);
    ck_assert_int_eq(place_init(&p, 0), 0);
    ck_assert_int_eq(p.how, PLACE_SINGLE);
    cyclic_set();
    unsetenv("SLURM_JOB_NUM_NODES");
    setenv("PMIX_RANK", "0", 1);
    setenv("PMIX_NAMESPACE", "slurm.pmix.17.1", 1);
    ck_assert_ptr_null(pmix_namespace());
    setenv("PMIX_NAMESPACE", "slurm.pmix.17.2", 1);
    ck_assert_ptr_nonnull(pmix_namespace());
}
END_TEST

START_TEST(of_several_launchers_the_inner_one_counts) {
    struct place p;

    cyclic_set();
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    ck_assert_int_eq(place_init(&p, PLACE_AS_TASK), 0);
    ck_assert_int_eq(p.how, PLACE_MPIRUN);
    ck_assert_int_eq(place_maps(&p), 0);
    ck_assert_int_eq(p.node_id, -1);
    ck_assert_ptr_null(p.locals);
    place_finalize(&p);
    setenv("PMIX_RANK", "4", 1); /* srun --mpi=pmix in a shell that mpirun started */
    setenv("PMIX_NAMESPACE", "slurm.pmix.17.2", 1);
    ck_assert_int_eq(place_init(&p, PLACE_AS_TASK), 0);
    ck_assert_int_eq(p.how, PLACE_SLURM);
    setenv("DDICT_RUN_ID", "a", 1);
    setenv("DDICT_RUN_RANK", "1", 1);
    setenv("DDICT_RUN_SIZE", "2", 1);
    ck_assert_int_eq(place_init(&p, PLACE_AS_TASK), 0);
    ck_assert_int_eq(p.how, PLACE_RUN);
    ck_assert_int_eq(place_maps(&p), 0);
    ck_assert_int_eq(p.node_of[0], 0);
    ck_assert_int_eq(p.locals[1], 1);
    place_finalize(&p);
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    setenv("RANK", "5", 1);
    setenv("WORLD_SIZE", "8", 1);
    setenv("LOCAL_RANK", "1", 1);
    setenv("LOCAL_WORLD_SIZE", "4", 1);
    setenv("GROUP_RANK", "1", 1);
    setenv("GROUP_WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", "n1", 1);
    setenv("MASTER_PORT", "29500", 1);
    ck_assert_int_eq(place_init(&p, PLACE_AS_TASK), 0);
    ck_assert_int_eq(p.how, PLACE_TORCHRUN);
    ck_assert_str_eq(p.group, "torchrun.none.n1.29500.-");
    ck_assert_int_eq(place_maps(&p), 0);
    ck_assert_int_eq(p.node_id, 1);
    ck_assert_int_eq(p.locals[0], 4);
    ck_assert_ptr_null(p.node_of);
    place_finalize(&p);
    setenv("WORLD_SIZE", "5", 1); /* senseless: the next way */
    ck_assert_int_eq(place_init(&p, PLACE_AS_TASK), 0);
    ck_assert_int_eq(p.how, PLACE_RUN);
    place_finalize(&p);
}
END_TEST

/* The group of a worker whose agent is the GROUP_RANK-th of so many, and has counted so many restarts. */
static const char *group_of(const char *agent, const char *agents, const char *count) {
    static struct place p;

    setenv("RANK", agent, 1);
    setenv("WORLD_SIZE", agents, 1);
    setenv("GROUP_RANK", agent, 1);
    setenv("GROUP_WORLD_SIZE", agents, 1);
    setenv("TORCHELASTIC_RESTART_COUNT", count, 1);
    ck_assert_int_eq(place_init(&p, PLACE_AS_TASK), 0);
    ck_assert_int_eq(p.how, PLACE_TORCHRUN);
    place_finalize(&p);
    return p.group;
}

START_TEST(a_round_of_torchrun_has_one_group) {
    clearenv();
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    setenv("LOCAL_RANK", "0", 1);
    setenv("LOCAL_WORLD_SIZE", "1", 1);
    setenv("MASTER_ADDR", "n1", 1);
    setenv("MASTER_PORT", "29501", 1); /* of this round */
    /* a worker of agent 1 had died: it alone has counted that */
    ck_assert_str_eq(group_of("0", "2", "0"), "torchrun.none.n1.29501.-");
    ck_assert_str_eq(group_of("1", "2", "1"), "torchrun.none.n1.29501.-");
    /* one agent may keep the port, and its count is everybody's */
    ck_assert_str_eq(group_of("0", "1", "0"), "torchrun.none.n1.29501.0");
    ck_assert_str_eq(group_of("0", "1", "1"), "torchrun.none.n1.29501.1");
    setenv("DDICT_TORCH_ROUND", "a7", 1); /* of --rdzv-backend=ddict */
    ck_assert_str_eq(group_of("0", "2", "0"), "torchrun.none.n1.29501.a7");
    ck_assert_str_eq(group_of("1", "2", "1"), "torchrun.none.n1.29501.a7");
    ck_assert_str_eq(group_of("0", "1", "1"), "torchrun.none.n1.29501.a7");
}
END_TEST

START_TEST(tasks_of_mpirun_on_one_node_are_numbered_by_rank) {
    struct place p;

    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "2",
           1); /* as Open MPI 6 does with four tasks on two cores */
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 1);
    ck_assert_int_eq(place_init(&p, PLACE_AS_TASK), 0);
    ck_assert_int_eq(p.how, PLACE_MPIRUN);
    ck_assert_int_eq(p.rank, 1);
    ck_assert_int_eq(p.local_rank, 1);
    ck_assert_int_eq(place_maps(&p), 0);
    ck_assert_int_eq(p.locals[p.local_rank], p.rank);
    place_finalize(&p);
}
END_TEST

START_TEST(one_process_holds_the_name_of_a_rank) {
    ck_assert_int_eq(rank_take("unit.test", "3"), 0);
    ck_assert_int_eq(rank_take("unit.test", "3"), -EBUSY);
    rank_leave();
    ck_assert_int_eq(rank_take("unit.test", "3"), 0);
    rank_leave();
}
END_TEST

int main(void) {
    return TESTS_RUN("place_slurm_env", 60, tasks_of_a_node_are_read,
                     a_task_of_a_step_knows_its_place, several_tasks_without_pmix_cannot_exchange,
                     the_batch_script_is_alone, senseless_variables_are_not_believed,
                     without_a_pmix_server_slurm_s_variables_speak, tasks_of_all_nodes_are_read,
                     ranks_are_laid_out_as_slurm_does, a_map_is_made_when_it_fits_this_node,
                     what_does_not_fit_is_not_guessed, variables_of_another_step_contradict_ours,
                     of_several_launchers_the_inner_one_counts, a_round_of_torchrun_has_one_group,
                     tasks_of_mpirun_on_one_node_are_numbered_by_rank,
                     one_process_holds_the_name_of_a_rank);
}
