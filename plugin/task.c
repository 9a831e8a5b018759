/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.c - in the task, as the user, before its program: set the dictionary's name, also if srun's
 * --export left it out. A task whose node has no dictionary ends here, so that no program runs
 * without what it was promised.
 */
#include "task.h"

#include "batch_task.h"
#include "dictionary.h"
#include "gpu.h"
#include "options.h"
#include "task_env.h"
#include "torch.h"
#include <wire/attach.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Find the name of the task's dictionary: the one that srun says, if it is the component's, the
 * step's or the job's. If srun says none (--export=NIL), the step's own comes before the job's.
 * component: the job that it is to Slurm, 0: of no heterogeneous job. 0; -1: no dictionary. */
static int name_find(spank_t sp, uint32_t job, uint32_t step, uint32_t component, const char *node,
                     char name[NAME_CAP]) {
    char said[NAME_CAP], of_job[NAME_CAP], of_component[NAME_CAP + sizeof STEP_COMPONENTS];
    const char *scope = options_value(sp, OPT_SCOPE);

    task_variable(sp, STEP_VARIABLE, said, sizeof said);
    job_name(of_job, job);
    step_name(name, job, step);
    snprintf(of_component, sizeof of_component, "%s" STEP_COMPONENTS, name);
    if (component != 0 && step <= STEP_MAX &&
        (strcmp(said, of_component) == 0 ||
         (scope && strcmp(scope, "component") == 0 && options_of_step(sp)))) {
        component_name(name, job, step, component);
        return 0;
    }
    if (step <= STEP_MAX && strcmp(said, name) == 0)
        return 0;
    if (strcmp(said, of_job) == 0) {
        strcpy(name, of_job);
        return 0;
    }
    if (step > STEP_MAX || strcmp(said, STEP_NONE) == 0 || !options_of_step(sp))
        return -1;
    if (*node != '\0' && !dictionary_is_here(name, node) && dictionary_is_here(of_job, node))
        strcpy(name, of_job);
    return 0;
}

/*
 * Order the task's GPUs and set the variables of torch, as srun decided. If srun says nothing
 * (--export=NIL), the step's options count; the site's are not known here. Asks the node's ddictd.
 * Failures end no task: the first task of each node tells them.
 */
static void gpus_and_torch_prepare(spank_t sp, const char *name, uint32_t job, uint32_t step,
                                   uint32_t component) {
    char of_component[NAME_CAP], said[64], how[16], who[16], torch[8], more;
    const char *bind = options_value(sp, OPT_GPU_BIND), *env = options_value(sp, OPT_TORCH_ENV);

    task_variable(sp, TASKS_VARIABLE, said, sizeof said);
    if (sscanf(said, "%15s %15s %7s %c", how, who, torch, &more) != 3) {
        snprintf(how, sizeof how, "%s", bind ? bind : option_rows[OPT_GPU_BIND].otherwise.text);
        snprintf(who, sizeof who, "%s", bind ? "user" : "default");
        snprintf(torch, sizeof torch, "%s", env ? env : option_rows[OPT_TORCH_ENV].otherwise.text);
    }
    gpu_prepare(sp, how, strcmp(who, "user") == 0);
    component_name(of_component, job, step, component);
    torch_prepare(sp, strcmp(torch, "no") != 0, name, job, step, strcmp(name, of_component) != 0);
}

/* The first task of the node tells why. */
static void task_end(spank_t sp, const char *why, const char *name) {
    int local = 0;

    spank_get_item(sp, S_TASK_ID, &local);
    if (local == 0)
        dprintf(STDERR_FILENO, "ddict: %s %s, the tasks here are not started\n", why, name);
    _exit(1);
}

void task_begin(spank_t sp, int ac, char **av) {
    char name[NAME_CAP], of_job[NAME_CAP], node[128], refused[NAME_CAP];
    uint32_t job, step, component;
    char het[16], id[16];
    int i;

    if (spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_STEPID, &step) != ESPANK_SUCCESS) {
        if (options_of_step(sp) || *task_variable(sp, STEP_VARIABLE, name, sizeof name) != '\0' ||
            *task_variable(sp, JOB_VARIABLE, node, sizeof node) != '\0')
            task_end(sp, "Slurm does not say which step this is; no", "dictionary");
        return;
    }
    if (step == STEP_BATCH) {
        batch_task(sp, job, ac, av);
        return;
    }
    task_variable(sp, "SLURM_HET_SIZE", het, sizeof het);
    component = *het != '\0' ? job : 0;
    job = job_of_component(job, het, task_variable(sp, "SLURM_JOB_ID", id, sizeof id));
    task_variable(sp, "SLURMD_NODENAME", node, sizeof node);
    task_variable(sp, REFUSED_VARIABLE, refused, sizeof refused);
    step_name(name, job, step);
    job_name(of_job, job);
    if (strcmp(refused, name) == 0 || strcmp(refused, of_job) == 0)
        _exit(1); /* srun has said why */
    if (name_find(sp, job, step, component, node, name) < 0)
        return;
    if (*node != '\0' && !dictionary_is_here(name, node)) {
        char why[160];

        snprintf(why, sizeof why, "node %s has no dictionary", node);
        task_end(sp, why, name);
    }
    if (spank_setenv(sp, "DDICT_NAME", name, 1) != ESPANK_SUCCESS)
        task_end(sp, "Slurm does not take the name of the dictionary", name);
    if (strcmp(name, of_job) != 0)
        options_forget(sp);
    spank_unsetenv(sp, "DDICT_NODE");
    spank_unsetenv(sp, STEP_VARIABLE);
    spank_unsetenv(sp, JOB_VARIABLE);
    for (i = 0; i < OPTS; i++) /* an srun of the program must not ask again */
        if ((option_rows[i].of & ONCE) != 0)
            spank_unsetenv(sp, option_rows[i].variable);
    if (step <= STEP_MAX)
        gpus_and_torch_prepare(sp, name, job, step, component);
    spank_unsetenv(sp, TASKS_VARIABLE);
    task_first();
}
