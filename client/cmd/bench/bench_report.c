/* SPDX-License-Identifier: Apache-2.0 */
/* bench_report.c - results of the benchmark from the processes' figures, as text and as JSON. */
#include "bench.h"
#include <base/size.h>

#include <cmd/cmd.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int double_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(const double *v, unsigned n) {
    double sorted[BENCH_REPS_MAX];
    memcpy(sorted, v, n * sizeof *v);
    qsort(sorted, n, sizeof *sorted, double_compare);
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

/* Whether this process may use only some of the cpus. 0 allowed cpus: not known. */
static bool is_pinned(const struct bench_setting *s) {
    return s->cpus_allowed > 0 && s->cpus_allowed < s->cpus_online;
}

void bench_print_head(const struct bench_setting *s) {
    char size[24];
    printf("dictionary %s: %u manager%s on %u node%s, %s; from node %s\n", s->info->name,
           s->info->managers, s->info->managers == 1 ? "" : "s", s->info->nodes,
           s->info->nodes == 1 ? "" : "s", size_format(size, sizeof size, s->info->total_bytes),
           s->info->node);
    printf("clients may use cpus %s%s; %u repetitions of %g s each%s%s\n", s->cpus,
           is_pinned(s) ? " (pinned)" : "", s->reps, s->seconds,
           s->touch ? "" : "; values are not touched", s->freeze ? "; frozen" : "");
    printf("%8s %7s  %-6s %-8s %11s %6s %8s %9s %9s %9s %9s %9s\n", "value", "clients", "place",
           "op", "keys/s", "+-", "GB/s", "p50", "p99", "max", "cpu/key", "manager");
}

/* add moves no value. */
static double gb_per_s(const struct bench_result *e) {
    return e->op == OP_ADD ? 0 : e->rate * (double)e->value / 1e9;
}

void bench_print(const struct bench_result *e) {
    char b[6][24];
    double spread = e->rate > 0 ? (e->high - e->low) / 2 / e->rate * 100 : 0;
    printf("%8s %7u  %-6s %-8s %11.0f %5.0f%% %8.3f %9s %9s %9s %9s %9s\n",
           size_format(b[0], sizeof b[0], e->value), e->clients, bench_place_name[e->place],
           bench_op_name[e->op], e->rate, spread, gb_per_s(e),
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

json_t *bench_number(double x, int decimals) {
    double unit = pow(10, decimals);
    json_t *o = json_real(round(x * unit) / unit);
    return o ? o : json_null(); /* null: the figure was not measured */
}

json_t *bench_seconds(double s) {
    return s == floor(s) ? json_integer((json_int_t)s) : json_real(s);
}

int bench_print_object(json_t *o, int bad) {
    if (bad) {
        json_decref(o);
        o = NULL;
    }
    return cmd_json_print_digits(o, 15);
}

static json_t *count_json(uint64_t n) {
    return json_integer((json_int_t)n);
}

static json_t *result_object(const struct bench_result *e) {
    json_t *all = json_array();
    int bad = 0;
    for (unsigned i = 0; i < e->reps; i++)
        bad |= json_array_append_new(all, bench_number(e->all[i], 1));
    json_t *o =
        json_pack("{s:s, s:s, s:o, s:i, s:o, s:o, s:b}", "place", bench_place_name[e->place], "op",
                  bench_op_name[e->op], "value_bytes", count_json(e->value), "clients",
                  (int)e->clients, "keys", count_json(e->keys), "set_bytes", count_json(e->memory),
                  "set_may_be_cached", e->cached);
    bad |= json_object_update_new(
        o, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "ops_per_s",
                     bench_number(e->rate, 1), "ops_per_s_lowest", bench_number(e->low, 1),
                     "ops_per_s_highest", bench_number(e->high, 1), "ops_per_s_all", all,
                     "gb_per_s", bench_number(gb_per_s(e), 6), "p50_ns",
                     count_json(e->latency.p50_ns), "p99_ns", count_json(e->latency.p99_ns),
                     "max_ns", count_json(e->latency.max_ns), "timed", count_json(e->latency.count),
                     "client_cpu_ns", bench_number(e->client_ns, 1), "manager_cpu_ns",
                     e->manager_ns < 0 ? json_null() : bench_number(e->manager_ns, 1)));
    if (bad) {
        json_decref(o);
        return NULL;
    }
    return o;
}

int bench_print_json(const struct bench_setting *s, const struct bench_result *e, size_t n) {
    const struct ddict_info *i = s->info;
    json_t *results = json_array();
    int bad = 0;
    for (size_t k = 0; k < n; k++)
        bad |= json_array_append_new(results, result_object(&e[k]));
    json_t *dictionary =
               json_pack("{s:s, s:i, s:i, s:o}", "name", i->name, "managers", (int)i->managers,
                         "nodes", (int)i->nodes, "total_bytes", count_json(i->total_bytes)),
           *client = json_pack("{s:s, s:i, s:s, s:i, s:i, s:b, s:o}", "node", i->node, "node_id",
                               (int)i->node_id, "cpus", s->cpus, "cpus_allowed",
                               (int)s->cpus_allowed, "cpus_online", (int)s->cpus_online, "pinned",
                               is_pinned(s), "cache_bytes", count_json(s->cache));
    json_t *o = json_pack("{s:o, s:o, s:o, s:i, s:b, s:b, s:o}", "dictionary", dictionary, "client",
                          client, "seconds", bench_seconds(s->seconds), "reps", (int)s->reps,
                          "touched", s->touch, "frozen", s->freeze, "results", results);
    return bench_print_object(o, bad);
}
