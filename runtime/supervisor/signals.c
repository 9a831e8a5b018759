/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c - what tells ddictd to end: SIGTERM, the end of stdin, a line `drain` on it, the end of
 * the batch script. Also the death of its children. */
#include "signals.h"

#include "life_events.h"
#include "managers.h"
#include "record_writer.h"
#include "refill_child.h"
#include "results.h"
#include "save_passes.h"
#include "supervisor.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <base/process.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE_CAP_MAX (64u << 20) /* the node infos of thousands of nodes */

/* SIGTERM before there is anything to end in order: exit at once with code 0, so that the exit code
 * of the job stays the user's. */
static void term_before_ready(int sig) {
    _exit(0);
}

int signals_init(void) {
    /* srun and `--signal` send these to all processes of the job; ddictd ignores them */
    static const int ignored[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGUSR1, SIGUSR2,
                                  SIGALRM, SIGTSTP, SIGPIPE, SIGTTIN, SIGTTOU};
    sigset_t set;
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    /* slurmstepd's children may inherit blocked signals: SIGTERM must reach the signalfd only */
    sigfillset(&set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGTERM, term_before_ready);
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
            save_passes_hurry(s);
            supervisor_drain(s, save_passes_wait_ms(s, DD_DRAIN_GRACE_MS), REASON_SIGNAL);
            continue;
        }
        managers_reap(s);
        record_writer_reap(s);
        results_reap(s);
        save_child_reap(s);
        refill_child_reap(s);
        lifecycle_check(s);
    }
}

/* 1: a line was cut off and lies in *out (freed by the caller); 0: none. */
static int stdin_line_cut(struct supervisor *s, char **out) {
    char *end = s->line_len ? memchr(s->line, '\n', s->line_len) : NULL;
    if (!end)
        return 0;
    size_t len = (size_t)(end - s->line);
    *out = strndup(s->line, len);
    if (!*out)
        return 0;
    s->line_len -= len + 1;
    memmove(s->line, end + 1, s->line_len);
    explicit_bzero(s->line + s->line_len, len + 1); /* a line may have the secret of the start */
    return 1;
}

/* The result of read(). Called only when stdin is readable. */
static ssize_t stdin_read(struct supervisor *s) {
    if (s->line_cap - s->line_len < 4096) {
        size_t cap = s->line_cap ? 2 * s->line_cap : 16384;
        char *line = cap <= LINE_CAP_MAX ? realloc(s->line, cap) : NULL;
        if (!line) {
            s->line_len = 0; /* no valid line is so long */
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

static void stdin_leave(struct supervisor *s) {
    if (s->input.fd >= 0)
        io_remove(s->epoll_fd, &s->input);
    s->input.fd = -1;
}

static void stdin_ended(struct supervisor *s) {
    stdin_leave(s);
    /* `ddict up` writes `drain` before it exits. Without that line it was killed, or srun or
     * slurmstepd was. With --stay that counts before it is ready: srun, which nobody has made
     * harmless, would end the step at the line `ready`. */
    supervisor_drain(s, s->opt.drain_ms, REASON_ALONE);
}

static void stdin_lines_handle(struct supervisor *s) {
    char *line;
    while (stdin_line_cut(s, &line)) {
        line[strcspn(line, "\r")] = 0;
        if (strcmp(line, "drain") == 0)
            supervisor_drain(s, s->opt.drain_ms, REASON_DRAINED);
        free(line);
    }
}

static void stdin_ready(struct io_handler *h, uint32_t events) {
    struct supervisor *s =
        (struct supervisor *)(void *)((char *)h - offsetof(struct supervisor, input));
    if (s->opt.stay && s->stage != STAGE_STARTING) { /* the starter may go */
        stdin_leave(s);
        return;
    }
    ssize_t n = stdin_read(s);
    stdin_lines_handle(s);
    if (n == 0 || (n < 0 && n != -EINTR && n != -EAGAIN && n != -ENOMEM))
        stdin_ended(s);
}

int stdin_line_read(struct supervisor *s, char **line, int timeout_ms) {
    struct deadline d;
    deadline_start(&d, timeout_ms);
    for (;;) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        if (stdin_line_cut(s, line))
            return 1;
        int left = deadline_left(&d, 1000);
        if (left == 0 && deadline_over(&d))
            return -ETIMEDOUT;
        if (poll(&p, 1, left) <= 0)
            continue;
        ssize_t n = stdin_read(s);
        if (n == 0)
            return 0;
        if (n < 0 && n != -EINTR && n != -EAGAIN)
            return (int)n;
    }
}

/* The batch script has ended, and with it the job: SIGTERM is next. Without --stay it was our
 * starter. */
static void script_ready(struct io_handler *h, uint32_t events) {
    struct supervisor *s =
        (struct supervisor *)(void *)((char *)h - offsetof(struct supervisor, script));
    log_info("the process that was watched has ended: draining");
    io_remove(s->epoll_fd, h);
    close(h->fd);
    h->fd = -1;
    if (s->opt.stay)
        supervisor_drain(s, save_passes_wait_ms(s, DD_DRAIN_GRACE_MS), REASON_SIGNAL);
    else
        supervisor_drain(s, s->opt.drain_ms, REASON_ALONE);
}

/* If the batch script cannot be watched, the dictionary ends with the job, as without --script. */
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

int signals_open(struct supervisor *s) {
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
    s->input = (struct io_handler){.fd = STDIN_FILENO, .ready = stdin_ready};
    stdin_lines_handle(s); /* lines that came together with the node infos */
    /* the starter leaves when node 0 is ready, of which the others may hear later */
    if (s->opt.stay && s->node_id != 0) {
        s->input.fd = -1;
        return 0;
    }
    e = io_add(s->epoll_fd, &s->input, EPOLLIN);
    /* a file, /dev/null, or closed: nothing can come but its end */
    if (e == -EPERM || e == -EBADF) {
        s->input.fd = -1;
        return 1;
    }
    return e;
}
