/* SPDX-License-Identifier: Apache-2.0 */
/* sruns.c - one srun for each component of a heterogeneous job, as if they were one. */
#include "sruns.h"

#include "command.h"
#include "srun_leave.h"
#include "startup_lines.h"
#include "step_argv.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/io.h>
#include <base/verb.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define INPUT_ROOM     65536
#define LINE_BYTES_MAX (256u << 20)      /* as starter.c's */
#define LEAVE_MS       (DD_LEAVE_MS / 2) /* our starter waits DD_LEAVE_MS for us */
#define LEAVE_LOOK_MS  100

extern char **environ;

struct one {
    pid_t pid;    /* 0: ended */
    int in, out;  /* our ends of its pipes; -1: closed */
    size_t given; /* of the input that is kept */
    int said;     /* a line */
    struct lines lines;
};

struct sruns {
    struct one *ones;
    size_t n;
    int together;
    char input[INPUT_ROOM]; /* what not all have yet */
    size_t len;
    int open; /* our stdin */
    int code;
    int stopping, leaving, left;
    struct deadline leave;
};

static volatile sig_atomic_t told_end, told_leave;

static void on_signal(int sig) {
    if (sig == LEAVE_SIGNAL)
        told_leave = 1;
    else if (sig != SIGCHLD)
        told_end = sig;
}

