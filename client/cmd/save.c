/* SPDX-License-Identifier: Apache-2.0 */
/* save.c - `ddict save` and `ddict restore`: the command line of client/save. */
#include "cmd.h"
#include "save_line.h"
#include "verbs.h"
#include <base/error.h>
#include <base/size.h>

#include <common/key_text.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <save/once.h>
#include <save/stage.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
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

struct save_run save_run = {.workers = 1, .lock = PTHREAD_MUTEX_INITIALIZER};

int save_failed(const char *sentence) {
    return front_failed(sentence, -EIO);
}

const char *line_verb(const struct save_line *l) {
    return l->restore ? "restore" : "save";
}

struct front line_front(const struct save_line *l) {
    return (struct front){.run = &save_run,
                          .verb = line_verb(l),
                          .quiet = l->quiet,
                          .worker = l->worker != NULL,
                          .beat = l->once ? once_beat : NULL};
}

static int option_take(struct save_line *l, int c) {
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
        front_mark();
        return 0;
    case 'R':
        l->report = l->json = true;
        front_report();
        return 0;
    case 'o':
        l->once = true;
        return 0;
    case 't':
        l->stage = true;
        return 0;
    case 'a':
        save_run.after_load = true;
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
    case 'r':
        l->restoring = true;
        return 0;
    case 'c':
        l->checkpoint = optarg;
        return 0;
    case 'T':
        l->turn = optarg;
        return 0;
    default:
        return EXIT_USAGE;
    }
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
                                      {"restoring", no_argument, NULL, 'r'},
                                      {"checkpoint", required_argument, NULL, 'c'},
                                      {"turn", required_argument, NULL, 'T'},
                                      {0}};

/* The exit code. */
static int options_parse(int argc, char **argv, struct save_line *l) {
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
    if (l->turn && count_parse(l->turn, 1, INT64_MAX, &l->turn_version) < 0)
        return cmd_usage(l->usage, "--turn=%s: the version of an item is wanted", l->turn);
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

/* Run as the front, as one worker, or as the stage of ddictd. Returns the exit code. */
static int role_run(struct save_line *l) {
    int rc;
    if (l->stage)
        rc = stage_run(&save_run, l->files, cmd_name());
    else if (!l->worker && getrandom(save_run.id, sizeof save_run.id, 0) != sizeof save_run.id)
        rc = save_failed("no random numbers");
    else if (!l->worker)
        rc = l->persist ? line_run_state(l) : line_run_front(l);
    else if ((rc = ddict_attach(&save_run.d, cmd_name(), -1)) < 0)
        rc = save_failed(ddict_errmsg());
    else
        rc = line_run_worker(l);
    return rc == EXIT_FAILED && front_signal() != 0 ? 128 + front_signal() : rc;
}

static int line_run(int argc, char **argv, struct save_line *l) {
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
    l->path = save_run.folder = path;
    save_run.keep = l->keep;
    save_run.no_pickles = l->no_pickles;
    if (l->prefix && key_of_str(&prefix, l->prefix) < 0)
        return cmd_usage(l->usage, "--prefix=%s: not UTF-8", l->prefix);
    save_run.prefix = prefix.data;
    save_run.prefix_len = prefix.len;
    if (!(save_run.parts = json_array()))
        return save_failed("out of memory");
    front_signals(&save_run);
    rc = role_run(l);
    ddict_detach(save_run.d);
    json_decref(save_run.parts);
    once_free();
    bytes_free(&prefix);
    return cmd_flush(rc);
}

int cmd_save(int argc, char **argv) {
    struct save_line l = {.usage = save_usage};
    return line_run(argc, argv, &l);
}

int cmd_restore(int argc, char **argv) {
    struct save_line l = {.usage = restore_usage, .restore = true};
    return line_run(argc, argv, &l);
}
