/* SPDX-License-Identifier: Apache-2.0 */
/* place_slurm_env.c - where am I without PMIx: the variables of a step, or alone. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "place/backend.h"

#include "launch_test.h"

/* PMIx keeps four bytes of its own after a refusal. */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__lsan_default_suppressions(void) { return "leak:libpmix\n"; }

static void step_set(const char *procid, const char *tasks, const char *node, const char *nodes, const char *local, const char *per_node) {
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
    ck_assert_int_eq(place_init(&p, 1), 0);
    ck_assert_int_eq(p.how, PLACE_SLURM);
    ck_assert_int_eq(p.rank, 1);
    place_finalize(&p);
    fds_before = fds_open(); /* PMIx may keep some of its own after a refusal */
}
END_TEST

int main(void) {
    return TESTS_RUN("place_slurm_env", 20, tasks_of_a_node_are_read, a_task_of_a_step_knows_its_place,
                     several_tasks_without_pmix_cannot_exchange, the_batch_script_is_alone, senseless_variables_are_not_believed,
                     without_a_pmix_server_slurm_s_variables_speak);
}
