/* SPDX-License-Identifier: Apache-2.0 */
/* stats_table.c - the table of the managers' figures. */
#include "stats_table.h"

#include "columns.h"
#include <base/defaults.h>
#include <base/size.h>
#include <base/stats.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

char *count_short(char *buf, size_t cap, uint64_t n) {
    static const char unit[] = " kMGTPE";
    unsigned u = 0;
    double v = (double)n;
    while (v >= 999.95 && u < sizeof unit - 2) {
        v /= 1000;
        u++;
    }
    if (u == 0)
        snprintf(buf, cap, "%" PRIu64, n);
    else
        snprintf(buf, cap, "%.1f%c", v, unit[u]);
    return buf;
}

char *nanoseconds_short(char *buf, size_t cap, uint64_t ns) {
    static const char *const unit[] = {"us", "ms", "s"};
    unsigned u = 0;
    double v = (double)ns / 1000;
    while (v >= 999.95 && u < 2) {
        v /= 1000;
        u++;
    }
    snprintf(buf, cap, "%.1f %s", v, unit[u]);
    return buf;
}

int figures_total(const struct figures *f, int n, struct manager_stats *total) {
    int lost = 0;
    memset(total, 0, sizeof *total);
    for (int i = 0; i < n; i++)
        if (f[i].lost)
            lost++;
        else if (f[i].forwards)
            stats_merge_forwarder(total, &f[i].s);
        else
            stats_merge(total, &f[i].s);
    total->clients_now = total->clients_peak = 0;
    for (int i = 0; i < n; i++)
        if (!f[i].lost && f[i].s.manager_id == f[i].s.node_id) {
            total->clients_now += f[i].s.clients_now;
            total->clients_peak += f[i].s.clients_peak;
        }
    return lost;
}

static const struct column columns_now[] = {
    {"manager", 0}, {"node", 1},   {"numa", 0}, {"pid", 0},  {"used", 0},
    {"of", 0},      {"", 0},       {"keys", 0}, {"puts", 0}, {"local", 0},
    {"remote", 0},  {"misses", 0}, {"in", 0},   {"out", 0},  {"clients", 0}};
static const struct column columns_after[] = {
    {"manager", 0}, {"node", 1},    {"numa", 0},    {"used", 0},  {"of", 0},
    {"", 0},        {"keys", 0},    {"puts", 0},    {"local", 0}, {"remote", 0},
    {"misses", 0},  {"deletes", 0}, {"in", 0},      {"out", 0},   {"clients", 0},
    {"put p50", 0}, {"p99", 0},     {"get p50", 0}, {"p99", 0}};

static void count_cell(struct columns *t, uint64_t n) {
    char b[24];
    columns_cell(t, "%s", count_short(b, sizeof b, n));
}

static void size_cell(struct columns *t, uint64_t n) {
    char b[24];
    columns_cell(t, "%s", size_format(b, sizeof b, n));
}

static void latency_cells(struct columns *t, const struct ddict_latency *l) {
    char b[24];
    if (l->count == 0) {
        columns_cell(t, "-");
        columns_cell(t, "-");
        return;
    }
    columns_cell(t, "%s", nanoseconds_short(b, sizeof b, l->p50_ns));
    columns_cell(t, "%s", nanoseconds_short(b, sizeof b, l->p99_ns));
}

/* The cells of a row except the first three columns and pid. */
static void columns_put_row(struct columns *t, const struct manager_stats *s, bool after) {
    size_cell(t, s->total_used_bytes);
    size_cell(t, s->total_bytes);
    columns_cell(t, "%.1f%%", s->pool_utilization);
    count_cell(t, s->num_keys);
    count_cell(t, s->puts);
    count_cell(t, s->gets_local);
    count_cell(t, s->gets_remote);
    count_cell(t, s->misses);
    if (after)
        count_cell(t, s->deletes);
    size_cell(t, s->bytes_in);
    size_cell(t, s->bytes_out);
    count_cell(t, after ? s->clients_peak : s->clients_now);
    if (after) {
        latency_cells(t, &s->latency[DDICT_LATENCY_PUT]);
        latency_cells(t, &s->latency[DDICT_LATENCY_GET]);
    }
}

static void frozen_remark(const struct figures *f, int n, FILE *out, int indent) {
    struct manager_stats t;
    char items[24], bytes[24], hits[24], gone[24];
    figures_total(f, n, &t);
    if (!t.frozen && t.cache_hits == 0 && t.evictions == 0)
        return;
    fprintf(
        out,
        "%*s%s: %s values of other nodes are kept (%s); such were read %s times, %s had to go\n",
        indent, "", t.frozen ? "frozen" : "not frozen any more",
        count_short(items, sizeof items, t.cached_items),
        size_format(bytes, sizeof bytes, t.cached_bytes),
        count_short(hits, sizeof hits, t.cache_hits), count_short(gone, sizeof gone, t.evictions));
}

static void copies_remark(const struct figures *f, int n, FILE *out, int indent) {
    for (int i = 0; i < n; i++)
        if (!f[i].lost && f[i].s.copies == 1)
            fprintf(out, "%*smanager %u: its keys have no whole second copy\n", indent, "",
                    f[i].s.manager_id);
}

