/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_stats.c - `ddict stats`, `ddict down`, `ddict env`. */
#include "cmd.h"
#include "figures.h"
#include "table.h"
#include <base/error.h>
#include <launch/launch.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char stats_usage[] =
    "usage: ddict stats [--json] [--name NAME]\n"
    "  One line for each manager and their sum. --json: all figures.\n"
    "  used: items, index, and what was replaced and is not free yet; local: reads in place; "
    "remote: requests of other nodes and of this\n"
    "  node's processes that went through the manager; in, out: bytes of values put and read.\n";

static int json_print(const struct figures *f, int n) {
    struct ddict_manager_stats total;
    figures_total(f, n, &total);
    printf("{\"managers\":[");
    for (int i = 0; i <= n; i++) {
        char *text = ddict_stats_json(i < n ? &f[i].s : &total);
        if (text == NULL)
            return -ENOMEM;
        printf(i == n ? "],\"total\":%s}\n" : i > 0 ? ",%s" : "%s", text);
        free(text);
    }
    return 0;
}

static int stats_print(const struct ddict_manager_stats *s, int n, bool json) {
    struct figures *f = calloc((size_t)n + 1, sizeof *f);
    int rc = -ENOMEM;
    if (f != NULL) {
        for (int i = 0; i < n; i++)
            f[i].s = s[i];
        rc = json ? json_print(f, n)
                  : figures_print(f, n, false, stdout, 0, terminal_columns(stdout));
    }
    free(f);
    if (rc < 0)
        fprintf(stderr, "ddict: no memory\n");
    return rc < 0 ? EXIT_FAILED : EXIT_OK;
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
        return cmd_usage(stats_usage, "stats takes no \"%s\"", argv[optind]);
    ddict_t *d = cmd_attach();
    if (d == NULL)
        return EXIT_FAILED;
    struct ddict_manager_stats *s;
    int rc = EXIT_OK, n = ddict_stats(d, &s, -1);
    if (n < 0) {
        rc = cmd_failed(NULL, n);
    } else {
        rc = stats_print(s, n, json);
        free(s);
    }
    ddict_detach(d);
    return cmd_flush(rc);
}

static const char down_usage[] = "usage: ddict down [--name NAME] [--timeout SECONDS]\n"
                                 "  Ask the managers to end: new processes are refused, those that "
                                 "are attached have a few seconds to go.\n";

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
    if (name == NULL && optind < argc)
        name = argv[optind++];
    if (optind < argc)
        return cmd_usage(down_usage, "down takes no \"%s\"", argv[optind]);
    int rc = ddict_down(name, timeout_ms), there;
    char *args[] = {(char *)(uintptr_t) "down",
                    seconds != NULL ? (char *)(uintptr_t) "--timeout" : NULL, seconds, NULL};
    if (rc == DDICT_ENODICT && (there = cmd_relay(name, args)) >= 0)
        return there;
    return rc < 0 ? cmd_failed(NULL, rc) : EXIT_OK;
}

static const char env_usage[] = "usage: ddict env [--name NAME]\n"
                                "  Print the variables that name the job's dictionary, for the "
                                "shell: eval \"$(ddict env)\". Exit code 1: it has none.\n";

int cmd_env(int argc, char **argv) {
    static const struct option longs[] = {CMD_LONGS, {0}};
    for (int c; (c = cmd_option(argc, argv, "h", longs, env_usage)) != -1;)
        if (c == '?')
            return EXIT_USAGE;
    if (optind < argc)
        return cmd_usage(env_usage, "env takes no \"%s\"", argv[optind]);
    ddict_t *d = cmd_attach();
    struct ddict_info info;
    const char *node = getenv("DDICT_NODE");
    int rc = d == NULL ? 0 : ddict_get_info(d, &info);
    if (d == NULL || rc < 0)
        return d == NULL ? EXIT_FAILED : cmd_failed(NULL, rc);
    printf("export DDICT_NAME=%s;\n", info.name);
    if (node != NULL && *node != 0)
        printf("export DDICT_NODE=%s;\n", node);
    ddict_detach(d);
    return cmd_flush(EXIT_OK);
}
