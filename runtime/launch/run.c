/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - `ddict run`: a dictionary for the time of one command, or of several ranks of it. */
#include "launch.h"
#include "loading.h"
#include "plan.h"
#include "ranks.h"
#include "starter.h"
#include "tasks.h"
#include "up_run_common.h"
#include <base/error.h>
#include <base/verb.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define LOADING_SLICE_MS 500

struct run {
    struct starter s;
    struct plan plan;
    const struct options *o;
    struct loading load;
    struct ranks ranks; /* left is 0: not started, or all ended */
    int begun, done, code;
    int said_lost;
    char summary[512]; /* of the managers, "" before the end */
};

/* What is no failure. */
static void on_news(void *arg, enum line_kind kind, const char *text) {
    struct run *r = arg;

    if (kind == LINE_SUMMARY)
        snprintf(r->summary, sizeof r->summary, "%s", text);
    else if (kind != LINE_SAVING)
        verb_say("%s", text);
}

static void command_environment_set(void *arg) {
    const struct run *r = arg;

    setenv("DDICT_NAME", r->plan.name, 1);
    if (r->plan.node[0] != '\0')
        setenv("DDICT_NODE", r->plan.node, 1);
    else
        unsetenv("DDICT_NODE");
    unsetenv("DDICT_SOCKET"); /* of another one */
    once_forget();            /* an srun in it would start another dictionary */
}

static void command_begin(struct run *r) {
    int ranks = (int)number_of(&r->o->set, OPT_RANKS);
    char id[128];

    snprintf(id, sizeof id, "%s.%d", r->plan.name, (int)getpid());
    r->begun = 1;
    if (ranks_start(&r->ranks, ranks > 0 ? ranks : 1, ranks > 0, id, r->o->cmd,
                    command_environment_set, r) < 0) {
        verb_say("%s", dd_errmsg());
        r->done = 1;
        r->code = 126;
        starter_drain(&r->s);
    }
}

/* 1: what is to be loaded is there. */
static int load_follow(struct run *r) {
    struct loading *l = &r->load;
    struct loading_ask ask = {.restore = text_of(&r->o->set, OPT_RESTORE),
                              .load = text_of(&r->o->set, OPT_LOAD),
                              .folder = text_of(&r->o->set, OPT_CHDIR),
                              .saves = r->plan.save[0] != '\0',
                              .read_only = is_read_only(&r->o->set),
                              .name = r->plan.name,
                              .node = r->plan.node};

    if ((!ask.load && !ask.restore && !ask.read_only) || r->done)
        return !r->done;
    if (!l->begun && loading_start(l, &ask) < 0)
        snprintf(l->why, sizeof l->why, "%s", dd_errmsg());
    if (loading_over(l) && l->why[0] == '\0') {
        if (l->said[0] != '\0')
            verb_say("%s", l->said);
        return 1;
    }
    if (l->why[0] != '\0' && (!l->begun || loading_over(l))) {
        verb_say("%s; the command is not started", l->signalled ? plan_ended(&r->plan) : l->why);
        r->done = 1;
        r->code = 1;
        starter_drain(&r->s);
    }
    return 0;
}

static void command_reap(struct run *r) {
    if (!ranks_reap(&r->ranks))
        return;
    r->done = 1;
    r->code = r->ranks.code;
    starter_drain(&r->s);
}

/* The terminal gives ^C and ^\ to the command itself; what somebody sent to us alone is passed on.
 * */
static void signal_pass(struct run *r, const struct signalfd_siginfo *info) {
    int terminal = info->ssi_code > 0 && (info->ssi_signo == SIGINT || info->ssi_signo == SIGQUIT);

    if (r->ranks.left > 0 && !terminal)
        ranks_signal(&r->ranks, (int)info->ssi_signo);
    if (r->ranks.left == 0 && info->ssi_signo != SIGUSR1 && info->ssi_signo != SIGUSR2) {
        if (!r->done) {
            r->done = 1;
            r->code = 128 + (int)info->ssi_signo;
        }
        loading_stop(&r->load);
        starter_stop(&r->s, r->begun        ? NULL
                            : r->load.begun ? "ended by a signal before all was loaded"
                                            : "ended by a signal before the managers were ready");
    }
}

