/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_net.c - `ddict bench --net`: measure the path to another node, in turn through the managers
 * and by a plain TCP connection. Through the managers, values of that node are read into a buffer;
 * small values show the latency, large ones the bandwidth.
 */
#include "bench.h"
#include <base/clock.h>
#include <base/size.h>
#include <base/verb.h>

#include <cmd/cmd.h>
#include <errno.h>
#include <lib/probe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEYS 4u /* number of small values, read in turn */
/* bytes requested at once of a stream by plain TCP; the first request is a 64th of it */
#define STREAM_BYTES (64u << 20)
#define LARGE        (128u << 10) /* from this size on the bandwidth is shown */

static const size_t sizes[] = {8, 1024, 1u << 20, 64u << 20};
#define SIZES (sizeof sizes / sizeof *sizes)

enum side { DDICT, TCP, SIDES };
struct net_row {
    size_t value;
    bool measured;
    /* small values: median latency; large values: time of each value in a slice */
    double ns[SIDES][BENCH_REPS_MAX];
    struct histogram latency[SIDES];
};
struct net {
    ddict_t *d;
    const struct bench_setting *setting;
    const struct bench_run *run; /* tells whether to stop */
    struct bench_keys keys;
    unsigned manager;
    char node[64];
    struct probe probe;
    int fd;
    void *buf;
    char key[KEYS][BENCH_KEY_MAX];
    size_t klen[KEYS];
    struct net_row row[SIZES];
};

static int net_failed(const char *what, int e) {
    verb_say("%s: %s", what, strerror(-e));
    return EXIT_FAILED;
}

static bool is_stopped(const struct net *n) {
    return __atomic_load_n(&n->run->stop, __ATOMIC_RELAXED) != 0;
}

/* --- one turn of one side --- */

static int get_one(struct net *n, size_t len, unsigned i, uint64_t *ns) {
    size_t got;
    uint64_t before = clock_ns();
    int rc = ddict_get(n->d, n->key[i], n->klen[i], n->buf, len, &got, NULL, 0, -1);
    *ns = clock_ns() - before;
    if (rc < 0)
        return cmd_failed("get", rc);
    if (got == len && bench_check(n->buf, len, i) == 0)
        return EXIT_OK;
    verb_say("other bytes came than were put");
    return EXIT_FAILED;
}

static int side_measure(struct net *n, struct net_row *r, enum side side, double seconds,
                        unsigned keys, struct histogram *h, double *ns) {
    uint64_t end = clock_ns() + (uint64_t)(seconds * 1e9), spent = 0, done = 0, took;
    struct histogram own = {.count = 0};
    bool large = r->value >= LARGE;
    uint64_t most = STREAM_BYTES / r->value < PROBE_COUNT_MAX ? STREAM_BYTES / r->value
                                                              : PROBE_COUNT_MAX,
             count = large ? (most + 63) / 64 : 1;
    while ((clock_ns() < end || done == 0) && !is_stopped(n)) {
        if (side == DDICT) {
            int rc = get_one(n, r->value, (unsigned)(done % keys), &took);
            if (rc != EXIT_OK)
                return rc;
            done++;
        } else {
            uint64_t before = clock_ns();
            int e = probe_receive(n->fd, n->buf, r->value, count);
            if (e < 0)
                return net_failed("plain TCP", e);
            took = clock_ns() - before;
            done += count;
            if (large && took < 10000000 && count < most)
                count *= 2;
        }
        spent += took;
        if (!large || side == DDICT)
            histogram_add(&own, took);
    }
    *ns = large ? (double)spent / (double)done : (double)histogram_percentile(&own, 50);
    if (h) {
        h->count += own.count;
        h->max_ns = own.max_ns > h->max_ns ? own.max_ns : h->max_ns;
        for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
            h->bucket[b] += own.bucket[b];
    }
    return EXIT_OK;
}

/* --- one size --- */

