/* SPDX-License-Identifier: Apache-2.0 */
/*
 * saver.c - --save: `ddict save --stage`, a child of each ddictd, from before the dictionary is ready until its end (HANDSHAKE 7). A client that does not hold the dictionary's
 * life. It is told to make a pass, and its answer goes to saving.c; one that takes no data for DD_SAVE_STALL_MS is killed, and another one is started for the next pass.
 */
#include <base/error.h>
#include <base/log.h>
#include <manager/saving.h>
#include <manager/supervisor.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 1000u /* between two looks whether it goes on */

struct saver {
    struct supervisor *s;
    pid_t pid;             /* 0: none */
    int in;                /* our end of its stdin; -1 */
    struct io_handler out; /* fd -1: it has ended */
    bool ready, busy;      /* busy: at a command */
    bool
        killed; /* its end is awaited, and what it says is not heard; the next command is for another one */
    const char *next; /* a command for when it is ready; NULL: none */
    struct timer look;
    uint64_t items, bytes;      /* at the last look */
    uint64_t moved, moved_then; /* now, and at the last look */
    unsigned still;             /* looks since they grew */
    struct save_word at;        /* of this pass */
    char line[1024];
    size_t len;
};
static struct saver v = {.in = -1, .out.fd = -1};

bool saver_is(pid_t pid) {
    return pid > 0 && pid == v.pid;
}
bool saver_ready(const struct supervisor *s) {
    return !s->opt.save || v.ready;
}
const struct save_word *saver_at(void) {
    return &v.at;
}

static void out_close(void) {
    if (v.out.fd >= 0) {
        io_remove(v.s->epoll_fd, &v.out);
        close(v.out.fd);
    }
    if (v.in >= 0)
        close(v.in);
    v.out.fd = v.in = -1;
}

/* What it was told is over. */
static void answer(bool ok, const char *text) {
    if (!v.busy)
        return;
    v.busy = false;
    v.next = NULL;
    timer_clear(&v.s->timers, &v.look);
    v.at.ok = ok;
    v.at.node = v.s->node_id;
    snprintf(v.at.text, sizeof v.at.text, "%s", text);
    saving_answered(v.s, &v.at);
}

static void command_send(const char *command) {
    char line[32];
    int n = snprintf(line, sizeof line, "%s\n", command);
    if (write(v.in, line, (size_t)n) != n)
        log_warn("who saves does not listen: %s", strerror(errno));
}

static void ready_take(void) {
    struct supervisor *s = v.s;
    bool first = s->stage == STAGE_STARTING && !v.ready;
    v.ready = true;
    if (first)
        shards_ready(s);
    if (v.next)
        command_send(v.next);
    v.next = NULL;
}

static void error_take(const char *text) {
    struct supervisor *s = v.s;
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "cannot save to %s on node %s: %s", s->opt.save, s->node,
             text);
    if (s->stage == STAGE_STARTING)
        supervisor_lost(s, "%s", sentence);
    else
        answer(false, sentence);
}

static void line_take(char *line) {
    struct save_word *w = &v.at;
    int at = 0;
    uint64_t bytes;
    if (v.killed)
        return;
    if (strcmp(line, "ready") == 0)
        ready_take();
    else if (strncmp(line, "error ", 6) == 0)
        error_take(line + 6);
    else if (sscanf(line, "at %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &w->items, &w->bytes,
                    &w->of, &v.moved) == 4)
        return;
    else if (sscanf(line, "done %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %*f %n", &w->items,
                    &w->bytes, &w->same, &w->left_out, &at) == 4)
        answer(true, at > 0 && w->left_out > 0 ? line + at : "");
    else if (strncmp(line, "failed ", 7) == 0)
        answer(false, line + 7);
    else if (sscanf(line, "published %" SCNu64 " %" SCNu64, &w->items, &w->bytes) == 2)
        answer(true, "");
    else if (sscanf(line, "size %" SCNu64, &bytes) == 1) {
        w->bytes = bytes;
        answer(true, "");
    }
}

static void out_ready(struct io_handler *h, uint32_t events) {
    char buf[1024];
    ssize_t n = read(h->fd, buf, sizeof buf);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    for (ssize_t i = 0; i < n && v.out.fd >= 0; i++) {
        if (buf[i] != '\n') {
            if (v.len < sizeof v.line - 1)
                v.line[v.len++] = buf[i];
            continue;
        }
        v.line[v.len] = 0;
        v.len = 0;
        line_take(v.line);
    }
    if (n <= 0)
        out_close();
}

