/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - latency histograms, and the statistics of a manager: the form in which they travel
 * between processes, their sum, their text. */
#ifndef DDICT_BASE_STATS_H
#define DDICT_BASE_STATS_H

#include <ddict_types.h>

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BUCKETS 256
/* Log-linear: 8 buckets a power of two, so a percentile is right within 1/8. One writer. */
struct histogram {
    uint64_t count, max_ns;
    uint64_t bucket[HISTOGRAM_BUCKETS];
};
void histogram_add(struct histogram *h, uint64_t ns);
uint64_t histogram_percentile(const struct histogram *h, double p); /* ns; p in 0..100 */
/* Count a turn of so long (manager_stats.turns). */
void turns_add(uint64_t turns[DDICT_TURNS_N], uint64_t ns);
void histogram_summary(const struct histogram *h, struct ddict_latency *out);

/*
 * The figures of one manager as they travel, within a machine and between nodes. bytes counts the
 * whole struct. Fields are only ever appended, and STATS_VERSION is raised with them; who reads
 * takes what both sides know (stats_read()). libddict hands them on as struct ddict_manager_stats
 * (ddict.h), which says what each one is: what is added here is added there, too.
 */
#define STATS_VERSION 5u
struct manager_stats {
    uint32_t version, bytes;
    uint32_t manager_id, node_id, pid;
    int32_t state;
    char hostname[64], node[64];
    uint64_t total_bytes, total_used_bytes, pool_free_space;
    double pool_utilization;
    uint64_t num_keys, free_blocks[48];
    uint64_t puts, gets_local, gets_remote, misses, deletes, bytes_in, bytes_out;
    uint64_t cache_hits, evictions, full_errors, frozen, cached_items, cached_bytes;
    uint64_t spill_total_bytes, spill_used_bytes, spill_items, spilled_bytes;
    uint64_t clients_now, clients_peak, lanes_watched, lane_bytes, lane_returned_bytes;
    uint64_t connections, descriptors, page_table_bytes, prefixes, events_bytes;
    uint64_t retired_bytes, leased_bytes, scattered_bytes, moved_bytes;
    uint32_t largest_holder_pid;
    int32_t numa_node;
    uint64_t largest_holder_bytes, populated_bytes, populate_us, refused_connections, uptime_us;
    uint64_t page_bytes, huge_bytes, rma_bytes, rma_refused;
    char transport[72];
    struct ddict_latency latency[DDICT_LATENCY_N];
    uint64_t turns[DDICT_TURNS_N], turn_max_us;
    char wire[8];         /* from version 2 on */
    uint64_t restarts;    /* from version 3 on */
    uint64_t copies;      /* from version 4 on */
    uint64_t hidden_keys; /* from version 5 on */
};
/* No figures: all 0 but version and bytes, and numa_node, which is -1. */
void stats_init(struct manager_stats *s);
/* Those that were sent, by a sender of any version: what it does not know is as after stats_init(),
 * what we do not know is left. Texts have an end. 0 or DDICT_EPROTO. */
int stats_read(struct manager_stats *s, const void *sent, size_t len);

/* The numbers among them by type, for what is done with each: STATS_COUNTS(X) is X(puts) X(misses)
 * ... */
/* clang-format off */
#define STATS_COUNTS(X) \
    X(total_bytes) X(total_used_bytes) X(pool_free_space) X(num_keys) X(puts) X(gets_local) \
    X(gets_remote) X(misses) X(deletes) X(bytes_in) X(bytes_out) X(cache_hits) X(evictions) \
    X(full_errors) X(frozen) X(cached_items) X(cached_bytes) X(spill_total_bytes) \
    X(spill_used_bytes) X(spill_items) X(spilled_bytes) X(clients_now) X(clients_peak) \
    X(lanes_watched) X(lane_bytes) X(lane_returned_bytes) X(connections) X(descriptors) \
    X(page_table_bytes) X(prefixes) X(events_bytes) X(retired_bytes) X(leased_bytes) \
    X(scattered_bytes) X(moved_bytes) X(largest_holder_bytes) X(populated_bytes) X(populate_us) \
    X(refused_connections) X(uptime_us) X(page_bytes) X(huge_bytes) X(rma_bytes) X(rma_refused) \
    X(turn_max_us) X(restarts) X(copies) X(hidden_keys)
/* clang-format on */
#define STATS_WORDS(X)  X(manager_id) X(node_id) X(pid) X(largest_holder_pid)
#define STATS_SIGNED(X) X(state) X(numa_node)
#define STATS_TEXTS(X)  X(hostname) X(node) X(transport) X(wire)
#define STATS_TABLES(X) X(free_blocks) X(latency) X(turns)

/* Sum of counts and bytes into total. Ids and names: those of total are kept. Maxima, percentiles
 * and uptime: the larger one. Copies: the fewest. State: the first that is not 0. */
void stats_merge(struct manager_stats *total, const struct manager_stats *s);
/* The same for a manager that owns no keys: its memory is not the dictionary's. */
void stats_merge_forwarder(struct manager_stats *total, const struct manager_stats *s);
/* JSON object text, malloc'ed, NULL without memory. Field names as in the struct; free_blocks is
 * {"<bytes>": count}, turns {"<microseconds>": count}. */
char *stats_json(const struct manager_stats *s);
/* The object itself (jansson's json_t), the caller's; NULL without memory. */
struct json_t;
struct json_t *stats_object(const struct manager_stats *s);
/* The way back from the parsed object of stats_json(). What is missing or of another type is 0
 * (numa_node: -1); unknown fields are skipped. */
void stats_parse(const struct json_t *j, struct manager_stats *s);

#endif
