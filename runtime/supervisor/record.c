/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - the lines of the record (RECORD): what each event says. Who writes them to the file:
 * record_writer.c. The last line, job_end: report.c. */
#include "record.h"

#include "record_writer.h"
#include "startup_output.h"
#include "supervisor.h"
#include <base/error.h>

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void json_text(FILE *f, const char *text) {
    json_t *j = json_string(text);
    if (!j)
        j = json_string("?"); /* not UTF-8 */
    char *out = json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT);
    fputs(out ? out : "\"\"", f);
    free(out);
    json_decref(j);
}

static const char *env_text(const char *name) {
    const char *text = getenv(name);
    return text ? text : "";
}

static bool is_number(const char *text, size_t len) {
    return len > 0 && strspn(text, "0123456789") >= len;
}

/* "job", "step" (*step: its number in the name, *component: of the component of a heterogeneous step,
 * NULL: of all) or "user". */
static const char *scope_of(const char *name, const char **step, const char **component) {
    static char number[16];
    const char *job = strchr(name, '.'), *last = job ? strchr(job + 1, '.') : NULL;
    *step = *component = NULL;
    if (!last || !is_number(name, (size_t)(job - name)) ||
        !is_number(job + 1, (size_t)(last - job - 1)))
        return "user";
    if (strcmp(last + 1, "job") == 0)
        return "job";
    size_t n = strspn(last + 1, "0123456789");
    if (last[1 + n] == '.' && is_number(last + 2 + n, strlen(last + 2 + n)))
        *component = last + 2 + n;
    /* .run: of its tasks' `ddict run` */
    if (n == 0 || n > 10 || (last[1 + n] && strcmp(last + 1 + n, ".run") != 0 && !*component))
        return "user";
    snprintf(number, sizeof number, "%.*s", (int)n, last + 1);
    *step = number;
    return "step";
}

FILE *record_line(struct supervisor *s, const char *event, char **text, size_t *len) {
    const char *step, *component, *scope = scope_of(s->opt.name, &step, &component);
    struct timespec now;
    struct tm tm;
    char id[33], time[32];
    FILE *f = open_memstream(text, len);
    if (!f)
        return NULL;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &tm);
    fprintf(f, "{\"event\":\"%s\",\"time\":\"%s.%03ldZ\",\"dict\":\"%s\",\"name\":", event, time,
            now.tv_nsec / 1000000, hex_format(id, s->identity.dict_id));
    json_text(f, s->opt.name);
    fputs(",\"job\":", f);
    json_text(f, env_text("SLURM_JOB_ID"));
    fprintf(f, ",\"scope\":\"%s\"", scope);
    if (step)
        fprintf(f, ",\"step\":\"%s\"", step);
    if (component)
        fprintf(f, ",\"component\":\"%s\"", component);
    return f;
}

void record_done(struct supervisor *s, FILE *f, char **text, size_t *len) {
    fputs("}\n", f);
    if (fclose(f) == 0)
        record_writer_write(s, WRITE_RECORD, *text, *len);
    else
        free(*text);
}

