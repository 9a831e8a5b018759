/* SPDX-License-Identifier: Apache-2.0 */
/* report_print.c - print for each dictionary: what it was, its figures, its events, and which step
 * used it. What the record does not have is left out. */
#include "report_print.h"

#include <base/size.h>
#include <base/stats.h>

#include <common/columns.h>
#include <common/stats_table.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INDENT     2
#define LINE_WIDTH 120 /* width of filled lines if there is no terminal */

static json_int_t number_of_row(const json_t *o, const char *name) {
    return json_integer_value(json_object_get(o, name));
}
static const char *text_of_row(const json_t *o, const char *name) {
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}

/* As fprintf(), but replaces control characters, because the record may hold text of others. */
static void report_put(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void report_put(FILE *out, const char *fmt, ...) {
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) >= 0) {
        text_harmless(s);
        fputs(s, out);
        free(s);
    }
    va_end(ap);
}

static void line_begin(FILE *out) {
    fprintf(out, "\n%*s", INDENT, "");
}

/* Local time in the format of Slurm's commands; without the day if it is that of `day`. */
static char *time_text(char *buf, size_t cap, time_t t, time_t day) {
    struct tm tm, d;
    if (t < 0 || !localtime_r(&t, &tm))
        snprintf(buf, cap, "?");
    else if (day >= 0 && localtime_r(&day, &d) && d.tm_yday == tm.tm_yday &&
             d.tm_year == tm.tm_year)
        strftime(buf, cap, "%H:%M:%S", &tm);
    else
        strftime(buf, cap, "%Y-%m-%d %H:%M:%S", &tm);
    return buf;
}

