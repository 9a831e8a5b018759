/* SPDX-License-Identifier: Apache-2.0 */
/* program.c - find the command `ddict`, and start it. */
#include "program.h"

#include <base/error.h>
#include <ddict.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

int program_find(char path[PATH_MAX]) {
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

void program_close(int *fd) {
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

static int child_spawn(pid_t *pid, char *const *argv, int in, int out) {
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
        e = posix_spawn(pid, argv[0], &actions, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (e != 0)
        *pid = 0;
    return -e;
}

int program_start(pid_t *pid, char *const *argv, int *to, int *from) {
    int in[2] = {-1, -1}, out[2] = {-1, -1}, rc = 0;
    if (to)
        rc = pipe_make(in);
    else if ((in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
        rc = -errno;
    if (rc == 0 && (rc = pipe_make(out)) == 0)
        rc = child_spawn(pid, argv, in[0], out[1]);
    program_close(&in[0]);
    program_close(&out[1]);
    if (rc < 0) {
        program_close(&in[1]);
        program_close(&out[0]);
        return dd_error(rc, "cannot start %s: %s", argv[0], strerror(-rc));
    }
    if (to)
        *to = in[1];
    *from = out[0];
    return 0;
}
