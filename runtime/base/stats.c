/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - latency histograms; merge and print of a manager's statistics. */
#include "stats.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUB_SHIFT 3 /* 8 buckets a power of two */
#define SUB       (1u << SUB_SHIFT)

static unsigned bucket_of(uint64_t ns) {
    if (ns < SUB)
        return (unsigned)ns;
    unsigned e = 63u - (unsigned)__builtin_clzll(ns);
    unsigned b = (e - SUB_SHIFT + 1) * SUB + (unsigned)(ns >> (e - SUB_SHIFT) & (SUB - 1));
    return b < HISTOGRAM_BUCKETS ? b : HISTOGRAM_BUCKETS - 1;
}

/* The largest value that falls into bucket b. */
static uint64_t bucket_top(unsigned b) {
    if (b < SUB)
        return b;
    unsigned e = b / SUB + SUB_SHIFT - 1;
    return ((uint64_t)(SUB + b % SUB + 1) << (e - SUB_SHIFT)) - 1;
}

void histogram_add(struct histogram *h, uint64_t ns) {
    h->count++;
    if (ns > h->max_ns)
        h->max_ns = ns;
    h->bucket[bucket_of(ns)]++;
}

uint64_t histogram_percentile(const struct histogram *h, double p) {
    if (!h->count)
        return 0;
    uint64_t want = (uint64_t)((double)h->count * p / 100), seen = 0;
    if (want < 1)
        want = 1;
    for (unsigned b = 0; b < HISTOGRAM_BUCKETS - 1; b++) {
        seen += h->bucket[b];
        if (seen >= want)
            return bucket_top(b) < h->max_ns ? bucket_top(b) : h->max_ns;
    }
    return h->max_ns;
}

void histogram_summary(const struct histogram *h, struct ddict_latency *out) {
    out->count = h->count;
    out->p50_ns = histogram_percentile(h, 50);
    out->p99_ns = histogram_percentile(h, 99);
    out->max_ns = h->max_ns;
}

void turns_add(uint64_t turns[DDICT_TURNS_N], uint64_t ns) {
    unsigned i = 63u - (unsigned)__builtin_clzll(ns / 1000 | 1);
    turns[i < DDICT_TURNS_N ? i : DDICT_TURNS_N - 1]++;
}

void stats_init(struct manager_stats *s) {
    memset(s, 0, sizeof *s);
    s->version = STATS_VERSION;
    s->bytes = sizeof *s;
    s->numa_node = -1;
}

int stats_read(struct manager_stats *s, const void *sent, size_t len) {
    struct {
        uint32_t version, bytes;
    } head;
    stats_init(s);
    if (len < sizeof head)
        return DDICT_EPROTO;
    memcpy(&head, sent, sizeof head);
    if (head.version == 0 || head.bytes != len)
        return DDICT_EPROTO;
    memcpy((char *)s + sizeof head, (const char *)sent + sizeof head,
           (len < sizeof *s ? len : sizeof *s) - sizeof head);
#define END(field) s->field[sizeof s->field - 1] = 0;
    STATS_TEXTS(END)
#undef END
    return 0;
}