static char *span_text(char *buf, size_t cap, double seconds) {
    uint64_t s = seconds > 0 && seconds < 1e15 ? (uint64_t)seconds : 0;
    if (seconds < 60)
        snprintf(buf, cap, "%.1f s", seconds > 0 ? seconds : 0);
    else if (s < 3600)
        snprintf(buf, cap, "%" PRIu64 " min %" PRIu64 " s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(buf, cap, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
    else
        snprintf(buf, cap, "%" PRIu64 " d %" PRIu64 " h", s / 86400, s / 3600 % 24);
    return buf;
}

static const char *reason_text(const json_t *end) {
    static const char *const text[][2] = {
        {"drained", "its step was over"},
        {"alone", "ENDED EARLY"},
        {"down", "ended by ddict down"},
        {"signal", "ended by a signal: end of the job, scancel or time limit"},
        {"lost", "LOST"}};
    const char *reason = text_of_row(end, "reason");
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        if (strcmp(reason, text[i][0]) == 0)
            return text[i][1];
    return *reason != 0 ? reason : "ended";
}

struct extent {
    json_int_t managers, nodes, keyed, bytes; /* keyed: nodes whose managers own keys, or 0 */
};

/* The size of the dictionary: from the start line, else from the final figures (manager m is on
 * node m mod nodes, and all have the same size). */
static struct extent extent_of(const struct dictionary *d, const struct figures *f, int n) {
    struct extent x = {number_of_row(d->start, "managers"),
                       (json_int_t)json_array_size(json_object_get(d->start, "nodes")),
                       number_of_row(d->start, "keyed_nodes"),
                       number_of_row(d->start, "total_bytes")};
    if (d->start)
        return x;
    x.managers = n;
    for (int i = 0; i < n; i++) {
        if (f[i].lost)
            continue;
        x.bytes = (json_int_t)f[i].s.total_bytes * n;
        if (x.nodes <= f[i].s.node_id)
            x.nodes = f[i].s.node_id + 1;
    }
    return x;
}

/* Print whose dictionary it was, and how large. */
static void title_print(const struct dictionary *d, const struct figures *f, int n, FILE *out) {
    char size[32];
    const char *job = record_text(d, "job"), *scope = record_text(d, "scope"),
               *step = record_text(d, "step"), *name = record_text(d, "name"),
               *component = record_text(d, "component");
    struct extent x = extent_of(d, f, n);
    if (*job == 0)
        report_put(out, "dictionary %s", *name != 0 ? name : d->id);
    else if (strcmp(scope, "step") == 0)
        report_put(out, "job %s, step %s%s%s", job, *step != 0 ? step : "?",
                   *component != 0 ? ", component " : "", component);
    else if (strcmp(scope, "job") == 0)
        report_put(out, "job %s, all steps", job);
    else
        report_put(out, "job %s, dictionary %s", job, name);
    if (x.managers > 0)
        report_put(out, ": %" JSON_INTEGER_FORMAT " manager%s", x.managers,
                   x.managers == 1 ? "" : "s");
    if (x.nodes > 0)
        report_put(out, " on %" JSON_INTEGER_FORMAT " node%s", x.nodes, x.nodes == 1 ? "" : "s");
    if (x.keyed > 0 && x.keyed < x.nodes)
        report_put(out, ", keys on %" JSON_INTEGER_FORMAT " of them", x.keyed);
    if (x.bytes > 0)
        report_put(out, ", %s", size_format(size, sizeof size, (uint64_t)x.bytes));
}

/* Print when it began and ended, and why it ended. */
static void times_print(const struct dictionary *d, FILE *out) {
    char a[32], b[32];
    time_t began = record_time(d->start, NULL), ended = record_time(d->end, NULL);
    const json_t *seconds = json_object_get(d->end, "seconds");
    if (began < 0 && ended >= 0 && json_is_number(seconds))
        began = ended - (time_t)json_number_value(seconds);
    line_begin(out);
    report_put(out, "%s", time_text(a, sizeof a, began, -1));
    if (!d->end) {
        report_put(out, ": no end recorded (it runs, or all of its nodes died at once)");
        return;
    }
    report_put(out, " to %s", time_text(b, sizeof b, ended, began));
    if (json_is_number(seconds))
        report_put(out, ", %s", span_text(a, sizeof a, json_number_value(seconds)));
    report_put(out, "; %s%s%s", reason_text(d->end), *text_of_row(d->end, "text") != 0 ? ": " : "",
               text_of_row(d->end, "text"));
}

/* Print the options that it was started with. */
static void start_print(const json_t *start, FILE *out) {
    const char *slurm = text_of_row(start, "slurm"), *asked = text_of_row(start, "asked"),
               *wireup = text_of_row(start, "wireup");
    json_int_t restarts = number_of_row(start, "restarts");
    line_begin(out);
    report_put(out, "slurm-ddict %s", text_of_row(start, "version"));
    if (*slurm != 0)
        report_put(out, ", Slurm %s", slurm);
    if (*wireup != 0 && strcmp(wireup, "none") != 0)
        report_put(out, ", wire-up by %s", strcmp(wireup, "stdio") == 0 ? "srun" : wireup);
    if (json_object_get(start, "ready_ms"))
        report_put(out, ", ready in %" JSON_INTEGER_FORMAT " ms", number_of_row(start, "ready_ms"));
    if (restarts > 0)
        report_put(out, ", requeued %" JSON_INTEGER_FORMAT " time%s", restarts,
                   restarts == 1 ? "" : "s");
    if (*asked != 0) {
        line_begin(out);
        report_put(out, "asked for: %s", asked);
    }
}

static void head_print(const struct dictionary *d, const struct figures *f, int n, FILE *out) {
    title_print(d, f, n, out);
    times_print(d, out);
    if (d->start)
        start_print(d->start, out);
    line_begin(out);
    report_put(out, "id %s", d->id);
    putc('\n', out);
}

static void events_print(const struct dictionary *d, FILE *out) {
    json_t *e;
    size_t i;
    char at[32];
    json_array_foreach(d->events, i, e) {
        json_t *manager = json_object_get(e, "manager");
        json_int_t count = number_of_row(e, "count");
        report_put(out, "%*s%s  ", INDENT, "",
                   time_text(at, sizeof at, record_time(e, NULL), record_time(d->start, NULL)));
        if (json_is_integer(manager))
            report_put(out, "manager %" JSON_INTEGER_FORMAT "%s%s ", json_integer_value(manager),
                       *text_of_row(e, "node") != 0 ? " on " : "", text_of_row(e, "node"));
        else if (*text_of_row(e, "node") != 0)
            report_put(out, "node %s ", text_of_row(e, "node"));
        report_put(out, "%s%s%s", text_of_row(e, "event"), *text_of_row(e, "text") != 0 ? ": " : "",
                   text_of_row(e, "text"));
        if (count > 1)
            report_put(out, " (%" JSON_INTEGER_FORMAT " times)", count);
        putc('\n', out);
    }
}

/* Print "steps: 12.0 (managers), 12.1 (8 processes), ..." in lines that fit the terminal. */
static void steps_print(const struct dictionary *d, FILE *out, int columns) {
    static const char head[] = "steps:";
    const char *managers = text_of_row(d->start, "managers_step");
    const json_t *steps = json_object_get(d->end, "steps");
    size_t n = json_array_size(steps), begin = *managers != 0 ? 0 : 1;
    int limit = columns > 0 ? columns : LINE_WIDTH, margin = INDENT + (int)sizeof head - 1,
        used = margin;
    if (n == 0 && begin == 1)
        return;
    fprintf(out, "%*s%s", INDENT, "", head);
    for (size_t i = begin; i <= n; i++) {
        char part[128];
        const json_t *s = i > 0 ? json_array_get(steps, i - 1) : NULL;
        json_int_t processes = number_of_row(s, "processes");
        const char *step = strcmp(text_of_row(s, "step"), "-") == 0 ? "outside of steps"
                                                                    : text_of_row(s, "step"),
                   *comma = i < n ? "," : "";
        if (i == 0)
            snprintf(part, sizeof part, "%.40s (managers)%s", managers, comma);
        else
            snprintf(part, sizeof part, "%.40s (%" JSON_INTEGER_FORMAT " process%s)%s", step,
                     processes, processes == 1 ? "" : "es", comma);
        int len = 1 + (int)strlen(part);
        if (i > begin && used + len > limit) {
            fprintf(out, "\n%*s", margin, "");
            used = margin;
        }
        report_put(out, " %s", part);
        used += len;
    }
    putc('\n', out);
}

/* malloc'ed array of n; NULL without memory. */
static struct figures *figures_of(const struct dictionary *d, int *n) {
    const json_t *all = json_object_get(d->end, "managers");
    json_int_t keyed = number_of_row(d->start, "keyed_nodes");
    struct figures *f = calloc(json_array_size(all) + 1, sizeof *f);
    *n = (int)json_array_size(all);
    for (int i = 0; f && i < *n; i++) {
        const json_t *m = json_array_get(all, (size_t)i);
        stats_parse(m, &f[i].s);
        f[i].lost = json_is_true(json_object_get(m, "lost"));
        f[i].forwards = keyed > 0 && f[i].s.node_id >= keyed;
    }
    return f;
}

static int dictionary_print(const struct dictionary *d, FILE *out, int columns) {
    int n, rc = 0;
    struct figures *f = figures_of(d, &n);
    if (!f)
        return -ENOMEM;
    head_print(d, f, n, out);
    if (n > 0) {
        putc('\n', out);
        rc = figures_print(f, n, true, out, INDENT, columns);
        putc('\n', out);
    }
    free(f);
    events_print(d, out);
    steps_print(d, out, columns);
    return rc;
}

int report_print(const struct record *r, FILE *out, int columns) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->count; i++) {
        if (i > 0)
            putc('\n', out);
        rc = dictionary_print(&r->dict[i], out, columns);
    }
    return rc;
}

static json_t *or_null(json_t *j) {
    return j ? json_incref(j) : json_null();
}

int report_json(const struct record *r, FILE *out) {
    json_t *list = json_array(),
           *all = json_pack("{s:O,s:O}", "files", r->files, "dictionaries", list);
    int bad = !list || !all;
    for (size_t i = 0; !bad && i < r->count; i++) {
        const struct dictionary *d = &r->dict[i];
        json_t *o = json_pack("{s:s,s:s,s:s,s:s,s:s,s:O,s:b,s:o,s:O,s:o}", "dict", d->id, "name",
                              record_text(d, "name"), "job", record_text(d, "job"), "scope",
                              record_text(d, "scope"), "step", record_text(d, "step"), "files",
                              d->files, "ended", d->end != NULL, "start", or_null(d->start),
                              "events", d->events, "end", or_null(d->end));
        bad = json_array_append_new(list, o) < 0;
    }
    if (!bad)
        bad = json_dumpf(all, out, JSON_COMPACT) < 0 && !ferror(out);
    putc('\n', out);
    json_decref(list);
    json_decref(all);
    return bad ? -ENOMEM : 0;
}
