/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_plot.c - results as SVG: keys per second, and p50 (line) with p99 (dots), over the size of
 * a value; both axes are logarithmic. Each operation has a colour; remote operations and several
 * clients are dashed.
 */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH  1220
#define HEIGHT 520
#define TOP    50
#define BOTTOM 70
#define PANEL  380
#define FIRST  80
#define SECOND 570
#define LEGEND 985

static const char *const color[OP_N] = {"#c0392b", "#e67e22", "#7f8c8d", "#2980b9",
                                        "#27ae60", "#16a085", "#8e44ad"};

struct axis {
    double low, high;
    int at, length, sign;
}; /* low, high: logarithms; at: pixel of low */

static double axis_at(const struct axis *a, double value) {
    return a->at + a->sign * (log10(value) - a->low) / (a->high - a->low) * a->length;
}

static void axis_cover(struct axis *a, double value) {
    if (!(value > 0))
        return;
    if (log10(value) < a->low)
        a->low = log10(value);
    if (log10(value) > a->high)
        a->high = log10(value);
}

static double keys_rate(const struct bench_result *e) {
    return e->rate;
}
static double median_us(const struct bench_result *e) {
    return (double)e->latency.p50_ns / 1e3;
}
static double high_us(const struct bench_result *e) {
    return (double)e->latency.p99_ns / 1e3;
}

static bool same_line(const struct bench_result *a, const struct bench_result *b) {
    return a->op == b->op && a->place == b->place && a->clients == b->clients;
}

static bool first_of_line(const struct bench_result *e, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (same_line(&e[k], &e[i]))
            return false;
    return true;
}

static const char *line_dashes(const struct bench_result *e, unsigned least) {
    return e->place == PLACE_REMOTE ? e->clients > least ? "2 3" : "7 4"
           : e->clients > least     ? "12 3 2 3"
                                    : "none";
}

static void line_draw(FILE *f, const struct bench_result *e, size_t n, size_t i,
                      const struct axis *x, const struct axis *y,
                      double (*value)(const struct bench_result *), unsigned least) {
    fprintf(f,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" "
            "points=\"",
            color[e[i].op], line_dashes(&e[i], least));
    for (size_t k = i; k < n; k++)
        if (same_line(&e[k], &e[i]) && value(&e[k]) > 0)
            fprintf(f, "%.1f,%.1f ", axis_at(x, (double)e[k].value), axis_at(y, value(&e[k])));
    fprintf(f, "\"/>\n");
}

static void dots_draw(FILE *f, const struct bench_result *e, const struct axis *x,
                      const struct axis *y, double value, double radius) {
    if (value > 0)
        fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n",
                axis_at(x, (double)e->value), axis_at(y, value), radius, color[e->op]);
}

static void decades_draw(FILE *f, const struct axis *x, const struct axis *y) {
    for (double d = ceil(y->low); d <= y->high + 1e-9; d++) {
        double at = axis_at(y, pow(10, d));
        fprintf(f,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"%d\" "
                "y=\"%.1f\" text-anchor=\"end\">",
                x->at, x->at + x->length, at, at, x->at - 6, at + 4);
        if (d >= 0 && d < 4)
            fprintf(f, "%.0f</text>\n", pow(10, d));
        else
            fprintf(f, "1e%.0f</text>\n", d);
    }
}

static const char *size_label(char *buf, size_t cap, uint64_t n) {
    static const char unit[] = {0, 'K', 'M', 'G', 'T'};
    unsigned u = 0;
    while (u < 4 && n >= 1024 && n % 1024 == 0) {
        n /= 1024;
        u++;
    }
    snprintf(buf, cap, "%llu%.1s", (unsigned long long)n, &unit[u]);
    return buf;
}

