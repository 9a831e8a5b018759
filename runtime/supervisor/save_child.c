/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save_child.c - --save: `ddict save --stage`, a child of each ddictd, from before the dictionary
 * is ready until its end (SAVE 3). It is a client for which the dictionary does not wait at its
 * end. ddictd tells it to make a pass, and passes its answer to save_passes.c. If nothing moves for
 * DD_SAVE_STALL_MS it is killed, and another one is started for the next pass.
 */
#include "coordinator.h"
#include "life_events.h"
#include "manager_events.h"
#include "owner_map.h"
#include "results.h"
#include "save_passes.h"
#include "supervisor.h"
#include <base/error.h>
#include <base/log.h>

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

#define PROGRESS_MS 1000u /* between two checks whether the child makes progress */

struct save_child {
    struct supervisor *s;
    pid_t pid;             /* 0: none */
    int in;                /* our end of its stdin; -1 */
    struct io_handler out; /* fd -1: it has ended */
    bool ready, busy;      /* busy: with a command */
    /* its end is awaited and its output ignored; the next command is for a new child */
    bool killed;
    const char *next; /* a command for when it is ready; NULL: none */
    struct timer look;
    uint64_t items, bytes;      /* at the last check */
    uint64_t moved, moved_then; /* now, and at the last check */
    unsigned still;             /* checks since they grew */
    struct save_word at;        /* of this pass */
    char line[1024];
    size_t len;
};
static struct save_child child = {.in = -1, .out.fd = -1};

bool save_child_is(pid_t pid) {
    return pid > 0 && pid == child.pid;
}
bool save_child_is_ready(const struct supervisor *s) {
    return !s->opt.save || child.ready;
}
const struct save_word *save_child_progress(void) {
    return &child.at;
}

static void child_pipes_close(void) {
    if (child.out.fd >= 0) {
        io_remove(child.s->epoll_fd, &child.out);
        close(child.out.fd);
    }
    if (child.in >= 0)
        close(child.in);
    child.out.fd = child.in = -1;
}

/* The command is over. */
static void command_answer(bool ok, const char *text) {
    if (!child.busy)
        return;
    child.busy = false;
    child.next = NULL;
    timer_clear(&child.s->timers, &child.look);
    child.at.ok = ok;
    child.at.node = child.s->node_id;
    snprintf(child.at.text, sizeof child.at.text, "%s", text);
    save_passes_answered(child.s, &child.at);
}

/* Behind "pass" the managers of other nodes whose keys are served here, behind "publish" the nodes
 * that wrote nothing. */
static void command_numbers(FILE *f, const char *command) {
    const struct supervisor *s = child.s;
    for (uint32_t i = 0; strcmp(command, "pass") == 0 && s->owner_map && i < s->managers; i++)
        if (i % s->nodes != s->node_id && owner_is_ours(s, i))
            fprintf(f, " %u", i);
    for (uint32_t i = 0; strcmp(command, "publish") == 0 && i < s->nodes; i++)
        if (coordinator_is_lost(s, i))
            fprintf(f, " %u", i);
}

static void command_send(const char *command) {
    char *line = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&line, &len);
    if (f) {
        fputs(command, f);
        command_numbers(f, command);
        fputc('\n', f);
        if (fclose(f) != 0)
            len = 0;
    }
    if (len == 0 || write(child.in, line, len) != (ssize_t)len)
        log_warn("`ddict save` takes no command: %s", strerror(errno));
    free(line);
}

static void ready_handle(void) {
    struct supervisor *s = child.s;
    bool first = s->stage == STAGE_STARTING && !child.ready;
    child.ready = true;
    if (first)
        managers_ready(s);
    if (child.next)
        command_send(child.next);
    child.next = NULL;
}

static void error_handle(const char *text) {
    struct supervisor *s = child.s;
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "cannot save to %s on node %s: %s", s->opt.save, s->node,
             text);
    if (s->stage == STAGE_STARTING)
        supervisor_lost(s, "%s", sentence);
    else
        command_answer(false, sentence);
}

static void line_handle(char *line) {
    struct save_word *w = &child.at;
    int at = 0;
    uint64_t bytes;
    if (child.killed)
        return;
    if (strcmp(line, "ready") == 0)
        ready_handle();
    else if (strncmp(line, "error ", 6) == 0)
        error_handle(line + 6);
    else if (sscanf(line, "at %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &w->items, &w->bytes,
                    &w->of, &child.moved) == 4)
        return;
    else if (sscanf(line, "done %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %*f %n", &w->items,
                    &w->bytes, &w->same, &w->left_out, &at) == 4)
        command_answer(true, at > 0 && w->left_out > 0 ? line + at : "");
    else if (strncmp(line, "failed ", 7) == 0)
        command_answer(false, line + 7);
    else if (sscanf(line, "published %" SCNu64 " %" SCNu64, &w->items, &w->bytes) == 2)
        command_answer(true, "");
    else if (sscanf(line, "size %" SCNu64, &bytes) == 1) {
        w->bytes = bytes;
        command_answer(true, "");
    }
}