static int values_put(struct net *n, size_t len, unsigned *keys) {
    char text[24];
    unsigned want = len < STREAM_BYTES ? KEYS : 1;
    for (*keys = 0; *keys < want; ++*keys) {
        unsigned i = *keys;
        n->klen[i] = bench_key(&n->keys, n->d, n->key[i], i);
        bench_fill(n->buf, len, i);
        int rc = ddict_put(n->d, n->key[i], n->klen[i], n->buf, len, 0, -1);
        if (rc == DDICT_EFULL || rc == DDICT_EVALSIZE) {
            verb_say("left out: no room for values of %s on node %s",
                     size_format(text, sizeof text, len), n->node);
            return EXIT_OK;
        }
        if (rc < 0)
            return cmd_failed("put", rc);
    }
    return EXIT_OK;
}

static int values_remove(struct net *n, unsigned keys) {
    int rc = EXIT_OK;
    for (unsigned i = 0; i < keys; i++) {
        int e = ddict_del(n->d, n->key[i], n->klen[i], -1);
        if (e < 0 && e != DDICT_ENOKEY)
            rc = cmd_failed("removing the keys", e);
    }
    return rc;
}

static int row_run(struct net *n, struct net_row *r) {
    unsigned keys = 0, want = r->value < STREAM_BYTES ? KEYS : 1, reps = n->setting->reps;
    double warm;
    int rc = values_put(n, r->value, &keys);
    for (unsigned s = 0; s < SIDES && rc == EXIT_OK && keys == want; s++)
        rc = side_measure(n, r, s, n->setting->seconds / 4, keys, NULL, &warm);
    for (unsigned i = 0; i < reps * SIDES && rc == EXIT_OK && keys == want; i++)
        rc = side_measure(n, r, i % SIDES, n->setting->seconds, keys, &r->latency[i % SIDES],
                          &r->ns[i % SIDES][i / SIDES]);
    r->measured = rc == EXIT_OK && keys == want && !is_stopped(n);
    int e = values_remove(n, keys);
    return rc != EXIT_OK ? rc : e;
}

/* --- results --- */

/* medians; for the ratios of the repetitions median and extremes */
struct net_figures {
    double value[SIDES], ratio, low, high;
};

static void figures_make(const struct net *n, const struct net_row *r, struct net_figures *f) {
    double ratio[BENCH_REPS_MAX] = {0};
    unsigned reps = n->setting->reps;
    for (unsigned i = 0; i < reps; i++)
        ratio[i] =
            r->value < LARGE ? r->ns[DDICT][i] / r->ns[TCP][i] : r->ns[TCP][i] / r->ns[DDICT][i];
    f->ratio = bench_median(ratio, reps);
    f->low = f->high = ratio[0];
    for (unsigned i = 1; i < reps; i++) {
        f->low = ratio[i] < f->low ? ratio[i] : f->low;
        f->high = ratio[i] > f->high ? ratio[i] : f->high;
    }
    for (unsigned s = 0; s < SIDES; s++) {
        double ns = bench_median(r->ns[s], reps);
        f->value[s] = r->value < LARGE ? ns / 1e3 : (double)r->value / ns;
    }
}

static void row_print(const struct net *n, const struct net_row *r) {
    struct net_figures f;
    char size[24];
    if (!r->measured)
        return;
    figures_make(n, r, &f);
    bool large = r->value >= LARGE;
    printf("%8s  %-22s %8.*f %-4s %8.*f %-4s %6.2fx  (%.2f - %.2f)\n",
           size_format(size, sizeof size, r->value),
           large ? "bandwidth of a get" : "latency of a get, p50", large ? 3 : 1, f.value[DDICT],
           large ? "GB/s" : "us", large ? 3 : 1, f.value[TCP], large ? "GB/s" : "us", f.ratio,
           f.low, f.high);
    fflush(stdout);
}

static void carrier_text(const struct net *n, char *text, size_t cap) {
    if (strcmp(n->probe.carrier, "tcp") == 0)
        snprintf(text, cap, "tcp, %u connection%s", n->probe.connections,
                 n->probe.connections == 1 ? "" : "s");
    else
        snprintf(text, cap, "%s", n->probe.carrier);
}

