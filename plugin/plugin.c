/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - ddict.so for Slurm: what is called in which process. */
#include "plugin.h"

#include "batch_end.h"
#include "options.h"
#include "slurmd_log.h"
#include "srun.h"
#include "srun_detach.h"
#include "task.h"
#include "task_env.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

SPANK_PLUGIN(ddict, 1)

int slurm_spank_init(spank_t sp, int ac, char **av) {
    switch (spank_context()) {
    case S_CTX_LOCAL:
    case S_CTX_ALLOCATOR:
        options_register(sp, 1);
        return 0;
    case S_CTX_REMOTE:
        options_register(sp, 0);
        return 0;
    default:
        return 0;
    }
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av) {
    switch (spank_context()) {
    case S_CTX_LOCAL:
        options_judge(sp, ac, av);
        return 0;
    case S_CTX_ALLOCATOR:
        options_judge(sp, ac, av);
        options_pass_on(sp);
        return 0;
    default:
        return 0;
    }
}

int slurm_spank_local_user_init(spank_t sp, int ac, char **av) {
    if (options_inert())
        srun_detach_prepare();
    srun_step_begin(sp, ac, av);
    return 0;
}

int slurm_spank_user_init(spank_t sp, int ac, char **av) {
    if (spank_context() == S_CTX_REMOTE) {
        slurmd_log_prepare(sp);
        batch_end_prepare(sp);
    }
    return 0;
}

int slurm_spank_task_init_privileged(spank_t sp, int ac, char **av) {
    if (spank_context() == S_CTX_REMOTE)
        task_prepare();
    return 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av) {
    if (spank_context() == S_CTX_REMOTE) {
        slurmd_log_hand_over(sp);
        task_begin(sp, ac, av);
    }
    return 0;
}

int slurm_spank_task_exit(spank_t sp, int ac, char **av) {
    if (spank_context() == S_CTX_REMOTE) {
        slurmd_log_write();
        batch_end_wait();
    }
    return 0;
}

int slurm_spank_exit(spank_t sp, int ac, char **av) {
    if (spank_context() == S_CTX_LOCAL)
        srun_step_end();
    return 0;
}

void step_name(char name[NAME_CAP], unsigned job, unsigned step) {
    snprintf(name, NAME_CAP, "%u.%u.%u", geteuid(), job, step);
}

void job_name(char name[NAME_CAP], unsigned job) {
    snprintf(name, NAME_CAP, "%u.%u.job", geteuid(), job);
}

void plugin_fail(const char *fmt, ...) {
    char text[768];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    slurm_error("ddict: %s", text);
    exit(1);
}
