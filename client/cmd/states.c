/* SPDX-License-Identifier: Apache-2.0 */
/* states.c - `ddict states`: the states of a dictionary on disk (SAVE 4). */
#include "cmd.h"
#include "verbs.h"
#include <base/error.h>
#include <base/persist_ids.h>
#include <base/size.h>
#include <base/verb.h>

#include <common/columns.h>
#include <errno.h>
#include <inttypes.h>
#include <save/manifest.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: ddict states [OPTION...] [DIR]\n"
    "List the states of a dictionary on disk, which `ddict save --persist=N` and\n"
    "ddict_persist() save. DIR is what --persist=DIR named (default: the folder of\n"
    "the dictionary); a DIR is read without a dictionary, on this host.\n"
    "      --json           as a list of objects\n" CMD_COMMON_USAGE;

static const struct column heads[] = {{"state", 0}, {"saved", 1},    {"keys", 0}, {"values", 0},
                                      {"disk", 0},  {"managers", 0}, {"nodes", 0}};
#define HEADS (sizeof heads / sizeof *heads)

struct listing {
    const char *dir;
    bool json;
    struct columns table;
    json_t *list;
    int rc; /* exit code */
};

static json_t *json_of(uint64_t id, const char *path, const struct manifest_about *a) {
    return json_pack("{s:I,s:s,s:b,s:I,s:I,s:I,s:I,s:I,s:I,s:b}", "state", (json_int_t)id, "path",
                     path, "damaged", 0, "saved", (json_int_t)a->saved, "keys",
                     (json_int_t)a->items, "bytes", (json_int_t)a->bytes, "disk",
                     (json_int_t)a->size, "managers", (json_int_t)a->managers, "nodes",
                     (json_int_t)a->nodes, "lost", a->lost);
}

static json_t *json_of_damaged(uint64_t id, const char *path, const char *damage) {
    return json_pack("{s:I,s:s,s:b,s:s}", "state", (json_int_t)id, "path", path, "damaged", 1,
                     "damage", damage);
}

static void row_add(struct listing *l, uint64_t id, const struct manifest_about *a) {
    char when[32], values[24], disk[24];
    time_t saved = (time_t)a->saved;
    struct tm tm;
    if (!localtime_r(&saved, &tm) || strftime(when, sizeof when, "%F %T", &tm) == 0)
        snprintf(when, sizeof when, "%" PRId64, a->saved);
    columns_cell(&l->table, "%" PRIu64, id);
    columns_cell(&l->table, "%s", when);
    columns_cell(&l->table, "%" PRIu64, a->items);
    columns_cell(&l->table, "%s", size_format(values, sizeof values, a->bytes));
    columns_cell(&l->table, "%s", size_format(disk, sizeof disk, a->size));
    columns_cell(&l->table, "%u", a->managers);
    columns_cell(&l->table, "%u", a->nodes);
}

static void state_add(struct listing *l, uint64_t id) {
    struct manifest_about about;
    char path[4352];
    if (snprintf(path, sizeof path, "%s/%" PRIu64, l->dir, id) >= (int)sizeof path)
        return;
    int rc = manifest_about(path, &about);
    if (rc < 0 && access(path, F_OK) < 0 && errno == ENOENT)
        return; /* it was removed meanwhile */
    if (rc < 0) {
        verb_say("state %" PRIu64 ": %s", id, dd_errmsg());
        l->rc = EXIT_FAILED;
    }
    if (!l->json && rc == 0)
        row_add(l, id, &about);
    if (l->json && json_array_append_new(l->list, rc < 0 ? json_of_damaged(id, path, dd_errmsg())
                                                         : json_of(id, path, &about)) < 0)
        l->rc = cmd_failed(NULL, -ENOMEM);
}

/* The exit code. */
static int states_list(struct listing *l) {
    uint64_t *ids;
    ssize_t n = persist_ids_read(l->dir, &ids);
    if (n < 0) {
        verb_say("%s", dd_errmsg());
        return EXIT_FAILED;
    }
    columns_init(&l->table, heads, HEADS);
    l->list = l->json ? json_array() : NULL;
    for (ssize_t i = 0; i < n; i++)
        state_add(l, ids[i]);
    free(ids);
    int rc = EXIT_OK;
    if (l->json)
        rc = cmd_json_print(l->list);
    else if (columns_print(&l->table, stdout, 0, terminal_columns(stdout)) < 0)
        rc = cmd_failed(NULL, -ENOMEM);
    columns_free(&l->table);
    return l->rc != EXIT_OK ? l->rc : rc;
}

/* Of the dictionary. The exit code. */
static int states_of_dictionary(struct listing *l) {
    struct ddict_persistence p;
    ddict_t *d = cmd_attach();
    if (!d)
        return EXIT_FAILED;
    int rc = ddict_get_persistence(d, &p);
    l->dir = p.dir;
    rc = rc < 0 ? cmd_failed(NULL, rc) : states_list(l);
    ddict_detach(d);
    return rc;
}

int cmd_states(int argc, char **argv) {
    static const struct option longs[] = {CMD_LONGS, {"json", no_argument, NULL, 'j'}, {0}};
    struct listing l = {.rc = EXIT_OK};
    struct stat st;
    for (int c; (c = cmd_option(argc, argv, "h", longs, usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        l.json = true;
    }
    if (optind + 1 < argc || (optind < argc && *argv[optind] == 0))
        return cmd_usage(usage, "one folder, or none, is wanted");
    if (optind == argc)
        return cmd_flush(states_of_dictionary(&l));
    l.dir = argv[optind];
    if (stat(l.dir, &st) < 0) { /* persist_ids_read() takes it for a folder without states */
        verb_say("cannot read %s: %s", l.dir, strerror(errno));
        return EXIT_FAILED;
    }
    return cmd_flush(states_list(&l));
}
