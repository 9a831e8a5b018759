/* SPDX-License-Identifier: Apache-2.0 */
/* up_child.c - find the command `ddict`, start it, and read what it says. */
#include "up_child.h"

#include <base/defaults.h>
#include <ddict.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REAP_SLICE_MS 5
#define OPTIONS_MAX   256

extern char **environ;

/* --- where the command is --- */

static bool program_is(char path[PATH_MAX], const char *folder, size_t len, const char *rest) {
    int n = snprintf(path, PATH_MAX, "%.*s%s", (int)len, folder, rest);
    return n > 0 && n < PATH_MAX && access(path, X_OK) == 0;
}

/* Of the same installation as this library, or of the build folder. */
static bool program_beside(char path[PATH_MAX]) {
    char real[PATH_MAX];
    Dl_info info;
    if (dladdr((void *)(uintptr_t)&ddict_version, &info) == 0 || !info.dli_fname ||
        !realpath(info.dli_fname, real))
        return false;
    size_t folder = (size_t)(strrchr(real, '/') - real);
    bool built = folder >= 6 && strncmp(real + folder - 6, "/.libs", 6) == 0;
    if (built && program_is(path, real, folder, "/../ddict"))
        return true;
    return program_is(path, real, folder, "/../bin/ddict") ||
           program_is(path, real, folder, "/../../bin/ddict"); /* lib/x86_64-linux-gnu */
}

static bool program_on_path(char path[PATH_MAX]) {
    const char *dir = getenv("PATH");
    for (; dir && *dir; dir += strspn(dir, ":")) {
        size_t n = strcspn(dir, ":");
        if (program_is(path, dir, n, "/ddict"))
            return true;
        dir += n;
    }
    return false;
}

static int program_find(char path[PATH_MAX]) {
    const char *given = getenv("DDICT_COMMAND");
    if (given && *given)
        return program_is(path, given, strlen(given), "")
                   ? 0
                   : dd_error(-ENOENT, "DDICT_COMMAND=%s: no such program", given);
    if (program_beside(path) || program_is(path, DDICT_BINDIR, strlen(DDICT_BINDIR), "/ddict") ||
        program_on_path(path))
        return 0;
    return dd_error(-ENOENT,
                    "the command `ddict`, which starts dictionaries, is neither in %s nor "
                    "on PATH; DDICT_COMMAND=PATH names it",
                    DDICT_BINDIR);
}

/* --- starting it --- */

/* A pipe whose ends are not 0, 1 or 2, which the child's ends become. */
static int pipe_make(int ends[2]) {
    int made[2];
    if (pipe2(made, O_CLOEXEC) < 0)
        return -errno;
    for (int i = 0; i < 2; i++) {
        ends[i] = made[i] > 2 ? made[i] : fcntl(made[i], F_DUPFD_CLOEXEC, 3);
        if (ends[i] != made[i])
            close(made[i]);
    }
    return ends[0] < 0 || ends[1] < 0 ? -EMFILE : 0;
}

