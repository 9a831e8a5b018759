/* SPDX-License-Identifier: Apache-2.0 */
/* tasks_end.c - wait for a command, and then for the end of the dictionary that it shares with
 * those of other tasks. */
#include "tasks_end.h"

#include "up_run_common.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>
#include <base/verb.h>
#include <wire/attach.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLICE_MS 10

struct watch {
    pid_t pid; /* 0: it has ended */
    int code;
    int childless;
    int stop; /* a signal came when there was nobody to pass it on to */
    int fd;   /* to ddictd, which tells the end; -1: there is none, or it has hung up */
    int lost;
    char text[2048]; /* of ddictd, at the end */
};

static void watch_open(struct watch *w, const char *name) {
    struct attach_msg m;

    w->fd = attach_connect(name, DD_HANDSHAKE_MS);
    if (w->fd < 0)
        return;
    attach_msg_init(&m, ATTACH_WATCH);
    if (attach_send(w->fd, &m, NULL, 0) < 0 ||
        attach_recv(w->fd, &m, NULL, 0, DD_HANDSHAKE_MS) < 0 || attach_version_check(&m) < 0 ||
        m.type != ATTACH_WATCH || m.status < 0) {
        close(w->fd);
        w->fd = -1;
    }
}

static void watch_read(struct watch *w) {
    struct attach_msg m;

    if (attach_recv(w->fd, &m, NULL, 0, 0) >= 0) {
        size_t n = strlen(w->text);

        w->lost |= m.status < 0;
        snprintf(w->text + n, sizeof w->text - n, "%s", m.text);
        return;
    }
    close(w->fd);
    w->fd = -1;
}

static void joined_read(struct watch *w, int *joined, const char *name) {
    char byte;
    ssize_t n = read(*joined, &byte, 1);

    if (n < 0 && errno == EINTR)
        return;
    if (n == 1)
        watch_open(w, name);
    close(*joined);
    *joined = -1;
}

/* The terminal gives ^C and ^\ to the command itself. */
static void signals_read(struct watch *w, int fd) {
    struct signalfd_siginfo info;
    int status;

    while (read(fd, &info, sizeof info) == sizeof info) {
        int terminal = info.ssi_code > 0 && (info.ssi_signo == SIGINT || info.ssi_signo == SIGQUIT);

        if (info.ssi_signo == SIGCHLD) {
            pid_t pid;

            while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                if (pid == w->pid) {
                    w->pid = 0;
                    w->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
                }
            w->childless = pid < 0;
        } else if (w->pid > 0 && !terminal) {
            kill(w->pid, (int)info.ssi_signo);
        } else if (w->pid == 0 && info.ssi_signo != SIGUSR1 && info.ssi_signo != SIGUSR2) {
            w->stop = 1;
        }
    }
}

int tasks_end_await(pid_t pid, int joined, const char *name, int verbose) {
    struct watch w = {.pid = pid, .fd = -1};
    struct deadline limit;
    int signals = signals_open();

    if (signals < 0) {
        verb_say("signalfd: %s", strerror(-signals));
        kill(pid, SIGKILL);
        return 1;
    }
    kill(getpid(), SIGCHLD); /* it may have ended before we listened */
    while (w.pid > 0 || (w.code == 0 && !w.stop && (w.fd >= 0 || joined >= 0))) {
        struct pollfd p[3] = {{.fd = signals, .events = POLLIN},
                              {.fd = joined, .events = POLLIN},
                              {.fd = w.fd, .events = POLLIN}};

        if (poll(p, 3, -1) < 0)
            continue;
        if (joined >= 0 && p[1].revents != 0)
            joined_read(&w, &joined, name);
        if (w.fd >= 0 && p[2].revents != 0)
            watch_read(&w);
        signals_read(&w, signals);
    }
    deadline_start(&limit, DD_STOP_MS);
    while (w.code == 0 && !w.stop && !w.childless && deadline_left(&limit, SLICE_MS) > 0) {
        poll(NULL, 0, SLICE_MS);
        signals_read(&w, signals);
    }
    if (w.text[0] != '\0' && (verbose || w.lost))
        verb_say("%s", w.text);
    return w.code;
}