static void signals_read(struct run *r, int fd) {
    struct signalfd_siginfo info;

    while (read(fd, &info, sizeof info) == sizeof info)
        if (info.ssi_signo == SIGCHLD) {
            loading_reap(&r->load);
            starter_reap(&r->s);
            command_reap(r);
        } else {
            signal_pass(r, &info);
        }
}

static void run_serve(struct run *r, int signals) {
    while (!starter_over(&r->s) || r->ranks.left > 0 || r->load.pid > 0) {
        struct pollfd fds[2 + STARTER_FDS] = {{.fd = signals, .events = POLLIN}};
        int timeout = starter_poll(&r->s, fds + 1), due = ranks_turn(&r->ranks);

        if (starter_over(&r->s)) /* lost: only the command is left */
            timeout = -1;
        if (timeout < 0 || (due >= 0 && due < timeout))
            timeout = due;
        loading_poll(&r->load, fds + 1 + STARTER_FDS);
        if (r->load.pid > 0 && (timeout < 0 || timeout > LOADING_SLICE_MS))
            timeout = LOADING_SLICE_MS;
        if (poll(fds, 2 + STARTER_FDS, timeout) < 0 && errno != EINTR)
            starter_stop(&r->s, strerror(errno));
        starter_turn(&r->s);
        if (r->load.begun)
            loading_turn(&r->load);
        if (r->load.pid > 0 && starter_over(&r->s))
            loading_stop(&r->load);
        signals_read(r, signals);
        if (r->s.ready && !r->begun && r->s.state == STARTER_READY && load_follow(r))
            command_begin(r);
        if (r->s.why[0] != '\0' && r->s.ready && !r->said_lost) {
            verb_say("%s", r->s.why);
            r->said_lost = 1;
        }
    }
}

int cmd_run(int argc, char **argv) {
    char why[ASK_WHY], text[DD_ERRMSG_MAX];
    struct options o;
    struct place place;
    struct run r = {.o = &o, .ranks.port = -1};
    struct start_times times;
    int rc = command_line(&o, "ddict run", argc, argv, why, sizeof why), signals = -1;

    if (rc == 3 && place_init(&place, PLACE_AS_TASK) < 0)
        verb_say("%s", why);
    else if (rc == 3)
        tasks_refuse(&place, why);
    if (rc != 0)
        return rc - 1;
    rc = tasks_find(&place, &o);
    if (rc < 0)
        tasks_refuse(&place, dd_errmsg());
    if (rc != 0)
        return rc < 0 ? 2 : tasks_run(&o, &place);
    signals = signals_open();
    rc = signals < 0 ? dd_error(signals, "signalfd: %s", strerror(-signals))
                     : plan_make(&r.plan, &o);
    if (rc == 0 && r.plan.note[0] != '\0')
        verb_say("%s", r.plan.note);
    if (rc == 0)
        rc = starter_spawn(&r.s, r.plan.argv, r.plan.envp,
                           r.plan.srun[0] != '\0' ? r.plan.srun : NULL, r.plan.nodes,
                           (int)number_of(&o.set, OPT_DRAIN_MS),
                           (int)number_of(&o.set, OPT_START_TIMEOUT));
    if (rc < 0) {
        verb_say("%s", rc == -ENOMEM ? "out of memory" : dd_errmsg());
        r.code = 1;
    } else {
        r.s.news = on_news;
        r.s.news_arg = &r;
        start_times(&o.set, &times);
        r.s.ready_ms = times.ready_ms;
        plan_warn(&r.plan);
        run_serve(&r, signals);
        if (r.s.why[0] != '\0' && !r.said_lost)
            verb_say("%s", r.s.why);
        if (!r.begun && !r.done && r.load.begun && r.s.why[0] == '\0')
            verb_say("%s; the command is not started", plan_ended(&r.plan));
        if (!r.begun && !r.done)
            r.code = 1;
        if (starter_unsaved(&r.s, r.plan.save, text, sizeof text)) {
            if (text[0] != '\0')
                verb_say("%s", text);
            r.code = r.code == 0 ? 1 : r.code;
        }
        if (r.summary[0] != '\0' && (is_said(&o.set, OPT_VERBOSE) || r.s.why[0] != '\0'))
            verb_say("%s", r.summary);
        starter_free(&r.s);
        loading_free(&r.load);
        ranks_free(&r.ranks);
    }
    plan_free(&r.plan);
    if (signals >= 0)
        close(signals);
    return r.code;
}
