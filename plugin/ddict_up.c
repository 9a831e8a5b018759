/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddict_up.c - `ddict up` is our child, in a session of its own (^C is not for it), with pipes for
 * stdin and stdout. For a step it stays as long as the write end of its stdin is open: until srun
 * ends or is killed. For a job it ends when the managers are ready, and leaves them alone. STARTUP
 * 3.
 */
#include "ddict_up.h"

#include "dictionary.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>
#include <base/io.h>
#include <launch/command.h>
#include <launch/startup_lines.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLICE_MS 500
/* `ddict up` keeps the deadlines; ours are later, for the case that it hangs itself */
#define SPARE_MS      30000
#define LAST_WORDS_MS 200
#define LINE_KEPT     4096                   /* bytes; longer lines (the report) are not for us */
#define LINE_CAP      (NAME_CAP + LINE_KEPT) /* with whose it is */

struct up {
    pid_t pid;        /* 0: none */
    int in, out, err; /* our ends; -1: none */
    int ready, ended, watches;
    int exists;    /* the dictionary was there already: it is ready, and has no more to say */
    int over;      /* its stdout is closed */
    int late;      /* it has not answered in time, and is waited for no more */
    char srun[40]; /* of the managers: "PID/TICKS" */
    int loading;   /* it has just said that it loads: it gets more time */
    int loads;     /* it once said so */
    int unsaved;   /* not all that --ddict-save asked for came to disk */
    int saving;    /* it has just said that it saves, at its end: more time, too */
    char why[DD_ERRMSG_MAX], summary[DD_ERRMSG_MAX];
    char name[NAME_CAP];
    void (*say)(const char *line);
    struct lines lines;
};
static struct up *ups; /* one, or one for each component */
static size_t nups;
static struct pollfd *polled; /* [2 * nups] */
static const char *unstarted; /* why there is one less */

void up_arg(struct up_args *a, const char *fmt, ...) {
    size_t room = sizeof a->text - a->used;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(a->text + a->used, room, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= room || a->n >= (int)(sizeof a->argv / sizeof *a->argv) - 1) {
        a->full = 1;
        return;
    }
    a->argv[a->n++] = a->text + a->used;
    a->used += (size_t)n + 1;
}

/* An option, as its row names it; value: NULL for none. */
static void up_option(struct up_args *a, enum option_id o, const char *value) {
    if (value)
        up_arg(a, "%s=%s", option_rows[o].option, value);
    else
        up_arg(a, "%s", option_rows[o].option);
}

void up_args_begin(struct up_args *a, const struct settings *site, const char *name, unsigned job,
                   const char *folder) {
    char jobid[12];

    memset(a, 0, sizeof *a);
    up_arg(a, "%s", text_of(site, OPT_DDICT));
    up_arg(a, "up");
    up_option(a, OPT_PLUGIN, NULL);
    if (name)
        up_option(a, OPT_NAME, name);
    snprintf(jobid, sizeof jobid, "%u", job);
    up_option(a, OPT_JOBID, jobid);
    if (folder && *folder == '/')
        up_option(a, OPT_CHDIR, folder);
}

void up_args_asked(struct up_args *a, const struct ask_options *ask) {
    char text[4096] = ""; /* for the record */
    size_t n = 0;
    int i;

    for (i = 0; i < OPTS; i++)
        if (ask->value[i] && n < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s=%s", n > 0 ? " " : "",
                                  option_rows[i].of_srun, ask->value[i]);
    if (n > 0)
        up_option(a, OPT_ASKED, text);
    for (i = 0; i < OPTS; i++)
        if (ask->value[i] && (option_rows[i].of & OF_UP) != 0)
            up_option(a, (enum option_id)i, ask->value[i]);
}

void up_args_site(struct up_args *a, int ac, char **av) {
    int i;

    for (i = 0; i < ac; i++)
        up_option(a, OPT_SITE, av[i]);
}

/* With the dictionary's name if there are several, or, as long as that is not known, with which of
 * the step's components it is of. */
