/* SPDX-License-Identifier: Apache-2.0 */
/* inputs.c - what tells ddictd from outside to end: SIGTERM, the end of stdin, a line `drain`, the end of the batch script. And the death of its children. */
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <base/process.h>
#include <manager/supervisor.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE_CAP_MAX (64u << 20) /* cards of thousands of nodes */

/* Until there is something to end in order: gone, and not by a signal, so that the job's exit code stays the user's. */
static void term_early(int sig) {
    _exit(0);
}

int signals_first(void) {
    /* srun and `--signal` send these to everything of the job; none of them is for us. */
    static const int ignored[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGUSR1, SIGUSR2,
                                  SIGALRM, SIGTSTP, SIGPIPE, SIGTTIN, SIGTTOU};
    sigset_t set;
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    sigfillset(
        &set); /* slurmstepd's children may inherit blocked signals: SIGTERM must reach the signalfd only */
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGTERM, term_early);
    return 0;
}

int signals_block(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? -errno : 0;
}

static void signals_ready(struct io_handler *h, uint32_t events) {
    struct supervisor *s =
        (struct supervisor *)(void *)((char *)h - offsetof(struct supervisor, signals));
    struct signalfd_siginfo info;
    while (read(h->fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGTERM) {
            log_info("SIGTERM: draining");
            saving_hurry(s);
            supervisor_drain(s, saving_wait_ms(s, DD_DRAIN_GRACE_MS), REASON_SIGNAL);
            continue;
        }
        shards_reaped(s);
        scribe_reaped(s);
        results_reaped(s);
        saver_reaped(s);
        ending_look(s);
    }
}

/* 1: a line was cut off and lies in *out (freed by the caller); 0: none. */
static int line_cut(struct supervisor *s, char **out) {
    char *end = s->line_len ? memchr(s->line, '\n', s->line_len) : NULL;
    if (!end)
        return 0;
    size_t len = (size_t)(end - s->line);
    *out = strndup(s->line, len);
    if (!*out)
        return 0;
    s->line_len -= len + 1;
    memmove(s->line, end + 1, s->line_len);
    return 1;
}

/* What read() gives; stdin is only read when it is readable. */
static ssize_t input_read(struct supervisor *s) {
    if (s->line_cap - s->line_len < 4096) {
        size_t cap = s->line_cap ? 2 * s->line_cap : 16384;
        char *line = cap <= LINE_CAP_MAX ? realloc(s->line, cap) : NULL;
        if (!line) {
            s->line_len = 0; /* no line of ours is so long */
            return -ENOMEM;
        }
        s->line = line;
        s->line_cap = cap;
    }
    ssize_t n = read(STDIN_FILENO, s->line + s->line_len, s->line_cap - s->line_len);
    if (n < 0)
        return -errno;
    s->line_len += (size_t)n;
    return n;
}

static void input_ended(struct supervisor *s) {
    if (s->input.fd >= 0) {
        io_remove(s->epoll_fd, &s->input);
        s->input.fd = -1;
    }
    /* `ddict up` says `drain` before it goes: without it it was killed, or srun or slurmstepd. */
    if (!s->opt.stay)
        supervisor_drain(s, s->opt.drain_ms, REASON_ALONE);
}

static void lines_take(struct supervisor *s) {
    char *line;
    while (line_cut(s, &line)) {
        line[strcspn(line, "\r")] = 0;
        if (strcmp(line, "drain") == 0)
            supervisor_drain(s, s->opt.drain_ms, REASON_DRAINED);
        free(line);
    }
}

static void input_ready(struct io_handler *h, uint32_t events) {
    struct supervisor *s =
        (struct supervisor *)(void *)((char *)h - offsetof(struct supervisor, input));
    ssize_t n = input_read(s);
    lines_take(s);
    if (n == 0 || (n < 0 && n != -EINTR && n != -EAGAIN && n != -ENOMEM))
        input_ended(s);
}

int input_line(struct supervisor *s, char **line, int timeout_ms) {
    struct deadline d;
    deadline_start(&d, timeout_ms);
    for (;;) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        if (line_cut(s, line))
            return 1;
        int left = deadline_left(&d, 1000);
        if (left == 0 && deadline_over(&d))
            return -ETIMEDOUT;
        if (poll(&p, 1, left) <= 0)
            continue;
        ssize_t n = input_read(s);
        if (n == 0)
            return 0;
        if (n < 0 && n != -EINTR && n != -EAGAIN)
            return (int)n;
    }
}

/* So has the job: SIGTERM is next. */
static void script_ready(struct io_handler *h, uint32_t events) {
    struct supervisor *s =
        (struct supervisor *)(void *)((char *)h - offsetof(struct supervisor, script));
    log_info("the batch script has ended: draining");
    io_remove(s->epoll_fd, h);
    close(h->fd);
    h->fd = -1;
    supervisor_drain(s, saving_wait_ms(s, DD_DRAIN_GRACE_MS), REASON_SIGNAL);
}

/* Where it cannot be watched the dictionary ends with the job, as without it. */
static void script_watch(struct supervisor *s) {
    if (!s->opt.script_node[0] || strcmp(s->opt.script_node, s->node) != 0)
        return;
    s->script = (struct io_handler){.fd = (int)syscall(SYS_pidfd_open, s->opt.script_pid, 0),
                                    .ready = script_ready};
    if (s->script.fd >= 0 && process_began(s->opt.script_pid) == s->opt.script_began &&
        io_add(s->epoll_fd, &s->script, EPOLLIN) == 0)
        return;
    log_info("the batch script is not watched");
    if (s->script.fd >= 0)
        close(s->script.fd);
    s->script.fd = -1;
}

int inputs_open(struct supervisor *s) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    s->signals = (struct io_handler){.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
                                     .ready = signals_ready};
    if (s->signals.fd < 0)
        return dd_error(-errno, "no descriptor for signals: %s", strerror(errno));
    int e = io_add(s->epoll_fd, &s->signals, EPOLLIN);
    if (e < 0)
        return e;
    script_watch(s);
    s->input = (struct io_handler){.fd = STDIN_FILENO, .ready = input_ready};
    lines_take(s); /* what came along with the cards */
    if (s->opt.stay) {
        s->input.fd = -1;
        return 0;
    }
    e = io_add(s->epoll_fd, &s->input, EPOLLIN);
    if (e == -EPERM ||
        e == -EBADF) { /* a file, /dev/null, or closed: nothing can come but its end */
        s->input.fd = -1;
        return 1;
    }
    return e;
}