static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* What is a count or an amount of each manager. */
static void amounts_add(struct manager_stats *t, const struct manager_stats *s) {
#define ADD(field) t->field += s->field
    ADD(total_bytes);
    ADD(total_used_bytes);
    ADD(pool_free_space);
    ADD(num_keys);
    ADD(hidden_keys);
    for (int i = 0; i < 48; i++)
        ADD(free_blocks[i]);
    for (int i = 0; i < DDICT_TURNS_N; i++)
        ADD(turns[i]);
    for (int i = 0; i < DDICT_LATENCY_N; i++)
        ADD(latency[i].count);
    ADD(puts);
    ADD(gets_local);
    ADD(gets_remote);
    ADD(misses);
    ADD(deletes);
    ADD(bytes_in);
    ADD(bytes_out);
    ADD(cache_hits);
    ADD(evictions);
    ADD(full_errors);
    ADD(cached_items);
    ADD(cached_bytes);
    ADD(spill_total_bytes);
    ADD(spill_used_bytes);
    ADD(spill_items);
    ADD(spilled_bytes);
    ADD(clients_now);
    ADD(clients_peak);
    ADD(lanes_watched);
    ADD(lane_bytes);
    ADD(lane_returned_bytes);
    ADD(connections);
    ADD(descriptors);
    ADD(page_table_bytes);
    ADD(prefixes);
    ADD(events_bytes);
    ADD(retired_bytes);
    ADD(leased_bytes);
    ADD(scattered_bytes);
    ADD(moved_bytes);
    ADD(populated_bytes);
    ADD(populate_us);
    ADD(huge_bytes);
    ADD(refused_connections);
    ADD(rma_bytes);
    ADD(rma_refused);
    ADD(restarts);
#undef ADD
}

/* 0: it has no keys, or nobody knows. */
static void fewest_copies_take(struct manager_stats *t, const struct manager_stats *s) {
    if (s->copies > 0 && (t->copies == 0 || s->copies < t->copies))
        t->copies = s->copies;
}

static void maxima_take(struct manager_stats *t, const struct manager_stats *s) {
    if (s->largest_holder_bytes > t->largest_holder_bytes) {
        t->largest_holder_bytes = s->largest_holder_bytes;
        t->largest_holder_pid = s->largest_holder_pid;
    }
    t->uptime_us = max_u64(t->uptime_us, s->uptime_us);
    t->turn_max_us = max_u64(t->turn_max_us, s->turn_max_us);
    t->frozen = max_u64(t->frozen, s->frozen);
    t->page_bytes = max_u64(t->page_bytes, s->page_bytes);
    for (int i = 0; i < DDICT_LATENCY_N; i++) {
        t->latency[i].p50_ns = max_u64(t->latency[i].p50_ns, s->latency[i].p50_ns);
        t->latency[i].p99_ns = max_u64(t->latency[i].p99_ns, s->latency[i].p99_ns);
        t->latency[i].max_ns = max_u64(t->latency[i].max_ns, s->latency[i].max_ns);
    }
}

void stats_merge(struct manager_stats *t, const struct manager_stats *s) {
    amounts_add(t, s);
    maxima_take(t, s);
    fewest_copies_take(t, s);
    t->pool_utilization =
        t->total_bytes ? 100.0 * (double)t->total_used_bytes / (double)t->total_bytes : 0;
    if (t->state == 0)
        t->state = s->state;
    if (!t->transport[0])
        memcpy(t->transport, s->transport, sizeof t->transport);
    if (!t->wire[0])
        memcpy(t->wire, s->wire, sizeof t->wire);
}

void stats_merge_forwarder(struct manager_stats *t, const struct manager_stats *s) {
    struct manager_stats m = *s;
    m.total_bytes = m.total_used_bytes = m.pool_free_space = 0;
    memset(m.free_blocks, 0, sizeof m.free_blocks);
    stats_merge(t, &m);
}

static json_t *json_text(const char *s, size_t cap) {
    json_t *j = json_stringn(s, strnlen(s, cap));
    return j ? j : json_string("?"); /* not UTF-8 */
}

static json_t *json_count(uint64_t n) {
    return json_integer((json_int_t)n);
}

static json_t *json_latency(const struct ddict_latency *l) {
    return json_pack("{s:o, s:o, s:o, s:o}", "count", json_count(l->count), "p50_ns",
                     json_count(l->p50_ns), "p99_ns", json_count(l->p99_ns), "max_ns",
                     json_count(l->max_ns));
}

static const char *const op_name[DDICT_LATENCY_N] = {"put", "get", "del", "fetch"};

