/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c - `ddict copy`: the command line of client/save/copy. */
#include "cmd.h"
#include "front.h"
#include "verbs.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/size.h>
#include <base/verb.h>

#include <common/key_text.h>
#include <errno.h>
#include <pthread.h>
#include <save/copy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: ddict copy [OPTION...] FROM TO...\n"
    "Put the content of the dictionary FROM into up to 8 others of the same job,\n"
    "which are there, all nodes at once.\n"
    "  -p, --prefix=P       only str keys that begin with P\n"
    "      --keep           keep the values of keys that are there already\n"
    "      --clear          remove all keys of the other ones first\n"
    "      --compare        copy nothing; exit with 1 if the contents differ\n"
    "      --json           print the summary as an object\n"
    "  -q, --quiet          print no progress and no summary\n" CMD_HELP_USAGE;

#define SOME_FAR 16u /* values of other nodes are in memory of this one while they are read */

struct line {
    bool clear, json, quiet;
    const char *prefix;
    const char *worker;              /* number of the dictionary on whose nodes the workers are */
    const char *at;                  /* of a worker: "N,N,...", the checkpoints of all names */
    const char *name[1 + COPY_MOST]; /* FROM, then TO... */
    uint64_t checkpoint[1 + COPY_MOST];
    ddict_t *d[1 + COPY_MOST];
    unsigned n;
};

static struct save_run run = {.workers = 1, .lock = PTHREAD_MUTEX_INITIALIZER};
static struct copy_run copying = {.run = &run};

static int copy_failed(const char *sentence) {
    return front_failed(sentence, -EIO);
}

static const char *line_verb(void) {
    return copying.compare ? "copy --compare" : "copy";
}

/* --- a worker, or the only process --- */

/* The checkpoint of a handle: that which the front found newest. 0, or negative with the sentence set. */
static int checkpoint_go(struct line *l, unsigned i) {
    if (ddict_working_set(l->d[i], NULL) <= 0)
        return 0;
    if (!l->worker) {
        int64_t newest = ddict_sync_to_newest_checkpoint(l->d[i], -1);
        l->checkpoint[i] = newest < 0 ? 0 : (uint64_t)newest;
        return newest < 0 ? (int)newest : 0;
    }
    const char *at = l->at ? l->at : "";
    for (unsigned k = 0; k < i && *at != 0; k++)
        at += strcspn(at, ",") + 1;
    return ddict_set_checkpoint_id(l->d[i], strtoull(at, NULL, 10));
}

/* Attach to all, at the newest checkpoints of working sets. The exit code. */
static int line_attach(struct line *l) {
    for (unsigned i = 0; i < l->n; i++) {
        int rc = ddict_attach(&l->d[i], l->name[i], -1), there;
        if (rc == DDICT_ENODICT && !l->worker && (there = cmd_relay(l->name[i], NULL)) >= 0)
            exit(there);
        rc = rc < 0 ? rc : checkpoint_go(l, i);
        if (rc < 0)
            return cmd_failed(l->name[i], rc);
        if (i > 0)
            copying.to[copying.n++] = (struct copy_to){l->d[i], l->name[i]};
    }
    run.d = l->d[0];
    int rc = ddict_get_info(run.d, &run.info);
    return rc < 0 ? cmd_failed(l->name[0], rc) : EXIT_OK;
}

static struct front front_of(const struct line *l) {
    return (struct front){
        .run = &run, .verb = line_verb(), .quiet = l->quiet, .worker = l->worker != NULL};
}

static int items_work(void *arg) {
    return copy_items(arg);
}

/* 0, or negative with the sentence set. */
static int line_work(const struct line *l) {
    const struct front f = front_of(l);
    return front_work(&f, 0, items_work, &copying) == 0 ? 0 : front_why(&run);
}

static int worker_run(struct line *l) {
    struct ddict_info info;
    uint64_t on;
    if (count_parse(l->worker, 0, l->n - 1, &on) < 0)
        return cmd_usage(usage, "--worker=%s: a number of one of the dictionaries", l->worker);
    int rc = line_attach(l);
    if (rc != EXIT_OK)
        return rc;
    ddict_get_info(l->d[on], &info);
    run.worker = info.node_id; /* there is one on each node of that dictionary */
    run.workers = info.nodes;
    copying.some = on == 0 ? SAVE_BATCH : SOME_FAR;
    if (line_work(l) < 0) /* a signal: the front says why */
        return front_signal() != 0 ? EXIT_FAILED : copy_failed(dd_errmsg());
    front_worker_done(&run);
    return EXIT_OK;
}

/* --- the front --- */

