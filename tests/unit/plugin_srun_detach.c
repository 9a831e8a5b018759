/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin_srun_detach.c - the managers' srun when it is left alone: nobody's pipes are held, no
 * signal that would end its step reaches the thread that ends it, and no child stays as a zombie; a
 * signal to that thread itself, by which srun ends it, still does, also when srun is just ending.
 * An srun without a connection to its step ends in any case. Only its parent can say so.
 */
#include "launch_test.h"
#include "plugin/srun_detach.h"
#include <launch/step_argv.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const int deadly[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGPIPE};
#define DEADLY   (sizeof deadly / sizeof *deadly)
#define ALONE_MS 400
#define LONG_MS  600000 /* a test is over by then */
#define END_CODE 5      /* of an srun that ends as srun does */
static pid_t srun;
static int out, seen; /* what it prints, and what its thread says of signals */
static volatile int shutting_down;

static sigset_t deadly_set(void) {
    sigset_t set;
    size_t i;

    sigemptyset(&set);
    for (i = 0; i < DEADLY; i++)
        sigaddset(&set, deadly[i]);
    return set;
}

/* What srun waits for. */
static sigset_t srun_set(void) {
    sigset_t set = deadly_set();

    sigaddset(&set, SIGCONT);
    return set;
}

/* END_SOON: LEAVE_SIGNAL comes when srun has told its thread to end, and that one has not run since
 * then. END_NEVER: srun waits for a message that does not come. */
enum end { END_AS_TOLD, END_SOON, END_NEVER };

struct waiting {
    int tell, late; /* late: -1, or where it is told to go on just before it waits */
};

static void until_told(int fd) {
    char c;

    while (read(fd, &c, 1) < 0 && errno == EINTR)
        continue;
}

/* As srun's: every signal is waited for here, and blocked elsewhere. It says the number of each
 * that ends a step. */
static void *signals_wait(void *arg) {
    struct waiting *w = arg;
    sigset_t set = srun_set();
    int sig;

    do {
        if (w->late >= 0)
            until_told(w->late);
        if (sigwait(&set, &sig) != 0 || (sig != SIGCONT && dprintf(w->tell, "%d ", sig) < 0))
            _exit(2);
    } while (sig != SIGINT && !(w->late >= 0 && shutting_down));
    return NULL;
}

static void srun_run(int tell, int go, enum end end) __attribute__((noreturn));
static void srun_run(int tell, int go, enum end end) {
    struct waiting w = {.tell = tell, .late = -1};
    sigset_t set = srun_set();
    pthread_t thread;
    int late[2];

    sigprocmask(SIG_BLOCK, &set, NULL);
    if (fork() == 0) /* as its shepherd */
        _exit(0);
    if (end == END_SOON && pipe(late) == 0)
        w.late = late[0];
    if (pthread_create(&thread, NULL, signals_wait, &w) != 0)
        _exit(3);
    srun_detach_prepare(end == END_NEVER ? ALONE_MS : LONG_MS);
    dprintf(STDOUT_FILENO, "ready");
    until_told(go);
    while (end == END_NEVER)
        pause();
    shutting_down = 1;
    pthread_kill(thread, SIGINT);
    if (end == END_SOON) {
        raise(LEAVE_SIGNAL);
        close(late[1]);
    }
    pthread_join(thread, NULL);
    _exit(END_CODE);
}

static int go;

static void srun_begin(enum end end) {
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
        srun_run(t[1], g[0], end);
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

    srun_begin(END_AS_TOLD);
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
    ck_assert_int_eq(srun_end(text, sizeof text), END_CODE);
    snprintf(want, sizeof want, "%d ", SIGINT); /* by which its thread was ended */
    ck_assert_str_eq(text, want);
}
END_TEST

START_TEST(a_stranger_cannot_say_it) {
    struct pollfd p;
    char text[64], want[16];
    int status;
    pid_t stranger;

    srun_begin(END_AS_TOLD);
    stranger = fork();
    if (stranger == 0)
        _exit(kill(srun, LEAVE_SIGNAL) < 0);
    ck_assert(waitpid(stranger, &status, 0) == stranger && status == 0);
    p = (struct pollfd){.fd = out, .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, 200), 0);
    ck_assert_int_eq(kill(srun, SIGTERM), 0);
    p.fd = seen; /* of two that wait at once its thread would see the lower number first */
    ck_assert_int_eq(poll(&p, 1, 30000), 1);
    ck_assert_int_eq(srun_end(text, sizeof text), END_CODE);
    snprintf(want, sizeof want, "%d %d ", SIGTERM, SIGINT);
    ck_assert_str_eq(text, want);
}
END_TEST

START_TEST(what_is_just_ending_ends) {
    char text[64];

    srun_begin(END_SOON);
    ck_assert_int_eq(srun_end(text, sizeof text), END_CODE);
}
END_TEST

/* A connection of this process, as slurmstepd's to srun. */
static void connect_pair(int pair[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    ck_assert(bind(listener, (void *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    ck_assert_int_eq(getsockname(listener, (void *)&at, &len), 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(pair[0], (void *)&at, sizeof at), 0);
    pair[1] = accept(listener, NULL, NULL);
    ck_assert_int_ge(pair[1], 0);
    close(listener);
}

START_TEST(what_nobody_is_connected_with_ends) {
    int pair[2], status;
    char text[64];

    srun_begin(END_NEVER);
    poll(NULL, 0, 3 * ALONE_MS);
    ck_assert_int_eq(waitpid(srun, &status, WNOHANG), 0); /* not left alone */
    ck_assert_int_eq(kill(srun, LEAVE_SIGNAL), 0);
    ck_assert_int_eq(srun_end(text, sizeof text), 0);

    connect_pair(pair);
    srun_begin(END_NEVER); /* has copies of both */
    close(pair[0]);
    ck_assert_int_eq(kill(srun, LEAVE_SIGNAL), 0);
    poll(NULL, 0, 3 * ALONE_MS);
    ck_assert_int_eq(waitpid(srun, &status, WNOHANG), 0);
    ck_assert_int_eq(shutdown(pair[1], SHUT_RDWR), 0); /* the step's end */
    close(pair[1]);
    ck_assert_int_eq(srun_end(text, sizeof text), 0);
}
END_TEST

int main(void) {
    return TESTS_RUN("plugin_leave", 60, what_is_left_alone_holds_no_pipe_and_takes_no_signal,
                     a_stranger_cannot_say_it, what_is_just_ending_ends,
                     what_nobody_is_connected_with_ends);
}