static void head_print(const struct net *n) {
    char address[64], carrier[64];
    carrier_text(n, carrier, sizeof carrier);
    printf("from node %s to manager %u on node %s: through the managers (%s), and by one plain TCP "
           "connection to %s\n",
           n->setting->info->node, n->manager, n->node, carrier,
           probe_address(&n->probe, address, sizeof address));
    printf("clients may use cpus %s; %u repetitions of %g s each, in turn\n", n->setting->cpus,
           n->setting->reps, n->setting->seconds);
    printf("%8s  %-22s %13s %13s  ratio\n", "value", "", "managers", "plain TCP");
}

static json_t *row_object(const struct net *n, const struct net_row *r) {
    struct ddict_latency l[SIDES];
    struct net_figures f;
    figures_make(n, r, &f);
    for (unsigned s = 0; s < SIDES; s++)
        histogram_summary(&r->latency[s], &l[s]);
    return json_pack(
        "{s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "value_bytes",
        (json_int_t)r->value, "what", r->value < LARGE ? "latency_us" : "bandwidth_gb_s",
        "managers", bench_number(f.value[DDICT], 4), "tcp", bench_number(f.value[TCP], 4), "ratio",
        bench_number(f.ratio, 4), "ratio_lowest", bench_number(f.low, 4), "ratio_highest",
        bench_number(f.high, 4), "managers_p50_ns", (json_int_t)l[DDICT].p50_ns, "managers_p99_ns",
        (json_int_t)l[DDICT].p99_ns, "tcp_p50_ns", (json_int_t)l[TCP].p50_ns, "tcp_p99_ns",
        (json_int_t)l[TCP].p99_ns);
}

static int json_print(const struct net *n) {
    char address[64];
    json_t *rows = json_array();
    int bad = 0;
    for (unsigned i = 0; i < SIZES; i++)
        if (n->row[i].measured)
            bad |= json_array_append_new(rows, row_object(n, &n->row[i]));
    json_t *o = json_pack("{s:s, s:s, s:i, s:s, s:i, s:s, s:o, s:i, s:o}", "from_node",
                          n->setting->info->node, "to_node", n->node, "manager", (int)n->manager,
                          "carrier", n->probe.carrier, "connections", (int)n->probe.connections,
                          "address", probe_address(&n->probe, address, sizeof address), "seconds",
                          bench_seconds(n->setting->seconds), "reps", (int)n->setting->reps,
                          "results", rows);
    return bench_print_object(o, bad);
}

/* --- the measurement --- */

static int path_open(struct net *n) {
    int rc = ddict_probe(n->d, n->manager, &n->probe, -1);
    if (rc < 0)
        return cmd_failed("the path to another node", rc);
    n->fd = probe_connect(&n->probe);
    return n->fd < 0 ? net_failed("plain TCP", n->fd) : EXIT_OK;
}

int bench_net(ddict_t *d, const struct bench_setting *setting, const struct bench_run *run,
              unsigned manager, const char *node, bool json) {
    struct net *n = calloc(1, sizeof *n);
    if (!n)
        return net_failed("memory", -ENOMEM);
    *n = (struct net){
        .d = d, .setting = setting, .run = run, .keys = run->keys, .manager = manager, .fd = -1};
    n->keys.owner = &n->manager;
    n->keys.owners = 1;
    snprintf(n->node, sizeof n->node, "%s", node);
    n->buf = aligned_alloc(64, sizes[SIZES - 1]);
    int rc = n->buf ? path_open(n) : net_failed("memory", -ENOMEM);
    if (rc == EXIT_OK && !json)
        head_print(n);
    for (unsigned i = 0; i < SIZES && rc == EXIT_OK && !is_stopped(n); i++) {
        n->row[i].value = sizes[i];
        rc = row_run(n, &n->row[i]);
        if (rc == EXIT_OK && !json)
            row_print(n, &n->row[i]);
    }
    if (rc == EXIT_OK && json && !is_stopped(n))
        rc = json_print(n);
    if (n->fd >= 0)
        close(n->fd);
    free(n->buf);
    free(n);
    return rc;
}
