/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results.c - `ddict results`: write the results that ranks submit (ddict.results of Python) to
 * files while the job runs.
 *
 * A result is a str key "ddict.results/RUN/PATH" and its bytes. A result that several processes
 * append to consists of parts, "ddict.results/RUN/PATH\0PART", whose bytes in the order of their
 * keys make the file. The writer keeps no state that listing the keys would not give again, so that
 * another writer can take its place.
 */
#include "results_file.h"
#include "results_plot.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/hash.h>
#include <base/size.h>
#include <base/text.h>
#include <base/verb.h>

#include <cmd/cmd.h>
#include <cmd/verbs.h>
#include <common/lost_keys.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX     "sddict.results/"
#define PIECES_MAX 4096 /* most processes that append to one file */
/* time between an event and the write of its file, because events of a file come in bursts */
#define GATHER_MS 500
#define RETRY_MS  3000 /* time until a failed write is tried again */
#define QUIET_MS  500  /* at the end: time without events after which we stop */
#define TURN_MS   200  /* interval between checks for the end */

static const char usage[] =
    "usage: ddict results --to=DIR [OPTION...] | plot [OPTION...] DIR\n"
    "Write the results that ranks submit (Python: ddict.results) to DIR/RUN/PATH.\n"
    "Each file is complete at any time.\n"
    "      --to=DIR         the folder; it is made if it is missing\n"
    "      --run=RUN        only results of this run\n"
    "  -f, --follow         go on until the dictionary ends\n" CMD_COMMON_USAGE
    "plot: draw the numbers in the JSON lines of DIR's files as SVG, a line for each\n"
    "file.\n"
    "  -o, --output=FILE    write to FILE instead of stdout\n"
    "      --metric=NAME    draw only this number; may be repeated (default: all)\n"
    "      --x=NAME         the horizontal axis (default: step, iteration, batch or\n"
    "                       epoch, the first that is there; else the line's number)\n";

struct part {
    uint64_t version; /* the version that was written; 0: none */
    size_t klen;
    char key[];
};
struct file {
    char *path;
    struct part **part; /* sorted by key */
    size_t n;
    unsigned losses; /* of the writer, when it was written */
    bool dirty;
};
struct manager {   /* --refill: what it last said of its keys */
    bool late;     /* in this flush: they are read again now */
    uint64_t loss; /* with which node they were lost, or that it was late; 0: they were not */
};
struct writer {
    ddict_t *d;
    ddict_sub_t *sub;
    char prefix[600];
    size_t prefix_len;
    int folder;
    const char *to;
    void *files;       /* tree of struct file */
    uint64_t dirty_at; /* time when the first file became dirty, ms; 0: none is */
    uint64_t retry_at;
    unsigned written, failures, refused;
    uint64_t bytes;
    int said; /* the errno that was reported last */
    int code; /* error of the dictionary while writing */
    bool oom;
    bool remade; /* the folder and its files had been removed, and it was made again */
    bool last;   /* started by ddictd: stays until it is the only client */
    unsigned managers;
    struct manager *manager; /* NULL: without --refill */
    unsigned losses;         /* that were seen */
    bool looked;             /* this flush has looked for them */
    bool kept;               /* it was said where the lines are that files had */
};

static volatile sig_atomic_t stopped;
static void on_signal(int n) {
    stopped = n;
}

static uint64_t now_ms(void) {
    return clock_ns() / 1000000;
}

/* --- results in the dictionary --- */

