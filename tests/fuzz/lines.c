/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.c - what programs write that others of ours read: the startup output of ddictd and `ddict
 * up`, in pieces of any size, and what srun and slurmstepd say.
 */
#include "fuzz.h"
#include <launch/reason.h>
#include <launch/startup_lines.h>
#include <launch/step.h>

enum { LONGEST = 300 };

static void line_take(void *arg, char *line) {
    const char *rest = NULL;
    char value[40], first[8];
    size_t n = strlen(line);
    fuzz_must(n <= LONGEST && !strchr(line, '\n'));
    enum line_kind kind = line_parse(line, &rest);
    fuzz_must(kind == LINE_OTHER || (rest >= line && rest <= line + n));
    int len = line_value(kind == LINE_OTHER ? line : rest, "name", value, sizeof value);
    fuzz_must(len == -1 || (len >= 0 && strlen(value) == (size_t)len));
    line_value(line, "a", first, sizeof first);
    reason_is_slurm(line);
    ++*(size_t *)arg;
}

static void slurm_take(const char *text, size_t size) {
    char why[200] = "";
    reason_read(text, size, why, sizeof why);
    fuzz_must(strlen(why) < sizeof why);
    reason_cancelled(text, size, why, sizeof why);
    fuzz_must(strlen(why) < sizeof why);
    reason_task_gone(text, size);
}

/* Names of nodes are looked for one by one: a list of the most that Slurm has takes a minute here. */
static int is_short(const char *text) {
    enum { NODES_MOST = 2000 };
    int ok = 1;
    for (const char *at = text; ok && (at = strstr(at, "NodeList=")); at++) {
        struct hostlist list = {0};
        char *names = strndup(at + 9, strcspn(at + 9, " \t\n"));
        fuzz_must(names);
        ok = !fuzz_list_passed(names) &&
             (hostlist_add(&list, names) < 0 || list.count <= NODES_MOST);
        hostlist_free(&list);
        free(names);
    }
    return ok;
}

/* scontrol's, whose values are names that users have chosen */
static void scontrol_take(const char *text) {
    struct step s = {0};
    unsigned job = 0, parts = 0;
    int group;
    const char *next = text;
    char *part;
    free(step_record(text, "12", "3"));
    while (parts++ < 64 && (part = step_component(&next, &job, &group)))
        free(part);
    if (is_short(text) && step_parse_nodes(&s, -1, text) == 0) {
        step_parse_memory(&s, text);
        step_parse_kind(&s, text);
        step_parse_real_memory(&s, text);
        step_memory(&s, s.nodes.count);
    }
    step_parse_kill_wait(text);
    step_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    struct lines l = {.max = LONGEST};
    size_t seen = 0, piece = 1 + fuzz_byte(&in);
    char *text = fuzz_text(&in, in.left);
    size_t len = size > 0 ? size - 1 : 0;
    for (size_t at = 0; at < len; at += piece)
        fuzz_must(
            lines_feed(&l, text + at, len - at < piece ? len - at : piece, line_take, &seen) == 0);
    lines_free(&l);
    slurm_take(text, len);
    scontrol_take(text);
    free(text);
    return 0;
}
