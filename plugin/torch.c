/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.c - in a task, as the user: set the variables that init_process_group("env://") reads.
 * Those that the user set stay. MASTER_ADDR and MASTER_PORT are both of rank 0, so if the user set
 * one of them, ours fits beside it.
 */
#include "torch.h"

#include "task_env.h"
#include <base/error.h>
#include <base/size.h>
#include <place/meet_ask.h>
#include <place/torch_env.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct torch {
    spank_t sp;
    char before[TORCH_MARK_MAX], mark[TORCH_MARK_MAX]; /* of who started the step; ours */
    int failed;
};

static int is_users(const struct torch *t, int i) {
    char value[256];
    spank_err_t rc = spank_getenv(t->sp, torch_names[i], value, sizeof value);

    return (rc == ESPANK_SUCCESS || rc == ESPANK_NOSPACE) &&
           torch_is_users(t->before, torch_names[i], value);
}

static void variable_set(struct torch *t, int i, const char *value) {
    if (is_users(t, i))
        return;
    if (spank_setenv(t->sp, torch_names[i], value, 1) != ESPANK_SUCCESS)
        t->failed = 1;
    else
        torch_mark_add(t->mark, torch_names[i], value);
}

static void set_number(struct torch *t, int i, uint32_t n) {
    char text[16];

    snprintf(text, sizeof text, "%" PRIu32, n);
    variable_set(t, i, text);
}

static void variables_forget(struct torch *t) {
    int i;

    for (i = 0; t->before[0] != '\0' && i < TORCH_VARS; i++)
        if (!is_users(t, i))
            spank_unsetenv(t->sp, torch_names[i]);
    spank_unsetenv(t->sp, TORCH_MARK);
}

/* Not fatal: the program may not need it. */
static void rendezvous_request(struct torch *t, const char *name, uint32_t job, uint32_t step,
                               uint32_t rank) {
    struct meeting_place place;
    char id[32], **before;
    int rc;

    if (is_users(t, TORCH_ADDR) && is_users(t, TORCH_PORT))
        return;
    snprintf(id, sizeof id, "%" PRIu32 ".%" PRIu32, job, step);
    if (task_environ_enter(t->sp, &before) < 0) {
        t->failed = 1;
        return;
    }
    rc = meet_ask_place(&place, name, id, rank);
    task_environ_leave(before);
    if (rc < 0) {
        task_say(t->sp, "MASTER_ADDR and MASTER_PORT are not set: %s", dd_errmsg());
        return;
    }
    variable_set(t, TORCH_ADDR, place.address);
    variable_set(t, TORCH_PORT, place.port);
}

/* The number that the variable says; *n stays if it says none. */
static void whole_step(spank_t sp, const char *name, uint32_t *n) {
    char text[16];
    uint64_t value;

    if (count_parse(task_variable(sp, name, text, sizeof text), 0, UINT32_MAX, &value) == 0)
        *n = (uint32_t)value;
}

void torch_prepare(spank_t sp, int wanted, const char *name, uint32_t job, uint32_t step,
                   int whole) {
    struct torch t = {.sp = sp};
    uint32_t rank, world, local_world, node;
    char text[16];
    int local;

    task_variable(sp, TORCH_MARK, t.before, sizeof t.before);
    variables_forget(&t);
    if (!wanted)
        return;
    if (spank_get_item(sp, S_TASK_GLOBAL_ID, &rank) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_TASK_ID, &local) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_TOTAL_TASK_COUNT, &world) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &local_world) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_NODEID, &node) != ESPANK_SUCCESS) {
        task_say(sp, "the variables of torch are not set: Slurm does not say which task this is");
        return;
    }
    /* of a heterogeneous step SPANK counts the tasks of this component alone */
    if (whole && *task_variable(sp, "SLURM_HET_SIZE", text, sizeof text) != '\0') {
        whole_step(sp, "SLURM_PROCID", &rank);
        whole_step(sp, "SLURM_STEP_NUM_TASKS", &world);
        whole_step(sp, "SLURM_NODEID", &node);
    }
    set_number(&t, TORCH_RANK, rank);
    set_number(&t, TORCH_LOCAL_RANK, (uint32_t)local);
    set_number(&t, TORCH_WORLD_SIZE, world);
    set_number(&t, TORCH_LOCAL_WORLD_SIZE, local_world);
    set_number(&t, TORCH_GROUP_RANK, node);
    rendezvous_request(&t, name, job, step, rank);
    if (t.mark[0] != '\0')
        spank_setenv(sp, TORCH_MARK, t.mark, 1);
    if (t.failed)
        task_say(sp, "not all variables of torch are set: Slurm does not take them");
}
