/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local.c - in srun: `ddict up` is our child, in a session of its own (^C is not for it), with pipes for stdin and stdout. While
 * srun lives the write end of its stdin is open; it closes at our end, and also when srun is killed. HANDSHAKE 3.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/defaults.h"
#include "base/error.h"
#include "base/size.h"
#include "launch/command.h"
#include "launch/lines.h"
#include "plugin.h"

#define SLICE_MS 500
#define SPARE_MS 30000 /* `ddict up` has the deadlines; ours are later and only for the case that it hangs itself */
#define LINE_KEPT 4096 /* longer lines (the report) are not for us */

/*
 * An srun that ends between the creation of its step and the launch leaves the step behind until the job ends; in an
 * allocation of its own that is at once, in a longer one the step would block the nodes. There the launch goes on, and
 * the tasks end before their program begins (remote.c) by this variable. Its value is the dictionary's name: what the user
 * exports stays in the tasks' environment whatever is unset here.
 */
#define REFUSED "DDICT_REFUSED"

extern char **environ;

static struct up {
    pid_t pid;    /* 0: none */
    int in, out;  /* our ends */
    int ready, ended;
    char why[DD_ERRMSG_MAX];
    struct lines lines;
} up = { .in = -1, .out = -1, .lines = { .max = LINE_KEPT } };

static void on_line(void *arg, char *line) {
    const char *rest;

    switch (line_parse(line, &rest)) {
    case LINE_READY: up.ready = 1; break;
    case LINE_END: up.ended = 1; break;
    case LINE_ERROR:
        if (up.why[0] == '\0')
            snprintf(up.why, sizeof up.why, "%s", rest);
        break;
    default: break;
    }
}

static volatile sig_atomic_t interrupted;

static void on_signal(int sig) {
    interrupted = 1;
}

/*
 * While we wait srun has a thread that takes its signals and would only note them. The main thread is served first when it has
 * them unblocked, so a single ^C ends the waiting.
 */
static void signals_take(int take, sigset_t *mask_before, struct sigaction before[4]) {
    static const int signals[4] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct sigaction ours = { .sa_handler = on_signal };
    sigset_t set;
    int i;

    sigemptyset(&set);
    for (i = 0; i < 4; i++) {
        sigaddset(&set, signals[i]);
        if (take)
            sigaction(signals[i], &ours, &before[i]);
    }
    if (take)
        pthread_sigmask(SIG_UNBLOCK, &set, mask_before);
    else
        pthread_sigmask(SIG_SETMASK, mask_before, NULL);
    for (i = 0; i < 4 && !take; i++)
        sigaction(signals[i], &before[i], NULL);
}

/* Follow its lines until it is ready (or failed), or until its end; -1 when that took too long. */
static int up_follow(int until_end, int timeout_ms) {
    struct deadline limit;
    int left;

    deadline_start(&limit, timeout_ms);
    while (until_end || (!up.ready && up.why[0] == '\0')) {
        struct pollfd p = { .fd = up.out, .events = POLLIN };
        char buf[4096];
        ssize_t n;

        left = deadline_left(&limit, SLICE_MS);
        if (left == 0)
            return -1;
        if (interrupted && !until_end)
            return 0;
        if (poll(&p, 1, left) <= 0)
            continue;
        n = read(up.out, buf, sizeof buf);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            return 0;
        if (n > 0)
            lines_feed(&up.lines, buf, (size_t)n, on_line, NULL);
    }
    return 0;
}

/* It has closed its stdout, or is to be killed. srun may have reaped it: ECHILD is as good. */
static void up_reap(int kill_it) {
    int i;

    if (kill_it)
        kill(up.pid, SIGKILL);
    for (i = 0; i < 100 && waitpid(up.pid, NULL, WNOHANG) == 0; i++)
        poll(NULL, 0, 10);
    up.pid = 0;
    close(up.out);
    up.out = -1;
    lines_free(&up.lines);
}

