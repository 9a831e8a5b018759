/* SPDX-License-Identifier: Apache-2.0 */
/* down.c - end a dictionary from a host that has none of its managers. */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/defaults.h"
#include "base/error.h"
#include "launch/command.h"
#include "launch/hidden.h"
#include "launch/launch.h"
#include "launch/reason.h"
#include "launch/step.h"

extern char **environ;

/* "uid.job.step" -> job; 0 or -ENOENT. */
static int job_of(const char *name, char *job, size_t cap) {
    const char *dot = strchr(name, '.');
    size_t n = dot != NULL ? strspn(dot + 1, "0123456789") : 0;

    if (n == 0 || dot[1 + n] != '.' || n >= cap)
        return -ENOENT;
    memcpy(job, dot + 1, n);
    job[n] = '\0';
    return 0;
}

static int down_run(const char *srun, const char *job, const char *node, const char *name, char *const *envp) {
    char self[PATH_MAX], **argv, *text;
    const char *program[] = { self, "down", "--name", name, NULL };
    struct hidden h = { .srun = srun, .job = job, .nodelist = node, .nodes = 1, .mpi = "none", .program = program };
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    int rc;

    if (n < 0)
        return dd_error(-errno, "/proc/self/exe: %s", strerror(errno));
    self[n] = '\0';
    argv = hidden_argv(&h);
    if (argv == NULL)
        return -ENOMEM;
    rc = command_read(argv, envp, DD_SCONTROL_MS, &text);
    if (rc == 0) {
        free(text);
    } else {
        static const char head[] = "ddict: ";
        char why[DD_ERRMSG_MAX];

        reason_read(dd_errmsg(), strlen(dd_errmsg()), why, sizeof why);
        dd_error(rc, "%s", strncmp(why, head, sizeof head - 1) == 0 ? why + sizeof head - 1 : why);
    }
    argv_free(argv);
    return rc;
}

int launch_down(const char *name) {
    char job[32], srun[PATH_MAX], scontrol[PATH_MAX];
    struct step step = { 0 };
    char **envp;
    int rc;

    if (job_of(name, job, sizeof job) < 0 || command_find("srun", srun, sizeof srun) < 0 ||
        command_beside(srun, "scontrol", scontrol, sizeof scontrol) < 0)
        return -ENOENT;
    envp = command_environment(environ, 0);
    if (envp == NULL)
        return -ENOMEM;
    rc = step_look(&step, scontrol, envp, job, NULL);
    if (rc == 0)
        rc = down_run(srun, job, step.nodes.names[0], name, envp);
    step_free(&step);
    free(envp);
    return rc;
}
