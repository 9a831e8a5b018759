/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_stats.c - `ddict stats` and `ddict down`. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/error.h>
#include <base/size.h>
#include <base/stats.h>
#include <launch/launch.h>
#include "cmd.h"

static const char stats_usage[] =
    "usage: ddict stats [--json] [--name NAME]\n"
    "  One line for each manager and their sum. --json: all figures.\n"
    "  used: items, index, and what was replaced and is not free yet; local: reads in place; remote: requests of other nodes and of this\n"
    "  node's processes that went through the manager; in, out: bytes of values put and read.\n";

/* 12345678 -> "12.3M", at most 6 characters. */
static const char *count_short(char *buf, size_t cap, uint64_t n)
{
    static const char unit[] = " kMGTPE";
    unsigned u = 0;
    double v = (double)n;
    while (v >= 999.95 && u < sizeof unit - 2) {
        v /= 1000;
        u++;
    }
    if (u == 0)
        snprintf(buf, cap, "%" PRIu64, n);
    else
        snprintf(buf, cap, "%.1f%c", v, unit[u]);
    return buf;
}

static void row(const char *who, const char *node, const char *pid, const struct ddict_manager_stats *s)
{
    char b[10][24];
    const char *used = size_format(b[0], sizeof b[0], s->total_used_bytes), *total = size_format(b[1], sizeof b[1], s->total_bytes);
    printf("%7s  %-16s %8s %10s %10s %5.1f%% %8s %8s %8s %8s %8s %10s %10s %8s\n", who, node, pid, used, total, s->pool_utilization,
           count_short(b[2], sizeof b[2], s->num_keys), count_short(b[3], sizeof b[3], s->puts), count_short(b[4], sizeof b[4], s->gets_local),
           count_short(b[5], sizeof b[5], s->gets_remote), count_short(b[6], sizeof b[6], s->misses), size_format(b[7], sizeof b[7], s->bytes_in),
           size_format(b[8], sizeof b[8], s->bytes_out), count_short(b[9], sizeof b[9], s->clients_now));
}

static void total_of(const struct ddict_manager_stats *s, int n, struct ddict_manager_stats *total)
{
    memset(total, 0, sizeof *total);
    for (int i = 0; i < n; i++)
        stats_merge(total, &s[i]);
    total->clients_now = 0; /* a client is counted by each manager of its node */
    for (int i = 0; i < n; i++)
        if (s[i].manager_id == s[i].node_id)
            total->clients_now += s[i].clients_now;
    total->pool_utilization = total->total_bytes ? 100.0 * (double)total->total_used_bytes / (double)total->total_bytes : 0;
}

static void table_print(const struct ddict_manager_stats *s, int n)
{
    struct ddict_manager_stats total;
    printf("%7s  %-16s %8s %10s %10s %6s %8s %8s %8s %8s %8s %10s %10s %8s\n", "manager", "node", "pid", "used", "of", "", "keys", "puts",
           "local", "remote", "misses", "in", "out", "clients");
    for (int i = 0; i < n; i++) {
        char id[16], pid[16];
        snprintf(id, sizeof id, "%u", s[i].manager_id);
        snprintf(pid, sizeof pid, "%u", s[i].pid);
        row(id, s[i].node, pid, &s[i]);
    }
    total_of(s, n, &total);
    row("total", "", "", &total);
    for (int i = 0; i < n; i++) {
        char a[24], b[24];
        if (s[i].leased_bytes > 0)
            printf("manager %u: views hold %s of replaced values, %s of them process %u\n", s[i].manager_id,
                   size_format(a, sizeof a, s[i].leased_bytes), size_format(b, sizeof b, s[i].largest_holder_bytes), s[i].largest_holder_pid);
        if (s[i].full_errors > 0)
            printf("manager %u refused %" PRIu64 " puts because it was full\n", s[i].manager_id, s[i].full_errors);
    }
}

static int json_print(const struct ddict_manager_stats *s, int n)
{
    struct ddict_manager_stats total;
    printf("{\"managers\":[");
    for (int i = 0; i <= n; i++) {
        if (i == n)
            total_of(s, n, &total);
        char *text = ddict_stats_json(i < n ? &s[i] : &total);
        if (text == NULL) {
            fprintf(stderr, "ddict: no memory\n");
            return EXIT_FAILED;
        }
        printf(i == n ? "],\"total\":%s}\n" : i > 0 ? ",%s" : "%s", text);
        free(text);
    }
    return EXIT_OK;
}

int cmd_stats(int argc, char **argv)
{
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
        if (json)
            rc = json_print(s, n);
        else
            table_print(s, n);
        free(s);
    }
    ddict_detach(d);
    return cmd_flush(rc);
}

static const char down_usage[] =
    "usage: ddict down [--name NAME] [--timeout SECONDS]\n"
    "  Ask the managers to end: new processes are refused, those that are attached have a few seconds to go.\n";

int cmd_down(int argc, char **argv)
{
    static const struct option longs[] = {CMD_LONGS, {"timeout", required_argument, NULL, 't'}, {0}};
    int timeout_ms = -1;
    for (int c; (c = cmd_option(argc, argv, "h", longs, down_usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        if ((timeout_ms = cmd_seconds(optarg)) < 0)
            return cmd_usage(down_usage, "--timeout=%s: a number of seconds is wanted", optarg);
    }
    const char *name = cmd_name();
    if (name == NULL && optind < argc)
        name = argv[optind++];
    if (optind < argc)
        return cmd_usage(down_usage, "down takes no \"%s\"", argv[optind]);
    int rc = ddict_down(name, timeout_ms), node;
    if (rc == DDICT_ENODICT && getenv("SLURMD_NODENAME") == NULL && (name != NULL || (name = getenv("DDICT_NAME")) != NULL) &&
        (node = launch_down(name)) != -ENOENT) { /* a login node: a node of the job was asked */
        if (node < 0)
            fprintf(stderr, "ddict: %s\n", dd_errmsg());
        return node < 0 ? EXIT_FAILED : EXIT_OK;
    }
    return rc < 0 ? cmd_failed(NULL, rc) : EXIT_OK;
}
