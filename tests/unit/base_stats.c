/* SPDX-License-Identifier: Apache-2.0 */
/* base_stats.c - percentiles are right within 1/8, sums are sums, and every figure stands in the
 * JSON text. */
#include "unit.h"
#include <base/stats.h>

#include <jansson.h>
#include <stdio.h>
#include <string.h>

START_TEST(an_empty_histogram_has_zero_percentiles) {
    struct histogram h = {0};
    ck_assert_uint_eq(histogram_percentile(&h, 50), 0);
}
END_TEST

START_TEST(every_single_value_comes_back_within_an_eighth) {
    for (uint64_t v = 0; v < 1ull << 33; v = v < 64 ? v + 1 : v + v / 13) {
        struct histogram h = {0};
        histogram_add(&h, v);
        h.max_ns = UINT64_MAX; /* so that the bucket alone decides */
        uint64_t p = histogram_percentile(&h, 50);
        ck_assert_msg(p >= v && p - v <= v / 8, "%llu comes back as %llu", (unsigned long long)v,
                      (unsigned long long)p);
    }
}
END_TEST

START_TEST(percentiles_of_a_uniform_set_are_right) {
    struct histogram h = {0};
    for (uint64_t v = 1; v <= 100000; v++)
        histogram_add(&h, v);
    static const double ps[] = {1, 10, 50, 90, 99, 99.9};
    for (size_t i = 0; i < sizeof ps / sizeof *ps; i++) {
        double want = ps[i] * 1000, got = (double)histogram_percentile(&h, ps[i]);
        ck_assert_msg(got >= want * 0.99 && got <= want * 1.126, "p%g is %g", ps[i], got);
    }
    ck_assert_uint_eq(histogram_percentile(&h, 100), 100000);
}
END_TEST

START_TEST(values_beyond_the_last_bucket_give_the_maximum) {
    struct histogram h = {0};
    histogram_add(&h, 1ull << 60);
    ck_assert_uint_eq(histogram_percentile(&h, 50), 1ull << 60);
    struct ddict_latency l;
    histogram_summary(&h, &l);
    ck_assert_uint_eq(l.count, 1);
    ck_assert_uint_eq(l.max_ns, 1ull << 60);
}
END_TEST

static struct manager_stats sample(uint64_t k) {
    struct manager_stats s = {.version = STATS_VERSION,
                              .bytes = sizeof s,
                              .manager_id = 3,
                              .node_id = 1,
                              .pid = 77,
                              .hostname = "h",
                              .node = "n1",
                              .total_bytes = 1000 * k,
                              .total_used_bytes = 250 * k,
                              .pool_free_space = 750 * k,
                              .pool_utilization = 25,
                              .num_keys = 5 * k,
                              .puts = 6 * k,
                              .gets_local = 7 * k,
                              .gets_remote = 8 * k,
                              .misses = 9 * k,
                              .deletes = 10 * k,
                              .bytes_in = 11 * k,
                              .bytes_out = 12 * k,
                              .cache_hits = 13 * k,
                              .evictions = 14 * k,
                              .full_errors = 15 * k,
                              .clients_now = 16 * k,
                              .clients_peak = 17 * k,
                              .lanes_watched = 121 * k,
                              .lane_bytes = 122 * k,
                              .lane_returned_bytes = 128 * k,
                              .connections = 123 * k,
                              .descriptors = 124 * k,
                              .page_table_bytes = 125 * k,
                              .prefixes = 126 * k,
                              .events_bytes = 127 * k,
                              .retired_bytes = 19 * k,
                              .leased_bytes = 20 * k,
                              .scattered_bytes = 32 * k,
                              .moved_bytes = 33 * k,
                              .largest_holder_pid = (uint32_t)(21 * k),
                              .largest_holder_bytes = 22 * k,
                              .rma_bytes = 29 * k,
                              .rma_refused = 30 * k,
                              .refused_connections = 23 * k,
                              .uptime_us = 24 * k,
                              .populated_bytes = 25 * k,
                              .populate_us = 26 * k,
                              .page_bytes = 27,
                              .huge_bytes = 28 * k,
                              .restarts = 34 * k,
                              .copies = k};
    s.free_blocks[12] = 2 * k;
    s.free_blocks[47] = 1;
    s.turns[0] = 3 * k;
    s.turns[DDICT_TURNS_N - 1] = 1;
    s.turn_max_us = 31 * k;
    for (int i = 0; i < DDICT_LATENCY_N; i++)
        s.latency[i] = (struct ddict_latency){100 * k, 10 * k, 20 * k, 30 * k};
    return s;
}

