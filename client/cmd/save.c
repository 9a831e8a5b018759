/* SPDX-License-Identifier: Apache-2.0 */
/* save.c - `ddict save` and `ddict restore`: the command line of client/save. */
#include "cmd.h"
#include "verbs.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>
#include <base/size.h>
#include <base/verb.h>
#include <launch/fan_out.h>

#include <common/key_text.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <save/files.h>
#include <save/manifest.h>
#include <save/once.h>
#include <save/persist.h>
#include <save/progress.h>
#include <save/restore.h>
#include <save/save.h>
#include <save/stage.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char save_usage[] =
    "usage: ddict save [OPTION...] PATH\n"
    "Write the dictionary to disk for `ddict restore`, all its nodes at once. PATH\n"
    "is a new folder on storage that all nodes share, and is complete once it has\n"
    "this name. If PATH ends in .ddict it is one file, written by one process.\n"
    "  -p, --prefix=P       only str keys that begin with P\n"
    "      --files          each value in a file of its own below PATH, named by its\n"
    "                       key; the same command goes on where it stopped\n"
    "      --persist=N      as state N of the dictionary, in its folder of states\n"
    "      --checkpoint=N   what is seen at checkpoint N (the newest)\n"
    "      --json           print the summary as an object\n"
    "  -q, --quiet          print no progress and no summary\n" CMD_COMMON_USAGE;
static const char restore_usage[] =
    "usage: ddict restore [OPTION...] PATH\n"
    "Put what `ddict save PATH` wrote into the dictionary, all its nodes at once.\n"
    "Numbers of nodes and managers may differ. Checksums are checked.\n"
    "  -p, --prefix=P       only str keys that begin with P\n"
    "      --keep           keep the values of keys that are there already\n"
    "      --no-pickles     leave pickles out: reading one runs the code in it\n"
    "      --persist=N      exactly state N of the dictionary: all else is removed,\n"
    "                       and so are later states\n"
    "      --checkpoint=N   put at checkpoint N (the newest)\n"
    "      --json           print the summary as an object\n"
    "  -q, --quiet          print no progress and no summary\n" CMD_COMMON_USAGE;

#define DONE "ddict-done " /* a worker's last line to the front begins so */
#define SAID "ddict-said " /* and its other messages so */
/* A restore of a state into a dictionary that has something: all workers check what they will put,
 * then all remove what is there, and then they put. */
#define PASS_VERIFY "verify"
#define PASS_CLEAR  "clear"

struct line {
    bool restore, files, json, quiet, keep, no_pickles;
    bool stage;  /* started by ddictd, SAVE 3 */
    bool loaded; /* started by `ddict up`: report that everything is loaded; no path */
    /* report: started by `ddict up`, print only the summary or the error, as an object; once: do
     * nothing if it was restored before */
    bool report, once;
    /* worker: this process is a worker of the save with this id */
    const char *prefix, *path, *worker;
    const char *persist; /* number of the state; NULL: PATH is ours */
    uint64_t persist_id;
    const char *checkpoint; /* of a working set; NULL: the newest */
    uint64_t checkpoint_id;
    bool turn;        /* who started us has it (client/save/persist.h) */
    const char *pass; /* of a restore of a state; NULL: the last, which puts */
    const char *usage;
};

static struct save_run run = {.workers = 1, .lock = PTHREAD_MUTEX_INITIALIZER};
static volatile sig_atomic_t signal_seen;
static bool reports;    /* --report */
static char told[1024]; /* with --report: the last message of a worker */

static void on_signal(int sig) {
    signal_seen = sig;
    __atomic_store_n(&run.stopped, 1, __ATOMIC_RELAXED); /* a flag alone; it orders nothing */
}

static int signal_came(void) {
    return signal_seen;
}