static int file_compare(const void *a, const void *b) {
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static struct file *file_get(struct writer *w, const char *path, size_t len) {
    struct file key = {.path = strndup(path, len)}, *f = NULL;
    if (!key.path)
        return NULL;
    void *at = tfind(&key, &w->files, file_compare);
    if (at) {
        free(key.path);
        return *(struct file **)at;
    }
    f = calloc(1, sizeof *f);
    if (f) {
        f->path = key.path;
        if (tsearch(f, &w->files, file_compare))
            return f;
    }
    free(f);
    free(key.path);
    return NULL;
}

static int part_compare(const struct part *p, const char *key, size_t klen) {
    int c = memcmp(p->key, key, p->klen < klen ? p->klen : klen);
    return c != 0 ? c : p->klen < klen ? -1 : p->klen > klen;
}

static struct part *part_get(struct file *f, const char *key, size_t klen) {
    size_t i = 0;
    while (i < f->n && part_compare(f->part[i], key, klen) < 0)
        i++;
    if (i < f->n && part_compare(f->part[i], key, klen) == 0)
        return f->part[i];
    struct part **part = f->n < PIECES_MAX ? realloc(f->part, (f->n + 1) * sizeof *part) : NULL;
    if (!part)
        return NULL;
    f->part = part;
    struct part *p = malloc(sizeof *p + klen);
    if (!p)
        return NULL;
    p->version = 0;
    p->klen = klen;
    memcpy(p->key, key, klen);
    memmove(part + i + 1, part + i, (f->n - i) * sizeof *part);
    part[i] = p;
    f->n++;
    return p;
}

/* Note a result that exists or has arrived. */
static void result_take(struct writer *w, const char *key, size_t klen) {
    size_t head = strlen(PREFIX);
    const char *path = key + head, *nul;
    if (klen <= head)
        return;
    size_t len = klen - head;
    if ((nul = memchr(path, 0, len)))
        len = (size_t)(nul - path);
    if (!results_path_ok(path, len) || !memchr(path, '/', len)) {
        char shown[201];
        snprintf(shown, sizeof shown, "%.*s", (int)(len < 200 ? len : 200), path);
        if (w->refused++ < 10)
            verb_say("\"%s\" is no path of a result and is left out", text_plain(shown));
        return;
    }
    struct file *f = file_get(w, path, len);
    if (!f || !part_get(f, key, klen)) {
        w->oom = true;
        return;
    }
    f->dirty = true;
    if (w->dirty_at == 0)
        w->dirty_at = now_ms();
}

static int all_take(struct writer *w) {
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    int rc = ddict_iter_open_prefix(w->d, -1, w->prefix, w->prefix_len, &it, -1);
    if (rc < 0)
        return rc;
    while ((rc = ddict_iter_next(it, &key, &klen)) == 1)
        result_take(w, key, klen);
    ddict_iter_close(it);
    return rc;
}

/* --- files --- */

static void file_failed(struct writer *w, const struct file *f, int e) {
    w->failures++;
    w->retry_at = now_ms() + RETRY_MS;
    dd_error(e, "%s/%s: %s", w->to, f->path,
             e == -EAGAIN ? "it is not written while keys that were lost with a node are read again"
                          : strerror(-e));
    if (w->said != e)
        verb_say("%s", dd_errmsg());
    w->said = e;
}

static int folder_make(const char *to);

/* The folder was removed: make it again, and use the new one. */
static bool folder_again(struct writer *w) {
    int fd = folder_make(w->to);
    if (fd < 0)
        return false;
    close(w->folder);
    w->folder = fd;
    w->remade = true;
    return true;
}

/* As ddict_view(); -EAGAIN: the keys of its manager are read again now. */
static int part_view(struct writer *w, const struct part *p, struct ddict_view *v) {
    if (w->manager) {
        bool *late = &w->manager[ddict_owner(w->d, p->key, p->klen)].late;
        int rc = *late ? -ETIMEDOUT : ddict_contains(w->d, p->key, p->klen, NULL, LOST_LOOK_MS);
        if ((rc == -ETIMEDOUT && !*late) || (rc == DDICT_EKEYLOST && p->version != 0))
            w->looked = false; /* that is news */
        *late = rc == -ETIMEDOUT;
        if (rc <= 0)
            return *late ? -EAGAIN : rc == 0 ? DDICT_ENOKEY : rc;
    }
    return ddict_view(w->d, p->key, p->klen, v, 0, -1);
}

static unsigned losses_look(struct writer *w) {
    for (unsigned m = 0; m < w->managers && !w->looked; m++) {
        struct manager *p = &w->manager[m];
        int rc = p->late ? -ETIMEDOUT : manager_lost_keys_within(w->d, m, LOST_LOOK_MS);
        p->late = rc == -ETIMEDOUT;
        uint64_t loss = rc == 1 ? XXH3_64bits(ddict_errmsg(), strlen(ddict_errmsg())) : p->late;
        w->losses += loss != 0 && loss != p->loss;
        p->loss = loss;
    }
    w->looked = true;
    return w->losses;
}

/* Lines that others appended may be lost in the dictionary: then the file stays, under another name,
 * once for each loss. */
static int file_keep(struct writer *w, const struct file *f, const struct iovec *pieces, size_t n) {
    bool grows = f->n > 1 || memchr(f->part[0]->key, 0, f->part[0]->klen);
    if (!grows || losses_look(w) == f->losses ||
        results_file_is_within(w->folder, f->path, pieces, n))
        return 0;
    int rc = results_file_keep(w->folder, f->path);
    if (rc == 0 && !w->kept)
        verb_say(
            "keys were lost with a node, and %s/%s has lines that the dictionary has not: they "
            "are kept in %s.before-loss, and so are those of other files",
            w->to, f->path, f->path);
    w->kept |= rc == 0;
    return rc;
}

static int file_flush(struct writer *w, struct file *f) {
    struct ddict_view *v = calloc(f->n, sizeof *v);
    struct iovec *pieces = calloc(f->n, sizeof *pieces);
    size_t n = 0, bytes = 0;
    bool news = false;
    int rc = !v || !pieces ? -ENOMEM : 0;
    for (size_t i = 0; i < f->n && rc == 0; i++) {
        int e = part_view(w, f->part[i], &v[i]);
        if (key_is_absent(e))
            continue; /* the part was removed, or lost, so the file goes without it */
        if (e < 0) {
            rc = e;
            w->code = e == -EAGAIN ? 0 : e;
            break;
        }
        news |= v[i].version != f->part[i]->version;
        pieces[n++] = (struct iovec){.iov_base = (void *)(uintptr_t)v[i].data, .iov_len = v[i].len};
        bytes += v[i].len;
    }
    if (rc == 0 && n > 0 && news && (rc = file_keep(w, f, pieces, n)) == 0) {
        rc = results_file_write(w->folder, f->path, pieces, n);
        if (rc == -ENOENT && folder_again(w))
            rc = results_file_write(w->folder, f->path, pieces, n);
        for (size_t i = 0; i < f->n && rc >= 0; i++)
            f->part[i]->version = v[i].kind_ != 0 ? v[i].version : 0;
        if (rc >= 0)
            f->losses = w->losses;
        if (rc == 1) {
            w->written++;
            w->bytes += bytes;
        }
    }
    for (size_t i = 0; i < f->n && v; i++)
        if (v[i].kind_ != 0)
            ddict_release(&v[i]);
    free(v);
    free(pieces);
    if (rc < 0 && w->code == 0)
        file_failed(w, f, rc);
    f->dirty = rc < 0;
    return rc < 0 ? rc : 0;
}

static struct writer *the; /* passes the writer to twalk()'s function */
static unsigned dirty_n;

static void node_flush(const void *node, VISIT when, int depth) {
    struct file *f = *(struct file *const *)node;
    (void)depth;
    if ((when != postorder && when != leaf) || !f->dirty)
        return;
    if (the->code == 0)
        file_flush(the, f);
    dirty_n += f->dirty;
}

static void node_forget(const void *node, VISIT when, int depth) {
    struct file *f = *(struct file *const *)node;
    (void)depth;
    if (when != postorder && when != leaf)
        return;
    for (size_t i = 0; i < f->n; i++)
        f->part[i]->version = 0;
    f->dirty = true;
}

/* Write the dirty files. 0, or a negative code of the dictionary. */
static int writer_flush(struct writer *w) {
    the = w;
    dirty_n = 0;
    w->dirty_at = 0;
    w->code = 0;
    w->remade = w->looked = false;
    for (unsigned m = 0; m < w->managers; m++)
        w->manager[m].late = false;
    twalk(w->files, node_flush);
    if (w->remade) {
        dirty_n = 0;
        twalk(w->files, node_forget);
        twalk(w->files, node_flush);
    }
    if (dirty_n == 0) {
        w->said = 0;
        w->retry_at = 0;
    }
    return w->code;
}

static void node_free(void *node) {
    struct file *f = node;
    for (size_t i = 0; i < f->n; i++)
        free(f->part[i]);
    free(f->part);
    free(f->path);
    free(f);
}

/* --- while the job runs --- */

/* Whether no other process uses the dictionary. */
static bool writer_is_alone(struct writer *w) {
    struct ddict_info info;
    struct ddict_manager_stats *s;
    int n = ddict_get_info(w->d, &info) == 0 ? ddict_stats(w->d, &s, sizeof *s, -1) : -1;
    bool others = n < 0;
    for (int i = 0; i < n; i++)
        others |= s[i].clients_now > (s[i].node_id == info.node_id ? 1 : 0);
    if (n >= 0)
        free(s);
    return !others;
}

static bool writer_is_due(const struct writer *w) {
    uint64_t now = now_ms();
    return (w->dirty_at != 0 && now - w->dirty_at >= GATHER_MS) ||
           (w->retry_at != 0 && now >= w->retry_at);
}

static int writer_follow(struct writer *w) {
    bool ending = false;
    uint64_t last = 0;
    for (;;) {
        struct ddict_event e;
        int rc = ddict_next_event(w->sub, &e, ending ? TURN_MS / 4 : TURN_MS);
        if (rc == 1 && e.kind == DDICT_EVENT_PUT)
            result_take(w, e.key, e.klen);
        else if (rc == 1 && e.kind == DDICT_EVENT_MISSED)
            rc = all_take(w);
        if (rc >= 0 && (writer_is_due(w) || (rc == 0 && (ending || stopped))))
            rc = writer_flush(w) < 0 ? w->code : rc;
        if (rc < 0)
            return rc;
        if (rc == 1) {
            last = now_ms();
            continue;
        }
        if (stopped || (ending && (w->last ? writer_is_alone(w) : now_ms() - last >= QUIET_MS))) {
            rc = all_take(w);
            return rc < 0 ? rc : writer_flush(w);
        }
        rc = ddict_ending(w->d);
        if (rc < 0)
            return rc;
        if (rc == 1 && !ending)
            last = now_ms();
        ending |= rc == 1;
    }
}

static int folder_make(const char *to) {
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s", to) >= sizeof path)
        return -ENAMETOOLONG;
    for (char *c = path + 1; *c != 0; c++) {
        if (*c != '/')
            continue;
        *c = 0;
        mkdir(path, 0777);
        *c = '/';
    }
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return -errno;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static ddict_t *dictionary_attach(const char *to, const char *run, bool follows) {
    const char *args[10] = {"results", "--to", to};
    int n = 3, there;
    ddict_t *d = NULL;
    if (run) {
        args[n++] = "--run";
        args[n++] = run;
    }
    if (follows)
        args[n++] = "--follow";
    if (cmd_name()) {
        args[n++] = "--name";
        args[n++] = cmd_name();
    }
    int rc = ddict_attach(&d, cmd_name(), -1);
    if (rc == DDICT_ENODICT && (there = cmd_relay(cmd_name(), (char *const *)(uintptr_t)args)) >= 0)
        exit(there); /* a node of the job has written the results */
    if (rc < 0)
        cmd_failed(NULL, rc);
    return d;
}

static int write_results(struct writer *w, bool follows) {
    int rc = 0;
    if (follows)
        rc = ddict_subscribe(w->d, w->prefix, w->prefix_len, 0, &w->sub, -1);
    if (rc >= 0)
        rc = all_take(w);
    if (rc >= 0)
        rc = writer_flush(w);
    if (rc >= 0 && follows)
        rc = writer_follow(w);
    ddict_unsubscribe(w->sub);
    unsigned unsaved = 0;
    if (rc < 0 || w->failures > 0) {
        w->code = rc == 0 ? 0 : rc;
        the = w;
        dirty_n = 0;
        if (w->code < 0)
            twalk(w->files, node_flush); /* counts the files that are not saved */
        else
            writer_flush(w);
        unsaved = dirty_n;
    }
    if (unsaved > 0)
        verb_say("%u files could not be written in their last form", unsaved);
    if (w->oom)
        verb_say("no memory for all results");
    if (rc == DDICT_EGONE && follows)
        rc = 0; /* the dictionary has ended, as expected */
    if (rc < 0)
        return cmd_failed(NULL, rc);
    return unsaved > 0 || w->oom || w->refused > 0 ? EXIT_FAILED : EXIT_OK;
}

struct line { /* options of the command line */
    char to[PATH_MAX];
    const char *run; /* NULL: all runs */
    bool follows, until_end;
    struct results_plot plot;
};

static const struct option longs[] = {CMD_LONGS,
                                      {"to", required_argument, NULL, 't'},
                                      {"run", required_argument, NULL, 'r'},
                                      {"follow", no_argument, NULL, 'f'},
                                      {"until-end", no_argument, NULL, 'u'},
                                      {"output", required_argument, NULL, 'o'},
                                      {"metric", required_argument, NULL, 'm'},
                                      {"x", required_argument, NULL, 'x'},
                                      {0}};

/* Returns the exit code. */
static int line_parse(struct line *l, int argc, char **argv) {
    for (int c; (c = cmd_option(argc, argv, "hfo:", longs, usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        if (c == 't' &&
            (*optarg == 0 || (size_t)snprintf(l->to, sizeof l->to, "%s", optarg) >= sizeof l->to))
            return cmd_usage(usage, "--to=%.60s: the name of a folder is wanted", optarg);
        else if (c == 'r')
            l->run = optarg;
        else if (c == 'o')
            l->plot.output = optarg;
        else if (c == 'x')
            l->plot.x = optarg;
        else if (c == 'm' && l->plot.metrics < RESULTS_METRICS)
            l->plot.metric[l->plot.metrics++] = optarg;
        l->follows |= c == 'f' || c == 'u';
        l->until_end |= c == 'u';
    }
    if (optind + 2 == argc && strcmp(argv[optind], "plot") == 0) {
        l->plot.folder = argv[optind + 1];
        return EXIT_OK;
    }
    if (optind < argc || l->to[0] == 0)
        return cmd_usage(usage,
                         l->to[0] == 0 && optind == argc ? "wants --to=DIR" : "takes no \"%s\"",
                         argv[optind]);
    if (l->run && (!results_path_ok(l->run, strlen(l->run)) || strchr(l->run, '/')))
        return cmd_usage(usage, "--run=%s: a name without slashes is wanted", l->run);
    return EXIT_OK;
}

/* Make path absolute in place; a path that would be too long stays relative. */
static void path_make_absolute(char path[PATH_MAX]) {
    char whole[PATH_MAX];
    if (path[0] == '/' || !getcwd(whole, sizeof whole) ||
        strlen(whole) + strlen(path) + 1 >= sizeof whole)
        return;
    strcat(strcat(whole, "/"), path);
    strcpy(path, whole);
}

static void signals_prepare(bool until_end) {
    struct sigaction a = {.sa_handler = on_signal};
    /* Started by ddictd: Slurm sends SIGTERM to all processes of the step; we end with the
     * dictionary, or at the latest with ddictd. */
    if (until_end) {
        signal(SIGTERM, SIG_IGN);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return;
    }
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

static bool managers_make(struct writer *w) {
    struct ddict_info info;
    if (ddict_refills(w->d) != 1 || ddict_get_info(w->d, &info) < 0)
        return true;
    w->managers = info.managers;
    w->manager = calloc(w->managers, sizeof *w->manager);
    return w->manager;
}

static int line_run(const struct line *l) {
    struct writer w = {.to = l->to, .last = l->until_end};
    w.prefix_len = (size_t)snprintf(w.prefix, sizeof w.prefix, "%s%s%s", PREFIX,
                                    l->run ? l->run : "", l->run ? "/" : "");
    setenv("DDICT_TIMEOUT", "60",
           0); /* not as long as a node's keys may be read again (--refill) */
    if (!(w.d = dictionary_attach(l->to, l->run, l->follows)))
        return EXIT_FAILED;
    w.folder = folder_make(l->to);
    int rc = EXIT_FAILED;
    if (w.folder < 0)
        verb_say("%s: %s", l->to, strerror(-w.folder));
    else if (!managers_make(&w))
        verb_say("out of memory");
    else
        rc = write_results(&w, l->follows);
    if (w.folder >= 0 && !l->until_end && w.written > 0) {
        char size[24];
        verb_say("%u files written, %s", w.written, size_format(size, sizeof size, w.bytes));
    }
    if (w.folder >= 0)
        close(w.folder);
    ddict_detach(w.d);
    tdestroy(w.files, node_free);
    free(w.manager);
    return rc;
}

int cmd_results(int argc, char **argv) {
    struct line l = {0};
    int rc = line_parse(&l, argc, argv);
    if (rc != EXIT_OK)
        return rc;
    if (l.plot.folder)
        return results_plot(&l.plot);
    path_make_absolute(l.to);
    signals_prepare(l.until_end);
    return line_run(&l);
}
