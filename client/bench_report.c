/* SPDX-License-Identifier: Apache-2.0 */
/* bench_report.c - results of the benchmark: from the processes' figures, as text, as JSON. */
#include "bench.h"
#include <base/size.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(const double *v, unsigned n) {
    double sorted[BENCH_REPS_MAX];
    memcpy(sorted, v, n * sizeof *v);
    qsort(sorted, n, sizeof *sorted, compare);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

void bench_result_of(const struct bench_run *r, enum bench_op op, uint64_t cache,
                     struct bench_result *out) {
    static struct histogram all;
    double client[BENCH_REPS_MAX], manager[BENCH_REPS_MAX];
    memset(&all, 0, sizeof all);
    *out = (struct bench_result){.place = r->place,
                                 .op = op,
                                 .value = r->value,
                                 .clients = r->clients,
                                 .reps = r->reps,
                                 .keys = r->count,
                                 .memory = r->memory,
                                 .cached = r->memory < cache * 2,
                                 .low = -1,
                                 .manager_ns = 0};
    for (unsigned rep = 0; rep < r->reps; rep++) {
        uint64_t ops = 0, cpu = 0;
        for (unsigned i = 0; i < r->clients; i++) {
            const struct bench_slice *s = &r->slice[op][rep][i];
            out->all[rep] += s->ns > 0 ? (double)s->ops * 1e9 / (double)s->ns : 0;
            ops += s->ops;
            cpu += s->cpu_ns;
        }
        client[rep] = ops > 0 ? (double)cpu / (double)ops : 0;
        if (r->manager_ns[op][rep] == UINT64_MAX || ops == 0)
            out->manager_ns = -1;
        else
            manager[rep] = (double)r->manager_ns[op][rep] / (double)ops;
        if (out->low < 0 || out->all[rep] < out->low)
            out->low = out->all[rep];
        if (out->all[rep] > out->high)
            out->high = out->all[rep];
    }
    out->rate = bench_median(out->all, r->reps);
    out->client_ns = bench_median(client, r->reps);
    if (out->manager_ns >= 0)
        out->manager_ns = bench_median(manager, r->reps);
    for (unsigned i = 0; i < r->clients; i++) {
        const struct histogram *h = &r->latency[op][i];
        all.count += h->count;
        if (h->max_ns > all.max_ns)
            all.max_ns = h->max_ns;
        for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
            all.bucket[b] += h->bucket[b];
    }
    histogram_summary(&all, &out->latency);
}

/* --- text --- */

static const char *time_short(char *buf, size_t cap, double ns) {
    if (ns < 0)
        snprintf(buf, cap, "-");
    else if (ns < 999.5)
        snprintf(buf, cap, "%.0f ns", ns);
    else if (ns < 999500)
        snprintf(buf, cap, "%.*f us", ns < 9999.5 ? 2 : 1, ns / 1e3);
    else if (ns < 999500000)
        snprintf(buf, cap, "%.*f ms", ns < 9999500 ? 2 : 1, ns / 1e6);
    else
        snprintf(buf, cap, "%.2f s", ns / 1e9);
    return buf;
}

/* To some of the cpus. Not known: 0 are allowed. */
static bool pinned(const struct bench_setting *s) {
    return s->cpus_allowed > 0 && s->cpus_allowed < s->cpus_online;
}

void bench_print_head(const struct bench_setting *s) {
    char size[24];
    printf("dictionary %s: %u manager%s on %u node%s, %s; from node %s\n", s->info->name,
           s->info->managers, s->info->managers == 1 ? "" : "s", s->info->nodes,
           s->info->nodes == 1 ? "" : "s", size_format(size, sizeof size, s->info->total_bytes),
           s->info->node);
    printf("clients may use cpus %s%s; %u repetitions of %g s each%s%s\n", s->cpus,
           pinned(s) ? " (pinned)" : "", s->reps, s->seconds,
           s->touch ? "" : "; values are not touched", s->freeze ? "; frozen" : "");
    printf("%8s %7s  %-6s %-8s %11s %6s %8s %9s %9s %9s %9s %9s\n", "value", "clients", "place",
           "op", "keys/s", "+-", "GB/s", "p50", "p99", "max", "cpu/key", "manager");
}

