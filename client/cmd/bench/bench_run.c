/* SPDX-License-Identifier: Apache-2.0 */
/* bench_run.c - the processes of one run of the benchmark, and the progress bar on a terminal. */
#include "bench.h"
#include <base/size.h>
#include <base/verb.h>

#include <cmd/cmd.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BAR     30
#define LOOK_US 100000u

/* --- signals --- */

static struct bench_run *run_to_stop;
static volatile sig_atomic_t signal_seen;

static void on_signal(int sig) {
    signal_seen = sig;
    /* pairs with the acquire of the clients, which then remove their keys */
    __atomic_store_n(&run_to_stop->stop, 1, __ATOMIC_RELEASE);
}

void bench_catch(struct bench_run *r) {
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
    run_to_stop = r;
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        struct sigaction a = {.sa_handler = on_signal}, old;
        sigaction(caught[i], NULL, &old);
        if (old.sa_handler != SIG_IGN) /* ignored by nohup or for a background job of a shell */
            sigaction(caught[i], &a, NULL);
    }
}

int bench_caught(void) {
    return signal_seen;
}

/* --- progress --- */

static void progress_show(struct bench_progress *p, const struct bench_run *r) {
    unsigned done = p->done + __atomic_load_n(&r->steps, __ATOMIC_RELAXED); /* for display */
    unsigned bar = p->total > 0 ? done * BAR / p->total : 0;
    char size[24];
    fprintf(stderr, "\r[%.*s%*s] %3u%%  %s, values of %s, %u client%s%s ", (int)bar,
            "##############################", (int)(BAR - bar), "",
            p->total > 0 ? done * 100 / p->total : 0, bench_place_name[r->place],
            size_format(size, sizeof size, r->value), r->clients, r->clients == 1 ? "" : "s",
            __atomic_load_n(&r->stop, __ATOMIC_RELAXED) ? "; interrupted, removing the keys" : "");
    fflush(stderr);
    p->shown = true;
}

static void progress_hide(struct bench_progress *p) {
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}

/* --- processes --- */

static int client_wait(struct bench_run *r, struct bench_progress *p, pid_t pid, bool terminal) {
    int status;
    for (;;) {
        pid_t got = waitpid(pid, &status, terminal ? WNOHANG : 0);
        if (got == pid)
            break;
        if (got < 0 && errno != EINTR)
            return -errno;
        if (terminal) {
            progress_show(p, r);
            usleep(LOOK_US);
        }
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    uint32_t none = 0;
    if (!WIFEXITED(status) && __atomic_compare_exchange_n(&r->failed, &none, 1, false,
                                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        snprintf(r->text, sizeof r->text, "a process of the benchmark died (%s)",
                 strsignal(WTERMSIG(status)));
    return -1;
}

int bench_processes(struct bench_run *r, struct bench_progress *p) {
    pid_t pid[BENCH_CLIENTS_MAX];
    unsigned n = 0;
    bool terminal = isatty(STDERR_FILENO), bad = false;
    r->arrived = r->failed = r->steps = r->froze = 0;
    memset(r->slice, 0, sizeof r->slice);
    memset(r->latency, 0, sizeof r->latency);
    fflush(stdout);
    for (; n < r->clients; n++) {
        pid[n] = fork();
        if (pid[n] == 0)
            _exit(bench_work(r, n));
        if (pid[n] < 0) {
            snprintf(r->text, sizeof r->text, "fork: %s", strerror(errno));
            /* the other processes see this and end */
            __atomic_store_n(&r->failed, 1, __ATOMIC_RELEASE);
            break;
        }
    }
    for (unsigned i = 0; i < n; i++)
        bad |= client_wait(r, p, pid[i], terminal) < 0;
    progress_hide(p);
    p->done += bench_steps(r);
    if (r->failed || (bad && !r->stop)) {
        verb_say("%s", r->text);
        return EXIT_FAILED;
    }
    return EXIT_OK;
}
