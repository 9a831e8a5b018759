/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - `ddict report`: show from its record what a job's dictionaries did. */
#include "record_find.h"
#include "record_read.h"
#include "report_print.h"
#include <base/error.h>
#include <base/verb.h>

#include <cmd/cmd.h>
#include <cmd/verbs.h>
#include <common/columns.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: ddict report [OPTION...] [FILE|JOBID]...\n"
    "Print the record of a job's dictionaries: when and how large they were, the\n"
    "figures of each manager, what happened, which steps used them.\n"
    "  FILE                 a record; \"-\" is stdin\n"
    "  JOBID                the record of this job: ddict-JOBID.jsonl in this folder,\n"
    "                       in the site's record_dir, or in the job's working folder\n"
    "  neither              the newest ddict-*.jsonl of this folder\n"
    "  -a, --all            all ddict-*.jsonl of this folder, the oldest first\n"
    "  -j, --json           one object with everything\n" CMD_HELP_USAGE;

/* Read one record and report what is wrong with it. False: it has nothing to show. */
static bool read_one(struct record *r, const char *path) {
    char *text;
    if (record_read(r, path, &text) < 0) {
        verb_say("%s", dd_errmsg());
        return false;
    }
    if (text)
        verb_say("%s", text);
    free(text);
    return true;
}

/* Read the records that the arguments name. Returns the exit code so far. */
static int read_named(struct record *r, int n, char **word) {
    int rc = EXIT_OK;
    for (int i = 0; i < n; i++) {
        struct paths p = {0};
        bool ok = true;
        if (!is_job(word[i])) {
            ok = read_one(r, word[i]);
        } else if (record_of_job(word[i], &p) < 0) {
            verb_say("%s", dd_errmsg());
            ok = false;
        }
        for (size_t k = 0; k < p.count; k++)
            ok = read_one(r, p.path[k]) && ok;
        paths_free(&p);
        if (!ok)
            rc = EXIT_FAILED;
    }
    return rc;
}

/* Read all records of this folder, or the newest, whose name is printed. */
static int read_here(struct record *r, bool all, bool json) {
    struct paths p;
    int rc = EXIT_OK;
    if (records_here(&p) < 0) {
        verb_say("%s", dd_errmsg());
        return EXIT_FAILED;
    }
    if (!all && !json) {
        char name[300];
        snprintf(name, sizeof name, "%s", p.path[p.count - 1]);
        text_harmless(name);
        if (p.count > 1)
            printf("%s, the newest of %zu records in this folder (--all shows them all)\n\n", name,
                   p.count);
        else
            printf("%s\n\n", name);
    }
    for (size_t i = all ? 0 : p.count - 1; i < p.count; i++)
        if (!read_one(r, p.path[i]))
            rc = EXIT_FAILED;
    paths_free(&p);
    return rc;
}

int cmd_report(int argc, char **argv) {
    static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"all", no_argument, NULL, 'a'},
                                          {0}};
    bool json = false, all = false;
    for (int c; (c = cmd_option(argc, argv, "hja", longs, usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        if (c == 'j')
            json = true;
        else
            all = true;
    }
    if (all && optind < argc)
        return cmd_usage(usage, "--all is of this folder, not of \"%s\"", argv[optind]);
    struct record r;
    int rc = EXIT_FAILED, e = record_init(&r);
    if (e == 0)
        rc =
            optind < argc ? read_named(&r, argc - optind, argv + optind) : read_here(&r, all, json);
    if (e == 0 && json)
        e = report_json(&r, stdout);
    else if (e == 0)
        e = report_print(&r, stdout, terminal_columns(stdout));
    record_free(&r);
    if (e < 0) {
        verb_say("no memory");
        rc = EXIT_FAILED;
    }
    return cmd_flush(rc);
}
