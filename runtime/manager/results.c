/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results.c - --results: `ddict results` is a child of node 0's ddictd, a client as any other, from ready until it leaves: last of all, or when the time to drain is over. One
 * that dies is started again. What it has to say goes to the user as warnings.
 */
#include <base/log.h>
#include <manager/supervisor.h>

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
#define TRIES    5u    /* one after the other; a folder that can not be made will not become one */
#define WARNINGS 20u   /* lines of it that are passed on */

struct results {
    struct supervisor *s;
    pid_t pid;             /* 0: none */
    struct io_handler err; /* what it says; fd -1: it has ended */
    struct timer again;
    unsigned tries, said;
    char line[512];
    size_t len;
};
static struct results r = {.err.fd = -1};

static void line_say(void) {
    r.line[r.len] = 0;
    r.len = 0;
    if (r.line[0] && r.said++ < WARNINGS)
        say("warn %s", r.line);
}

static void err_close(void) {
    if (r.err.fd < 0)
        return;
    io_remove(r.s->epoll_fd, &r.err);
    close(r.err.fd);
    r.err.fd = -1;
    line_say();
}

static void err_ready(struct io_handler *h, uint32_t events) {
    char buf[512];
    ssize_t n = read(h->fd, buf, sizeof buf);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    for (ssize_t i = 0; i < n; i++) {
        if (buf[i] == '\n')
            line_say();
        else if (r.len < sizeof r.line - 1)
            r.line[r.len++] = buf[i];
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

static void child(struct supervisor *s, int err, pid_t parent) __attribute__((noreturn));
static void child(struct supervisor *s, int err, pid_t parent) {
    char path[PATH_MAX];
    sigset_t none;
    int null = open("/dev/null", O_RDWR);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGTERM, SIG_IGN); /* Slurm's: the end of the dictionary is what counts */
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

static void start(struct supervisor *s) {
    int pair[2];
    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0) {
        say("warn results are not written: %s", strerror(errno));
        return;
    }
    pid_t parent = getpid();
    err_close();
    r.pid = fork();
    if (r.pid == 0)
        child(s, pair[1], parent);
    close(pair[1]);
    r.err = (struct io_handler){.fd = pair[0], .ready = err_ready};
    r.tries++;
    if (r.pid < 0 || io_add(s->epoll_fd, &r.err, EPOLLIN) < 0) {
        say("warn results are not written: %s", strerror(errno));
        close(pair[0]);
        r.err.fd = -1;
        if (r.pid < 0)
            r.pid = 0;
    }
}

static void again(struct timer *t) {
    if (r.s->stage == STAGE_READY)
        start(r.s);
}

void results_start(struct supervisor *s) {
    if (!s->opt.results || s->node_id != 0)
        return;
    r.s = s;
    r.again.fire = again;
    start(s);
}

void results_reaped(struct supervisor *s) {
    int status;
    if (r.pid <= 0 || waitpid(r.pid, &status, WNOHANG) != r.pid)
        return;
    r.pid = 0;
    if (s->stage != STAGE_READY)
        return;
    if (r.tries >= TRIES)
        say("warn results are not written to %s any more", s->opt.results);
    else
        timer_after(&s->timers, &r.again, AGAIN_MS * 1000000ull);
}

void results_end(struct supervisor *s) {
    if (r.s)
        timer_clear(&s->timers, &r.again);
    if (r.pid > 0) {
        kill(r.pid, SIGKILL);
        waitpid(r.pid, NULL, WNOHANG); /* one that hangs in the file system is left to init */
    }
    if (r.err.fd >= 0)
        err_ready(&r.err, 0);
    err_close();
}
