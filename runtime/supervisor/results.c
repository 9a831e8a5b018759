/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results.c - --results: `ddict results` is a child of the ddictd that decides. It is a client as any other
 * from ready until it detaches: as the last client, or when the time to drain is over. If it dies it is
 * started again. Its stderr goes to the user as warnings.
 */
#include "results.h"

#include "control.h"
#include "startup_output.h"
#include "supervisor.h"
#include <base/log.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGAIN_MS 1000u /* from its death to the next one */
/* in all; a folder that cannot be made now will not be made later */
#define TRIES    5u
#define WARNINGS 20u /* number of lines of its stderr that are passed on */

struct results {
    struct supervisor *s;
    pid_t pid;             /* 0: none */
    struct io_handler err; /* its stderr; fd -1: ended */
    struct timer again;
    unsigned tries, said;
    char line[512];
    size_t len;
};
static struct results results = {.err.fd = -1};

static void warning_print(void) {
    results.line[results.len] = 0;
    results.len = 0;
    if (results.line[0] && results.said++ < WARNINGS)
        startup_print("warn %s", results.line);
}

static void err_close(void) {
    if (results.err.fd < 0)
        return;
    io_remove(results.s->epoll_fd, &results.err);
    close(results.err.fd);
    results.err.fd = -1;
    warning_print();
}

static void err_ready(struct io_handler *h, uint32_t events) {
    char buf[512];
    ssize_t n = read(h->fd, buf, sizeof buf);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    for (ssize_t i = 0; i < n; i++) {
        if (buf[i] == '\n')
            warning_print();
        else if (results.len < sizeof results.line - 1)
            results.line[results.len++] = buf[i];
    }
    if (n <= 0)
        err_close();
}

void program_find(char *path, size_t cap) {
    ssize_t n = readlink("/proc/self/exe", path, cap - 1);
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    if (slash && (size_t)(slash - path) + sizeof "/ddict" <= cap) {
        strcpy(slash, "/ddict");
        if (access(path, X_OK) == 0)
            return;
    }
    snprintf(path, cap, "%s", DDICT_BINDIR "/ddict");
}

static void results_child(struct supervisor *s, int err, pid_t parent) __attribute__((noreturn));
static void results_child(struct supervisor *s, int err, pid_t parent) {
    char path[PATH_MAX];
    sigset_t none;
    int null = open("/dev/null", O_RDWR);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGTERM,
           SIG_IGN); /* Slurm sends it to the whole step; results end with the dictionary */
    program_find(path, sizeof path);
    dup2(null, 0);
    dup2(null, 1);
    dup2(err, 2);
    close_range(3, ~0u, 0);
    setenv("DDICT_NODE", s->node, 1);
    execl(path, "ddict", "results", "--until-end", "--to", s->opt.results, "--name", s->opt.name,
          (char *)NULL);
    dprintf(2, "%s: %s\n", path, strerror(errno));
    _exit(127);
}

static void results_child_start(struct supervisor *s) {
    int pair[2];
    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0) {
        startup_print("warn results are not written: %s", strerror(errno));
        return;
    }
    pid_t parent = getpid();
    err_close();
    results.pid = fork();
    if (results.pid == 0)
        results_child(s, pair[1], parent);
    close(pair[1]);
    results.err = (struct io_handler){.fd = pair[0], .ready = err_ready};
    results.tries++;
    if (results.pid < 0 || io_add(s->epoll_fd, &results.err, EPOLLIN) < 0) {
        startup_print("warn results are not written: %s", strerror(errno));
        close(pair[0]);
        results.err.fd = -1;
        if (results.pid < 0)
            results.pid = 0;
    }
}

static void again_fire(struct timer *t) {
    if (results.s->stage == STAGE_READY)
        results_child_start(results.s);
}

void results_start(struct supervisor *s) {
    if (!s->opt.results || !control_decides(s) || results.pid > 0)
        return;
    results.s = s;
    results.again.fire = again_fire;
    results_child_start(s);
}

void results_below(struct supervisor *s) {
    if (results.s)
        timer_clear(&s->timers, &results.again);
    if (results.pid > 0)
        kill(results.pid, SIGKILL);
}

void results_reap(struct supervisor *s) {
    int status;
    if (results.pid <= 0 || waitpid(results.pid, &status, WNOHANG) != results.pid)
        return;
    results.pid = 0;
    if (s->stage != STAGE_READY || !control_decides(s))
        return;
    if (results.tries >= TRIES)
        startup_print("warn results are not written to %s any more", s->opt.results);
    else
        timer_after(&s->timers, &results.again, AGAIN_MS * 1000000ull);
}

void results_end(struct supervisor *s) {
    if (results.s)
        timer_clear(&s->timers, &results.again);
    if (results.pid > 0) {
        kill(results.pid, SIGKILL);
        waitpid(results.pid, NULL, WNOHANG); /* one that hangs in the file system is left to init */
    }
    if (results.err.fd >= 0)
        err_ready(&results.err, 0);
    err_close();
}
