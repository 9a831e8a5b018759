/* SPDX-License-Identifier: Apache-2.0 */
/* stats_table.h - managers' figures as people read them: one table for `ddict stats` and `ddict
 * report`. */
#ifndef DDICT_COMMON_STATS_TABLE_H
#define DDICT_COMMON_STATS_TABLE_H

#include <base/stats.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct figures {
    struct manager_stats s; /* of a lost one only manager_id and node mean something */
    bool lost;
};
/* Sum of those that are not lost. A client is counted by each manager of its node: here only by
 * one. Returns how many are lost. */
int figures_total(const struct figures *f, int n, struct manager_stats *total);
/*
 * A line for each manager and their sum, then what is remarkable, a line each. after: of a
 * dictionary that has ended (most clients at once, deletes, latencies) instead of one that runs
 * (pid, clients now). 0 or -ENOMEM.
 */
int figures_print(const struct figures *f, int n, bool after, FILE *out, int indent, int columns);

/* 12345678 -> "12.3M", 12345 ns -> "12.3 us". buf, at least 16 bytes, is returned. */
char *count_short(char *buf, size_t cap, uint64_t n);
char *nanoseconds_short(char *buf, size_t cap, uint64_t ns);

#endif
