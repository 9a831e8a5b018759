/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - the statistics of all managers at the end: the line for the starter (node 0), job_end
 * of the record, and a sentence for people (RECORD 4 and 5). */
#include "report.h"

#include "attach_counts.h"
#include "figures.h"
#include "record.h"
#include "record_writer.h"
#include "save_passes.h"
#include "startup_output.h"
#include "supervisor.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/size.h>
#include <base/stats.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "managers":[...],"total":{...,"lost_managers":N} */
static void stats_print(const struct supervisor *s, FILE *f) {
    struct manager_stats total;
    fputs("\"managers\":[", f);
    for (uint32_t m = 0; m < s->managers; m++) {
        const struct manager_stats *stats = figures_of(s, m);
        char *one = stats ? stats_json(stats) : NULL;
        if (m)
            fputc(',', f);
        if (one)
            fputs(one, f);
        else {
            fprintf(f, "{\"manager_id\":%u,\"node\":", m);
            json_text(f, s->node_names[m % s->nodes]);
            fputs(",\"lost\":true}", f);
        }
        free(one);
    }
    uint32_t lost = figures_total(s, &total);
    char *all = stats_json(&total);
    if (all)
        all[strlen(all) - 1] = ',';
    fprintf(f, "],\"total\":%s\"lost_managers\":%u}", all ? all : "{", lost);
    free(all);
}

void report_print(struct supervisor *s) {
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    if (!f)
        return;
    fputc('{', f);
    stats_print(s, f);
    fputc('}', f);
    if (fclose(f) == 0)
        startup_print_text("report", text);
    free(text);
}

/* "12,345,678" */
static const char *number_format(char buf[32], uint64_t n) {
    char plain[24];
    size_t len = (size_t)snprintf(plain, sizeof plain, "%llu", (unsigned long long)n), at = 0;
    for (size_t i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            buf[at++] = ',';
        buf[at++] = plain[i];
    }
    buf[at] = 0;
    return buf;
}

static const char *plural_s(uint64_t n) {
    return n == 1 ? "" : "s";
}

/* As the user would type it. */
static const char *record_name(const struct supervisor *s) {
    char here[4096];
    size_t len = getcwd(here, sizeof here) ? strlen(here) : 0;
    if (len > 1 && strncmp(s->opt.record, here, len) == 0 && s->opt.record[len] == '/')
        return s->opt.record + len + 1;
    return s->opt.record;
}

static int summary_format(const struct supervisor *s, char *text, size_t cap) {
    struct manager_stats t;
    uint32_t lost = figures_total(s, &t);
    char size[24], used[24], keys[32], puts_[32], gets[32], n[32];
    uint64_t all = t.gets_local + t.gets_remote;
    int at = snprintf(
        text, cap, "%u manager%s on %u node%s, %s: %s key%s, %s (%.1f %%), %s put%s, %s get%s",
        s->managers, plural_s(s->managers), s->nodes, plural_s(s->nodes),
        size_format(size, sizeof size, s->total_bytes), number_format(keys, t.num_keys),
        plural_s(t.num_keys), size_format(used, sizeof used, t.total_used_bytes),
        t.pool_utilization, number_format(puts_, t.puts), plural_s(t.puts),
        number_format(gets, all), plural_s(all));
#define MORE(...) at += at < (int)cap ? snprintf(text + at, cap - (size_t)at, __VA_ARGS__) : 0
    if (all)
        MORE(" (%.0f %% on their own node)", 100.0 * (double)t.gets_local / (double)all);
    if (t.spilled_bytes)
        MORE("; %s value%s of %s in the spill, %s ever", number_format(n, t.spill_items),
             plural_s(t.spill_items), size_format(used, sizeof used, t.spill_used_bytes),
             size_format(size, sizeof size, t.spilled_bytes));
    if (t.full_errors)
        MORE("; refused as full: %s", number_format(n, t.full_errors));
    if (lost)
        MORE("; the figures of %u manager%s are lost", lost, plural_s(lost));
    if (s->lost)
        MORE("; ended early: %s", s->text);
    else if (s->reason == REASON_ALONE && s->stage >= STAGE_DRAINING)
        MORE("; ended early: %s", REASON_ALONE_TEXT);
    if (*save_passes_outcome(s))
        MORE("; %s", save_passes_outcome(s));
    if (s->opt.record && !record_writer_has_failed(s))
        MORE("; record %s", record_name(s));
#undef MORE
    return at < (int)cap ? at : (int)cap - 1;
}

void report_record(struct supervisor *s) {
    static const char *const reasons[] = {[REASON_DRAINED] = "drained",
                                          [REASON_DOWN] = "down",
                                          [REASON_SIGNAL] = "signal",
                                          [REASON_ALONE] = "alone"};
    char *text = NULL;
    size_t len = 0;
    FILE *f = s->opt.record ? record_line(s, "job_end", &text, &len) : NULL;
    if (f) {
        fprintf(f, ",\"reason\":\"%s\",\"text\":",
                s->lost                               ? "lost"
                : (unsigned)s->reason <= REASON_ALONE ? reasons[s->reason]
                                                      : "drained");
        json_text(f, s->lost ? s->text : s->reason == REASON_ALONE ? REASON_ALONE_TEXT : "");
        fprintf(f, ",\"seconds\":%.3f,\"writer\":", (double)(clock_ns() - s->ready_at) / 1e9);
        json_text(f, s->node);
        fputc(',', f);
        stats_print(s, f);
        fputs(",\"steps\":", f);
        attach_counts_json(s, f);
        record_done(s, f, &text, &len);
        record_writer_close(s, WRITE_RECORD);
    }
    char *line = s->opt.summary ? malloc(2048) : NULL;
    if (!line)
        return;
    int n = snprintf(line, 16, "ddict: ");
    n += summary_format(s, line + n, 2048 - 16);
    line[n++] = '\n';
    record_writer_write(s, WRITE_SUMMARY, line, (size_t)n);
}

/* For the plugin in slurmstepd, if it gave us a pipe: it logs the line for the administrator
 * (STARTUP 1). */
static void administrator_tell(const struct supervisor *s, const char *text) {
    const char *number = getenv("DDICT_NOTE_FD");
    char line[400];
    uint64_t fd;
    struct stat st;
    if (!number || count_parse(number, 3, INT32_MAX, &fd) < 0 || fstat((int)fd, &st) < 0 ||
        !S_ISFIFO(st.st_mode))
        return;
    int n = snprintf(line, sizeof line, "dictionary %s ends: %s", s->opt.name, text);
    if (write((int)fd, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1) < 0)
        startup_print("warn the line for the administrator cannot be written: %s", strerror(errno));
}

void report_summary(struct supervisor *s, char text[REPORT_SUMMARY_MAX]) {
    summary_format(s, text, REPORT_SUMMARY_MAX);
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    administrator_tell(s, text);
}
