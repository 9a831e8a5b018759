/* SPDX-License-Identifier: Apache-2.0 */
/* up_child.c - start the command `ddict up`, and read what it says. */
#include "up_child.h"

#include "program.h"
#include <base/defaults.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REAP_SLICE_MS 5
#define OPTIONS_MAX   256

/* --- starting it --- */

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
    memset(c, 0, sizeof *c);
    c->in = c->out = -1;
    int rc = options_put(argv, options);
    if (rc == 0)
        rc = program_find(program);
    if (rc == 0)
        rc = program_start(&c->pid, argv, &c->in, &c->out);
    if (rc < 0)
        return rc;
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
        program_close(&c->out);
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
    program_close(&c->in);
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
    program_close(&c->in);
    program_close(&c->out);
}
