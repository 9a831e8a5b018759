/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_stats.c - `ddict stats` and `ddict down`. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/size.h>
#include <base/stats.h>
#include "cmd.h"

static void row(const char *id, const struct ddict_manager_stats *s, const char *node) {
    char used[24], total[24], in[24], out[24];
    printf("%7s  %-12s %9s / %-9s %4.0f%% %10" PRIu64 " %10" PRIu64 " %11" PRIu64 " %10" PRIu64 " %8" PRIu64 " %10s %10s %7" PRIu64 "\n", id, node,
           size_format(used, sizeof used, s->total_used_bytes), size_format(total, sizeof total, s->total_bytes),
           s->total_bytes ? 100.0 * (double)s->total_used_bytes / (double)s->total_bytes : 0.0, s->num_keys, s->puts, s->gets_local, s->gets_remote,
           s->misses, size_format(in, sizeof in, s->bytes_in), size_format(out, sizeof out, s->bytes_out), s->clients_now);
}

static void table(const struct ddict_manager_stats *s, int n) {
    struct ddict_manager_stats total;
    memset(&total, 0, sizeof total);
    printf("manager  node              used / total      use       keys       puts  gets local     remote   misses   bytes in  bytes out clients\n");
    for (int i = 0; i < n; i++) {
        char id[16];
        snprintf(id, sizeof id, "%u", s[i].manager_id);
        row(id, &s[i], s[i].node);
        stats_merge(&total, &s[i]);
    }
    if (n > 1) row("all", &total, "");
}

static int json(const struct ddict_manager_stats *s, int n) {
    putchar('[');
    for (int i = 0; i < n; i++) {
        char *text = ddict_stats_json(&s[i]);
        if (!text) {
            fprintf(stderr, "ddict stats: no memory\n");
            return EXIT_ERROR;
        }
        printf("%s%s", i ? ",\n " : "", text);
        free(text);
    }
    puts("]");
    return EXIT_OK;
}

int cmd_stats(int argc, char **argv) {
    static const struct option options[] = {{"json", 0, NULL, 'j'}, {"name", 1, NULL, 'n'}, {"help", 0, NULL, 'h'}, {0}};
    const char *name = NULL;
    bool as_json = false;
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) switch (c) {
        case 'j': as_json = true; break;
        case 'n': name = optarg; break;
        case 'h':
            printf("Usage: ddict stats [--json] [--name NAME]\n\nA row for each manager: memory in use, keys, and what it served since it started.\n"
                   "gets local: reads in place by processes of its node; remote: reads for other nodes.\n"
                   "bytes in, out: of values put and read. --json gives all figures.\n");
            return cmd_flush("stats");
        default: return cmd_usage("stats", "unknown option");
        }
    if (optind < argc) return cmd_usage("stats", "unexpected argument '%s'", argv[optind]);
    ddict_t *d;
    struct ddict_manager_stats *s;
    int rc = cmd_attach("stats", name, &d);
    if (rc) return rc;
    int n = ddict_stats(d, &s, -1);
    if (n < 0) rc = cmd_failed("stats", n);
    else {
        if (as_json) rc = json(s, n);
        else table(s, n);
        free(s);
    }
    ddict_detach(d);
    return rc ? rc : cmd_flush("stats");
}

int cmd_down(int argc, char **argv) {
    static const struct option options[] = {{"name", 1, NULL, 'n'}, {"help", 0, NULL, 'h'}, {0}};
    const char *name = NULL;
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) switch (c) {
        case 'n': name = optarg; break;
        case 'h':
            printf("Usage: ddict down [--name NAME]\n\nAsk the managers to end: no process can attach any more, and they end as soon as no process is\n"
                   "attached, at the latest after the drain time. Returns when they took the order.\n");
            return cmd_flush("down");
        default: return cmd_usage("down", "unknown option");
        }
    if (optind < argc) return cmd_usage("down", "unexpected argument '%s'", argv[optind]);
    int rc = ddict_down(name, -1);
    return rc < 0 ? cmd_failed("down", rc) : EXIT_OK;
}
