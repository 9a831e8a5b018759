/* SPDX-License-Identifier: Apache-2.0 */
/*
 * up.c - `ddict up`: start a dictionary and stay with it until it ends (--foreground, --plugin), or let a process in the
 * background stay with it and return when it is ready. HANDSHAKE 3.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "launch/launch.h"
#include "launch/plan.h"
#include "launch/serve.h"
#include "launch/starter.h"

struct up {
    struct starter s;
    struct plan plan;
    struct lines asked;   /* our stdin */
    int in;               /* -1: not listened to, or ended */
    int said_ready, said_error;
    int quiet_when_ready; /* in the background: stderr is the user's no more */
};

static void say(const char *word, const char *rest) {
    bytes_write(1, "ddict1 ", 7);
    bytes_write(1, word, strlen(word));
    if (*rest != '\0')
        bytes_write(1, " ", 1);
    bytes_write(1, rest, strlen(rest));
    bytes_write(1, "\n", 1);
}

static void on_request(void *arg, char *line) {
    struct up *u = arg;

    if (strcmp(line, "drain") == 0)
        starter_drain(&u->s);
}

static void request_read(struct up *u) {
    char buf[256];
    ssize_t n = read(u->in, buf, sizeof buf);

    if (n > 0) {
        lines_feed(&u->asked, buf, (size_t)n, on_request, u);
    } else if (n == 0 || errno != EINTR) {
        u->in = -1;
        starter_drain(&u->s);
    }
}

static void signals_read(struct up *u, int fd) {
    struct signalfd_siginfo info;

    while (read(fd, &info, sizeof info) == sizeof info)
        switch (info.ssi_signo) {
        case SIGCHLD: starter_reap(&u->s); break;
        case SIGINT:
        case SIGTERM:
        case SIGHUP: starter_drain(&u->s); break;
        default: break;
        }
}

static void news_say(struct up *u) {
    struct starter *s = &u->s;
    char text[512];

    if (s->ready && !u->said_ready) {
        snprintf(text, sizeof text, "name=%s%s%s %s", u->plan.name, u->plan.node[0] != '\0' ? " node=" : "", u->plan.node, s->about);
        say("ready", text);
        u->said_ready = 1;
        if (u->quiet_when_ready) {
            int null = open("/dev/null", O_RDWR | O_CLOEXEC);

            dup2(null, 1);
            dup2(null, 2);
            close(null);
            if (chdir("/") < 0) /* it may keep the user's folder busy, nothing worse */
                return;
        }
    }
    /* What failed before it was ready is said when nothing of it is left. */
    if (s->why[0] != '\0' && !u->said_error && (s->ready || starter_over(s))) {
        say("error", s->why);
        u->said_error = 1;
    }
}

static void serve(struct up *u, int signals) {
    while (!starter_over(&u->s)) {
        struct pollfd fds[2 + STARTER_FDS] = { { .fd = u->in, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
        int timeout = starter_poll(&u->s, fds + 2);

        if (poll(fds, 2 + STARTER_FDS, timeout) < 0 && errno != EINTR)
            starter_stop(&u->s, strerror(errno));
        if (u->in >= 0 && fds[0].revents != 0)
            request_read(u);
        starter_turn(&u->s);
        signals_read(u, signals);
        news_say(u);
    }
}

/* in: where drain and EOF come from, or -1. The exit code. */
static int up_stay(const struct options *o, int in, int quiet_when_ready) {
    struct up u = { .in = in, .quiet_when_ready = quiet_when_ready, .asked = { .max = 4096 } };
    int signals = signals_open(), rc;

    rc = signals < 0 ? dd_error(signals, "signalfd: %s", strerror(-signals)) : plan_make(&u.plan, o);
    if (rc == 0 && u.plan.note[0] != '\0')
        fprintf(stderr, "ddict: %s\n", u.plan.note);
    if (rc == 0)
        rc = starter_spawn(&u.s, u.plan.argv, u.plan.envp, u.plan.srun[0] != '\0' ? u.plan.srun : NULL, u.plan.nodes, o->drain_ms,
                           o->start_s);
    if (rc < 0) {
        say("error", rc == -ENOMEM ? "out of memory" : dd_errmsg());
    } else {
        plan_warn(&u.plan);
        serve(&u, signals);
        if (u.s.report != NULL)
            say("report", u.s.report);
        if (u.s.ended)
            say("end", "");
        rc = u.s.why[0] != '\0' ? -1 : 0;
        starter_free(&u.s);
    }
    lines_free(&u.asked);
    plan_free(&u.plan);
    if (signals >= 0)
        close(signals);
    return rc < 0 ? 1 : 0;
}

struct news {
    int ready;
    char name[DICT_NAME_MAX], node[NODE_NAME_MAX], why[DD_ERRMSG_MAX];
};

static void on_news(void *arg, char *line) {
    struct news *news = arg;
    const char *rest;

    switch (line_parse(line, &rest)) {
    case LINE_READY:
        news->ready = line_value(rest, "name", news->name, sizeof news->name) > 0;
        line_value(rest, "node", news->node, sizeof news->node);
        break;
    case LINE_ERROR: snprintf(news->why, sizeof news->why, "%s", rest); break;
    default: break;
    }
}

/* Wait for ready or error of the process in the background; it has the deadlines. */
static int news_wait(int fd) {
    struct lines lines = { .max = 65536 };
    struct news news = { 0 };
    char buf[4096];
    ssize_t n;

    while (!news.ready && ((n = read(fd, buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0)
            lines_feed(&lines, buf, (size_t)n, on_news, &news);
    lines_free(&lines);
    if (news.ready) {
        printf("export DDICT_NAME=%s;\n", news.name);
        if (news.node[0] != '\0')
            printf("export DDICT_NODE=%s;\n", news.node);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    fprintf(stderr, "ddict up: %s\n", news.why[0] != '\0' ? news.why : "the process in the background was killed");
    return 1;
}

static int up_background(const struct options *o) {
    int out[2], code;
    pid_t pid;

    if (pipe2(out, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
        fprintf(stderr, "ddict up: %s\n", strerror(errno));
        return 1;
    }
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        setsid();
        dup2(null, 0);
        dup2(out[1], 1);
        close(out[0]);
        close(out[1]);
        close(null);
        _exit(up_stay(o, -1, 1));
    }
    close(out[1]);
    code = news_wait(out[0]);
    close(out[0]);
    if (code != 0)
        waitpid(pid, NULL, 0);
    return code;
}

int cmd_up(int argc, char **argv) {
    char why[ASK_WHY];
    struct options o;
    int rc = command_line(&o, "ddict up", argc, argv, why, sizeof why);

    if (rc == 3 && o.foreground) {
        say("error", why);
        return 1;
    }
    if (rc == 3)
        fprintf(stderr, "ddict up: %s\n", why);
    if (rc != 0)
        return rc - 1;
    return o.foreground ? up_stay(&o, 0, 0) : up_background(&o);
}