static int up_spawn(char *const *argv) {
    int in[2], out[2], rc;

    if (pipe2(in, O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(out, O_CLOEXEC) < 0) {
        rc = -errno;
        close(in[0]);
        close(in[1]);
        return rc;
    }
    rc = command_spawn(argv, environ, in[0], out[1], STDERR_FILENO);
    close(in[0]);
    close(out[1]);
    if (rc < 0) {
        close(in[1]);
        close(out[0]);
        return rc;
    }
    up.pid = rc;
    up.in = in[1];
    up.out = out[0];
    return 0;
}

static const char *argument(const char *value) {
    return value != NULL ? value : "";
}

static void give_up(const char *name, const char *why) {
    if (!options_in_job())
        fail("%s", why);
    slurm_error("ddict: %s", why);
    setenv(REFUSED, name, 1);
}

/* Wait until it is ready; else the sentence that says why not, and nothing is left of it. */
static const char *up_wait(int timeout_ms) {
    struct sigaction before[4];
    sigset_t mask;
    int rc;

    signals_take(1, &mask, before);
    rc = up_follow(0, timeout_ms);
    signals_take(0, &mask, before);
    if (up.ready)
        return NULL;
    close(up.in);
    up.in = -1;
    if (rc == 0) /* it says why when it has cleaned up */
        up_follow(1, 4 * DD_STOP_MS);
    up_reap(rc < 0);
    if (interrupted)
        return "interrupted before the managers were ready";
    if (up.why[0] != '\0')
        return up.why;
    return rc < 0 ? "no answer from `ddict up`" : "`ddict up` ended without a word";
}

void local_begin(spank_t sp) {
    const struct ask_options *ask = options_get();
    const struct site *site = options_site();
    char name[64], job[16], step[16], srun[PATH_MAX];
    char managers[64], mem[64], mpi[80], timeout[64];
    const char *argv[24] = { site->ddict, "up", "--plugin", "--name", name, "--jobid", job, "--step", step, "--srun", srun };
    int n = 11, rc;
    uint64_t start_s = DD_STEP_CREATE_MS / 1000;
    uint32_t id;
    const char *why;
    ssize_t len;

    if (dictionary_name(sp, geteuid(), name, sizeof name) < 0)
        return; /* salloc's own srun for an interactive step: the variables are for the user's steps in it */
    spank_get_item(sp, S_JOB_ID, &id);
    snprintf(job, sizeof job, "%" PRIu32, id);
    spank_get_item(sp, S_JOB_STEPID, &id);
    snprintf(step, sizeof step, "%" PRIu32, id);
    len = readlink("/proc/self/exe", srun, sizeof srun - 1);
    snprintf(srun + (len > 0 ? len : 0), sizeof srun - (size_t)(len > 0 ? len : 0), "%s", len > 0 ? "" : "srun");
    snprintf(managers, sizeof managers, "--managers=%s", argument(ask->managers));
    snprintf(mem, sizeof mem, "--mem=%s", argument(ask->mem));
    snprintf(mpi, sizeof mpi, "--mpi=%s", argument(site->mpi));
    snprintf(timeout, sizeof timeout, "--start-timeout=%s", argument(site->start_timeout));
    if (ask->managers != NULL)
        argv[n++] = managers;
    if (ask->mem != NULL)
        argv[n++] = mem;
    if (site->mpi != NULL)
        argv[n++] = mpi;
    if (site->start_timeout != NULL && count_parse(site->start_timeout, 1, 86400, &start_s) == 0) /* judged before */
        argv[n++] = timeout;
    unsetenv("DDICT_MANAGERS"); /* judged and in argv; not for `ddict up` */
    unsetenv("DDICT_MEM");
    if (access(site->ddict, X_OK) < 0) {
        snprintf(up.why, sizeof up.why, "%s: %s (plugstack.conf: ddict=PATH)", site->ddict, strerror(errno));
        give_up(name, up.why);
        return;
    }
    rc = up_spawn((char *const *)(uintptr_t)argv);
    why = rc < 0 ? strerror(-rc) : up_wait((int)start_s * 1000 + DD_READY_MS + SPARE_MS);
    if (why != NULL) {
        give_up(name, why);
        return;
    }
    setenv("DDICT_NAME", name, 1);
}

void local_end(void) {
    int rc;

    if (up.pid == 0)
        return;
    close(up.in);
    up.in = -1;
    rc = up_follow(1, DD_DRAIN_MS + DD_DRAIN_GRACE_MS + 4 * DD_STOP_MS);
    up_reap(rc < 0);
    if (up.why[0] != '\0')
        slurm_error("ddict: %s", up.why);
    else if (!up.ended)
        slurm_error("ddict: %s", rc < 0 ? "the managers did not end in time" : "`ddict up` was killed; the dictionary is gone");
}
