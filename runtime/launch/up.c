/* SPDX-License-Identifier: Apache-2.0 */
/*
 * up.c - `ddict up`: start a dictionary, and stay with it until it ends (--foreground; the plugin
 * for a step; a program for itself) or leave it alone when it is ready: then it needs nothing where
 * it was started. STARTUP 3.
 */
#include "command.h"
#include "launch.h"
#include "loading.h"
#include "plan.h"
#include "starter.h"
#include "up_run_common.h"
#include <base/defaults.h>
#include <base/error.h>
#include <base/io.h>
#include <base/process.h>
#include <base/text.h>
#include <base/verb.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define LOADING_SLICE_MS 500

struct up {
    struct starter s;
    struct plan plan;
    struct loading load;
    struct loading_ask ask; /* load and restore NULL: nothing, or done */
    uint64_t loading_at;    /* when its next line is due */
    struct lines asked;     /* our stdin */
    int in;                 /* -1: not listened to, or ended */
    int said_ready, said_error;
    int leaves;       /* when it is ready */
    int script;       /* of a batch script */
    int lines;        /* news are the handshake's lines, else for people */
    int program;      /* of a program: it reads only how the start and the end go */
    uint64_t busy_at; /* program: when its next line `busy` is due */
};

/* One line, whatever is in rest: names of what was loaded are in it. */
static void up_say(const char *word, const char *rest) {
    char *line;
    int n = asprintf(&line, "ddict1 %s%s%s", word, *rest != '\0' ? " " : "", rest);

    if (n < 0)
        return;
    text_plain(line)[n++] = '\n';
    write_all(1, line, (size_t)n);
    free(line);
}

/* What is no failure of the dictionary. */
static void on_news(void *arg, enum line_kind kind, const char *text) {
    static const char *const words[] = {[LINE_WARN] = "warn",
                                        [LINE_UNSAVED] = "unsaved",
                                        [LINE_SAVING] = "saving",
                                        [LINE_SUMMARY] = "summary"};
    struct up *u = arg;

    if (u->lines && (!u->program || kind == LINE_UNSAVED))
        up_say(words[kind], text);
    else if (kind != LINE_SAVING && !u->program)
        verb_say("%s", text);
    else if (kind == LINE_WARN)
        verb_say("%s", text);
}

static void on_request(void *arg, char *line) {
    struct up *u = arg;

    if (strcmp(line, "drain") == 0) {
        loading_stop(&u->load);
        starter_drain(&u->s);
    }
}

static void request_read(struct up *u) {
    char buf[256];
    ssize_t n = read(u->in, buf, sizeof buf);

    if (n > 0) {
        lines_feed(&u->asked, buf, (size_t)n, on_request, u);
    } else if (n == 0 || errno != EINTR) {
        u->in = -1;
        loading_stop(&u->load);
        starter_drain(&u->s);
    }
}

static void signals_read(struct up *u, int fd) {
    struct signalfd_siginfo info;

    while (read(fd, &info, sizeof info) == sizeof info)
        switch (info.ssi_signo) {
        case SIGCHLD:
            loading_reap(&u->load);
            starter_reap(&u->s);
            break;
        case SIGINT:
        case SIGTERM:
        case SIGHUP:
            loading_stop(&u->load);
            if (u->leaves) /* before it was ready */
                starter_stop(&u->s, "ended by a signal before the managers were ready");
            else
                starter_drain(&u->s);
            break;
        default:
            break;
        }
}

/* For eval. */
static void variables_say(const struct up *u) {
    printf("export DDICT_NAME=%s;\n", u->plan.name);
    if (u->plan.node[0] != '\0')
        printf("export DDICT_NODE=%s;\n", u->plan.node);
    if (u->s.exists)
        verb_say("%s is there already (%s)", u->plan.name, u->s.about);
}