static void up_name(const struct up *u, const char *text, char *line, size_t cap) {
    if (nups < 2)
        snprintf(line, cap, "%s", text);
    else if (u->name[0] != '\0')
        snprintf(line, cap, "%s: %s", u->name, text);
    else
        snprintf(line, cap, "component %zu of %zu of the step: %s", (size_t)(u - ups) + 1, nups,
                 text);
}

static void up_tell(const struct up *u, const char *text, void (*say)(const char *line)) {
    char line[LINE_CAP];

    up_name(u, text, line, sizeof line);
    say(line);
}

static void on_line(void *arg, char *line) {
    struct up *u = arg;
    const char *rest;
    char word[16];

    switch (line_parse(line, &rest)) {
    case LINE_READY:
        u->watches = line_value(rest, "script", word, sizeof word) >= 0 &&
                     strcmp(word, "watched") == 0 &&
                     line_value(rest, "srun", u->srun, sizeof u->srun) > 0;
        line_value(rest, "name", u->name, sizeof u->name);
        u->ready = 1;
        break;
    case LINE_EXISTS:
        u->ready = u->exists = 1;
        break;
    case LINE_END:
        u->ended = 1;
        break;
    case LINE_LOADING:
        u->loading = u->loads = 1;
        break;
    case LINE_SAVING:
        u->saving = 1;
        break;
    case LINE_UNSAVED:
        u->unsaved = 1;
        /* fall through */
    case LINE_WARN:
        up_tell(u, rest, u->say);
        break;
    case LINE_SUMMARY:
        snprintf(u->summary, sizeof u->summary, "%s", rest);
        break;
    case LINE_ERROR:
        if (u->why[0] == '\0')
            snprintf(u->why, sizeof u->why, "%s", rest);
        break;
    default:
        break;
    }
}

static volatile sig_atomic_t interrupted;

static void on_signal(int sig) {
    interrupted = 1;
}

/*
 * While we wait, a thread of srun's takes its signals and would only note them. If the main thread
 * has them unblocked, it is served first, so a single ^C ends our wait.
 */