static void sizes_draw(FILE *f, const struct bench_result *e, size_t n, const struct axis *x) {
    double last = -1000;
    for (size_t i = 0; i < n; i++) { /* results are sorted by size, then by place */
        char size[24];
        double at = axis_at(x, (double)e[i].value);
        if (at < last + 36)
            continue;
        last = at;
        fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", at,
                HEIGHT - BOTTOM + 18, size_label(size, sizeof size, e[i].value));
    }
}

static void panel_draw(FILE *f, const struct bench_result *e, size_t n, int left, const char *title,
                       double (*value)(const struct bench_result *),
                       double (*other)(const struct bench_result *), unsigned least) {
    struct axis x = {.low = 1e9, .high = -1e9, .at = left, .length = PANEL, .sign = 1};
    struct axis y = {.low = 1e9,
                     .high = -1e9,
                     .at = HEIGHT - BOTTOM,
                     .length = HEIGHT - TOP - BOTTOM,
                     .sign = -1};
    for (size_t i = 0; i < n; i++) {
        axis_cover(&x, (double)e[i].value);
        axis_cover(&y, value(&e[i]));
        if (other)
            axis_cover(&y, other(&e[i]));
    }
    if (x.high - x.low < 0.1) {
        x.low -= 0.5;
        x.high += 0.5;
    }
    y.low = floor(y.low);
    y.high = ceil(y.high);
    if (y.high <= y.low)
        y.high = y.low + 1;
    fprintf(f, "<text x=\"%d\" y=\"%d\" font-size=\"15\">%s</text>\n", left, TOP - 14, title);
    decades_draw(f, &x, &y);
    sizes_draw(f, e, n, &x);
    fprintf(f,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888\"/>\n",
            left, TOP, PANEL, HEIGHT - TOP - BOTTOM);
    for (size_t i = 0; i < n; i++) {
        if (first_of_line(e, i))
            line_draw(f, e, n, i, &x, &y, value, least);
        dots_draw(f, &e[i], &x, &y, value(&e[i]), 3);
        if (other)
            dots_draw(f, &e[i], &x, &y, other(&e[i]), 1.8);
    }
}

static void legend_draw(FILE *f, const struct bench_result *e, size_t n, unsigned least) {
    int at = TOP + 10;
    for (size_t i = 0; i < n && at < HEIGHT - 10; i++) {
        if (!first_of_line(e, i))
            continue;
        fprintf(f,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"2\" "
                "stroke-dasharray=\"%s\"/><text x=\"%d\" y=\"%d\">%s, %s, %u client%s</text>\n",
                LEGEND, LEGEND + 36, at, at, color[e[i].op], line_dashes(&e[i], least), LEGEND + 42,
                at + 4, bench_op_name[e[i].op], bench_place_name[e[i].place], e[i].clients,
                e[i].clients == 1 ? "" : "s");
        at += 20;
    }
}

int bench_plot(FILE *f, const struct bench_setting *s, const struct bench_result *e, size_t n) {
    unsigned least = BENCH_CLIENTS_MAX;
    for (size_t i = 0; i < n; i++)
        if (e[i].clients < least)
            least = e[i].clients;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
            "%d\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    fprintf(f,
            "<text x=\"%d\" y=\"16\" fill=\"#555\">ddict bench: %u manager%s on %u node%s; %u "
            "repetitions of %g s%s%s</text>\n",
            FIRST, s->info->managers, s->info->managers == 1 ? "" : "s", s->info->nodes,
            s->info->nodes == 1 ? "" : "s", s->reps, s->seconds,
            s->touch ? "" : "; values not touched", s->freeze ? "; frozen" : "");
    if (n > 0) {
        panel_draw(f, e, n, FIRST, "keys a second, over bytes of a value", keys_rate, NULL, least);
        panel_draw(f, e, n, SECOND,
                   "us of a call: p50 (line), p99 (small dots); of a batch for _many", median_us,
                   high_us, least);
        legend_draw(f, e, n, least);
    }
    fprintf(f, "</svg>\n");
    return fflush(f) == 0 && !ferror(f) ? 0 : -EIO;
}