static int option_take(struct line *l, int c) {
    switch (c) {
    case 'p':
        l->prefix = optarg;
        return 0;
    case 'f':
        l->files = true;
        return 0;
    case 'k':
        l->keep = true;
        return 0;
    case 'P':
        l->no_pickles = true;
        return 0;
    case 'j':
        l->json = true;
        return 0;
    case 'q':
        l->quiet = true;
        return 0;
    case 'w':
        l->worker = optarg;
        verb_mark(SAID);
        return 0;
    case 'R':
        l->report = l->json = reports = true;
        return 0;
    case 'o':
        l->once = true;
        return 0;
    case 't':
        l->stage = true;
        return 0;
    case 'a':
        run.after_load = true;
        return 0;
    case 'l':
        l->loaded = true;
        return 0;
    case 'i':
        l->persist = optarg;
        return 0;
    case 'x':
        l->pass = optarg;
        return 0;
    case 'c':
        l->checkpoint = optarg;
        return 0;
    case 'T':
        l->turn = true;
        return 0;
    default:
        return EXIT_USAGE;
    }
}

static const char *line_verb(const struct line *l) {
    return l->restore ? "restore" : "save";
}

/* Set once a restore of a state has removed what was there. */
static bool cleared;
#define CLEARED cleared ? "; the dictionary has only a part of the state now" : ""

static void report_error(const char *sentence, int code) {
    char text[1200];
    snprintf(text, sizeof text, "%s%s", sentence, CLEARED);
    cmd_json_print(json_pack("{s:s,s:i}", "error", text, "code", code));
}

static int save_failed_by(const char *sentence, int code) {
    progress_clear();
    if (reports)
        report_error(sentence, signal_seen != 0 ? -ECANCELED : code);
    else
        verb_say("%s%s", sentence, CLEARED);
    return EXIT_FAILED;
}

static int save_failed(const char *sentence) {
    return save_failed_by(sentence, -EIO);
}

/* --- a worker, or the only process --- */

static int ticking; /* atomic */

