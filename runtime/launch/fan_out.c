/* SPDX-License-Identifier: Apache-2.0 */
/* fan_out.c - one process on each node of a dictionary. */
#include "fan_out.h"

#include "command.h"
#include "launch.h"
#include "reason.h"
#include "relay.h"
#include "srun_leave.h"
#include "startup_lines.h"
#include "step.h"
#include "step_argv.h"
#include "up_run_common.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/io.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLICE_MS 100
#define END_MS   40000 /* from our SIGTERM to srun's end: above KillWait's default of 30 s */
#define EXITED   "Exited with exit code "
#define KEPT     4 /* lines of srun's own, shown when nobody else says why it failed */

extern char **environ;

struct running {
    const struct spread *s;
    pid_t pid;
    int sruns; /* pid is `ddict sruns` */
    int told;  /* somebody but srun said something */
    int sig;   /* we were told to end */
    /* exit code of the first process that failed by itself. srun's own can be that of a process
     * which srun ended because of the first */
    int code;
    char kept[KEPT][256];
    int nkept;
};

/* srun's own lines repeat what the program said, or tell that it was ended as we wanted. */
static void on_error_line(void *arg, char *line) {
    struct running *r = arg;

    if (reason_is_slurm(line)) {
        const char *exited = strstr(line, EXITED);
        int code = exited ? atoi(exited + strlen(EXITED)) : 0;

        if (r->code == 0 && code > 0 && code < 128)
            r->code = code;
        if (!exited && !strstr(line, "Terminating StepId") && !strstr(line, "Job step aborted") &&
            r->nkept < KEPT)
            snprintf(r->kept[r->nkept++], sizeof r->kept[0], "%s", line);
        return;
    }
    r->told = 1;
    r->s->on_line(line);
}

static int input_make(const struct spread *s) {
    int fd = memfd_create("ddict-input", MFD_CLOEXEC), rc;

    if (fd < 0)
        return dd_error(-errno, "memfd_create: %s", strerror(errno));
    rc = write_all(fd, s->input, s->input_len);
    if (rc == 0 && lseek(fd, 0, SEEK_SET) < 0)
        rc = -errno;
    if (rc == 0)
        return fd;
    close(fd);
    return dd_error(rc, "cannot hand over what is to be done: %s", strerror(-rc));
}

/* Until srun ends. */
static int running_follow(struct running *r, int err) {
    struct lines lines = {.max = 65536};
    struct deadline limit;
    int status = 0, reaped = 0, i;
    char buf[16384];
    ssize_t n;

    while (err >= 0 || !reaped) {
        struct pollfd p = {.fd = err, .events = POLLIN};

        if (poll(&p, 1, err >= 0 ? SLICE_MS : 10) > 0) {
            n = read(err, buf, sizeof buf);
            if (n > 0)
                lines_feed(&lines, buf, (size_t)n, on_error_line, r);
            else if (n == 0 || errno != EINTR)
                err = -1;
        }
        if (!reaped && waitpid(r->pid, &status, WNOHANG) == r->pid) {
            reaped = 1;
            continue; /* it may have written more since we looked */
        }
        if (r->sig == 0 && (r->sig = r->s->signal_came()) != 0) {
            kill(r->pid, SIGTERM);
            deadline_start(&limit, END_MS);
        }
        if (r->sig != 0 && !reaped && deadline_over(&limit)) {
            if (r->sruns)
                srun_children_kill(r->pid); /* the child of each srun ends its step */
            kill(r->pid, SIGKILL);
        }
        if (reaped && err >= 0 && p.revents == 0)
            break; /* somebody else has the other end */
    }
    lines_free(&lines);
    if (r->sig != 0)
        return 128 + r->sig;
    for (i = 0; status != 0 && !r->told && i < r->nkept; i++)
        r->s->on_line(r->kept[i]);
    if (r->code != 0 && WIFEXITED(status) && WEXITSTATUS(status) > 128)
        return r->code;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int running_start(const struct spread *s, const char *srun, const char *job,
                         const struct step *step, char *const *envp) {
    struct hidden h = {.srun = srun,
                       .job = job,
                       .parts = step->parts,
                       .nparts = step->nparts,
                       .mpi = "none",
                       .program = s->program,
                       .together = 1};
    struct running r = {.s = s};
    int err[2] = {-1, -1}, in = input_make(s), rc = in;
    char **argv = hidden_argv(&h);

    if (rc >= 0)
        rc = !argv ? -ENOMEM
             : pipe2(err, O_CLOEXEC) < 0
                 ? dd_error(-errno, "cannot make pipes: %s", strerror(errno))
                 : 0;
    signal(SIGCHLD, SIG_DFL);
    if (rc == 0)
        rc = command_spawn(argv, envp, in, 1, err[1]);
    if (in >= 0)
        close(in);
    if (err[1] >= 0)
        close(err[1]);
    if (rc > 0) {
        r.pid = rc;
        r.sruns = argv_has_sruns(argv);
        rc = running_follow(&r, err[0]);
    }
    if (err[0] >= 0)
        close(err[0]);
    argv_free(argv);
    return rc;
}

int launch_spread(const struct spread *s) {
    char job[32], srun[4096];
    struct step step = {0};
    char **envp = NULL;
    int rc = relay_find(s->name, job, sizeof job, srun, sizeof srun, &step, &envp);

    if (rc == 0 && !(envp = command_environment_more(envp, environ, s->variables)))
        rc = -ENOMEM;
    if (rc == 0)
        rc = running_start(s, srun, job, &step, envp);
    step_free(&step);
    free(envp);
    return rc;
}