static void spill_remark(const struct figures *f, int n, FILE *out, int indent) {
    struct manager_stats t;
    char used[24], of[24], ever[24];
    figures_total(f, n, &t);
    if (t.spill_total_bytes == 0)
        return;
    fprintf(out, "%*sspill: %" PRIu64 " value%s, %s of %s on disk; %s were put or moved there\n",
            indent, "", t.spill_items, t.spill_items == 1 ? "" : "s",
            size_format(used, sizeof used, t.spill_used_bytes),
            size_format(of, sizeof of, t.spill_total_bytes),
            size_format(ever, sizeof ever, t.spilled_bytes));
}

/* Memory and descriptors that clients use in addition to the dictionary's memory. */
static void clients_remark(const struct figures *f, int n, FILE *out, int indent) {
    struct manager_stats t;
    char lanes[24], tables[24], events[24];
    figures_total(f, n, &t);
    fprintf(out,
            "%*sbeside its memory: lanes to clients %s (%" PRIu64
            " looked at), page tables %s, %" PRIu64 " descriptors, %" PRIu64 " ends of connections",
            indent, "", size_format(lanes, sizeof lanes, t.lane_bytes), t.lanes_watched,
            size_format(tables, sizeof tables, t.page_table_bytes), t.descriptors, t.connections);
    if (t.prefixes > 0)
        fprintf(out, ", %" PRIu64 " prefixes %s", t.prefixes,
                size_format(events, sizeof events, t.events_bytes));
    fputc('\n', out);
}

static void remarks_print(const struct figures *f, int n, FILE *out, int indent) {
    struct manager_stats total;
    char read[24];
    figures_total(f, n, &total);
    if (total.transport[0])
        fprintf(out, "%*sbetween nodes: messages by %s%s%s%s%s", indent, "", total.transport,
                total.wire[0] ? " (wire=" : "", total.wire, total.wire[0] ? ")" : "",
                strncmp(total.transport, "ofi", 3) == 0 ? ", all else by tcp" : "");
    if (total.rma_bytes > 0)
        fprintf(out, "; %s of values were read out of other managers' memory",
                size_format(read, sizeof read, total.rma_bytes));
    if (total.transport[0])
        fputc('\n', out);
    if (total.rma_refused > 0)
        fprintf(out,
                "%*s%" PRIu64 " value%s sent by messages although rma is in use: their memory "
                "could not be given to the network; the managers' log says why\n",
                indent, "", total.rma_refused, total.rma_refused == 1 ? " was" : "s were");
    bool pool = total.page_bytes > DD_PAGE_MAX;
    if (pool || total.huge_bytes > 0) {
        char size[24], taken[24];
        fprintf(out, "%*s%s %s: %s\n", indent, "",
                pool ? "from the nodes' pools of huge pages of" : "in huge pages of",
                size_format(size, sizeof size, pool ? total.page_bytes : 2ull << 20),
                size_format(taken, sizeof taken, total.huge_bytes));
    }
    for (int i = 0; i < n; i++) {
        const struct manager_stats *s = &f[i].s;
        char a[24], b[24];
        if (f[i].lost)
            continue;
        if (s->leased_bytes > 0)
            fprintf(out, "%*smanager %u: views hold %s of replaced values, %s of them process %u\n",
                    indent, "", s->manager_id, size_format(a, sizeof a, s->leased_bytes),
                    size_format(b, sizeof b, s->largest_holder_bytes), s->largest_holder_pid);
        if (s->scattered_bytes > s->total_bytes / 16)
            fprintf(out,
                    "%*smanager %u: %s of its free memory lies scattered between values; they are "
                    "moved together when it is wanted\n",
                    indent, "", s->manager_id, size_format(a, sizeof a, s->scattered_bytes));
        if (s->restarts > 0)
            fprintf(out,
                    "%*smanager %u died and was started again over its memory, %" PRIu64
                    " time%s\n",
                    indent, "", s->manager_id, s->restarts, s->restarts == 1 ? "" : "s");
        if (s->full_errors > 0)
            fprintf(out, "%*smanager %u refused %" PRIu64 " put%s because it was full\n", indent,
                    "", s->manager_id, s->full_errors, s->full_errors == 1 ? "" : "s");
    }
}

int figures_print(const struct figures *f, int n, bool after, FILE *out, int indent, int columns) {
    struct manager_stats total;
    struct columns t;
    if (after)
        columns_init(&t, columns_after, sizeof columns_after / sizeof *columns_after);
    else
        columns_init(&t, columns_now, sizeof columns_now / sizeof *columns_now);
    for (int i = 0; i < n; i++) {
        columns_cell(&t, "%u", f[i].s.manager_id);
        columns_cell(&t, "%s%s", f[i].s.node, f[i].lost ? " (lost)" : "");
        if (f[i].lost) {
            columns_skip(&t, t.width - 2);
            continue;
        }
        if (f[i].s.numa_node < 0)
            columns_cell(&t, "-");
        else
            columns_cell(&t, "%d", f[i].s.numa_node);
        if (!after)
            columns_cell(&t, "%u", f[i].s.pid);
        columns_put_row(&t, &f[i].s, after);
    }
    int lost = figures_total(f, n, &total);
    columns_cell(&t, "total");
    if (lost > 0)
        columns_cell(&t, "(%d lost)", lost);
    else
        columns_skip(&t, 1);
    columns_skip(&t, after ? 1 : 2);
    columns_put_row(&t, &total, after);
    int rc = columns_print(&t, out, indent, columns);
    columns_free(&t);
    if (rc == 0) {
        remarks_print(f, n, out, indent);
        copies_remark(f, n, out, indent);
        frozen_remark(f, n, out, indent);
        spill_remark(f, n, out, indent);
        if (!after)
            clients_remark(f, n, out, indent);
    }
    return rc;
}
