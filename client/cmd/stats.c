/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - `ddict stats`, `ddict down`, `ddict env`. */
#include "cmd.h"
#include "stats_metrics.h"
#include "verbs.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/stats.h>
#include <base/verb.h>
#include <launch/launch.h>

#include <common/columns.h>
#include <common/stats_table.h>
#include <errno.h>
#include <lib/stats_public.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char stats_usage[] =
    "usage: ddict stats [OPTION...]\n"
    "Print a line for each manager, and their sum. used: items, index, and replaced\n"
    "values that are not free yet; local: reads in place; remote: requests that went\n"
    "through the manager; in, out: bytes of values that were put and read.\n"
    "  -j, --json           all figures, as an object\n"
    "      --metrics        all figures, as OpenMetrics for Prometheus\n"
    "      --every=SECONDS  print them again and again, until the dictionary "
    "ends\n" CMD_COMMON_USAGE;

#define LOOK_MS 200 /* whether the dictionary ends: it waits for who is attached */
enum form { FORM_TABLE, FORM_JSON, FORM_METRICS };

static json_t *objects_make(const struct figures *f, int n) {
    json_t *all = json_array();
    for (int i = 0; all && i < n; i++)
        if (json_array_append_new(all, stats_object(&f[i].s)) < 0) {
            json_decref(all);
            return NULL;
        }
    return all;
}

static int json_print(const struct figures *f, int n) {
    struct manager_stats total;
    json_t *all = objects_make(f, n);
    if (!all)
        return cmd_json_print(NULL);
    figures_total(f, n, &total);
    return cmd_json_print_digits(
        json_pack("{s:o, s:o}", "managers", all, "total", stats_object(&total)), 17);
}

static int metrics_print(const struct figures *f, int n) {
    json_t *all = objects_make(f, n);
    int rc = all ? stats_metrics_print(all) : -ENOMEM;
    json_decref(all);
    if (rc < 0)
        verb_say("no memory");
    return rc < 0 ? EXIT_FAILED : EXIT_OK;
}

static int stats_print(ddict_t *d, const struct ddict_manager_stats *s, int n, enum form form) {
    struct figures *f = calloc((size_t)n + 1, sizeof *f);
    unsigned keyed = ddict_keyed_nodes(d);
    int rc = EXIT_FAILED;
    for (int i = 0; f && i < n; i++) {
        stats_from_public(&f[i].s, &s[i], sizeof s[i]);
        f[i].forwards = s[i].node_id >= keyed;
        f[i].lost = s[i].state != 0;
    }
    if (f && form == FORM_JSON)
        rc = json_print(f, n);
    else if (f && form == FORM_METRICS)
        rc = metrics_print(f, n);
    else if (f && figures_print(f, n, false, stdout, 0, terminal_columns(stdout)) >= 0)
        rc = EXIT_OK;
    else
        verb_say("no memory");
    free(f);
    return rc;
}

/* Wait until the time; false: the dictionary ends meanwhile. */
static bool stats_wait(ddict_t *d, uint64_t until_ms) {
    int ending;
    for (uint64_t now; (ending = ddict_ending(d)) == 0 && (now = clock_ms()) < until_ms;)
        usleep((useconds_t)(until_ms - now < LOOK_MS ? until_ms - now : LOOK_MS) * 1000);
    return ending == 0;
}

/* Once, or each every_ms until it ends. The exit code. */
static int stats_show(ddict_t *d, enum form form, int every_ms) {
    for (;;) {
        struct ddict_manager_stats *s;
        uint64_t began_ms = clock_ms();
        int n = ddict_stats(d, &s, sizeof *s, -1);
        if (n == DDICT_EGONE && every_ms > 0)
            return EXIT_OK;
        if (n < 0)
            return cmd_failed(NULL, n);
        int rc = cmd_flush(stats_print(d, s, n, form));
        free(s);
        if (rc != EXIT_OK || every_ms == 0 || !stats_wait(d, began_ms + (uint64_t)every_ms))
            return rc;
        if (form == FORM_TABLE)
            putchar('\n');
    }
}