static void child_out_ready(struct io_handler *h, uint32_t events) {
    char buf[1024];
    ssize_t n = read(h->fd, buf, sizeof buf);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    for (ssize_t i = 0; i < n && child.out.fd >= 0; i++) {
        if (buf[i] != '\n') {
            if (child.len < sizeof child.line - 1)
                child.line[child.len++] = buf[i];
            continue;
        }
        child.line[child.len] = 0;
        child.len = 0;
        line_handle(child.line);
    }
    if (n <= 0)
        child_pipes_close();
}

static void child_run(struct supervisor *s, int in, int out, pid_t parent)
    __attribute__((noreturn));
static void child_run(struct supervisor *s, int in, int out, pid_t parent) {
    char path[PATH_MAX];
    const char *argv[14] = {"ddict", "save", "--stage", "--name", s->opt.name};
    int n = 5;
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    signal(SIGTERM,
           SIG_IGN); /* Slurm sends it to the whole step; ddictd decides when the child ends */
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

static int child_spawn(struct supervisor *s) {
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
    child_pipes_close();
    child.pid = fork();
    int e = child.pid < 0 ? -errno : 0;
    if (child.pid == 0)
        child_run(s, in[0], out[1], parent);
    close(in[0]);
    close(out[1]);
    child.ready = false;
    child.len = 0;
    child.in = in[1];
    child.out = (struct io_handler){.fd = out[0], .ready = child_out_ready};
    fcntl(child.in, F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    if (e == 0)
        e = io_add(s->epoll_fd, &child.out, EPOLLIN);
    if (e < 0) {
        close(child.out.fd);
        child.out.fd = -1;
        child_pipes_close();
        if (child.pid < 0)
            child.pid = 0;
    }
    return e;
}

static void progress_check(struct timer *t) {
    if (!child.busy)
        return;
    child.still = child.at.items == child.items && child.at.bytes == child.bytes &&
                          child.moved == child.moved_then
                      ? child.still + 1
                      : 0;
    child.items = child.at.items;
    child.bytes = child.at.bytes;
    child.moved_then = child.moved;
    if (child.still * PROGRESS_MS >= DD_SAVE_STALL_MS) {
        char text[200];
        snprintf(text, sizeof text, "nothing could be written for %d s", DD_SAVE_STALL_MS / 1000);
        save_child_kill();
        command_answer(false, text);
        return;
    }
    timer_after(&child.s->timers, t, PROGRESS_MS * 1000000ull);
}

int save_child_start(struct supervisor *s) {
    if (!s->opt.save)
        return 0;
    child.s = s;
    child.look.fire = progress_check;
    int e = child_spawn(s);
    return e < 0 ? dd_error(e, "cannot start `ddict save`: %s", strerror(-e)) : 0;
}

void save_child_command(struct supervisor *s, const char *command) {
    memset(&child.at, 0, sizeof child.at);
    child.busy = true;
    child.items = child.bytes = child.still = 0;
    timer_after(&s->timers, &child.look, PROGRESS_MS * 1000000ull);
    if (child.pid > 0 && (child.killed || child.in < 0)) {
        child.killed = true;
        child.next = command;
        return;
    }
    int e = child.pid > 0 ? 0 : child_spawn(s);
    if (e < 0)
        command_answer(false, strerror(-e));
    else if (child.ready)
        command_send(command);
    else
        child.next = command;
}

void save_child_stop(void) {
    if (child.busy && child.in >= 0)
        command_send("stop");
}

void save_child_kill(void) {
    if (child.pid <= 0)
        return;
    child.killed = true;
    kill(child.pid, SIGKILL);
}

void save_child_reap(struct supervisor *s) {
    int status;
    if (child.pid <= 0 || waitpid(child.pid, &status, WNOHANG) != child.pid)
        return;
    child.pid = 0;
    for (int i = 0; i < 64 && child.out.fd >= 0; i++)
        child_out_ready(&child.out, 0); /* the rest of its output */
    bool wanted = child.killed && child.busy && child.next;
    child.killed = false;
    if (wanted) {
        int e = child_spawn(s);
        if (e < 0)
            command_answer(false, strerror(-e));
        return;
    }
    char text[100];
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "`ddict save` was killed by signal %d", WTERMSIG(status));
    else
        snprintf(text, sizeof text, "`ddict save` ended with exit code %d", WEXITSTATUS(status));
    if (s->stage == STAGE_STARTING && !child.ready && !s->lost)
        error_handle(text);
    child.ready = s->stage == STAGE_STARTING && child.ready;
    command_answer(false, text);
}

void save_child_end(void) {
    if (!child.s)
        return;
    timer_clear(&child.s->timers, &child.look);
    child.busy = false;
    if (child.pid > 0) {
        kill(child.pid, SIGKILL);
        waitpid(child.pid, NULL, WNOHANG); /* one that hangs in the file system is left to init */
    }
    child_pipes_close();
}