/* The nodes of a dictionary. malloc'ed managers' statistics; NULL with the sentence said. */
static struct ddict_manager_stats *nodes_of(const struct line *l, unsigned i, unsigned *nodes) {
    struct ddict_manager_stats *s = NULL;
    struct ddict_info info;
    int rc = ddict_get_info(l->d[i], &info);
    rc = rc < 0 ? rc : ddict_stats(l->d[i], &s, sizeof *s, -1);
    if (rc < 0) {
        cmd_failed(l->name[i], rc);
        return NULL;
    }
    *nodes = info.nodes < (unsigned)rc ? info.nodes : (unsigned)rc; /* the first of each is on it */
    return s;
}

static bool nodes_within(const struct ddict_manager_stats *a, unsigned na,
                         const struct ddict_manager_stats *b, unsigned nb) {
    for (unsigned i = 0, k; i < na; i++) {
        for (k = 0; k < nb && strcmp(a[i].node, b[k].node) != 0;)
            k++;
        if (k == nb)
            return false;
    }
    return true;
}

/* *on: the dictionary whose nodes all the others have, too; -1: there is none. The exit code. */
static int common_nodes(const struct line *l, int *on) {
    struct ddict_manager_stats *stats[1 + COPY_MOST] = {0};
    unsigned nodes[1 + COPY_MOST];
    int rc = EXIT_OK;
    *on = -1;
    for (unsigned i = 0; i < l->n && rc == EXIT_OK; i++)
        rc = (stats[i] = nodes_of(l, i, &nodes[i])) ? EXIT_OK : EXIT_FAILED;
    for (unsigned i = 0; i < l->n && rc == EXIT_OK && *on < 0; i++) {
        bool within = true;
        for (unsigned k = 0; k < l->n; k++)
            within = within && nodes_within(stats[i], nodes[i], stats[k], nodes[k]);
        if (within)
            *on = nodes[i] > 1 ? (int)i : -1;
        if (within)
            break;
    }
    for (unsigned i = 0; i < l->n; i++)
        free(stats[i]);
    return rc;
}

/* Run workers on all nodes. 0; -ENOENT: impossible here; else the exit code + 1, with the error
 * printed. */
static int line_spread(const struct line *l, unsigned on) {
    char number[16], at[24 * (1 + COPY_MOST)];
    size_t len = 0;
    snprintf(number, sizeof number, "%u", on);
    for (unsigned i = 0; i < l->n; i++)
        len += (size_t)snprintf(at + len, sizeof at - len, "%llu,",
                                (unsigned long long)l->checkpoint[i]);
    const char *argv[24] = {"", "copy", "--worker", number, "--at", at};
    int k = 6;
    if (l->prefix)
        argv[k++] = "--prefix", argv[k++] = l->prefix;
    if (run.keep)
        argv[k++] = "--keep";
    if (copying.compare)
        argv[k++] = "--compare";
    argv[k++] = "--";
    for (unsigned i = 0; i < l->n; i++)
        argv[k++] = l->name[i];
    const struct front front = front_of(l);
    return front_spread(&front, l->name[on], argv);
}

/* Two names of one dictionary are refused; the others are emptied with --clear. The exit code. */
static int others_ready(const struct line *l) {
    for (unsigned i = 1; i < l->n; i++) {
        struct ddict_info info;
        ddict_get_info(l->d[i], &info);
        if (memcmp(info.id, run.info.id, sizeof info.id) == 0)
            return cmd_usage(usage, "%s is the dictionary that is copied", l->name[i]);
    }
    for (unsigned i = 1; i < l->n && l->clear; i++) {
        int rc = ddict_clear(l->d[i], -1);
        if (rc < 0)
            return cmd_failed(l->name[i], rc);
    }
    return EXIT_OK;
}

/* Of --compare: what the others have more. The exit code. */
static int others_count(const struct line *l) {
    char text[128];
    int64_t from = ddict_len(run.d, -1);
    for (unsigned i = 1; i < l->n && !l->prefix; i++) {
        int64_t to = ddict_len(l->d[i], -1);
        if (from < 0 || to < 0)
            return cmd_failed(NULL, (int)(from < 0 ? from : to));
        if (to <= from)
            continue; /* then a key is not there, if they differ */
        snprintf(text, sizeof text, "it has %lld keys, not %lld", (long long)to, (long long)from);
        save_left_out(&run, l->name[i], text);
    }
    return EXIT_OK;
}