static void *ticker_run(void *arg) {
    const struct line *l = arg;
    unsigned turns = 0;
    while (__atomic_load_n(&ticking, __ATOMIC_RELAXED)) { /* a flag alone; it orders nothing */
        if (l->worker)
            progress_tell(&run);
        else
            progress_put(0, __atomic_load_n(&run.items, __ATOMIC_RELAXED),
                         __atomic_load_n(&run.bytes, __ATOMIC_RELAXED));
        if (l->once && ++turns % 20 == 0)
            once_beat(&run);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return NULL;
}

static int fit_check(uint64_t bytes) {
    char a[24], b[24];
    uint64_t room = run.info.total_bytes + run.info.spill_bytes;
    if (bytes <= room)
        return 0;
    return dd_error(
        DDICT_EFULL,
        "%s has values of %s, and the dictionary is of %s; more of it (--ddict-mem, --mem), or a "
        "folder on a disk of each node for the rest (--ddict-spill, --spill), would do",
        run.folder, size_format(a, sizeof a, bytes), size_format(b, sizeof b, room));
}

static bool is_pass(const struct line *l, const char *pass) {
    return l->pass && strcmp(l->pass, pass) == 0;
}

/* 0, or negative with the sentence set. */
static int line_work(struct line *l) {
    uint64_t items, bytes = 0;
    pthread_t tick;
    struct stat st;
    int rc = ddict_get_info(run.d, &run.info);
    if (rc < 0)
        return dd_error(rc, "%s", ddict_errmsg());
    if (l->worker && (rc = save_checkpoint(&run, l->checkpoint ? &l->checkpoint_id : NULL)) < 0)
        return rc;
    if (l->worker) {
        run.worker = run.info.node_id; /* there is one on each node */
        run.workers = run.info.nodes;
        if (stat(run.folder, &st) < 0)
            return dd_error(
                -errno, "%s: %s, on node %s; the folder has to be on storage that all nodes share",
                run.folder, strerror(errno), run.info.node);
    }
    run.verify = is_pass(l, PASS_VERIFY);
    if (l->restore)
        rc = (rc = manifest_read(&run, &items, &bytes)) < 0 ? rc : fit_check(bytes);
    if (rc < 0)
        return rc;
    if (run.lost && run.worker == 0)
        verb_say("%s was saved after keys were lost with a node; what was saved before that, if "
                 "anything, is what manifest-before-loss.json in it names",
                 run.folder);
    if (l->once && (rc = once_begin(&run, signal_came)) != 0)
        return rc < 0 ? rc : 0;
    progress_begin(bytes, !l->quiet && !l->worker, line_verb(l));
    ticking = 1;
    bool ticks = (l->worker || !l->quiet) && pthread_create(&tick, NULL, ticker_run, l) == 0;
    rc = is_pass(l, PASS_CLEAR) ? persist_clear(&run)
         : l->restore           ? restore_parts(&run)
         : l->files             ? save_files(&run)
                                : save_parts(&run);
    int looked = l->restore || rc < 0 ? 0 : save_look_lost(&run, 0);
    if (ticks) {
        __atomic_store_n(&ticking, 0, __ATOMIC_RELAXED);
        pthread_join(tick, NULL);
    }
    progress_clear();
    if (l->once && (rc = once_end(&run, rc)) < 0 && *run.why == 0)
        return dd_error(rc, "%s", ddict_errmsg());
    if (rc < 0)
        return dd_error(-ECANCELED, "%s",
                        signal_seen != 0 && *run.why == 0 ? strsignal(signal_seen) : run.why);
    return looked < 0 ? looked : 0;
}

/* Send our figures to the front. */
static int worker_report(const struct line *l) {
    int rc = l->restore || l->files ? 0 : manifest_worker_write(&run);
    if (rc == 0)
        fprintf(stderr, DONE "%u %u %llu %llu %llu %llu %llu %d %s\n", run.worker, run.workers,
                (unsigned long long)run.items, (unsigned long long)run.bytes,
                (unsigned long long)run.same, (unsigned long long)run.left_out,
                (unsigned long long)run.already, run.lost, run.first_left_out);
    return rc;
}

static int worker_run(struct line *l) {
    const char *id = l->worker;
    for (unsigned i = 0; i < DUMP_ID; i++) {
        unsigned byte;
        if (sscanf(id + 2 * i, "%2x", &byte) != 1)
            return cmd_usage(l->usage, "--worker=%s: 32 hex digits are wanted", id);
        run.id[i] = (uint8_t)byte;
    }
    int rc = line_work(l);
    rc = rc < 0 ? rc : worker_report(l);
    return rc < 0 ? save_failed(dd_errmsg()) : EXIT_OK;
}

/* --- the front --- */

static unsigned workers_done;

static void on_line(char *text) {
    unsigned worker, workers;
    unsigned long long items, bytes, same, left_out, already;
    int lost, at = 0;
    if (sscanf(text, DONE "%u %u %llu %llu %llu %llu %llu %d %n", &worker, &workers, &items, &bytes,
               &same, &left_out, &already, &lost, &at) < 8) {
        if (strncmp(text, SAID, sizeof SAID - 1) != 0) {
            progress_line(text);
        } else if (reports) {
            snprintf(told, sizeof told, "%s", text + sizeof SAID - 1);
        } else {
            progress_clear();
            verb_say("%s", text + sizeof SAID - 1);
        }
        return;
    }
    workers_done++;
    run.workers = workers;
    run.items += items;
    run.bytes += bytes;
    run.same += same;
    run.left_out += left_out;
    run.already += already;
    run.lost |= lost;
    if (at > 0 && text[at] != 0 && *run.first_left_out == 0)
        snprintf(run.first_left_out, sizeof run.first_left_out, "%s", text + at);
}

/* Run workers on all nodes. 0; -ENOENT: impossible here; else the exit code + 1, with the error
 * printed. */
static int line_spread(const struct line *l) {
    char self[PATH_MAX], id[2 * DUMP_ID + 1], at[24];
    const char *name = cmd_name() ? cmd_name() : getenv("DDICT_NAME");
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return -ENOENT;
    self[n] = 0;
    for (unsigned i = 0; i < DUMP_ID; i++)
        snprintf(id + 2 * i, 3, "%02x", run.id[i]);
    const char *argv[24] = {self, line_verb(l), "--worker", id};
    int k = 4;
    if (l->prefix)
        argv[k++] = "--prefix", argv[k++] = l->prefix;
    if (l->files)
        argv[k++] = "--files";
    if (l->keep)
        argv[k++] = "--keep";
    if (l->no_pickles)
        argv[k++] = "--no-pickles";
    if (l->once)
        argv[k++] = "--once";
    if (l->pass)
        argv[k++] = "--pass", argv[k++] = l->pass;
    if (run.window) {
        snprintf(at, sizeof at, "%llu", (unsigned long long)run.checkpoint);
        argv[k++] = "--checkpoint", argv[k++] = at;
    }
    if (l->quiet)
        argv[k++] = "--quiet";
    if (name && *name != 0)
        argv[k++] = "--name", argv[k++] = name;
    argv[k++] = "--";
    argv[k++] = run.folder;
    progress_begin(0, !l->quiet, line_verb(l));
    struct spread s = {
        .name = name, .program = argv, .on_line = on_line, .signal_came = signal_came};
    int rc = launch_spread(&s);
    progress_clear();
    if (rc == -ENOENT)
        return rc;
    if (rc < 0)
        return save_failed(dd_errmsg()) + 1;
    if (rc > 128 && signal_seen != 0 && !reports)
        verb_say("ended by a signal (%s)", strsignal(rc - 128));
    if (rc > 0 && reports)
        report_error(*told != 0 ? told
                     : rc > 128 ? "ended by a signal"
                                : "a node failed without a word",
                     rc > 128 ? -ECANCELED : -EIO);
    if (rc == 0 && workers_done != run.workers)
        return save_failed("not all nodes said that they are done") + 1;
    return rc == 0 ? 0 : rc + 1;
}

static int summary_say(const struct line *l, uint64_t began) {
    double s = (double)(clock_ns() - began) / 1e9;
    char a[24], b[24], there[64] = "";
    /* a restore leaves items out only on request (--no-pickles) */
    int rc = run.left_out > 0 && !l->restore ? EXIT_FAILED : EXIT_OK;
    if (run.lost && !l->restore && !reports)
        verb_say("keys were lost with a node before they could be saved: %s is without them",
                 l->path);
    if (l->json) {
        json_t *o =
            json_pack("{s:b,s:s,s:I,s:I,s:I,s:I,s:f,s:I}", "already",
                      run.already > 0 && run.already == run.workers, "path", l->path, "items",
                      (json_int_t)run.items, "bytes", (json_int_t)run.bytes, "there_already",
                      (json_int_t)run.same, "left_out", (json_int_t)run.left_out, "seconds", s,
                      "nodes", (json_int_t)run.workers);
        if (o && run.lost && !l->restore)
            json_object_set_new(o, "lost", json_true());
        int said = cmd_json_print(o);
        return said != EXIT_OK ? said : rc;
    }
    if (run.left_out > 0)
        verb_say("%llu items were left out, such as %s", (unsigned long long)run.left_out,
                 run.first_left_out);
    if (!l->quiet) {
        if (run.same > 0)
            snprintf(there, sizeof there, "; %llu of them were there already",
                     (unsigned long long)run.same);
        verb_say("%s %llu items, %s in %.2f s (%s/s, %u node%s)%s",
                 l->restore ? "restored" : "saved", (unsigned long long)run.items,
                 size_format(a, sizeof a, run.bytes), s,
                 size_format(b, sizeof b, (uint64_t)((double)run.bytes / (s > 0 ? s : 1))),
                 run.workers, run.workers == 1 ? "" : "s", there);
    }
    return rc;
}

/* The temporary path that is written first; "" if the save is written in place. */
static int aside_make(const struct line *l, char *aside, size_t cap) {
    struct stat st;
    *aside = 0;
    if (l->restore)
        return 0;
    if (l->files)
        return mkdir(run.folder, 0777) < 0 && errno != EEXIST
                   ? dd_error(-errno, "cannot make %s: %s", run.folder, strerror(errno))
                   : 0;
    if (!l->persist && lstat(run.folder, &st) == 0)
        return dd_error(-EEXIST, "%s is there already; a save is not written over another one",
                        run.folder);
    int n = snprintf(aside, cap, "%s.part-", run.folder);
    for (unsigned i = 0; i < 4; i++)
        n += snprintf(aside + n, cap - (size_t)n, "%02x", run.id[i]);
    if (!run.one_file && mkdir(aside, 0700) < 0) {
        int rc = dd_error(-errno, "cannot make %s: %s", aside, strerror(errno));
        *aside = 0;
        return rc;
    }
    return 0;
}

static int aside_name(const struct line *l, const char *aside) {
    char parent[PATH_MAX];
    const char *slash = strrchr(l->path, '/');
    snprintf(parent, sizeof parent, "%.*s",
             !slash             ? 1
             : slash == l->path ? 1
                                : (int)(slash - l->path),
             !slash ? "." : l->path);
    int rc = renameat2(AT_FDCWD, aside, AT_FDCWD, l->path, RENAME_NOREPLACE);
    /* NFS, for one, does not support RENAME_NOREPLACE */
    if (rc < 0 && (errno == EINVAL || errno == ENOSYS))
        rc = rename(aside, l->path);
    if (rc < 0)
        return dd_error(-errno, "cannot name it %s: %s", l->path, strerror(errno));
    return folder_sync(parent);
}

/* Run it with workers on other nodes, or in this process alone. 0 or the exit code + 1. */
static int front_run(struct line *l, bool alone) {
    int rc = alone ? -ENOENT : line_spread(l);
    if (rc != -ENOENT)
        return rc;
    if (!run.d)
        return save_failed(ddict_errmsg()) + 1;
    run.alone = true;
    return line_work(l) < 0 ? save_failed(dd_errmsg()) + 1 : 0;
}

/* Wait for keys that are read again now. 1: keys were lost, and a worker cannot be started on the
 * node with which they were; 0; or negative with the sentence set. */
static int front_look_lost(const struct line *l) {
    run.alone = true;
    int rc = save_look_lost(&run, 0), lost;
    if (rc == 1 && !l->restore) {
        if (!l->quiet)
            verb_say("keys that were lost with a node are read again now; waiting for that");
        rc = save_look_lost(&run, DD_REFILL_MS);
    }
    lost = run.lost;
    run.alone = false;
    run.lost = false;
    return rc < 0 ? rc : lost;
}

static void figures_reset(void) {
    run.items = run.bytes = run.same = run.already = run.claimed = 0;
    workers_done = 0;
}

/* 0 or the exit code + 1. */
static int exact_prepare(struct line *l, bool alone) {
    static const char *const passes[] = {PASS_VERIFY, PASS_CLEAR};
    int rc = persist_is_empty(&run), code = 0;
    if (rc < 0)
        return save_failed(dd_errmsg()) + 1;
    for (unsigned i = 0; rc == 0 && code == 0 && i < 2; i++) {
        l->pass = passes[i];
        cleared = i == 1;
        code = front_run(l, alone);
        figures_reset();
    }
    l->pass = NULL;
    return code;
}

static int line_run_state(struct line *l) {
    char aside[PATH_MAX + 16];
    struct persist p;
    uint64_t began = clock_ns();
    int rc = ddict_attach(&run.d, cmd_name(), -1);
    if (rc == 0)
        rc = ddict_get_info(run.d, &run.info);
    if (rc < 0)
        return save_failed(ddict_errmsg());
    int lost = front_look_lost(l);
    if (lost < 0 || (rc = persist_begin(&p, &run, l->persist_id, l->restore, l->turn)) < 0)
        return save_failed_by(dd_errmsg(), lost < 0 ? -EIO : rc);
    l->path = run.folder = p.path;
    rc = save_checkpoint(&run, l->restore ? NULL : &l->persist_id);
    *aside = 0;
    int code = rc < 0 || aside_make(l, aside, sizeof aside) < 0 ? save_failed(dd_errmsg()) + 1 : 0;
    bool alone = run.info.nodes == 1 || lost;
    if (code == 0 && *aside != 0)
        run.folder = aside;
    if (code == 0 && l->restore)
        code = exact_prepare(l, alone);
    if (code == 0 && l->restore && run.window) {
        run.checkpoint = p.id;
        code = persist_window(&run, p.id) < 0 ? save_failed(dd_errmsg()) + 1 : 0;
    }
    if (code == 0)
        code = front_run(l, alone);
    if (code == 0 && (l->restore                       ? persist_restored(&p, &run)
                      : manifest_write(&run, NULL) < 0 ? -1
                                                       : persist_name(&p, &run, aside)) < 0)
        code = save_failed(dd_errmsg()) + 1;
    if (code != 0 && *aside != 0)
        folder_remove(aside);
    persist_end(&p, &run);
    return code != 0 ? code - 1 : summary_say(l, began);
}

static int line_run_front(struct line *l) {
    char aside[PATH_MAX + 16];
    uint64_t began = clock_ns();
    const char *dot = strrchr(l->path, '.');
    run.one_file = !l->restore && !l->files && dot && strcmp(dot, ".ddict") == 0;
    int rc = ddict_attach(&run.d, cmd_name(), -1);
    bool login = rc == DDICT_ENODICT && !getenv("SLURMD_NODENAME");
    if (rc == 0)
        rc = ddict_get_info(run.d, &run.info);
    if (rc < 0 && !login)
        return save_failed(ddict_errmsg());
    int lost = rc == 0 ? front_look_lost(l) : 0;
    if (lost < 0)
        return save_failed(dd_errmsg());
    if (rc == 0 && save_checkpoint(&run, l->checkpoint ? &l->checkpoint_id : NULL) < 0)
        return save_failed(dd_errmsg());
    if (login && run.one_file && (rc = cmd_relay(cmd_name(), NULL)) >= 0)
        return rc; /* a node did the work */
    if (aside_make(l, aside, sizeof aside) < 0)
        return save_failed(dd_errmsg());
    if (*aside != 0)
        run.folder = aside;
    int code = front_run(l, !login && (run.info.nodes == 1 || run.one_file || lost));
    if (code == 0 && *aside != 0 &&
        ((!run.one_file && manifest_write(&run, l->prefix) < 0) || aside_name(l, aside) < 0))
        code = save_failed(dd_errmsg()) + 1;
    if (code != 0 && *aside != 0) {
        if (run.one_file)
            unlink(aside);
        else
            folder_remove(aside);
    }
    return code != 0 ? code - 1 : summary_say(l, began);
}

static int say_loaded(void) {
    ddict_t *d = cmd_attach();
    if (!d)
        return EXIT_FAILED;
    char key[SAVE_LOADED_CAP];
    int rc = 0;
    struct ddict_persistence p;
    int frozen = ddict_is_frozen(d);
    for (unsigned n = 0; n < loaded_keys(d) && rc == 0 && frozen != 1; n++)
        rc = ddict_put(d, key, loaded_key(key, n), "", 0, 0, -1);
    if (rc == 0 && frozen != 1 && ddict_get_persistence(d, &p) == 0 && p.read_only)
        rc = ddict_freeze(d, -1);
    if (rc < 0)
        save_failed(ddict_errmsg());
    ddict_detach(d);
    return rc < 0 ? EXIT_FAILED : cmd_json_print(json_pack("{s:b}", "loaded", 1));
}

static const struct option longs[] = {CMD_LONGS,
                                      {"prefix", required_argument, NULL, 'p'},
                                      {"files", no_argument, NULL, 'f'},
                                      {"keep", no_argument, NULL, 'k'},
                                      {"no-pickles", no_argument, NULL, 'P'},
                                      {"json", no_argument, NULL, 'j'},
                                      {"quiet", no_argument, NULL, 'q'},
                                      {"worker", required_argument, NULL, 'w'},
                                      {"report", no_argument, NULL, 'R'},
                                      {"once", no_argument, NULL, 'o'},
                                      {"stage", no_argument, NULL, 't'},
                                      {"after-load", no_argument, NULL, 'a'},
                                      {"loaded", no_argument, NULL, 'l'},
                                      {"persist", required_argument, NULL, 'i'},
                                      {"pass", required_argument, NULL, 'x'},
                                      {"checkpoint", required_argument, NULL, 'c'},
                                      {"turn", no_argument, NULL, 'T'},
                                      {0}};

/* The exit code. */
static int options_parse(int argc, char **argv, struct line *l) {
    for (int c; (c = cmd_option(argc, argv, "hqp:", longs, l->usage)) != -1;)
        if (option_take(l, c) != 0)
            return EXIT_USAGE;
    if ((l->files && l->restore) || ((l->keep || l->no_pickles) && !l->restore))
        return cmd_usage(l->usage, "ddict %s has no %s", line_verb(l),
                         l->restore ? "--files"
                         : l->keep  ? "--keep"
                                    : "--no-pickles");
    if (l->persist && count_parse(l->persist, 0, INT64_MAX, &l->persist_id) < 0)
        return cmd_usage(l->usage, "--persist=%s: a number from 0 on is wanted", l->persist);
    if (l->checkpoint && count_parse(l->checkpoint, 0, INT64_MAX, &l->checkpoint_id) < 0)
        return cmd_usage(l->usage, "--checkpoint=%s: a number from 0 on is wanted", l->checkpoint);
    if (l->persist && (l->files || l->keep || l->no_pickles || l->prefix))
        return cmd_usage(l->usage, "--persist is for all of the dictionary");
    return EXIT_OK;
}

/* Copy text to path: absolute, because workers run in another folder, and without slashes at its
 * end. A path that would be too long stays relative. */
static void path_take(char path[PATH_MAX], const char *text) {
    char whole[PATH_MAX];
    snprintf(path, PATH_MAX, "%s", text);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
    if (*path == '/' || !getcwd(whole, sizeof whole) ||
        strlen(whole) + strlen(path) + 2 > sizeof whole)
        return;
    strcat(strcat(whole, "/"), path);
    strcpy(path, whole);
}

static void signals_catch(void) {
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGHUP, on_signal);
}

