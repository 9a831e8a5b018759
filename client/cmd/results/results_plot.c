/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results_plot.c - draw the numbers in the JSON objects of a folder's files as SVG: a panel for
 * each name of a number, with a line for each file. Files that do not begin with an object are left
 * out.
 */
#include "results_plot.h"

#include <base/vec.h>
#include <base/verb.h>

#include <cmd/cmd.h>
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERIES_MAX 4096u
#define WIDTH      560.0
#define HEIGHT     300.0
#define LEFT       70.0
#define TOP        34.0
#define BOTTOM     40.0
#define LEGEND     230.0

struct series {
    char *file, *metric;
    double *x, *y;
    size_t n, x_cap, y_cap;
};
static struct series *series;
static size_t series_n;
static const struct results_plot *plot;
static bool failed;

static const char *const over[] = {"step", "iteration", "batch", "epoch"};
static const char *const never[] = {"rank", "time", "timestamp"};
#define COUNT(a) (sizeof a / sizeof a[0])

static bool one_of(const char *name, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool metric_is_wanted(const char *name) {
    if (plot->metrics > 0)
        return one_of(name, plot->metric, plot->metrics);
    return !one_of(name, over, COUNT(over)) && !one_of(name, never, COUNT(never)) &&
           (!plot->x || strcmp(name, plot->x) != 0);
}

static struct series *series_get(const char *file, const char *metric) {
    for (size_t i = series_n; i-- > 0;)
        if (strcmp(series[i].metric, metric) == 0 && strcmp(series[i].file, file) == 0)
            return &series[i];
    struct series *s = series_n < SERIES_MAX ? realloc(series, (series_n + 1) * sizeof *s) : NULL;
    if (!s)
        return NULL;
    series = s;
    s += series_n++;
    *s = (struct series){.file = strdup(file), .metric = strdup(metric)};
    return s->file && s->metric ? s : NULL;
}

static void point_add(const char *file, const char *metric, double x, double y) {
    struct series *s = series_get(file, metric);
    if (!s) {
        failed = true;
        return;
    }
    if (VEC_ROOM(&s->x, &s->x_cap, s->n + 1, 16) < 0 ||
        VEC_ROOM(&s->y, &s->y_cap, s->n + 1, 16) < 0) {
        failed = true;
        return;
    }
    s->x[s->n] = x;
    s->y[s->n++] = y;
}

static void object_take(const char *file, json_t *o, size_t line) {
    const char *name;
    json_t *v, *x = plot->x ? json_object_get(o, plot->x) : NULL;
    for (size_t i = 0; !plot->x && !x && i < COUNT(over); i++)
        x = json_object_get(o, over[i]);
    json_object_foreach(o, name, v) if (json_is_number(v) && metric_is_wanted(name)) point_add(
        file, name, json_is_number(x) ? json_number_value(x) : (double)line, json_number_value(v));
}

/* Skip white space and return the next character. */
static int object_find(FILE *f) {
    int c;
    while ((c = getc(f)) == ' ' || c == '\n' || c == '\r' || c == '\t') {
    }
    return ungetc(c, f);
}

static int file_take(const char *path, const struct stat *st, int kind, struct FTW *at) {
    const char *name = path + strlen(plot->folder);
    (void)st;
    if (kind != FTW_F || path[at->base] == '.')
        return 0;
    FILE *f = fopen(path, "re");
    int c;
    if (!f)
        return 0;
    for (size_t line = 1; (c = object_find(f)) == '{'; line++) {
        json_error_t e;
        json_t *o = json_loadf(f, JSON_DISABLE_EOF_CHECK, &e);
        if (o)
            object_take(name + (*name == '/'), o, line);
        else /* skip the line: it is cut, or has NaN, which Python writes but JSON does not allow */
            while ((c = getc(f)) != EOF && c != '\n') {
            }
        json_decref(o);
    }
    fclose(f);
    return 0;
}

static void text_write(FILE *f, const char *text) {
    for (; *text != 0; text++) {
        if (*text == '<' || *text == '&' || *text == '>')
            fprintf(f, "&#%d;", *text);
        else if ((unsigned char)*text >= ' ')
            fputc(*text, f);
    }
}

static const char *color_of(size_t i) {
    static const char *const colors[] = {"#2980b9", "#c0392b", "#27ae60", "#e67e22", "#8e44ad",
                                         "#16a085", "#7f8c8d", "#d4ac0d", "#34495e", "#e84393"};
    return colors[i % COUNT(colors)];
}

/* The index of the file, in the order of the legend. */
static size_t file_number(const char *const *files, size_t n, const char *file) {
    size_t i = 0;
    while (i < n && strcmp(files[i], file) != 0)
        i++;
    return i;
}

static double tick_step(double span) {
    double p = pow(10, floor(log10(span / 4))), m = span / 4 / p;
    return p * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

struct range {
    double low, high;
};

static void range_take(struct range *r, double v) {
    if (v < r->low)
        r->low = v;
    if (v > r->high)
        r->high = v;
}

static void range_widen(struct range *r) {
    if (r->high - r->low <= fabs(r->high) * 1e-12) {
        double by = r->high != 0 ? fabs(r->high) / 2 : 1;
        r->low -= by;
        r->high += by;
    }
}

static void panel_draw(FILE *f, const char *metric, double left, double top,
                       const char *const *files, size_t files_n) {
    struct range x = {HUGE_VAL, -HUGE_VAL}, y = x;
    double w = WIDTH - LEFT - 20, h = HEIGHT - TOP - BOTTOM;
    for (size_t i = 0; i < series_n; i++)
        for (size_t k = 0; k < series[i].n && strcmp(series[i].metric, metric) == 0; k++) {
            range_take(&x, series[i].x[k]);
            range_take(&y, series[i].y[k]);
        }
    range_widen(&x);
    range_widen(&y);
    left += LEFT;
    top += TOP;
    fprintf(f, "<text x=\"%.0f\" y=\"%.0f\" font-size=\"15\">", left, top - 10);
    text_write(f, metric);
    fprintf(f, "</text>\n");
    for (double step = tick_step(y.high - y.low), t = ceil(y.low / step) * step;
         t <= y.high + step * 1e-9; t += step) {
        double at = top + h - (t - y.low) / (y.high - y.low) * h;
        fprintf(f,
                "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text "
                "x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n",
                left, left + w, at, at, left - 6, at + 4, fabs(t) < step * 1e-9 ? 0.0 : t);
    }
    for (double step = tick_step(x.high - x.low), t = ceil(x.low / step) * step;
         t <= x.high + step * 1e-9; t += step)
        fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.6g</text>\n",
                left + (t - x.low) / (x.high - x.low) * w, top + h + 18,
                fabs(t) < step * 1e-9 ? 0.0 : t);
    fprintf(f,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
            "stroke=\"#888\"/>\n",
            left, top, w, h);
    for (size_t i = 0; i < series_n; i++) {
        const struct series *s = &series[i];
        if (strcmp(s->metric, metric) != 0)
            continue;
        const char *c = color_of(file_number(files, files_n, s->file));
        fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"", c);
        for (size_t k = 0; k < s->n; k++)
            fprintf(f, "%.1f,%.1f ", left + (s->x[k] - x.low) / (x.high - x.low) * w,
                    top + h - (s->y[k] - y.low) / (y.high - y.low) * h);
        fprintf(f, "\"/>\n");
        if (s->n == 1)
            fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                    left + (s->x[0] - x.low) / (x.high - x.low) * w,
                    top + h - (s->y[0] - y.low) / (y.high - y.low) * h, c);
    }
}