void bench_print(const struct bench_result *e) {
    char b[6][24];
    double spread = e->rate > 0 ? (e->high - e->low) / 2 / e->rate * 100 : 0;
    printf("%8s %7u  %-6s %-8s %11.0f %5.0f%% %8.3f %9s %9s %9s %9s %9s\n",
           size_format(b[0], sizeof b[0], e->value), e->clients, bench_place_name[e->place],
           bench_op_name[e->op], e->rate, spread, e->rate * (double)e->value / 1e9,
           time_short(b[1], sizeof b[1], (double)e->latency.p50_ns),
           time_short(b[2], sizeof b[2], (double)e->latency.p99_ns),
           time_short(b[3], sizeof b[3], (double)e->latency.max_ns),
           time_short(b[4], sizeof b[4], e->client_ns),
           time_short(b[5], sizeof b[5], e->manager_ns));
}

void bench_print_notes(const struct bench_result *e, size_t n) {
    char b[2][24];
    for (size_t i = 0; i < n; i++) {
        bool before = i > 0 && e[i - 1].value == e[i].value && e[i - 1].place == e[i].place;
        if (e[i].cached && !before)
            printf("values of %s, %s: all pairs together take only %s, so that they may lie in the "
                   "cache\n",
                   size_format(b[0], sizeof b[0], e[i].value), bench_place_name[e[i].place],
                   size_format(b[1], sizeof b[1], e[i].memory));
    }
}

/* --- JSON --- */

static void string_print(const char *name, const char *text) {
    printf("\"%s\":\"", name);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            printf("\\%c", *p);
        else if (*p < 0x20)
            printf("\\u%04x", *p);
        else
            putchar(*p);
    }
    putchar('"');
}

static void result_json(const struct bench_result *e) {
    printf("{\"place\":\"%s\",\"op\":\"%s\",\"value_bytes\":%zu,\"clients\":%u,\"keys\":%" PRIu64
           ",\"set_bytes\":%" PRIu64 ",\"set_may_be_cached\":%s,",
           bench_place_name[e->place], bench_op_name[e->op], e->value, e->clients, e->keys,
           e->memory, e->cached ? "true" : "false");
    printf("\"ops_per_s\":%.1f,\"ops_per_s_lowest\":%.1f,\"ops_per_s_highest\":%.1f,\"ops_per_s_"
           "all\":[",
           e->rate, e->low, e->high);
    for (unsigned i = 0; i < e->reps; i++)
        printf("%s%.1f", i ? "," : "", e->all[i]);
    printf("],\"gb_per_s\":%.6f,\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64 ",\"max_ns\":%" PRIu64
           ",\"timed\":%" PRIu64 ",\"client_cpu_ns\":%.1f,",
           e->rate * (double)e->value / 1e9, e->latency.p50_ns, e->latency.p99_ns,
           e->latency.max_ns, e->latency.count, e->client_ns);
    if (e->manager_ns < 0)
        printf("\"manager_cpu_ns\":null}");
    else
        printf("\"manager_cpu_ns\":%.1f}", e->manager_ns);
}

void bench_print_json(const struct bench_setting *s, const struct bench_result *e, size_t n) {
    printf("{\"dictionary\":{");
    string_print("name", s->info->name);
    printf(",\"managers\":%u,\"nodes\":%u,\"total_bytes\":%" PRIu64 "},\n\"client\":{",
           s->info->managers, s->info->nodes, s->info->total_bytes);
    string_print("node", s->info->node);
    printf(",\"node_id\":%u,", s->info->node_id);
    string_print("cpus", s->cpus);
    printf(",\"cpus_allowed\":%u,\"cpus_online\":%u,\"pinned\":%s,\"cache_bytes\":%" PRIu64 "},\n",
           s->cpus_allowed, s->cpus_online, pinned(s) ? "true" : "false", s->cache);
    printf("\"seconds\":%g,\"reps\":%u,\"touched\":%s,\"frozen\":%s,\"results\":[", s->seconds,
           s->reps, s->touch ? "true" : "false", s->freeze ? "true" : "false");
    for (size_t i = 0; i < n; i++) {
        printf("%s\n", i ? "," : "");
        result_json(&e[i]);
    }
    printf("]}\n");
}
