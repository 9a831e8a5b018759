/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - latency histograms, and the merge and print of struct ddict_manager_stats (ddict.h). */
#ifndef DDICT_BASE_STATS_H
#define DDICT_BASE_STATS_H

#include <ddict.h>

#include <stdint.h>

#define HISTOGRAM_BUCKETS 256
/* Log-linear: 8 buckets a power of two, so a percentile is right within 1/8. One writer. */
struct histogram {
    uint64_t count, max_ns;
    uint64_t bucket[HISTOGRAM_BUCKETS];
};
void histogram_add(struct histogram *h, uint64_t ns);
uint64_t histogram_percentile(const struct histogram *h, double p); /* ns; p in 0..100 */
/* Count a turn of so long (ddict_manager_stats.turns). */
void turns_add(uint64_t turns[DDICT_TURNS_N], uint64_t ns);
void histogram_summary(const struct histogram *h, struct ddict_latency *out);

/* Sum of counts and bytes into total. Ids and names: those of total are kept. Maxima, percentiles and uptime: the larger one. State: the first that is not 0. */
void stats_merge(struct ddict_manager_stats *total, const struct ddict_manager_stats *s);
/* JSON object text, malloc'ed, NULL without memory. Field names as in the struct; free_blocks is {"<bytes>": count}, turns {"<microseconds>": count}. */
char *stats_json(const struct ddict_manager_stats *s);
/* The way back from the parsed object of stats_json() (jansson's json_t). What is missing or of another type is 0 (numa_node: -1); unknown fields are skipped. */
struct json_t;
void stats_parse(const struct json_t *j, struct ddict_manager_stats *s);

#endif