/* Run as the front, as one worker, or as the stage of ddictd. Returns the exit code. */
static int role_run(struct line *l) {
    int rc;
    if (l->stage)
        rc = stage_run(&run, l->files, cmd_name());
    else if (!l->worker && getrandom(run.id, sizeof run.id, 0) != sizeof run.id)
        rc = save_failed("no random numbers");
    else if (!l->worker)
        rc = l->persist ? line_run_state(l) : line_run_front(l);
    else if ((rc = ddict_attach(&run.d, cmd_name(), -1)) < 0)
        rc = save_failed(ddict_errmsg());
    else
        rc = worker_run(l);
    return rc == EXIT_FAILED && signal_seen != 0 ? 128 + signal_seen : rc;
}

static int line_run(int argc, char **argv, struct line *l) {
    struct bytes prefix = {0};
    char path[PATH_MAX];
    int rc = options_parse(argc, argv, l);
    if (rc != EXIT_OK)
        return rc;
    if (l->loaded && optind == argc)
        return cmd_flush(say_loaded());
    if (l->persist && optind < argc)
        return cmd_usage(l->usage, "--persist says where; no path is wanted");
    if (!l->persist && (optind + 1 != argc || *argv[optind] == 0))
        return cmd_usage(l->usage, "%s", optind < argc ? "one path is wanted" : "a path is wanted");
    path_take(path, l->persist ? "" : argv[optind]);
    l->path = run.folder = path;
    run.keep = l->keep;
    run.no_pickles = l->no_pickles;
    if (l->prefix && key_of_str(&prefix, l->prefix) < 0)
        return cmd_usage(l->usage, "--prefix=%s: not UTF-8", l->prefix);
    run.prefix = prefix.data;
    run.prefix_len = prefix.len;
    if (!(run.parts = json_array()))
        return save_failed("out of memory");
    signals_catch();
    rc = role_run(l);
    ddict_detach(run.d);
    json_decref(run.parts);
    once_free();
    bytes_free(&prefix);
    return cmd_flush(rc);
}

int cmd_save(int argc, char **argv) {
    struct line l = {.usage = save_usage};
    return line_run(argc, argv, &l);
}

int cmd_restore(int argc, char **argv) {
    struct line l = {.usage = restore_usage, .restore = true};
    return line_run(argc, argv, &l);
}