int cmd_stats(int argc, char **argv) {
    static const struct option longs[] = {CMD_LONGS,
                                          {"json", no_argument, NULL, 'j'},
                                          {"metrics", no_argument, NULL, 'm'},
                                          {"every", required_argument, NULL, 'e'},
                                          {0}};
    enum form form = FORM_TABLE;
    int every_ms = 0;
    for (int c; (c = cmd_option(argc, argv, "hj", longs, stats_usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        if (c == 'e' && (every_ms = cmd_seconds(optarg)) <= 0)
            return cmd_usage(stats_usage, "--every=%s: a number of seconds above 0 is wanted",
                             optarg);
        if (c != 'e')
            form = c == 'j' ? FORM_JSON : FORM_METRICS;
    }
    if (optind < argc)
        return cmd_usage(stats_usage, "takes no \"%s\"", argv[optind]);
    if (form == FORM_METRICS && every_ms > 0)
        return cmd_usage(stats_usage, "--metrics gives them once, without --every");
    ddict_t *d = cmd_attach();
    if (!d)
        return EXIT_FAILED;
    int rc = stats_show(d, form, every_ms);
    ddict_detach(d);
    return rc;
}

static const char down_usage[] =
    "usage: ddict down [OPTION...] [NAME]\n"
    "Ask the managers to end. They refuse new processes; attached processes have a\n"
    "few seconds to detach.\n"
    "      --timeout=SECONDS  how long to wait for the managers (default: 60)\n" CMD_COMMON_USAGE;

int cmd_down(int argc, char **argv) {
    static const struct option longs[] = {
        CMD_LONGS, {"timeout", required_argument, NULL, 't'}, {0}};
    char *seconds = NULL;
    int timeout_ms = -1;
    for (int c; (c = cmd_option(argc, argv, "h", longs, down_usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        seconds = optarg;
        if ((timeout_ms = cmd_seconds(optarg)) < 0)
            return cmd_usage(down_usage, "--timeout=%s: a number of seconds is wanted", optarg);
    }
    const char *name = cmd_name();
    if (!name && optind < argc)
        name = argv[optind++];
    if (optind < argc)
        return cmd_usage(down_usage, "takes no \"%s\"", argv[optind]);
    int rc = ddict_down(name, timeout_ms), there;
    char *args[] = {(char *)(uintptr_t) "down", seconds ? (char *)(uintptr_t) "--timeout" : NULL,
                    seconds, NULL};
    if (rc == DDICT_ENODICT && (there = cmd_relay(name, args)) >= 0)
        return there;
    return rc < 0 ? cmd_failed(NULL, rc) : EXIT_OK;
}

static const char env_usage[] =
    "usage: ddict env [OPTION...]\n"
    "Print the variables that name the dictionary: eval \"$(ddict env)\"\n"
    "Exit code 1: there is none.\n" CMD_COMMON_USAGE;

int cmd_env(int argc, char **argv) {
    static const struct option longs[] = {CMD_LONGS, {0}};
    for (int c; (c = cmd_option(argc, argv, "h", longs, env_usage)) != -1;)
        if (c == '?')
            return EXIT_USAGE;
    if (optind < argc)
        return cmd_usage(env_usage, "takes no \"%s\"", argv[optind]);
    ddict_t *d = cmd_attach();
    struct ddict_info info;
    const char *node = getenv("DDICT_NODE");
    int rc = !d ? 0 : ddict_get_info(d, &info);
    if (!d || rc < 0)
        return !d ? EXIT_FAILED : cmd_failed(NULL, rc);
    printf("export DDICT_NAME=%s;\n", info.name);
    if (node && *node != 0)
        printf("export DDICT_NODE=%s;\n", node);
    ddict_detach(d);
    return cmd_flush(EXIT_OK);
}