/* Load and restore before anybody is told that the dictionary is ready. 1: all is there. */
static int load_follow(struct up *u) {
    struct loading *l = &u->load;

    if (!u->ask.load && !u->ask.restore && !u->ask.read_only)
        return 1;
    if (!u->s.exists && u->s.state != STARTER_READY)
        return 0; /* it ends; there is nothing to load into */
    u->ask.name = u->plan.name;
    u->ask.node = u->plan.node;
    u->ask.saves = u->plan.save[0] != '\0';
    if (!l->begun && loading_start(l, &u->ask) < 0)
        snprintf(l->why, sizeof l->why, "%s", dd_errmsg());
    if (loading_over(l) && l->why[0] == '\0') {
        if (l->said[0] != '\0')
            on_news(u, LINE_WARN, l->said);
        u->ask.load = u->ask.restore = NULL;
        u->ask.read_only = 0;
        return 1;
    }
    if (l->why[0] != '\0' && (!l->begun || loading_over(l))) {
        /* A job that is cancelled ends the loading on its nodes before we hear of the managers'
         * end. */
        snprintf(u->s.why, sizeof u->s.why, "%s", l->signalled ? plan_ended(&u->plan) : l->why);
        starter_stop(&u->s, NULL);
    } else if (u->lines && clock_ms() >= u->loading_at) { /* so that our starter waits on */
        up_say("loading", "");
        u->loading_at = clock_ms() + DD_STEP_SAY_MS;
    }
    return 0;
}

static void news_say(struct up *u) {
    struct starter *s = &u->s;
    char text[512], srun[48] = "";

    if (s->ready && !u->said_ready && load_follow(u)) {
        if (u->script && s->pid > 0) /* what slurmstepd waits for at the end of the script */
            snprintf(srun, sizeof srun, " srun=%d/%" PRIu64, (int)s->pid, process_began(s->pid));
        snprintf(text, sizeof text, "name=%s%s%s%s%s %s", u->plan.name,
                 u->plan.node[0] != '\0' ? " node=" : "", u->plan.node, srun,
                 u->program && u->leaves ? " kept=yes" : "", s->about);
        if (u->lines)
            up_say(s->exists ? "exists" : "ready", text);
        else
            variables_say(u);
        u->said_ready = 1;
        if (u->leaves)
            starter_leave(s);
    }
    /* Said when nothing of it is left: only then the cause is known (a cancelled step first looks
     * like a lost node). */
    if (s->why[0] != '\0' && !u->said_error && starter_over(s) && u->load.pid == 0) {
        if (u->lines)
            up_say("error", s->why);
        else
            verb_say("%s", s->why);
        u->said_error = 1;
    }
}

/* A program waits for the start, and for the end, as long as it hears from us. */
static void busy_say(struct up *u) {
    if (!u->program || (u->said_ready && u->s.state == STARTER_READY) || clock_ms() < u->busy_at)
        return;
    up_say("busy", "");
    u->busy_at = clock_ms() + DD_STEP_SAY_MS;
}

static void up_serve(struct up *u, int signals) {
    while (!starter_over(&u->s) || u->load.pid > 0) {
        struct pollfd fds[3 + STARTER_FDS] = {{.fd = u->in, .events = POLLIN},
                                              {.fd = signals, .events = POLLIN}};
        int timeout = starter_poll(&u->s, fds + 2);

        loading_poll(&u->load, fds + 2 + STARTER_FDS);
        if (u->load.pid > 0 && (timeout < 0 || timeout > LOADING_SLICE_MS))
            timeout = LOADING_SLICE_MS;
        if (poll(fds, 3 + STARTER_FDS, timeout) < 0 && errno != EINTR)
            starter_stop(&u->s, strerror(errno));
        if (u->in >= 0 && fds[0].revents != 0)
            request_read(u);
        starter_turn(&u->s);
        if (u->load.begun)
            loading_turn(&u->load);
        if (u->load.pid > 0 && starter_over(&u->s) && !u->s.exists)
            loading_stop(&u->load);
        signals_read(u, signals);
        busy_say(u);
        news_say(u);
    }
}

