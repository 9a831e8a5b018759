/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin_srun_detach.c - the managers' srun when it is left alone: nobody's pipes are held, no
 * signal that would end its step reaches the thread that ends it, and no child stays as a zombie; a
 * signal to that thread itself, by which srun ends it, still does. Only its parent can say so.
 */
#include "launch_test.h"
#include "plugin/srun_detach.h"
#include <launch/step_argv.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const int deadly[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGPIPE};
#define DEADLY (sizeof deadly / sizeof *deadly)
static pid_t srun;
static int out, seen; /* what it prints, and what its thread says of signals */

static sigset_t deadly_set(void) {
    sigset_t set;
    size_t i;

    sigemptyset(&set);
    for (i = 0; i < DEADLY; i++)
        sigaddset(&set, deadly[i]);
    return set;
}

/* As srun's: every signal is waited for here, and blocked elsewhere. It says the number; INT ends
 * it. */
static void *signals_wait(void *fd) {
    sigset_t set = deadly_set();
    int sig;

    do {
        if (sigwait(&set, &sig) != 0 || dprintf(*(int *)fd, "%d ", sig) < 0)
            _exit(2);
    } while (sig != SIGINT);
    return NULL;
}

static void srun_run(int tell, int go) __attribute__((noreturn));
static void srun_run(int tell, int go) {
    sigset_t set = deadly_set();
    pthread_t thread;
    char c;

    sigprocmask(SIG_BLOCK, &set, NULL);
    if (fork() == 0) /* as its shepherd */
        _exit(0);
    if (pthread_create(&thread, NULL, signals_wait, &tell) != 0)
        _exit(3);
    srun_detach_prepare();
    dprintf(STDOUT_FILENO, "ready");
    while (read(go, &c, 1) < 0 && errno == EINTR)
        continue;
    pthread_kill(thread, SIGINT);
    pthread_join(thread, NULL);
    _exit(0);
}

static int go;

static void srun_begin(void) {
    int o[2], t[2], g[2];
    char text[8] = "";

    ck_assert(pipe2(o, O_CLOEXEC) == 0 && pipe2(t, O_CLOEXEC) == 0 && pipe2(g, O_CLOEXEC) == 0);
    srun = fork();
    ck_assert_int_ge(srun, 0);
    if (srun == 0) {
        close(g[1]);
        dup2(o[1], STDOUT_FILENO);
        dup2(o[1], STDERR_FILENO);
        close(o[1]);
        srun_run(t[1], g[0]);
    }
    close(o[1]);
    close(t[1]);
    close(g[0]);
    out = o[0];
    seen = t[0];
    go = g[1];
    ck_assert_int_eq(read(out, text, 5), 5);
}

/* Its exit code; what its thread saw is in text. */
static int srun_end(char *text, size_t cap) {
    ssize_t n;
    int status;

    close(go);
    ck_assert_int_eq(waitpid(srun, &status, 0), srun);
    n = read(seen, text, cap - 1);
    text[n > 0 ? n : 0] = '\0';
    close(out);
    close(seen);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int children_of(pid_t parent) {
    char command[80];
    int n = -1;
    FILE *p;

    snprintf(command, sizeof command, "ps -o pid= --ppid %d | wc -l", (int)parent);
    p = popen(command, "r");
    ck_assert(p && fscanf(p, "%d", &n) == 1);
    pclose(p);
    return n;
}

START_TEST(what_is_left_alone_holds_no_pipe_and_takes_no_signal) {
    char text[64], want[16];
    size_t i;

    srun_begin();
    ck_assert_int_eq(kill(srun, LEAVE_SIGNAL), 0);
    ck_assert_int_eq(read(out, text, 1), 0); /* the end, not a byte */
    /* also many while none of its threads runs, as systemd sends HUP right behind TERM */
    for (i = 0; i < 4 * DEADLY; i++) {
        if (i % 4 < 2)
            ck_assert_int_eq(kill(srun, i % 4 == 0 ? SIGSTOP : SIGCONT), 0);
        ck_assert_int_eq(kill(srun, deadly[i % DEADLY]), 0);
        ck_assert_int_eq(kill(srun, deadly[(i + 1) % DEADLY]), 0);
        poll(NULL, 0, 5);
    }
    ck_assert_int_eq(kill(srun, SIGCONT), 0);
    ck_assert_int_eq(children_of(srun), 0);
    ck_assert_int_eq(waitpid(srun, NULL, WNOHANG), 0);
    ck_assert_int_eq(srun_end(text, sizeof text), 0);
    snprintf(want, sizeof want, "%d ", SIGINT); /* by which its thread was ended */
    ck_assert_str_eq(text, want);
}
END_TEST

START_TEST(a_stranger_cannot_say_it) {
    struct pollfd p;
    char text[64], want[16];
    int status;
    pid_t stranger;

    srun_begin();
    stranger = fork();
    if (stranger == 0)
        _exit(kill(srun, LEAVE_SIGNAL) < 0);
    ck_assert(waitpid(stranger, &status, 0) == stranger && status == 0);
    p = (struct pollfd){.fd = out, .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, 200), 0);
    ck_assert_int_eq(kill(srun, SIGTERM), 0);
    p.fd = seen; /* of two that wait at once its thread would see the lower number first */
    ck_assert_int_eq(poll(&p, 1, 30000), 1);
    ck_assert_int_eq(srun_end(text, sizeof text), 0);
    snprintf(want, sizeof want, "%d %d ", SIGTERM, SIGINT);
    ck_assert_str_eq(text, want);
}
END_TEST

int main(void) {
    return TESTS_RUN("plugin_leave", 60, what_is_left_alone_holds_no_pipe_and_takes_no_signal,
                     a_stranger_cannot_say_it);
}