void record_start(struct supervisor *s) {
    static const char *const how[] = {
        [WIREUP_NONE] = "none", [WIREUP_STDIO] = "stdio", [WIREUP_PMIX] = "pmix"};
    const char *job = managers_job();
    char *text = NULL;
    size_t len = 0;
    FILE *f = s->opt.record ? record_line(s, "start", &text, &len) : NULL;
    if (!f)
        return;
    fputs(",\"version\":\"" DDICT_VERSION_STRING "\",\"slurm\":", f);
    json_text(f, env_text("DDICT_SLURM_VERSION"));
    fprintf(f, ",\"managers\":%u,\"keyed_nodes\":%u,\"nodes\":[", s->managers, s->deal.keyed);
    for (uint32_t i = 0; i < s->nodes; i++) {
        if (i)
            fputc(',', f);
        json_text(f, s->node_names[i]);
    }
    fprintf(f, "],\"total_bytes\":%llu,\"replicas\":%u,\"refill\":%s,\"asked\":",
            (unsigned long long)s->total_bytes, s->opt.replicas, s->opt.refill ? "true" : "false");
    json_text(f, s->opt.asked ? s->opt.asked : "");
    if (s->opt.working_set)
        fprintf(f, ",\"working_set\":%u,\"wait_for_keys\":%s,\"wait_for_writers\":%s",
                s->opt.working_set, s->opt.working_flags & DDICT_WAIT_FOR_KEYS ? "true" : "false",
                s->opt.working_flags & DDICT_WAIT_FOR_WRITERS ? "true" : "false");
    fprintf(f, ",\"wireup\":\"%s\"", how[s->opt.wireup]);
    if (s->nodes > 1) {
        fprintf(
            f, ",\"transport\":\"%s%s%s\",\"transport_why\":", s->transport.all[0] ? "ofi:" : "tcp",
            s->transport.all, s->transport.rma ? " rma" : "");
        json_text(f, s->transport.why);
        fprintf(f, ",\"wire\":\"%s\"", seal_name(s->transport.all[0] ? SEAL_PLAIN : s->opt.wire));
    }
    fputs(",\"managers_step\":\"", f);
    if (job && is_number(job, strlen(job)) &&
        is_number(env_text("SLURM_STEP_ID"), strlen(env_text("SLURM_STEP_ID"))))
        fprintf(f, "%s.%s", job, env_text("SLURM_STEP_ID"));
    fprintf(f, "\",\"restarts\":%lu,\"ready_ms\":%llu",
            strtoul(env_text("SLURM_RESTART_COUNT"), NULL, 10),
            (unsigned long long)((s->ready_at - s->began) / 1000000));
    record_done(s, f, &text, &len);
}

void record_lost(struct supervisor *s) {
    char *text = NULL;
    size_t len = 0;
    FILE *f = s->opt.record ? record_line(s, "lost", &text, &len) : NULL;
    if (!f)
        return;
    if (s->lost_manager < s->managers)
        fprintf(f, ",\"manager\":%u", s->lost_manager);
    if (s->lost_node < s->nodes) {
        fputs(",\"node\":", f);
        json_text(f, s->node_names[s->lost_node]);
    }
    fputs(",\"text\":", f);
    json_text(f, s->text);
    record_done(s, f, &text, &len);
}

void record_freeze(struct supervisor *s, bool frozen, uint64_t epoch) {
    char *text = NULL;
    size_t len = 0;
    FILE *f = s->opt.record ? record_line(s, frozen ? "frozen" : "unfrozen", &text, &len) : NULL;
    if (!f)
        return;
    fprintf(f, ",\"epoch\":%llu", (unsigned long long)epoch);
    record_done(s, f, &text, &len);
}

void record_note(struct supervisor *s, const struct note *n) {
    char *text = NULL;
    size_t len = 0;
    static const char *const events[] = {
        [NOTE_FULL] = "full",      [NOTE_REFUSED] = "refused", [NOTE_RESTART] = "restart",
        [NOTE_NODE] = "node_lost", [NOTE_COPIES] = "copies",   [NOTE_REFILL] = "refill"};
    if (n->kind < NOTE_FULL || n->kind > NOTE_REFILL)
        return;
    const char *event = events[n->kind];
    bool full = n->kind == NOTE_FULL;
    FILE *f = s->opt.record ? record_line(s, event, &text, &len) : NULL;
    if (!f)
        return;
    if (n->kind != NOTE_REFUSED && n->kind != NOTE_NODE)
        fprintf(f, ",\"manager\":%u", n->manager);
    fputs(",\"node\":", f);
    json_text(f, n->node);
    if (full)
        fprintf(f, ",\"used_bytes\":%llu,\"total_bytes\":%llu", (unsigned long long)n->used_bytes,
                (unsigned long long)n->total_bytes);
    fprintf(f, ",\"count\":%llu,\"text\":", (unsigned long long)n->count);
    json_text(f, n->text);
    record_done(s, f, &text, &len);
}