static void fd_close(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* A session of its own, so that ^C at the terminal, or of a notebook's cell, is not for it. */
static int attributes_make(posix_spawnattr_t *a) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int e = posix_spawnattr_init(a);
    if (e != 0)
        return -e;
    posix_spawnattr_setsigmask(a, &none);
    posix_spawnattr_setsigdefault(a, &all);
    posix_spawnattr_setflags(a,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    return 0;
}

static int child_spawn(struct up_child *c, char *const *argv, int in, int out) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int e = posix_spawn_file_actions_init(&actions);
    if (e != 0)
        return -e;
    if ((e = -attributes_make(&attributes)) == 0) {
        posix_spawn_file_actions_adddup2(&actions, in, 0);
        posix_spawn_file_actions_adddup2(&actions, out, 1);
        if (fcntl(2, F_GETFD) < 0)
            posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
        e = posix_spawn(&c->pid, argv[0], &actions, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (e != 0)
        c->pid = 0;
    return -e;
}

static int options_put(char **argv, const char *const *options) {
    int n = 3;
    for (; options && *options; options++) {
        if (**options != '-')
            return dd_error(-EINVAL, "\"%.80s\" is no option: they begin with --", *options);
        if (n > OPTIONS_MAX)
            return dd_error(-EINVAL, "more than %d options", OPTIONS_MAX - 2);
        argv[n++] = (char *)(uintptr_t)*options;
    }
    argv[n] = NULL;
    return 0;
}

int up_child_start(struct up_child *c, const char *const *options) {
    char program[PATH_MAX];
    char *argv[OPTIONS_MAX + 2] = {program, (char *)(uintptr_t) "up",
                                   (char *)(uintptr_t) "--program"};
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    memset(c, 0, sizeof *c);
    c->in = c->out = -1;
    int rc = options_put(argv, options);
    if (rc == 0)
        rc = program_find(program);
    if (rc < 0)
        return rc;
    if ((rc = pipe_make(in)) == 0 && (rc = pipe_make(out)) == 0)
        rc = child_spawn(c, argv, in[0], out[1]);
    fd_close(&in[0]);
    fd_close(&out[1]);
    if (rc < 0) {
        fd_close(&in[1]);
        fd_close(&out[0]);
        return dd_error(rc, "cannot start %s: %s", program, strerror(-rc));
    }
    c->in = in[1];
    c->out = out[0];
    fcntl(c->out, F_SETFL, O_NONBLOCK);
    c->silent_ms = DD_UP_START_SILENT_MS;
    deadline_start(&c->silent, c->silent_ms);
    return 0;
}

/* --- its lines --- */

static void name_take(struct up_child *c, const char *rest) {
    if (strncmp(rest, "name=", 5) != 0)
        return;
    rest += 5;
    size_t n = strcspn(rest, " ");
    if (n < sizeof c->name) {
        memcpy(c->name, rest, n);
        c->name[n] = 0;
        c->ready = true;
    }
}

static void line_take(struct up_child *c) {
    char *word = c->line, *rest;
    if (strncmp(word, "ddict1 ", 7) != 0)
        return;
    word += 7;
    rest = word + strcspn(word, " ");
    if (*rest)
        *rest++ = 0;
    if (strcmp(word, "ready") == 0 || strcmp(word, "exists") == 0) {
        name_take(c, rest);
        c->kept = strstr(rest, " kept=yes") != NULL;
    }
    if (strcmp(word, "end") == 0)
        c->ended = true;
    if (strcmp(word, "unsaved") == 0)
        c->unsaved = true;
    if (strcmp(word, "error") == 0 || strcmp(word, "unsaved") == 0)
        snprintf(c->why, sizeof c->why, "%s", rest);
}

static void output_read(struct up_child *c) {
    char buf[512];
    ssize_t n = read(c->out, buf, sizeof buf);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        c->over = true;
        fd_close(&c->out);
    }
    for (ssize_t i = 0; i < n; i++) {
        if (buf[i] != '\n') {
            c->line[c->len] = buf[i];
            c->len += c->len < sizeof c->line - 1;
            continue;
        }
        c->line[c->len] = 0;
        c->len = 0;
        line_take(c);
    }
    if (n > 0)
        deadline_start(&c->silent, c->silent_ms);
}

int up_child_follow(struct up_child *c, bool ready, struct deadline *d) {
    while (!c->over && !(ready && (c->ready || c->why[0]))) {
        struct pollfd p = {.fd = c->out, .events = POLLIN};
        int silent = deadline_left(&c->silent, -1), left = deadline_left(d, silent);
        int n = poll(&p, 1, left);
        if (n > 0)
            output_read(c);
        else if (silent == 0)
            return -EIO;
        else if (left == 0)
            return -ETIMEDOUT;
    }
    return 0;
}

void up_child_end(struct up_child *c) {
    if (c->in < 0)
        return;
    fd_close(&c->in);
    c->silent_ms = DD_UP_END_SILENT_MS;
    deadline_start(&c->silent, c->silent_ms);
}

/* False: it is not gone by then. */
static bool exit_await(struct up_child *c, int timeout_ms) {
    struct deadline d;
    pid_t rc;
    deadline_start(&d, timeout_ms);
    while ((rc = waitpid(c->pid, &c->status, WNOHANG)) == 0 || (rc < 0 && errno == EINTR)) {
        int left = deadline_left(&d, REAP_SLICE_MS);
        if (left == 0)
            return false;
        poll(NULL, 0, left);
    }
    if (rc < 0)
        c->status = -1;
    return true;
}

void up_child_reap(struct up_child *c) {
    if (!exit_await(c, c->over ? DD_STOP_MS : 0)) {
        kill(c->pid, SIGKILL);
        exit_await(c, DD_STOP_MS);
    }
    c->pid = 0;
    up_child_close(c);
}

void up_child_close(struct up_child *c) {
    fd_close(&c->in);
    fd_close(&c->out);
}
