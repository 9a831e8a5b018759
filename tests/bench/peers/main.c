/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - measure ROW [OPTION...]: one row of the table; `measure --rows` lists them. Started by
 * peers.py. */
#include "peers.h"
#include <base/size.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct row rows[] = {
    {"view", rows_view, "view, touch, release; a set much larger than the caches"},
    {"view_cached", rows_view, "the same, a set that fits the cache"},
    {"get_many", rows_get_many, "32 views at once"},
    {"put", rows_put, "acknowledged put, back to back"},
    {"put_awake", rows_wait, "acknowledged put beside a spinning round trip to another process"},
    {"put_asleep", rows_wait, "put to a manager that sleeps, beside a round trip through a futex"},
    {"put_many", rows_put_many, "512 puts at once"},
    {"two", rows_two, "two processes that view together"},
    {"put_16m", rows_copy, "put of 16 MiB"},
    {"get_16m", rows_copy, "get of 16 MiB into a buffer"},
    {"place_16m", rows_made, "16 MiB made in place, beside made and put"},
    {"view_256m", rows_big_view, "view of 256 MiB, untouched"},
    {"frozen", rows_frozen,
     "views of another node's values, kept while frozen, by a second reader"},
    {"memory", rows_memory, "bytes of memory of a pair"},
    {"remote_1k", rows_remote, "get of 1 KiB from another node, one at a time"},
    {"remote_many", rows_remote, "256 gets of 1 KiB from another node at once"},
    {"remote_1m", rows_remote, "get of 1 MiB from another node"},
    {"remote_64m", rows_remote, "get of 64 MiB from another node"},
    {"writer", rows_writer, "views while another process overwrites"},
};
const unsigned row_count = LENGTH(rows);

static int usage(void) {
    fprintf(stderr, "usage: measure ROW [--keys N] [--len BYTES] [--seconds S] [--reps N] [--redis "
                    "PATH] [--memcached PATH] [--lmdb DIR] [--tcp HOST:PORT]\n"
                    "               [--redis-tcp HOST:PORT]\n"
                    "       measure --rows | measure --serve-tcp PORTFILE\n");
    return 2;
}

int main(int argc, char **argv) {
    static const struct option longs[] = {
        {"keys", 1, NULL, 'k'}, {"len", 1, NULL, 'l'},       {"seconds", 1, NULL, 's'},
        {"reps", 1, NULL, 'r'}, {"redis", 1, NULL, 'R'},     {"memcached", 1, NULL, 'm'},
        {"lmdb", 1, NULL, 'L'}, {"tcp", 1, NULL, 't'},       {"redis-tcp", 1, NULL, 'T'},
        {"rows", 0, NULL, 'x'}, {"serve-tcp", 1, NULL, 'S'}, {0}};
    struct where w = {.keys = 262144, .len = 1024};
    struct plan p = {.seconds = 0.2, .reps = 7};
    uint64_t n;
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        switch (c) {
        case 'k':
            w.keys = strtoull(optarg, NULL, 10);
            break;
        case 'l':
            w.len = size_parse(optarg, &n) == 0 ? n / 8 * 8 : 0;
            break;
        case 's':
            p.seconds = strtod(optarg, NULL);
            break;
        case 'r':
            p.reps = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'R':
            w.redis = optarg;
            break;
        case 'm':
            w.memcached = optarg;
            break;
        case 'L':
            w.lmdb = optarg;
            break;
        case 't':
            w.tcp = optarg;
            break;
        case 'T':
            w.redis_tcp = optarg;
            break;
        case 'S':
            return tcp_serve(optarg, 64u << 20);
        case 'x':
            for (unsigned i = 0; i < row_count; i++)
                printf("%-12s %s\n", rows[i].name, rows[i].what);
            return 0;
        default:
            return usage();
        }
    }
    if (optind != argc - 1 || w.keys == 0 || w.len == 0 || p.reps == 0 || !(p.seconds > 0))
        return usage();
    for (unsigned i = 0; i < row_count; i++)
        if (strcmp(rows[i].name, argv[optind]) == 0)
            return rows[i].run(&rows[i], &w, &p) < 0;
    fprintf(stderr, "measure: no row %s\n", argv[optind]);
    return usage();
}
