/* SPDX-License-Identifier: Apache-2.0 */
/* loading.c - ddict-load as a child of `ddict up` and `ddict run`. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defaults.h"
#include "base/size.h"
#include "launch/command.h"
#include "launch/loading.h"

#define WORDS 12          /* besides the sources */
#define STOP_MS 45000     /* from SIGTERM: above what an srun may take to end its step */
#define SLICE_MS 100

extern char **environ;

static int program_find(char *path, size_t cap) {
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (n > 0) {
        self[n] = '\0';
        if (command_beside(self, "../ddict-load", path, cap) == 0 || /* in a build folder ours is in .libs */
            command_beside(self, "ddict-load", path, cap) == 0)
            return 0;
    }
    if (command_find(DDICT_BINDIR "/ddict-load", path, cap) == 0)
        return 0;
    return dd_error(-ENOENT, "ddict-load is neither beside %s nor in %s", n > 0 ? self : "ddict", DDICT_BINDIR);
}

/* All but the variables that name a dictionary, with DDICT_NODE where node is not "". malloc'ed array of strings of environ and entry. */
static char **environment(const char *node, char *entry, size_t cap) {
    static const char *const drop[] = { "DDICT_NAME=", "DDICT_NODE=", "DDICT_SOCKET=" };
    size_t n = 0, i, k = 0, d;
    char **env;

    while (environ[n] != NULL)
        n++;
    env = calloc(n + 2, sizeof *env);
    for (i = 0; env != NULL && i < n; i++) {
        for (d = 0; d < 3 && strncmp(environ[i], drop[d], strlen(drop[d])) != 0; d++)
            continue;
        if (d == 3)
            env[k++] = environ[i];
    }
    if (env != NULL && *node != '\0') {
        snprintf(entry, cap, "DDICT_NODE=%s", node);
        env[k] = entry;
    }
    return env;
}

static char **words_make(char *path, char *sources, const char *folder, const char *name) {
    const char *fixed[] = { path, "--report", "--name", name, "--chdir", folder, "--" };
    size_t n = 1, i;
    char **argv, *word, *save;

    for (i = 0; sources[i] != '\0'; i++)
        n += sources[i] == ',';
    argv = calloc(n + WORDS, sizeof *argv);
    if (argv == NULL)
        return NULL;
    for (n = 0; n < sizeof fixed / sizeof *fixed; n++)
        argv[n] = (char *)(uintptr_t)fixed[n];
    for (word = strtok_r(sources, ",", &save); word != NULL; word = strtok_r(NULL, ",", &save))
        argv[n++] = word;
    return argv;
}

int loading_start(struct loading *l, const char *sources, const char *folder, const char *name, const char *node) {
    char path[PATH_MAX], cwd[PATH_MAX], entry[128], *copy = strdup(sources), **argv = NULL, **envp = NULL;
    int out[2] = { -1, -1 }, rc = program_find(path, sizeof path);

    memset(l, 0, sizeof *l);
    l->out = -1;
    l->lines.max = 8u << 20;
    if (folder == NULL)
        folder = getcwd(cwd, sizeof cwd) != NULL ? cwd : "/";
    if (rc == 0 && (copy == NULL || (argv = words_make(path, copy, folder, name)) == NULL || (envp = environment(node, entry, sizeof entry)) == NULL))
        rc = dd_error(-ENOMEM, "out of memory");
    if (rc == 0 && pipe2(out, O_CLOEXEC) < 0)
        rc = dd_error(-errno, "cannot make pipes: %s", strerror(errno));
    if (rc == 0)
        rc = command_spawn(argv, envp, -1, out[1], 2, -1);
    if (out[1] >= 0)
        close(out[1]);
    if (rc > 0) {
        l->pid = rc;
        l->out = out[0];
        l->begun = 1;
        fcntl(l->out, F_SETFL, O_NONBLOCK);
    } else if (out[0] >= 0) {
        close(out[0]);
    }
    free(copy);
    free(argv);
    free(envp);
    return rc < 0 ? rc : 0;
}

