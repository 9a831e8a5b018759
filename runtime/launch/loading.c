/* SPDX-License-Identifier: Apache-2.0 */
/* loading.c - `ddict restore` and ddict-load, one after another, as children of `ddict up` and
 * `ddict run`. */
#include "loading.h"

#include "command.h"
#include "load_spec.h"
#include "step_argv.h"
#include <base/defaults.h>
#include <base/size.h>
#include <base/text.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS    24    /* of a command line, besides the sources */
#define STOP_MS  45000 /* from SIGTERM: above what an srun may take to end its step */
#define SLICE_MS 100

extern char **environ;

/* beside: where it is in a build folder, where ours is in .libs. */
static int program_find(const char *program, const char *beside, char *path, size_t cap) {
    char self[PATH_MAX], installed[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    snprintf(installed, sizeof installed, "%s/%s", DDICT_BINDIR, program);
    if (n > 0) {
        self[n] = '\0';
        if (command_beside(self, beside, path, cap) == 0 ||
            command_beside(self, program, path, cap) == 0)
            return 0;
    }
    if (command_find(installed, path, cap) == 0)
        return 0;
    return dd_error(-ENOENT, "%s is neither beside %s nor in %s", program, n > 0 ? self : "ddict",
                    DDICT_BINDIR);
}

/* All but the variables that name a dictionary, with DDICT_NODE where node is not "". malloc'ed
 * array of strings of environ and entry. */
static char **environment_make(const char *node, char *entry, size_t cap) {
    static const char *const drop[] = {"DDICT_NAME=", "DDICT_NODE=", "DDICT_SOCKET="};
    size_t n = 0, i, k = 0, d;
    char **env;

    while (environ[n])
        n++;
    env = calloc(n + 2, sizeof *env);
    for (i = 0; env && i < n; i++) {
        for (d = 0; d < 3 && strncmp(environ[i], drop[d], strlen(drop[d])) != 0; d++)
            continue;
        if (d == 3)
            env[k++] = environ[i];
    }
    if (env && *node != '\0') {
        snprintf(entry, cap, "DDICT_NODE=%s", node);
        env[k] = entry;
    }
    return env;
}

static void commands_free(struct loading *l) {
    while (l->lines_n > 0)
        argv_free(l->line[--l->lines_n]);
    free(l->envp);
    l->envp = NULL;
}

static void said_add(struct loading *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void said_add(struct loading *l, const char *fmt, ...) {
    size_t n = strlen(l->said);
    va_list ap;

    if (n > 0 && n + 2 < sizeof l->said)
        n += (size_t)snprintf(l->said + n, sizeof l->said - n, "; ");
    va_start(ap, fmt);
    vsnprintf(l->said + n, sizeof l->said - n, fmt, ap);
    va_end(ap);
}

static int word_add(char **argv, int *n, const char *fmt, const char *text)
    __attribute__((format(printf, 3, 0)));
static int word_add(char **argv, int *n, const char *fmt, const char *text) {
    if (asprintf(&argv[*n], fmt, text) < 0) {
        argv[*n] = NULL;
        return -ENOMEM;
    }
    ++*n;
    return 0;
}

/* The next command line; NULL without memory. extra: words besides the fixed ones. */
static char **line_begin(struct loading *l, const char *const *fixed, size_t extra, int *n) {
    char **argv = calloc(WORDS + extra, sizeof *argv);
    int rc = !argv ? -ENOMEM : 0;

    for (*n = 0; rc == 0 && fixed[*n];)
        rc = word_add(argv, n, "%s", fixed[*n]);
    if (rc == 0)
        l->line[l->lines_n++] = argv;
    else
        argv_free(argv);
    return rc == 0 ? argv : NULL;
}

static int load_plan(struct loading *l, const struct loading_ask *ask, const char *folder) {
    struct intake_set sets[INTAKE_SETS];
    char path[PATH_MAX], why[DD_ERRMSG_MAX], *copy = strdup(ask->load), *word, *save;
    const char *fixed[] = {path, "--report", "--name", ask->name, "--chdir", folder, NULL};
    int rc = !copy ? -ENOMEM : program_find("ddict-load", "../ddict-load", path, sizeof path), n, i,
        k, w;

    n = rc == 0 ? intake_sets(copy, sets, "--load", why, sizeof why) : 0;
    if (n < 0)
        rc = dd_error(-EINVAL, "%s", why);
    for (i = 0; rc == 0 && i < n; i++) {
        char **argv = line_begin(l, fixed, strlen(sets[i].sources) + INTAKE_WORDS, &k);

        rc = !argv ? -ENOMEM : 0;
        for (w = 0; rc == 0 && w < sets[i].nwords; w++)
            rc = word_add(argv, &k, "--%s", sets[i].words[w]);
        rc = rc == 0 ? word_add(argv, &k, "--", "") : rc;
        for (word = strtok_r(sets[i].sources, ",", &save); rc == 0 && word;
             word = strtok_r(NULL, ",", &save))
            rc = word_add(argv, &k, "%s", word);
    }
    free(copy);
    return rc;
}

/* A folder without a manifest is one that --save has made and not completed. */
static int is_missing(const char *file) {
    char manifest[PATH_MAX + 16];
    struct stat st;

    if (stat(file, &st) < 0)
        return errno == ENOENT;
    snprintf(manifest, sizeof manifest, "%s/manifest.json", file);
    return S_ISDIR(st.st_mode) && access(manifest, F_OK) < 0 && errno == ENOENT;
}

static int restore_plan(struct loading *l, const struct loading_ask *ask, const char *folder) {
    char path[PATH_MAX], file[PATH_MAX], *copy = strdup(ask->restore), *word, *save;
    const char *fixed[] = {path,
                           "restore",
                           "--report",
                           "--name",
                           ask->name,
                           ask->shared ? "--once" : "--",
                           ask->shared ? "--" : file,
                           ask->shared ? file : NULL,
                           NULL};
    int rc = !copy ? -ENOMEM : program_find("ddict", "ddict", path, sizeof path), k, may_miss;

    for (word = rc == 0 ? strtok_r(copy, ",", &save) : NULL; rc == 0 && word;
         word = strtok_r(NULL, ",", &save)) {
        may_miss = *word == '-';
        word += may_miss;
        if (snprintf(file, sizeof file, "%s%s%s", *word == '/' ? "" : folder,
                     *word == '/' ? "" : "/", word) >= (int)sizeof file)
            rc = dd_error(-ENAMETOOLONG, "--restore=%.60s: the path is too long", word);
        else if (may_miss && is_missing(file))
            said_add(l, "%s is not there, and so not restored", word);
        else if (l->lines_n == LOADING_LINES - INTAKE_SETS)
            rc = dd_error(-E2BIG, "--restore: at most %d paths", LOADING_LINES - INTAKE_SETS);
        else
            rc = !line_begin(l, fixed, 0, &k) ? -ENOMEM : 0;
    }
    free(copy);
    return rc;
}

/* The last of all: whoever saves the dictionary may replace what was saved before, and what is
 * read-only is frozen. */
static int mark_plan(struct loading *l, const struct loading_ask *ask) {
    char path[PATH_MAX];
    const char *fixed[] = {path, "restore", "--report", "--name", ask->name, "--loaded", NULL};
    int rc = program_find("ddict", "ddict", path, sizeof path), k;

    return rc < 0 ? rc : !line_begin(l, fixed, 0, &k) ? -ENOMEM : 0;
}

/* The next of our commands. 0 or a negative code with the sentence set. */
static int command_next(struct loading *l) {
    int out[2] = {-1, -1}, rc = 0;

    if (pipe2(out, O_CLOEXEC) < 0)
        return dd_error(-errno, "cannot make pipes: %s", strerror(errno));
    rc = command_spawn(l->line[l->at++], l->envp, -1, out[1], 2);
    close(out[1]);
    if (rc <= 0) {
        close(out[0]);
        return rc;
    }
    l->pid = rc;
    l->out = out[0];
    l->answered = 0;
    fcntl(l->out, F_SETFL, O_NONBLOCK);
    return 0;
}

int loading_start(struct loading *l, const struct loading_ask *ask) {
    char cwd[PATH_MAX];
    const char *folder = ask->folder;
    int rc;

    memset(l, 0, sizeof *l);
    l->out = -1;
    l->lines.max = 8u << 20;
    if (!folder)
        folder = getcwd(cwd, sizeof cwd) ? cwd : "/";
    l->envp = environment_make(ask->node, l->entry, sizeof l->entry);
    rc = !l->envp ? -ENOMEM : 0;
    if (rc == 0 && ask->restore)
        rc = restore_plan(l, ask, folder);
    if (rc == 0 && ask->load)
        rc = load_plan(l, ask, folder);
    if (rc == 0 && (ask->saves || ask->read_only))
        rc = mark_plan(l, ask);
    if (rc == 0 && l->lines_n == 0)
        l->ended = 1;
    else if (rc == 0)
        rc = command_next(l);
    if (rc == -ENOMEM)
        dd_error(rc, "out of memory");
    if (rc == 0)
        l->begun = 1;
    else
        commands_free(l);
    return rc;
}

/* `ddict restore` says -ECANCELED; ddict-load says -EINTR, for -ECANCELED of its own readers is no
 * signal. */
static int is_of_signal(json_int_t code) {
    return code == -ECANCELED || code == -EINTR;
}

/* Its summary, or its error. */
static void on_line(void *arg, char *line) {
    struct loading *l = arg;
    json_t *o = json_loads(line, 0, NULL);
    const char *error = json_string_value(json_object_get(o, "error")),
               *set = json_string_value(json_object_get(o, "set")),
               *path = json_string_value(json_object_get(o, "path")),
               *note = json_string_value(json_object_get(o, "note"));
    long long items = json_integer_value(json_object_get(o, "items")),
              nodes = json_integer_value(json_object_get(o, "nodes"));
    double seconds = json_number_value(json_object_get(o, "seconds"));
    char size[24];

    size_format(size, sizeof size, (uint64_t)json_integer_value(json_object_get(o, "bytes")));
    l->answered |= error || set || path || json_is_true(json_object_get(o, "loaded"));
    if (error) {
        l->signalled = is_of_signal(json_integer_value(json_object_get(o, "code")));
        snprintf(l->why, sizeof l->why, "%s", error);
        text_plain(l->why);
    } else if (set && json_is_true(json_object_get(o, "already")))
        said_add(l, "%.200s is loaded: %lld items", set, items);
    else if (set)
        said_add(l, "loaded %.200s: %lld items, %s in %.2f s, %.1f MB/s on each of %lld nodes", set,
                 items, size, seconds, json_number_value(json_object_get(o, "mb_per_s_node")),
                 nodes);
    else if (path && json_is_true(json_object_get(o, "already")))
        said_add(l, "%.200s is restored", path);
    else if (path)
        said_add(l, "restored %.200s: %lld items, %s in %.2f s by %lld node%s", path, items, size,
                 seconds, nodes, nodes == 1 ? "" : "s");
    if (note)
        said_add(l, "%.200s", note);
    text_plain(l->said);
    json_decref(o);
}

void loading_poll(const struct loading *l, struct pollfd *p) {
    *p = (struct pollfd){.fd = l->begun && !l->ended ? l->out : -1, .events = POLLIN};
}

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

static const char *program_of(const struct loading *l) {
    const char *path = l->line[l->at - 1][0], *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

void loading_reap(struct loading *l) {
    int status;

    if (l->pid <= 0 || waitpid(l->pid, &status, WNOHANG) != l->pid)
        return;
    l->pid = 0;
    out_read(l);
    if (l->out >= 0)
        close(l->out);
    l->out = -1;
    l->ended = 1;
    if (l->why[0] != '\0')
        return;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && l->answered) {
        if (l->stopped && l->at < l->lines_n)
            snprintf(l->why, sizeof l->why, "the loading was ended");
        else if (l->at < l->lines_n && command_next(l) < 0)
            snprintf(l->why, sizeof l->why, "%s", dd_errmsg());
        else
            l->ended = l->pid == 0;
        return;
    }
    if (l->stopped)
        snprintf(l->why, sizeof l->why, "the loading was ended");
    else if (WIFSIGNALED(status))
        snprintf(l->why, sizeof l->why, "%s was killed by signal %d", program_of(l),
                 WTERMSIG(status));
    else
        snprintf(l->why, sizeof l->why, "%s ended with exit code %d", program_of(l),
                 WEXITSTATUS(status));
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
    commands_free(l);
    l->begun = 0;
}

int loading_do(const struct loading_ask *ask, char *said, size_t cap) {
    struct loading l;
    int rc;

    signal(SIGCHLD, SIG_DFL);
    rc = loading_start(&l, ask);
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
