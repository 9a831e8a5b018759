/* SPDX-License-Identifier: Apache-2.0 */
/* stats_table.h - the managers' figures as a table, for `ddict stats` and `ddict report`. */
#ifndef DDICT_COMMON_STATS_TABLE_H
#define DDICT_COMMON_STATS_TABLE_H

#include <base/stats.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct figures {
    struct manager_stats s; /* of a lost manager only manager_id and node are valid */
    bool lost, forwards;    /* forwards: it owns no keys */
};
/* Sum the figures of the managers that are not lost, and return how many are lost. A client that
 * several managers of its node count is counted once, memory of managers without keys not at all. */
int figures_total(const struct figures *f, int n, struct manager_stats *total);
/*
 * Print a line for each manager, their sum, and one line for each remark. after: the dictionary has
 * ended (shows the most clients at once, deletes, latencies), else it runs (shows pid and present
 * clients). 0 or -ENOMEM.
 */
int figures_print(const struct figures *f, int n, bool after, FILE *out, int indent, int columns);

/* 12345678 -> "12.3M", 12345 ns -> "12.3 us". buf, at least 16 bytes, is returned. */
char *count_short(char *buf, size_t cap, uint64_t n);
char *nanoseconds_short(char *buf, size_t cap, uint64_t ns);

#endif
