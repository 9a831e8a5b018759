/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - `ddict stats`, `ddict down`, `ddict env`. */
#include "cmd.h"
#include "verbs.h"
#include <base/error.h>
#include <base/stats.h>
#include <base/verb.h>
#include <launch/launch.h>

#include <common/columns.h>
#include <common/stats_table.h>
#include <lib/stats_public.h>
#include <stdio.h>
#include <stdlib.h>

static const char stats_usage[] =
    "usage: ddict stats [OPTION...]\n"
    "Print a line for each manager, and their sum. used: items, index, and replaced\n"
    "values that are not free yet; local: reads in place; remote: requests that went\n"
    "through the manager; in, out: bytes of values that were put and read.\n"
    "  -j, --json           all figures, as an object\n" CMD_COMMON_USAGE;

static int json_print(const struct figures *f, int n) {
    struct manager_stats total;
    json_t *all = json_array();
    figures_total(f, n, &total);
    for (int i = 0; i < n; i++)
        if (json_array_append_new(all, stats_object(&f[i].s)) < 0) {
            json_decref(all);
            return cmd_json_print(NULL);
        }
    return cmd_json_print_digits(
        json_pack("{s:o, s:o}", "managers", all, "total", stats_object(&total)), 17);
}

static int stats_print(ddict_t *d, const struct ddict_manager_stats *s, int n, bool json) {
    struct figures *f = calloc((size_t)n + 1, sizeof *f);
    unsigned keyed = ddict_keyed_nodes(d);
    int rc = EXIT_FAILED;
    for (int i = 0; f && i < n; i++) {
        stats_from_public(&f[i].s, &s[i], sizeof s[i]);
        f[i].forwards = s[i].node_id >= keyed;
        f[i].lost = s[i].state != 0;
    }
    if (f && json)
        rc = json_print(f, n);
    else if (f && figures_print(f, n, false, stdout, 0, terminal_columns(stdout)) >= 0)
        rc = EXIT_OK;
    else
        verb_say("no memory");
    free(f);
    return rc;
}

int cmd_stats(int argc, char **argv) {
    static const struct option longs[] = {CMD_LONGS, {"json", no_argument, NULL, 'j'}, {0}};
    bool json = false;
    for (int c; (c = cmd_option(argc, argv, "hj", longs, stats_usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        json = true;
    }
    if (optind < argc)
        return cmd_usage(stats_usage, "takes no \"%s\"", argv[optind]);
    ddict_t *d = cmd_attach();
    if (!d)
        return EXIT_FAILED;
    struct ddict_manager_stats *s;
    int rc = EXIT_OK, n = ddict_stats(d, &s, sizeof *s, -1);
    if (n < 0) {
        rc = cmd_failed(NULL, n);
    } else {
        rc = stats_print(d, s, n, json);
        free(s);
    }
    ddict_detach(d);
    return cmd_flush(rc);
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