/* The exit code. */
static int up_run(const struct options *o) {
    const struct settings *set = &o->set;
    int stays = is_said(set, OPT_FOREGROUND) || is_own(o), script = is_said(set, OPT_SCRIPT);
    int program = is_said(set, OPT_PROGRAM);
    struct up u = {.in = stays ? 0 : -1,
                   .leaves = !stays,
                   .script = script,
                   .lines = stays || is_said(set, OPT_PLUGIN) || program,
                   .program = program,
                   .asked = {.max = 4096}};
    int signals = signals_open(), unsaved = 0, rc;
    struct start_times times;
    char text[DD_ERRMSG_MAX];

    u.ask = (struct loading_ask){.restore = text_of(set, OPT_RESTORE),
                                 .load = text_of(set, OPT_LOAD),
                                 .folder = text_of(set, OPT_CHDIR),
                                 .read_only = is_read_only(set),
                                 .shared = !stays && !script};
    rc =
        signals < 0 ? dd_error(signals, "signalfd: %s", strerror(-signals)) : plan_make(&u.plan, o);
    if (rc == 0 && u.plan.note[0] != '\0')
        verb_say("%s", u.plan.note);
    if (rc == 0)
        rc = starter_spawn(&u.s, u.plan.argv, u.plan.envp,
                           u.plan.srun[0] != '\0' ? u.plan.srun : NULL, u.plan.nodes,
                           (int)number_of(set, OPT_DRAIN_MS),
                           (int)number_of(set, OPT_START_TIMEOUT));
    if (rc < 0) {
        u.s.state = STARTER_OVER;
        snprintf(u.s.why, sizeof u.s.why, "%s", rc == -ENOMEM ? "out of memory" : dd_errmsg());
        news_say(&u);
    } else {
        u.s.news = on_news;
        u.s.news_arg = &u;
        start_times(set, &times);
        u.s.ready_ms = times.ready_ms + (u.plan.stay ? times.elect_ms : 0);
        plan_warn(&u.plan);
        up_serve(&u, signals);
        if (!u.said_ready && !u.said_error && u.s.why[0] == '\0' && u.load.begun) {
            snprintf(u.s.why, sizeof u.s.why, "%s", plan_ended(&u.plan));
            news_say(&u);
        }
        unsaved = stays && starter_unsaved(&u.s, u.plan.save, text, sizeof text);
        if (unsaved && text[0] != '\0')
            on_news(&u, LINE_UNSAVED, text);
        if (u.lines && stays && !program && u.s.report)
            up_say("report", u.s.report);
        if (u.lines && u.s.ended)
            up_say("end", "");
        rc = u.s.why[0] != '\0' || unsaved ? -1 : 0;
        starter_free(&u.s);
        loading_free(&u.load);
    }
    lines_free(&u.asked);
    plan_free(&u.plan);
    if (signals >= 0)
        close(signals);
    return rc < 0 || fflush(stdout) != 0 ? 1 : 0;
}

int cmd_up(int argc, char **argv) {
    char why[ASK_WHY];
    struct options o;
    int rc = command_line(&o, "ddict up", argc, argv, why, sizeof why);

    if (is_said(&o.set, OPT_PROGRAM))
        command_close_from(3); /* what the program has open is not ours to keep open */
    if (is_said(&o.set, OPT_PLUGIN))
        verb_begin(NULL); /* the user asked srun, not `ddict up` */
    if (rc == 3 && (is_said(&o.set, OPT_FOREGROUND) || is_said(&o.set, OPT_PLUGIN) ||
                    is_said(&o.set, OPT_PROGRAM))) {
        up_say("error", why);
        return 1;
    }
    if (rc == 3)
        verb_say("%s", why);
    if (rc != 0)
        return rc - 1;
    return up_run(&o);
}