START_TEST(memory_of_a_manager_without_keys_is_not_summed) {
    struct manager_stats t = sample(2), s = sample(3);
    stats_merge_forwarder(&t, &s);
    ck_assert_uint_eq(t.total_bytes, sample(2).total_bytes);
    ck_assert_uint_eq(t.total_used_bytes, sample(2).total_used_bytes);
    ck_assert_double_eq_tol(t.pool_utilization, 25, 1e-9);
    ck_assert_uint_eq(t.free_blocks[12], sample(2).free_blocks[12]);
    ck_assert_uint_eq(t.puts, 30);
}
END_TEST

START_TEST(the_fewest_copies_count_where_there_are_keys) {
    struct manager_stats t = sample(3), s = sample(0);
    stats_merge(&t, &s);
    ck_assert_uint_eq(t.copies, 3);
    t.copies = 0;
    s.copies = 1;
    stats_merge(&t, &s);
    ck_assert_uint_eq(t.copies, 1);
}
END_TEST

START_TEST(merge_sums_counts_and_keeps_names_and_takes_larger_maxima) {
    struct manager_stats t = sample(2), s = sample(3);
    strcpy(s.node, "n2");
    s.state = DDICT_ELOST;
    stats_merge(&t, &s);
    ck_assert_str_eq(t.node, "n1");
    ck_assert_int_eq(t.state, DDICT_ELOST);
    ck_assert_uint_eq(t.total_bytes, 5000);
    ck_assert_uint_eq(t.total_used_bytes, 1250);
    ck_assert_double_eq_tol(t.pool_utilization, 25, 1e-9);
    ck_assert_uint_eq(t.num_keys, 25);
    ck_assert_uint_eq(t.free_blocks[12], 10);
    ck_assert_uint_eq(t.free_blocks[47], 2);
    ck_assert_uint_eq(t.turns[0], 15);
    ck_assert_uint_eq(t.turn_max_us, 93);
    ck_assert_uint_eq(t.puts, 30);
    ck_assert_uint_eq(t.misses, 45);
    ck_assert_uint_eq(t.refused_connections, 115);
    ck_assert_uint_eq(t.rma_bytes, 145);
    ck_assert_uint_eq(t.rma_refused, 150);
    ck_assert_uint_eq(t.restarts, 170);
    ck_assert_uint_eq(t.copies, 2); /* the fewest */
    ck_assert_uint_eq(t.scattered_bytes, 160);
    ck_assert_uint_eq(t.moved_bytes, 165);
    ck_assert_uint_eq(t.largest_holder_pid, 63);
    ck_assert_uint_eq(t.largest_holder_bytes, 66);
    ck_assert_uint_eq(t.uptime_us, 72);
    ck_assert_uint_eq(t.populated_bytes, 125);
    ck_assert_uint_eq(t.populate_us, 130);
    ck_assert_uint_eq(t.page_bytes, 27);
    ck_assert_uint_eq(t.huge_bytes, 140);
    ck_assert_uint_eq(t.lanes_watched + t.lane_bytes + t.lane_returned_bytes + t.connections +
                          t.descriptors + t.page_table_bytes + t.prefixes + t.events_bytes,
                      5 * 996);
    ck_assert_uint_eq(t.latency[DDICT_LATENCY_GET].count, 500);
    ck_assert_uint_eq(t.latency[DDICT_LATENCY_GET].max_ns, 90);
}
END_TEST

START_TEST(turns_are_counted_by_powers_of_two) {
    uint64_t turns[DDICT_TURNS_N] = {0};
    const uint64_t us[] = {0, 1, 2, 3, 4, 1023, 1024, 8388607, 8388608, 1ull << 40};
    for (size_t i = 0; i < sizeof us / sizeof *us; i++)
        turns_add(turns, us[i] * 1000 + 999);
    ck_assert(turns[0] == 2 && turns[1] == 2 && turns[2] == 1 && turns[9] == 1 && turns[10] == 1 &&
              turns[22] == 1 && turns[23] == 2);
}
END_TEST

