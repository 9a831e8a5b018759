/* SPDX-License-Identifier: Apache-2.0 */
/* task_env.c - in a task that has a dictionary, before its program: what task.c, batch_task.c,
 * gpu.c and torch.c share. */
#include "task_env.h"

#include <base/oom.h>

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

extern char **environ;

static int oom_fd = -1;

void task_prepare(void) {
    if (oom_fd < 0)
        oom_fd = oom_open();
}

/* If the kernel refuses, the task runs all the same. */
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
