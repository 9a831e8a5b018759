/* SPDX-License-Identifier: Apache-2.0 */
/* task_env.c - in a task that has a dictionary, before its program: what srun decided for the
 * tasks, and what gpu.c and torch.c share. */
#include "task_env.h"

#include "gpu.h"
#include "options.h"
#include "plugin.h"
#include "torch.h"
#include <base/oom.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static int oom_fd = -1;

void task_prepare(void) {
    if (oom_fd < 0)
        oom_fd = oom_open();
}

/* what refuses it (a kernel without it) is no reason not to run */
void task_first(void) {
    (void)oom_first_by(&oom_fd);
}

const char *task_variable(spank_t sp, const char *name, char *buf, int cap) {
    spank_err_t rc = spank_getenv(sp, name, buf, cap);

    if (rc != ESPANK_SUCCESS && rc != ESPANK_NOSPACE) /* it cuts what is longer */
        buf[0] = '\0';
    return buf;
}

int task_environ_enter(spank_t sp, char ***before) {
    char **env = NULL;

    if (spank_get_item(sp, S_JOB_ENV, &env) != ESPANK_SUCCESS || !env)
        return -1;
    *before = environ;
    environ = env;
    return 0;
}

void task_environ_leave(char **before) {
    environ = before;
}

void task_say(spank_t sp, const char *fmt, ...) {
    char text[768];
    int local = 0;
    va_list ap;

    spank_get_item(sp, S_TASK_ID, &local);
    if (local != 0)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dprintf(STDERR_FILENO, "ddict: %s\n", text);
}

/* Without srun's word (--export=NIL) what the step's options say; the site's are not known here. */
void tasks_prepare(spank_t sp, const char *name, uint32_t job, uint32_t step) {
    char said[64], how[16], who[16], torch[8], more;
    const char *bind = options_value(sp, OPT_GPU_BIND), *env = options_value(sp, OPT_TORCH_ENV);

    task_variable(sp, TASKS_VARIABLE, said, sizeof said);
    if (sscanf(said, "%15s %15s %7s %c", how, who, torch, &more) != 3) {
        snprintf(how, sizeof how, "%s", bind ? bind : option_rows[OPT_GPU_BIND].otherwise.text);
        snprintf(who, sizeof who, "%s", bind ? "user" : "default");
        snprintf(torch, sizeof torch, "%s", env ? env : option_rows[OPT_TORCH_ENV].otherwise.text);
    }
    gpu_prepare(sp, how, strcmp(who, "user") == 0);
    torch_prepare(sp, strcmp(torch, "no") != 0, name, job, step);
}