static int summary_say(const struct line *l, uint64_t began) {
    double s = (double)(clock_ns() - began) / 1e9;
    char a[24], b[24], there[64] = "";
    int rc = run.left_out > 0 ? EXIT_FAILED : EXIT_OK;
    if (run.lost)
        verb_say("keys of %s were lost with a node: they are not copied", l->name[0]);
    if (l->json) {
        json_t *o =
            json_pack("{s:I,s:I,s:I,s:I,s:f,s:I}", "items", (json_int_t)run.items, "bytes",
                      (json_int_t)run.bytes, "there_already", (json_int_t)run.same, "differ",
                      (json_int_t)run.left_out, "seconds", s, "nodes", (json_int_t)run.workers);
        if (o && run.left_out > 0)
            json_object_set_new(o, "such_as", json_string(run.first_left_out));
        int said = cmd_json_print(o);
        return said != EXIT_OK ? said : rc;
    }
    if (run.left_out > 0)
        verb_say("the contents differ: %s", run.first_left_out);
    if (l->quiet || run.left_out > 0)
        return rc;
    if (run.same > 0)
        snprintf(there, sizeof there, "; %llu of them were there already",
                 (unsigned long long)run.same);
    verb_say("%s %llu items, %s in %.2f s (%s/s, %u node%s)%s",
             copying.compare ? "compared" : "copied", (unsigned long long)run.items,
             size_format(a, sizeof a, run.bytes), s,
             size_format(b, sizeof b, (uint64_t)((double)run.bytes / (s > 0 ? s : 1))), run.workers,
             run.workers == 1 ? "" : "s", there);
    return rc;
}

static int front_run(struct line *l) {
    uint64_t began = clock_ns();
    int on, rc = line_attach(l);
    rc = rc != EXIT_OK ? rc : others_ready(l);
    rc = rc != EXIT_OK ? rc : common_nodes(l, &on);
    if (rc != EXIT_OK)
        return rc;
    rc = on < 0 ? -ENOENT : line_spread(l, (unsigned)on);
    copying.some = run.info.nodes == 1 ? SAVE_BATCH : SOME_FAR;
    if (rc == -ENOENT)
        rc = line_work(l) < 0 ? copy_failed(dd_errmsg()) + 1 : 0;
    if (rc == 0 && copying.compare)
        rc = others_count(l) == EXIT_OK ? 0 : EXIT_FAILED + 1;
    return rc != 0 ? rc - 1 : summary_say(l, began);
}

static const struct option longs[] = {
    {"help", no_argument, NULL, 'h'},     {"prefix", required_argument, NULL, 'p'},
    {"keep", no_argument, NULL, 'k'},     {"clear", no_argument, NULL, 'C'},
    {"compare", no_argument, NULL, 'c'},  {"json", no_argument, NULL, 'j'},
    {"quiet", no_argument, NULL, 'q'},    {"worker", required_argument, NULL, 'w'},
    {"at", required_argument, NULL, 'a'}, {0}};

static int options_parse(int argc, char **argv, struct line *l) {
    for (int c; (c = cmd_option(argc, argv, "hqp:", longs, usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        if (c == 'p')
            l->prefix = optarg;
        if (c == 'w') {
            l->worker = optarg;
            front_mark();
        }
        if (c == 'a')
            l->at = optarg;
        run.keep |= c == 'k';
        l->clear |= c == 'C';
        copying.compare |= c == 'c';
        l->json |= c == 'j';
        l->quiet |= c == 'q';
    }
    if (copying.compare && (run.keep || l->clear))
        return cmd_usage(usage, "--compare copies nothing, so --keep and --clear say nothing");
    if (optind + 2 > argc || optind + 1 + (int)COPY_MOST < argc)
        return cmd_usage(usage, "the name of a dictionary is wanted, and of 1 to %u to copy it to",
                         COPY_MOST);
    while (optind < argc)
        l->name[l->n++] = argv[optind++];
    return EXIT_OK;
}

int cmd_copy(int argc, char **argv) {
    struct line l = {0};
    struct bytes prefix = {0};
    int rc = options_parse(argc, argv, &l);
    if (rc != EXIT_OK)
        return rc;
    if (l.prefix && key_of_str(&prefix, l.prefix) < 0)
        return cmd_usage(usage, "--prefix=%s: not UTF-8", l.prefix);
    run.prefix = prefix.data;
    run.prefix_len = prefix.len;
    front_signals(&run);
    rc = l.worker ? worker_run(&l) : front_run(&l);
    for (unsigned i = 0; i < l.n; i++)
        ddict_detach(l.d[i]);
    bytes_free(&prefix);
    return cmd_flush(rc == EXIT_FAILED && front_signal() != 0 ? 128 + front_signal() : rc);
}