/* They come while we wait, at no other time. */
static void signals_take(sigset_t *waiting) {
    static const int signals[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, LEAVE_SIGNAL};
    struct sigaction ours = {.sa_handler = on_signal};
    sigset_t set;
    size_t i;

    sigemptyset(&set);
    for (i = 0; i < sizeof signals / sizeof *signals; i++) {
        sigaddset(&set, signals[i]);
        sigaction(signals[i], &ours, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, waiting);
}

static void fd_close(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void all_end(struct sruns *s) {
    size_t i;

    s->stopping = 1;
    for (i = 0; i < s->n; i++)
        if (s->ones[i].pid > 0)
            kill(s->ones[i].pid, SIGTERM);
}

static int one_start(struct one *one, char **argv, char *const *envp) {
    int in[2] = {-1, -1}, out[2] = {-1, -1}, rc;

    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        rc = -errno;
    else
        rc = command_spawn(argv, envp, in[0], out[1], STDERR_FILENO);
    fd_close(&in[0]);
    fd_close(&out[1]);
    *one = (struct one){.pid = rc > 0 ? rc : 0, .in = in[1], .out = out[0]};
    one->lines.max = LINE_BYTES_MAX;
    if (one->in >= 0)
        fcntl(one->in, F_SETFL, O_NONBLOCK);
    return rc > 0 ? 0 : rc;
}

/* --- input: a piece is read when all have the one before --- */
static void input_read(struct sruns *s) {
    ssize_t n = read(STDIN_FILENO, s->input, sizeof s->input);

    if (n > 0)
        s->len = (size_t)n;
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        s->open = 0;
}

static void input_give(struct sruns *s, struct one *one) {
    ssize_t n = write(one->in, s->input + one->given, s->len - one->given);

    if (n > 0)
        one->given += (size_t)n;
    else if (n < 0 && errno != EINTR && errno != EAGAIN)
        fd_close(&one->in); /* it has ended */
}

static void input_turn(struct sruns *s) {
    size_t i;

    for (i = 0; i < s->n; i++)
        if (s->ones[i].in >= 0 && s->ones[i].given < s->len)
            return;
    s->len = 0;
    for (i = 0; i < s->n; i++) {
        s->ones[i].given = 0;
        if (!s->open)
            fd_close(&s->ones[i].in);
    }
}

/* --- output --- */
static void on_line(void *arg, char *line) {
    size_t n = strlen(line);

    ((struct one *)arg)->said = 1;
    line[n] = '\n'; /* where its 0 was */
    (void)write_all(STDOUT_FILENO, line, n + 1);
}

static void output_read(struct one *one) {
    char buf[65536];
    ssize_t n = read(one->out, buf, sizeof buf);

    if (n > 0) {
        lines_feed(&one->lines, buf, (size_t)n, on_line, one);
    } else if (n == 0 || errno != EINTR) {
        if (one->lines.len > 0)
            lines_feed(&one->lines, "\n", 1, on_line, one);
        fd_close(&one->out);
    }
}

/* --- the end --- */
static void one_reap(struct sruns *s, struct one *one) {
    int status, code;

    if (one->pid <= 0 || waitpid(one->pid, &status, WNOHANG) != one->pid)
        return;
    one->pid = 0;
    while (one->out >= 0)
        output_read(one);
    fd_close(&one->in);
    code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (code == 0)
        return;
    if (s->code == 0)
        s->code = code;
    if (!s->stopping && !s->leaving && (s->together || !one->said))
        all_end(s);
}

/* --- left alone --- */
static void leave_begin(struct sruns *s) {
    size_t i;

    s->leaving = 1;
    deadline_start(&s->leave, LEAVE_MS);
    for (i = 0; i < s->n; i++)
        if (s->ones[i].pid > 0) {
            srun_children_kill(s->ones[i].pid);
            if (!srun_leave_tell(s->ones[i].pid))
                kill(s->ones[i].pid, SIGKILL);
        }
}

/* Our starter sees by the end of our output that no signal can hurt us any more. */
static void leave_turn(struct sruns *s) {
    static const int shielded[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, LEAVE_SIGNAL};
    int late = deadline_over(&s->leave), wait = 0, null;
    size_t i;

    for (i = 0; i < s->n; i++) {
        if (s->ones[i].pid > 0 && s->ones[i].out >= 0 && late)
            kill(s->ones[i].pid, SIGKILL);
        wait |= s->ones[i].pid > 0 && s->ones[i].out >= 0;
    }
    if (s->left || wait)
        return;
    for (i = 0; i < sizeof shielded / sizeof *shielded; i++)
        signal(shielded[i], SIG_IGN);
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (i = 0; null >= 0 && i < 3; i++)
        dup2(null, (int)i);
    s->open = 0;
    s->left = 1;
}

/* --- all --- */
static void sruns_wait(struct sruns *s, struct pollfd *p, const sigset_t *waiting) {
    struct timespec soon = {.tv_nsec = LEAVE_LOOK_MS * 1000000l};
    size_t i;

    p[0] = (struct pollfd){.fd = s->open && s->len == 0 ? STDIN_FILENO : -1, .events = POLLIN};
    for (i = 0; i < s->n; i++) {
        struct one *one = &s->ones[i];

        p[1 + 2 * i] = (struct pollfd){.fd = one->given < s->len ? one->in : -1, .events = POLLOUT};
        p[2 + 2 * i] = (struct pollfd){.fd = one->out, .events = POLLIN};
    }
    if (ppoll(p, 1 + 2 * s->n, s->leaving && !s->left ? &soon : NULL, waiting) < 0)
        memset(p, 0, (1 + 2 * s->n) * sizeof *p);
}

static int sruns_run(struct sruns *s, const sigset_t *waiting) {
    struct pollfd *p = calloc(1 + 2 * s->n, sizeof *p);
    size_t i, alive = s->n;

    while (p && alive > 0) {
        sruns_wait(s, p, waiting);
        if (p[0].fd >= 0 && p[0].revents != 0)
            input_read(s);
        for (i = 0, alive = 0; i < s->n; i++) {
            struct one *one = &s->ones[i];

            if (one->in >= 0 && p[1 + 2 * i].revents != 0)
                input_give(s, one);
            if (one->out >= 0 && p[2 + 2 * i].revents != 0)
                output_read(one);
            one_reap(s, one);
            alive += one->pid > 0;
        }
        input_turn(s);
        if (told_end != 0 && !s->left)
            all_end(s);
        told_end = 0;
        if (told_leave && !s->leaving)
            leave_begin(s);
        if (s->leaving)
            leave_turn(s);
    }
    free(p);
    return s->code;
}

/* COUNT WORD... of the next srun; NULL: there is none, or the words are not ours. */
static char **words_next(char ***at) {
    char **words = *at + 1, *end;
    long n, i;

    if (!**at)
        return NULL;
    n = strtol(**at, &end, 10);
    if (*end != '\0' || n < 1)
        return NULL;
    for (i = 0; i < n; i++)
        if (!words[i])
            return NULL;
    *at = words + n;
    return words;
}

int sruns_main(int argc, char **argv) {
    struct sruns *s = calloc(1, sizeof *s);
    char **at = argv + 2, **words, self[16];
    sigset_t waiting;
    int rc = 0;

    if (!s || argc < 4)
        return 2;
    snprintf(self, sizeof self, "%d", (int)getpid());
    setenv("DDICT_INTERNAL", self, 1); /* our plugin in srun compares it with its parent */
    s->together = strcmp(argv[1], SRUNS_TOGETHER) == 0;
    s->open = 1;
    s->ones = calloc((size_t)argc, sizeof *s->ones);
    signals_take(&waiting);
    while (s->ones && rc == 0 && (words = words_next(&at))) {
        char *next = *at;

        *at = NULL;
        rc = one_start(&s->ones[s->n++], words, environ);
        *at = next;
    }
    if (rc < 0 || !s->ones || *at) {
        verb_say("cannot start a srun for each component: %s",
                 rc < 0 ? strerror(-rc) : "wrong words");
        s->code = 1;
        all_end(s);
    }
    return s->ones ? sruns_run(s, &waiting) : 1;
}
