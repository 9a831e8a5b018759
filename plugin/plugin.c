/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - ddict.so for Slurm: what is called in which process. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "plugin.h"

SPANK_PLUGIN(ddict, 1)

#define STEP_MAX 0xfffffff0u /* above: batch script, interactive, extern */

int slurm_spank_init(spank_t sp, int ac, char **av) {
    switch (spank_context()) {
    case S_CTX_LOCAL: return options_register(sp, 1);
    case S_CTX_ALLOCATOR:
    case S_CTX_REMOTE: return options_register(sp, 0);
    default: return 0;
    }
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av) {
    switch (spank_context()) {
    case S_CTX_LOCAL: options_judge(ac, av); return 0;
    case S_CTX_ALLOCATOR: options_refuse(); return 0;
    default: return 0;
    }
}

int slurm_spank_local_user_init(spank_t sp, int ac, char **av) {
    if (options_given())
        local_begin(sp);
    return 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av) {
    if (spank_context() == S_CTX_REMOTE)
        remote_task(sp);
    return 0;
}

int slurm_spank_exit(spank_t sp, int ac, char **av) {
    if (spank_context() == S_CTX_LOCAL)
        local_end();
    return 0;
}

int dictionary_name(spank_t sp, unsigned uid, char *name, size_t cap) {
    uint32_t job, step;

    if (spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS || spank_get_item(sp, S_JOB_STEPID, &step) != ESPANK_SUCCESS ||
        step > STEP_MAX)
        return -1;
    snprintf(name, cap, "%u.%" PRIu32 ".%" PRIu32, uid, job, step);
    return 0;
}

void fail(const char *fmt, ...) {
    char text[768];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    slurm_error("ddict: %s", text);
    exit(1);
}
