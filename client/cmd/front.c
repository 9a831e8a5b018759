/* SPDX-License-Identifier: Apache-2.0 */
/* front.c - workers on all nodes, their progress and their figures. */
#include "front.h"

#include "cmd.h"
#include <base/error.h>
#include <base/verb.h>
#include <launch/fan_out.h>

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <save/progress.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DONE "ddict-done " /* a worker's last line to the front begins so */
#define SAID "ddict-said " /* and its other messages so */

#define TICK_MS 50u

static struct save_run *run; /* for the handler of signals, and for lines of workers */
static volatile sig_atomic_t signal_seen;
static bool reports;
static const char *consequence = "";
static char told[1024]; /* of a report: the last message of a worker */

/* --- signals and errors --- */

static void on_signal(int sig) {
    signal_seen = sig;
    __atomic_store_n(&run->stopped, 1, __ATOMIC_RELAXED); /* a flag alone; it orders nothing */
}

void front_signals(struct save_run *of) {
    run = of;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGHUP, on_signal);
}

int front_signal(void) {
    return signal_seen;
}

void front_mark(void) {
    verb_mark(SAID);
}

void front_report(void) {
    reports = true;
}

void front_consequence(const char *text) {
    consequence = text;
}

static void report_error(const char *sentence, int code) {
    char text[1200];
    snprintf(text, sizeof text, "%s%s", sentence, consequence);
    cmd_json_print(json_pack("{s:s,s:i}", "error", text, "code", code));
}

int front_failed(const char *sentence, int code) {
    progress_clear();
    if (reports)
        report_error(sentence, signal_seen != 0 ? -ECANCELED : code);
    else
        verb_say("%s%s", sentence, consequence);
    return EXIT_FAILED;
}

int front_why(const struct save_run *of) {
    return dd_error(-ECANCELED, "%s",
                    signal_seen != 0 && *of->why == 0 ? strsignal(signal_seen) : of->why);
}

/* --- work in this process --- */

static int ticking; /* atomic */

static void *ticker_run(void *arg) {
    const struct front *f = arg;
    unsigned turns = 0;
    while (__atomic_load_n(&ticking, __ATOMIC_RELAXED)) { /* a flag alone; it orders nothing */
        if (f->worker)
            progress_tell(f->run);
        else
            progress_put(0, __atomic_load_n(&f->run->items, __ATOMIC_RELAXED),
                         __atomic_load_n(&f->run->bytes, __ATOMIC_RELAXED));
        if (f->beat && ++turns % (1000 / TICK_MS) == 0)
            f->beat(f->run);
        nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000}, NULL);
    }
    return NULL;
}

int front_work(const struct front *f, uint64_t bytes, int (*work)(void *arg), void *arg) {
    pthread_t tick;
    progress_begin(bytes, !f->quiet && !f->worker, f->verb);
    ticking = 1;
    bool ticks =
        (f->worker || !f->quiet) && pthread_create(&tick, NULL, ticker_run, (void *)f) == 0;
    int rc = work(arg);
    if (ticks) {
        __atomic_store_n(&ticking, 0, __ATOMIC_RELAXED);
        pthread_join(tick, NULL);
    }
    progress_clear();
    return rc;
}

void front_worker_done(const struct save_run *of) {
    fprintf(stderr, DONE "%u %u %llu %llu %llu %llu %llu %d %s\n", of->worker, of->workers,
            (unsigned long long)of->items, (unsigned long long)of->bytes,
            (unsigned long long)of->same, (unsigned long long)of->left_out,
            (unsigned long long)of->already, of->lost, of->first_left_out);
}

/* --- workers on all nodes --- */

static unsigned workers_done;

void front_figures_reset(struct save_run *of) {
    of->items = of->bytes = of->same = of->already = of->claimed = 0;
    workers_done = 0;
}

static void on_said(const char *text) {
    if (reports) {
        snprintf(told, sizeof told, "%s", text);
        return;
    }
    progress_clear();
    verb_say("%s", text);
}

static void on_line(char *text) {
    unsigned worker, workers;
    unsigned long long items, bytes, same, left_out, already;
    int lost, at = 0;
    if (sscanf(text, DONE "%u %u %llu %llu %llu %llu %llu %d %n", &worker, &workers, &items, &bytes,
               &same, &left_out, &already, &lost, &at) < 8) {
        if (strncmp(text, SAID, sizeof SAID - 1) == 0)
            on_said(text + sizeof SAID - 1);
        else
            progress_line(text);
        return;
    }
    workers_done++;
    run->workers = workers;
    run->items += items;
    run->bytes += bytes;
    run->same += same;
    run->left_out += left_out;
    run->already += already;
    run->lost |= lost;
    if (at > 0 && text[at] != 0 && *run->first_left_out == 0)
        snprintf(run->first_left_out, sizeof run->first_left_out, "%s", text + at);
}

/* rc: an exit code. */
static void end_tell(int rc) {
    if (reports)
        report_error(*told != 0 ? told
                     : rc > 128 ? "ended by a signal"
                                : "a node failed without a word",
                     rc > 128 ? -ECANCELED : -EIO);
    else if (rc > 128 && signal_seen != 0)
        verb_say("ended by a signal (%s)", strsignal(rc - 128));
}

int front_spread(const struct front *f, const char *name, const char **argv) {
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return -ENOENT;
    self[n] = 0;
    argv[0] = self;
    progress_begin(0, !f->quiet, f->verb);
    struct spread s = {
        .name = name, .program = argv, .on_line = on_line, .signal_came = front_signal};
    int rc = launch_spread(&s);
    progress_clear();
    if (rc == -ENOENT)
        return rc;
    if (rc < 0)
        return front_failed(dd_errmsg(), -EIO) + 1;
    if (rc > 0)
        end_tell(rc);
    else if (workers_done != run->workers)
        return front_failed("not all nodes said that they are done", -EIO) + 1;
    return rc == 0 ? 0 : rc + 1;
}