/* Its summary, or its error. */
static void on_line(void *arg, char *line) {
    struct loading *l = arg;
    json_t *o = json_loads(line, 0, NULL);
    const char *error = json_string_value(json_object_get(o, "error")), *set = json_string_value(json_object_get(o, "set"));
    char size[24];

    if (error != NULL)
        snprintf(l->why, sizeof l->why, "%s", error);
    else if (set != NULL && json_is_true(json_object_get(o, "already")))
        snprintf(l->said, sizeof l->said, "%.200s is loaded: %lld items", set, (long long)json_integer_value(json_object_get(o, "items")));
    else if (set != NULL)
        snprintf(l->said, sizeof l->said, "loaded %.200s: %lld items, %s in %.2f s, %.1f MB/s on each of %lld nodes", set,
                 (long long)json_integer_value(json_object_get(o, "items")), size_format(size, sizeof size, (uint64_t)json_integer_value(json_object_get(o, "bytes"))),
                 json_number_value(json_object_get(o, "seconds")), json_number_value(json_object_get(o, "mb_per_s_node")),
                 (long long)json_integer_value(json_object_get(o, "nodes")));
    json_decref(o);
}

void loading_poll(const struct loading *l, struct pollfd *p) { *p = (struct pollfd){ .fd = l->begun && !l->ended ? l->out : -1, .events = POLLIN }; }

static void out_read(struct loading *l) {
    char buf[16384];
    ssize_t n;

    while (l->out >= 0 && (n = read(l->out, buf, sizeof buf)) != -1) {
        if (n == 0) {
            close(l->out);
            l->out = -1;
        } else {
            lines_feed(&l->lines, buf, (size_t)n, on_line, l);
        }
    }
}

void loading_turn(struct loading *l) {
    out_read(l);
    if (l->stopped && l->pid > 0 && deadline_over(&l->limit))
        kill(l->pid, SIGKILL);
}

void loading_reap(struct loading *l) {
    int status;

    if (l->pid <= 0 || waitpid(l->pid, &status, WNOHANG) != l->pid)
        return;
    l->pid = 0;
    out_read(l);
    l->ended = 1;
    if (l->why[0] != '\0' || (WIFEXITED(status) && WEXITSTATUS(status) == 0 && l->said[0] != '\0'))
        return;
    if (l->stopped)
        snprintf(l->why, sizeof l->why, "the loading was ended");
    else if (WIFSIGNALED(status))
        snprintf(l->why, sizeof l->why, "ddict-load was killed by signal %d", WTERMSIG(status));
    else
        snprintf(l->why, sizeof l->why, "ddict-load ended with exit code %d", WEXITSTATUS(status));
}

void loading_stop(struct loading *l) {
    if (l->pid <= 0 || l->stopped)
        return;
    l->stopped = 1;
    deadline_start(&l->limit, STOP_MS);
    kill(l->pid, SIGTERM);
}

void loading_free(struct loading *l) {
    if (l->pid > 0) {
        kill(l->pid, SIGKILL);
        waitpid(l->pid, NULL, 0);
        l->pid = 0;
    }
    if (l->begun && l->out >= 0)
        close(l->out);
    lines_free(&l->lines);
    l->begun = 0;
}

int loading_do(const char *sources, const char *name, const char *node, char *said, size_t cap) {
    struct loading l;
    int rc;

    signal(SIGCHLD, SIG_DFL);
    rc = loading_start(&l, sources, NULL, name, node);
    while (rc == 0 && !loading_over(&l)) {
        struct pollfd p;

        loading_poll(&l, &p);
        poll(&p, 1, p.fd >= 0 ? SLICE_MS : 10);
        loading_turn(&l);
        loading_reap(&l);
    }
    if (rc == 0 && l.why[0] != '\0')
        rc = dd_error(-EIO, "%s", l.why);
    snprintf(said, cap, "%s", rc == 0 ? l.said : "");
    if (l.begun)
        loading_free(&l);
    return rc;
}