START_TEST(the_json_text_has_every_figure) {
    struct manager_stats s = sample(1);
    static const char *const names[] = {"manager_id",
                                        "node_id",
                                        "pid",
                                        "state",
                                        "total_bytes",
                                        "total_used_bytes",
                                        "pool_free_space",
                                        "num_keys",
                                        "puts",
                                        "gets_local",
                                        "gets_remote",
                                        "misses",
                                        "deletes",
                                        "bytes_in",
                                        "bytes_out",
                                        "cache_hits",
                                        "evictions",
                                        "full_errors",
                                        "clients_now",
                                        "clients_peak",
                                        "lanes_watched",
                                        "lane_bytes",
                                        "connections",
                                        "descriptors",
                                        "page_table_bytes",
                                        "prefixes",
                                        "events_bytes",
                                        "retired_bytes",
                                        "leased_bytes",
                                        "scattered_bytes",
                                        "moved_bytes",
                                        "largest_holder_pid",
                                        "largest_holder_bytes",
                                        "refused_connections",
                                        "rma_bytes",
                                        "rma_refused",
                                        "uptime_us",
                                        "populated_bytes",
                                        "populate_us",
                                        "page_bytes",
                                        "huge_bytes",
                                        "turn_max_us",
                                        "restarts",
                                        "copies"};
    static const json_int_t values[] = {3,   1,   77,  0,   1000, 250, 750, 5,  6,  7,   8,
                                        9,   10,  11,  12,  13,   14,  15,  16, 17, 121, 122,
                                        123, 124, 125, 126, 127,  19,  20,  32, 33, 21,  22,
                                        23,  29,  30,  24,  25,   26,  27,  28, 31, 34,  1};
    char *text = stats_json(&s);
    ck_assert_ptr_nonnull(text);
    json_t *j = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(j);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(json_integer_value(json_object_get(j, names[i])) == values[i] &&
                          json_object_get(j, names[i]),
                      "%s", names[i]);
    ck_assert_str_eq(json_string_value(json_object_get(j, "hostname")), "h");
    ck_assert_str_eq(json_string_value(json_object_get(j, "node")), "n1");
    ck_assert_double_eq_tol(json_real_value(json_object_get(j, "pool_utilization")), 25, 1e-9);
    json_t *blocks = json_object_get(j, "free_blocks");
    ck_assert_uint_eq(json_object_size(blocks), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(blocks, "4096")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(blocks, "140737488355328")), 1);
    json_t *turns = json_object_get(j, "turns");
    ck_assert_uint_eq(json_object_size(turns), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(turns, "1")), 3);
    ck_assert_int_eq(json_integer_value(json_object_get(turns, "8388608")), 1);
    json_t *lat = json_object_get(j, "latency");
    ck_assert_uint_eq(json_object_size(lat), DDICT_LATENCY_N);
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(lat, "put"), "p99_ns")),
                     20);
    json_decref(j);
    free(text);
}
END_TEST

START_TEST(names_that_are_not_text_do_not_spoil_the_json) {
    struct manager_stats s = sample(1);
    memset(s.hostname, 0xff, sizeof s.hostname); /* not UTF-8, and not terminated */
    char *text = stats_json(&s);
    ck_assert_ptr_nonnull(text);
    json_t *j = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(j);
    json_decref(j);
    free(text);
}
END_TEST

START_TEST(the_json_text_is_read_back_as_it_was) {
    struct manager_stats s = sample(5), back;
    s.state = DDICT_ELOST;
    char *text = stats_json(&s), *again;
    json_t *j = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(j);
    memset(&back, 0xff, sizeof back);
    stats_parse(j, &back);
    ck_assert_mem_eq(&s, &back, sizeof s);
    again = stats_json(&back);
    ck_assert_str_eq(text, again);
    json_decref(j);
    free(text);
    free(again);
}
END_TEST

START_TEST(figures_that_are_missing_or_of_another_type_are_read_as_zero) {
    struct manager_stats s, none;
    stats_init(&none);
    json_t *j = json_loads("{\"puts\":\"many\",\"numa_node\":\"all\",\"node\":7,\"latency\":[],"
                           "\"free_blocks\":3,\"state\":{},\"hue\":\"blue\"}",
                           0, NULL);
    ck_assert_ptr_nonnull(j);
    stats_parse(j, &s);
    ck_assert_mem_eq(&s, &none, sizeof s);
    json_decref(j);
    stats_parse(NULL, &s);
    ck_assert_mem_eq(&s, &none, sizeof s);
}
END_TEST

UNIT_MAIN("base_stats", an_empty_histogram_has_zero_percentiles,
          every_single_value_comes_back_within_an_eighth, percentiles_of_a_uniform_set_are_right,
          values_beyond_the_last_bucket_give_the_maximum,
          memory_of_a_manager_without_keys_is_not_summed,
          the_fewest_copies_count_where_there_are_keys,
          merge_sums_counts_and_keeps_names_and_takes_larger_maxima,
          turns_are_counted_by_powers_of_two, the_json_text_has_every_figure,
          the_json_text_is_read_back_as_it_was,
          figures_that_are_missing_or_of_another_type_are_read_as_zero,
          names_that_are_not_text_do_not_spoil_the_json)