/* Those that are not 0, by their power of two. */
static int json_powers(json_t *to, const uint64_t *n, int len) {
    int bad = 0;
    for (int i = 0; i < len; i++) {
        char name[24];
        snprintf(name, sizeof name, "%llu", 1ull << i);
        if (n[i])
            bad |= json_object_set_new(to, name, json_count(n[i]));
    }
    return bad;
}

json_t *stats_object(const struct manager_stats *s) {
    json_t *j = json_object(), *blocks = json_object(), *lat = json_object(),
           *turns = json_object();
    int bad = !j || !blocks || !lat || !turns;
#define PUT(field) bad |= json_object_set_new(j, #field, json_count(s->field));
    STATS_WORDS(PUT)
#undef PUT
#define PUT(field) bad |= json_object_set_new(j, #field, json_text(s->field, sizeof s->field));
    STATS_TEXTS(PUT)
#undef PUT
#define PUT(field) bad |= json_object_set_new(j, #field, json_integer(s->field));
    STATS_SIGNED(PUT)
#undef PUT
#define PUT(field) bad |= json_object_set_new(j, #field, json_count(s->field));
    STATS_COUNTS(PUT)
#undef PUT
    bad |= json_object_set_new(j, "pool_utilization", json_real(s->pool_utilization));
    bad |= json_powers(blocks, s->free_blocks, 48) | json_powers(turns, s->turns, DDICT_TURNS_N);
    bad |= json_object_set(j, "free_blocks", blocks);
    for (int i = 0; i < DDICT_LATENCY_N; i++)
        bad |= json_object_set_new(lat, op_name[i], json_latency(&s->latency[i]));
    bad |= json_object_set(j, "latency", lat);
    bad |= json_object_set(j, "turns", turns);
    json_decref(turns);
    json_decref(lat);
    json_decref(blocks);
    if (bad) {
        json_decref(j);
        return NULL;
    }
    return j;
}

char *stats_json(const struct manager_stats *s) {
    json_t *j = stats_object(s);
    char *out = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    return out;
}

static uint64_t number_read(const json_t *o, const char *name) {
    return (uint64_t)json_integer_value(json_object_get(o, name));
}

static void words_read(char *to, size_t cap, const json_t *o, const char *name) {
    const char *s = json_string_value(json_object_get(o, name));
    snprintf(to, cap, "%s", s ? s : "");
}

void stats_parse(const struct json_t *j, struct manager_stats *s) {
    const json_t *blocks = json_object_get(j, "free_blocks"), *lat = json_object_get(j, "latency"),
                 *turns = json_object_get(j, "turns");
    stats_init(s);
#define TAKE(field) s->field = (__typeof__(s->field))number_read(j, #field);
    STATS_WORDS(TAKE)
    STATS_COUNTS(TAKE)
#undef TAKE
#define TAKE(field) words_read(s->field, sizeof s->field, j, #field);
    STATS_TEXTS(TAKE)
#undef TAKE
    s->state = (int32_t)json_integer_value(json_object_get(j, "state"));
    const json_t *numa = json_object_get(j, "numa_node");
    /* not in a record of before it was there */
    if (json_is_integer(numa))
        s->numa_node = (int32_t)json_integer_value(numa);
    s->pool_utilization = json_number_value(json_object_get(j, "pool_utilization"));
    for (int i = 0; i < 48; i++) {
        char name[24];
        snprintf(name, sizeof name, "%llu", 1ull << i);
        s->free_blocks[i] = number_read(blocks, name);
        if (i < DDICT_TURNS_N)
            s->turns[i] = number_read(turns, name);
    }
    for (int i = 0; i < DDICT_LATENCY_N; i++) {
        const json_t *l = json_object_get(lat, op_name[i]);
        s->latency[i] = (struct ddict_latency){number_read(l, "count"), number_read(l, "p50_ns"),
                                               number_read(l, "p99_ns"), number_read(l, "max_ns")};
    }
}