static void child(struct supervisor *s, int in, int out, pid_t parent) __attribute__((noreturn));
static void child(struct supervisor *s, int in, int out, pid_t parent) {
    char path[PATH_MAX];
    const char *argv[14] = {"ddict", "save", "--stage", "--name", s->opt.name};
    int n = 5;
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    signal(SIGTERM, SIG_IGN); /* Slurm's: we say when it ends */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    program_find(path, sizeof path);
    dup2(in, 0);
    dup2(out, 1);
    close_range(3, ~0u, 0);
    setenv("DDICT_NODE", s->node, 1);
    if (s->opt.save_prefix) {
        argv[n++] = "--files";
        if (*s->opt.save_prefix)
            argv[n++] = "--prefix", argv[n++] = s->opt.save_prefix;
    }
    if (s->opt.save_after_load)
        argv[n++] = "--after-load";
    argv[n++] = "--";
    argv[n++] = s->opt.save;
    execv(path, (char *const *)(uintptr_t)argv);
    dprintf(1, "error %s: %s\n", path, strerror(errno));
    _exit(127);
}

static int spawn(struct supervisor *s) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(out, O_CLOEXEC) < 0) {
        int e = -errno;
        close(in[0]);
        close(in[1]);
        return e;
    }
    pid_t parent = getpid();
    out_close();
    v.pid = fork();
    int e = v.pid < 0 ? -errno : 0;
    if (v.pid == 0)
        child(s, in[0], out[1], parent);
    close(in[0]);
    close(out[1]);
    v.ready = false;
    v.len = 0;
    v.in = in[1];
    v.out = (struct io_handler){.fd = out[0], .ready = out_ready};
    fcntl(v.in, F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    if (e == 0)
        e = io_add(s->epoll_fd, &v.out, EPOLLIN);
    if (e < 0) {
        close(v.out.fd);
        v.out.fd = -1;
        out_close();
        if (v.pid < 0)
            v.pid = 0;
    }
    return e;
}

static void look(struct timer *t) {
    if (!v.busy)
        return;
    v.still =
        v.at.items == v.items && v.at.bytes == v.bytes && v.moved == v.moved_then ? v.still + 1 : 0;
    v.items = v.at.items;
    v.bytes = v.at.bytes;
    v.moved_then = v.moved;
    if (v.still * LOOK_MS >= DD_SAVE_STALL_MS) {
        char text[200];
        snprintf(text, sizeof text, "nothing could be written for %d s", DD_SAVE_STALL_MS / 1000);
        saver_kill();
        answer(false, text);
        return;
    }
    timer_after(&v.s->timers, t, LOOK_MS * 1000000ull);
}

int saver_start(struct supervisor *s) {
    if (!s->opt.save)
        return 0;
    v.s = s;
    v.look.fire = look;
    int e = spawn(s);
    return e < 0 ? dd_error(e, "cannot start `ddict save`: %s", strerror(-e)) : 0;
}

void saver_command(struct supervisor *s, const char *command) {
    memset(&v.at, 0, sizeof v.at);
    v.busy = true;
    v.items = v.bytes = v.still = 0;
    timer_after(&s->timers, &v.look, LOOK_MS * 1000000ull);
    if (v.pid > 0 && (v.killed || v.in < 0)) {
        v.killed = true;
        v.next = command;
        return;
    }
    int e = v.pid > 0 ? 0 : spawn(s);
    if (e < 0)
        answer(false, strerror(-e));
    else if (v.ready)
        command_send(command);
    else
        v.next = command;
}

void saver_stop(void) {
    if (v.busy && v.in >= 0)
        command_send("stop");
}

void saver_kill(void) {
    if (v.pid <= 0)
        return;
    v.killed = true;
    kill(v.pid, SIGKILL);
}

void saver_reaped(struct supervisor *s) {
    int status;
    if (v.pid <= 0 || waitpid(v.pid, &status, WNOHANG) != v.pid)
        return;
    v.pid = 0;
    for (int i = 0; i < 64 && v.out.fd >= 0; i++)
        out_ready(&v.out, 0); /* its last words */
    bool wanted = v.killed && v.busy && v.next;
    v.killed = false;
    if (wanted) {
        int e = spawn(s);
        if (e < 0)
            answer(false, strerror(-e));
        return;
    }
    char text[100];
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "`ddict save` was killed by signal %d", WTERMSIG(status));
    else
        snprintf(text, sizeof text, "`ddict save` ended with exit code %d", WEXITSTATUS(status));
    if (s->stage == STAGE_STARTING && !v.ready && !s->lost)
        error_take(text);
    v.ready = s->stage == STAGE_STARTING && v.ready;
    answer(false, text);
}

void saver_end(void) {
    if (!v.s)
        return;
    timer_clear(&v.s->timers, &v.look);
    v.busy = false;
    if (v.pid > 0) {
        kill(v.pid, SIGKILL);
        waitpid(v.pid, NULL, WNOHANG); /* one that hangs in the file system is left to init */
    }
    out_close();
}