static int names_compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The distinct files or metrics of all series, sorted. */
static size_t names_of(const char **names, bool metrics) {
    size_t n = 0;
    for (size_t i = 0; i < series_n; i++) {
        const char *name = metrics ? series[i].metric : series[i].file;
        if (file_number(names, n, name) == n)
            names[n++] = name;
    }
    qsort(names, n, sizeof *names, names_compare);
    return n;
}

static int plot_draw(FILE *f) {
    const char **files = calloc(series_n, sizeof *files),
               **metrics = calloc(series_n, sizeof *metrics);
    if (!files || !metrics) {
        free(files);
        free(metrics);
        return -ENOMEM;
    }
    size_t files_n = names_of(files, false), metrics_n = names_of(metrics, true);
    double rows = ceil((double)metrics_n / 2), columns = metrics_n > 1 ? 2 : 1,
           width = columns * WIDTH + LEGEND, height = rows * HEIGHT;
    if (height < 20.0 * (double)(files_n + 1))
        height = 20.0 * (double)(files_n + 1);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 "
            "0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, height, width, height);
    for (size_t i = 0; i < metrics_n; i++)
        panel_draw(f, metrics[i], (double)(i % 2) * WIDTH, (double)(i / 2) * HEIGHT, files,
                   files_n);
    for (size_t i = 0; i < files_n; i++) {
        double at = TOP + 20.0 * (double)i;
        fprintf(f,
                "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.0f\" y2=\"%.0f\" stroke=\"%s\" "
                "stroke-width=\"3\"/><text x=\"%.0f\" y=\"%.0f\">",
                columns * WIDTH + 4, columns * WIDTH + 24, at, at, color_of(i),
                columns * WIDTH + 30, at + 4);
        text_write(f, files[i]);
        fprintf(f, "</text>\n");
    }
    fprintf(f, "</svg>\n");
    free(files);
    free(metrics);
    return fflush(f) == 0 && !ferror(f) ? 0 : errno != 0 ? -errno : -EIO;
}

int results_plot(const struct results_plot *p) {
    int rc = EXIT_FAILED, e;
    plot = p;
    if (nftw(p->folder, file_take, 16, FTW_PHYS) != 0) {
        verb_say("%s: %s", p->folder, strerror(errno));
    } else if (failed) {
        verb_say("no memory, or more than %u lines to draw: choose with --metric", SERIES_MAX);
    } else if (series_n == 0) {
        verb_say("%s: no JSON objects with numbers%s", p->folder,
                 p->metrics > 0 ? " of these names" : "");
    } else {
        FILE *f = p->output ? fopen(p->output, "we") : stdout;
        e = !f ? -errno : plot_draw(f);
        if (f && p->output && fclose(f) != 0 && e == 0)
            e = -errno;
        if (e < 0)
            verb_say("%s: %s", p->output ? p->output : "stdout", strerror(-e));
        rc = e < 0 ? EXIT_FAILED : EXIT_OK;
    }
    for (size_t i = 0; i < series_n; i++) {
        free(series[i].file);
        free(series[i].metric);
        free(series[i].x);
        free(series[i].y);
    }
    free(series);
    series = NULL;
    series_n = 0;
    return rc;
}