static void signals_take(int take, sigset_t *mask_before, struct sigaction before[4]) {
    static const int signals[4] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction ours = {.sa_handler = on_signal};
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

/* Pass on what the child prints on stderr. */
static void err_relay(struct up *u) {
    char buf[4096];
    ssize_t n = read(u->err, buf, sizeof buf);

    if (n > 0) {
        write_all(STDERR_FILENO, buf, (size_t)n);
    } else if (n == 0 || errno != EINTR) {
        close(u->err);
        u->err = -1;
    }
}

/* Read what the child prints on stdout. */
static void out_read(struct up *u) {
    char buf[4096];
    ssize_t n = read(u->out, buf, sizeof buf);

    if (n > 0)
        lines_feed(&u->lines, buf, (size_t)n, on_line, u);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        u->over = 1;
}

/* It will not become ready. */
static int up_failed(const struct up *u) {
    return !u->ready && (u->pid == 0 || u->over || u->why[0] != '\0');
}

/* It was ready, and has ended while others were waited for. */
static int up_lost(const struct up *u) {
    return u->ready && !u->exists && (u->over || u->ended || u->why[0] != '\0');
}

static int up_is_read(const struct up *u) {
    return u->pid > 0 && !u->over && !u->late;
}

/* Fill polled with all children that may say something; how many of them are waited for. -1: one
 * will not become ready, or is lost before the others are. *busy: one has just said that it loads, or
 * at its end that it saves. */
static int ups_polled(int until_end, int *busy) {
    int awaited = 0, lost = 0;
    size_t i;

    *busy = 0;
    for (i = 0; i < nups; i++) {
        struct up *u = &ups[i];
        int is = up_is_read(u);

        if (!until_end && up_failed(u))
            return -1;
        *busy |= until_end ? u->saving : u->loading;
        u->loading = u->saving = 0;
        polled[2 * i] = (struct pollfd){.fd = is ? u->out : -1, .events = POLLIN};
        polled[2 * i + 1] = (struct pollfd){.fd = is ? u->err : -1, .events = POLLIN};
        awaited += is && (until_end || !u->ready);
        lost |= up_lost(u);
    }
    return lost && awaited > 0 && !until_end ? -1 : awaited;
}

/* Follow the lines of all children until all are ready or one has failed, or until all have ended.
 * -1: that took too long. */
static int ups_follow(int until_end, int timeout_ms) {
    struct deadline limit;
    int left, busy;
    size_t i;

    deadline_start(&limit, timeout_ms);
    while (ups_polled(until_end, &busy) > 0) {
        if (busy)
            deadline_start(&limit, timeout_ms);
        left = deadline_left(&limit, SLICE_MS);
        if (left == 0)
            return -1;
        if (interrupted && !until_end)
            return 0;
        if (poll(polled, 2 * nups, left) <= 0)
            continue;
        for (i = 0; i < nups; i++) {
            if (polled[2 * i + 1].revents != 0)
                err_relay(&ups[i]);
            if (polled[2 * i].revents != 0)
                out_read(&ups[i]);
        }
    }
    return 0;
}

static void end_close(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Reap the child, which has closed its stdout or is to be killed. srun may have reaped it already:
 * ECHILD is as good. */
static void up_reap(struct up *u, int kill_it) {
    int i;

    if (kill_it)
        kill(u->pid, SIGKILL);
    for (i = 0; i < 100 && waitpid(u->pid, NULL, WNOHANG) == 0; i++)
        poll(NULL, 0, 10);
    u->pid = 0;
    end_close(&u->in);
    end_close(&u->out);
    end_close(&u->err);
    lines_free(&u->lines);
}

/* One more, without a child yet. NULL: no memory. */
static struct up *up_new(void) {
    struct up *more = realloc(ups, (nups + 1) * sizeof *more);
    struct pollfd *more_polled = realloc(polled, 2 * (nups + 1) * sizeof *more_polled);

    ups = more ? more : ups;
    polled = more_polled ? more_polled : polled;
    if (!more || !more_polled) {
        unstarted = "out of memory";
        return NULL;
    }
    ups[nups] = (struct up){.in = -1, .out = -1, .err = -1, .lines = {.max = LINE_KEPT}};
    return &ups[nups++];
}

int up_spawn(const struct up_args *a, char *const *envp, int own_stderr) {
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, rc;
    struct up *u = up_new();

    if (!u)
        return -ENOMEM;
    if (a->full) {
        snprintf(u->why, sizeof u->why, "the options of the dictionary are too long together");
        return -E2BIG;
    }
    if (access(a->argv[0], X_OK) < 0) {
        snprintf(u->why, sizeof u->why, "%s: %s (plugstack.conf: ddict=PATH)", a->argv[0],
                 strerror(errno));
        return -ENOENT;
    }
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
        (own_stderr && pipe2(err, O_CLOEXEC) < 0))
        rc = -errno;
    else
        rc = command_spawn((char *const *)(uintptr_t)a->argv, envp, in[0], out[1],
                           own_stderr ? err[1] : STDERR_FILENO);
    end_close(&in[0]);
    end_close(&out[1]);
    end_close(&err[1]);
    if (rc < 0) {
        end_close(&in[1]);
        end_close(&out[0]);
        end_close(&err[0]);
        snprintf(u->why, sizeof u->why, "cannot start `ddict up`: %s", strerror(-rc));
        return rc;
    }
    u->pid = rc;
    u->in = in[1];
    u->out = out[0];
    u->err = err[0];
    return 0;
}

/* One has failed, or we are to end. The others have begun, and end as at the end of srun. */
static void ups_stop(void) {
    size_t i;
    int rc;

    for (i = 0; i < nups; i++) {
        end_close(&ups[i].in);
        if (interrupted && ups[i].pid > 0)
            kill(ups[i].pid, SIGTERM);
    }
    for (i = 0; i < nups; i++)
        if (ups[i].pid > 0 && ups[i].late)
            up_reap(&ups[i], 1);
    rc = ups_follow(1, 4 * DD_STOP_MS);
    for (i = 0; i < nups; i++) /* what failed cleans up, and says why */
        if (ups[i].pid > 0)
            up_reap(&ups[i], rc < 0 && !ups[i].over && ups[i].ready);
}

/* Of those that are not ready the one that has said most, unless it is one that was lost which ended the
 * wait for them. NULL: all are. */
static struct up *ups_unready(void) {
    struct up *found = NULL;
    size_t i;

    for (i = 0; i < nups; i++)
        if (!ups[i].ready && (!found || (up_failed(&ups[i]) && !up_failed(found)) ||
                              (ups[i].why[0] != '\0' && found->why[0] == '\0')))
            found = &ups[i];
    for (i = 0; i < nups && found && !up_failed(found); i++)
        if (up_lost(&ups[i]))
            return &ups[i];
    return found;
}

const char *up_wait(const struct settings *site, void (*say)(const char *line)) {
    static char why[LINE_CAP];
    struct sigaction before[4];
    struct start_times times;
    struct up *failed;
    sigset_t mask;
    size_t i;
    int rc;

    start_times(site, &times);
    for (i = 0; i < nups; i++)
        ups[i].say = say;
    signals_take(1, &mask, before);
    rc =
        unstarted ? 0 : ups_follow(0, times.create_ms + times.ready_ms + times.elect_ms + SPARE_MS);
    signals_take(0, &mask, before);
    failed = ups_unready();
    if (!failed && !unstarted)
        return NULL;
    for (i = 0; i < nups; i++)
        ups[i].late = rc < 0 && !ups[i].ready && !up_failed(&ups[i]);
    ups_stop();
    if (interrupted)
        return failed && failed->loads
                   ? "interrupted before all data was in the dictionary (^C, scancel, or the "
                     "time limit, against which loading counts)"
                   : "interrupted before the managers were ready";
    if (unstarted)
        return unstarted;
    up_name(failed,
            failed->why[0] != '\0' ? failed->why
            : up_lost(failed)      ? "the dictionary ended before those of the others were ready"
            : rc < 0               ? "no answer from `ddict up`"
                                   : "`ddict up` ended without a word",
            why, sizeof why);
    return why;
}

const char *up_watches(void) {
    return nups > 0 && ups[0].watches ? ups[0].srun : NULL;
}

void up_leave(void) {
    struct up *u = ups;
    int rc = ups_follow(1, 2 * DD_STOP_MS);

    for (;;) { /* what it printed last */
        struct pollfd p = {.fd = u->err, .events = POLLIN};

        if (u->err < 0 || poll(&p, 1, LAST_WORDS_MS) <= 0)
            break;
        err_relay(u);
    }
    up_reap(u, rc < 0);
}

int up_unsaved(void) {
    size_t i;

    for (i = 0; i < nups; i++)
        if (ups[i].unsaved)
            return 1;
    return 0;
}

void up_end(void (*say)(const char *line), void (*complain)(const char *line)) {
    size_t i;

    for (i = 0; i < nups; i++) {
        end_close(&ups[i].in);
        ups[i].say = say;
    }
    ups_follow(1, DD_DRAIN_MS + DD_DRAIN_GRACE_MS + 4 * DD_STOP_MS);
    for (i = 0; i < nups; i++) {
        struct up *u = &ups[i];
        int late = !u->over;

        if (u->pid == 0)
            continue;
        up_reap(u, late);
        if (u->why[0] != '\0')
            up_tell(u, u->why, complain);
        else if (!u->ended)
            up_tell(u,
                    late ? "the managers did not end in time"
                         : "`ddict up` was killed; the dictionary is gone",
                    complain);
        if (u->summary[0] != '\0')
            up_tell(u, u->summary, say);
    }
}
