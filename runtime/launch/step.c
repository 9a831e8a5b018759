/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - ask scontrol for the nodes and the memory of a job. */
#include "step.h"

#include "command.h"
#include <base/defaults.h>
#include <base/error.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value of a word `key=`, up to the next blank; a word begins after a blank. malloc'ed, or
 * NULL. */
static char *word_value(const char *text, const char *key) {
    size_t k = strlen(key);
    const char *at = text;

    while ((at = strstr(at, key))) {
        if (at[k] == '=' && (at == text || strchr(" \n\t", at[-1])))
            return strndup(at + k + 1, strcspn(at + k + 1, " \n\t"));
        at += k;
    }
    return NULL;
}

/* Whether the value of `StepId=` at id names step `step` of a job: "12.3", of an array "10_2.3", of a
 * heterogeneous step "12.3+0". */
static int id_is(const char *id, const char *job, const char *step) {
    size_t head = strcspn(id, ". \n\t"), n = strlen(step);

    if (id[head] != '.' || strncmp(id + head + 1, step, n) != 0 ||
        !strchr("+ \n\t", id[head + 1 + n]))
        return 0;
    return (strlen(job) == head && memcmp(id, job, head) == 0) || memchr(id, '_', head);
}

char *step_record(const char *text, const char *job, const char *step) {
    static const char key[] = "StepId=";
    const char *at, *next = text;

    while ((at = strstr(next, key))) {
        next = at + 1;
        if ((at == text || at[-1] == '\n') && id_is(at + sizeof key - 1, job, step)) {
            next = strstr(at, "\nStepId=");
            return next ? strndup(at, (size_t)(next - at)) : strdup(at);
        }
    }
    return NULL;
}

/* Add to the step's nodes those of some that it does not have: as a part whose list is nodelist, or
 * what is left of it. 0 or -ENOMEM. */
static int part_add(struct step *s, int group, const char *nodelist, const struct hostlist *some) {
    struct part *parts = realloc(s->parts, (s->nparts + 1) * sizeof *parts),
                part = {.group = group};
    size_t before = s->nodes.count, room = strlen(nodelist) + 1, len = 0, i;

    s->parts = parts ? parts : s->parts;
    for (i = 0; i < some->count; i++)
        room += strlen(some->names[i]) + 1;
    part.nodelist = malloc(room);
    if (!parts || !part.nodelist) {
        free(part.nodelist);
        return -ENOMEM;
    }
    part.nodelist[0] = '\0';
    for (i = 0; i < some->count; i++)
        if (hostlist_find(&s->nodes, some->names[i]) < 0) {
            if (hostlist_add(&s->nodes, some->names[i]) < 0) {
                free(part.nodelist);
                return -ENOMEM;
            }
            len += (size_t)sprintf(part.nodelist + len, "%s%s", len > 0 ? "," : "", some->names[i]);
        }
    part.nodes = (uint32_t)(s->nodes.count - before);
    if (part.nodes == some->count)
        strcpy(part.nodelist, nodelist);
    if (part.nodes > 0)
        s->parts[s->nparts++] = part;
    else
        free(part.nodelist);
    return 0;
}

int step_parse_nodes(struct step *s, int group, const char *text) {
    char *nodelist = word_value(text, "NodeList");
    struct hostlist some = {0};
    size_t before = s->nodes.count;
    unsigned char *per_cpu;
    uint64_t *mb;
    int rc;

    if (!nodelist || nodelist[0] == '\0' || nodelist[0] == '(')
        rc = dd_error(-ENOENT, "Slurm does not say which nodes the job has");
    else if ((rc = hostlist_add(&some, nodelist)) < 0)
        rc = dd_error(rc, "cannot read Slurm's list of nodes: %.100s", nodelist);
    else
        rc = part_add(s, group, nodelist, &some);
    hostlist_free(&some);
    free(nodelist);
    if (rc < 0 || s->nodes.count == before)
        return rc;
    mb = realloc(s->mb, s->nodes.count * sizeof *mb);
    s->mb = mb ? mb : s->mb;
    per_cpu = realloc(s->per_cpu, s->nodes.count);
    s->per_cpu = per_cpu ? per_cpu : s->per_cpu;
    if (!mb || !per_cpu)
        return -ENOMEM;
    memset(mb + before, 0, (s->nodes.count - before) * sizeof *mb);
    memset(per_cpu + before, 0, s->nodes.count - before);
    return 0;
}

char *step_component(const char **next, unsigned *job, int *group) {
    static const char key[] = "JobId=";
    const char *at = *next, *end;
    unsigned leader;

    while (at && strncmp(at, key, sizeof key - 1) != 0) { /* at the beginning of a line */
        at = strchr(at, '\n');
        if (at)
            at++;
    }
    if (!at || sscanf(at, "JobId=%u HetJobId=%u HetJobOffset=%d", job, &leader, group) != 3)
        return NULL;
    end = strstr(at, "\nJobId=");
    *next = end ? end + 1 : at + strlen(at);
    return strndup(at, (size_t)(*next - at));
}

static const char *line_behind(const char *text) {
    const char *end = strchr(text, '\n');
    return end ? end + 1 : NULL;
}

int step_parse_memory(struct step *s, const char *text) {
    char *word = word_value(text, "MinMemoryCPU");
    int per_cpu = word && strcmp(word, "0") != 0;

    free(word);
    /* Lines such as "     Nodes=n[1-2] CPU_IDs=0-1 Mem=4000 GRES=". */
    for (; text && *text != '\0'; text = line_behind(text)) {
        struct hostlist some = {0};
        size_t i;
        char *line = strndup(text, strcspn(text, "\n")), *nodes, *mem;

        if (!line)
            return -ENOMEM;
        nodes = word_value(line, "Nodes");
        mem = word_value(line, "Mem");
        if (nodes && mem && hostlist_add(&some, nodes) == 0)
            for (i = 0; i < some.count; i++) {
                long at = hostlist_find(&s->nodes, some.names[i]);

                if (at >= 0 && s->mb[at] == 0) {
                    s->mb[at] = strtoull(mem, NULL, 10);
                    s->per_cpu[at] = (unsigned char)per_cpu;
                }
            }
        hostlist_free(&some);
        free(nodes);
        free(mem);
        free(line);
    }
    return 0;
}

/* Records of many lines, each begins with NodeName. */
int step_parse_real_memory(struct step *s, const char *text) {
    const char *next;

    for (text = strstr(text, "NodeName="); text; text = next) {
        char *record, *name, *mem;
        long at;

        next = strstr(text + 1, "NodeName=");
        record = next ? strndup(text, (size_t)(next - text)) : strdup(text);
        if (!record)
            return -ENOMEM;
        name = word_value(record, "NodeName");
        mem = word_value(record, "RealMemory");
        at = name ? hostlist_find(&s->nodes, name) : -1;
        /* 1: nobody told Slurm */
        if (at >= 0 && s->mb[at] == 0 && mem && strtoull(mem, NULL, 10) > 1)
            s->mb[at] = strtoull(mem, NULL, 10);
        free(name);
        free(mem);
        free(record);
    }
    return 0;
}

uint64_t step_memory(const struct step *s, size_t n) {
    uint64_t sum = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        if (s->mb[i] == 0 || s->mb[i] >= UINT64_MAX >> 20)
            return 0;
        sum += s->mb[i] << 20;
    }
    return sum;
}

/* Move `n` elements of `size` bytes from `from` to `to`, which is before; the ones between follow. */
static int elements_move(void *all, size_t size, size_t to, size_t from, size_t n) {
    unsigned char *at = all;
    void *some = malloc(n * size);

    if (!some)
        return -ENOMEM;
    memcpy(some, at + from * size, n * size);
    memmove(at + (to + n) * size, at + to * size, (from - to) * size);
    memcpy(at + to * size, some, n * size);
    free(some);
    return 0;
}

int step_put_first(struct step *s, int group, size_t before) {
    size_t i, to = 0, from = 0, n;
    int rc;

    for (i = 0; i < s->nparts && s->parts[i].group != group; i++) {
        to += i < before ? s->parts[i].nodes : 0;
        from += s->parts[i].nodes;
    }
    if (i == s->nparts)
        return -ENOENT;
    if (i < before)
        return 0; /* named twice */
    n = s->parts[i].nodes;
    rc = elements_move(s->nodes.names, sizeof *s->nodes.names, to, from, n);
    if (rc == 0)
        rc = elements_move(s->mb, sizeof *s->mb, to, from, n);
    if (rc == 0)
        rc = elements_move(s->per_cpu, sizeof *s->per_cpu, to, from, n);
    return rc < 0 ? rc : elements_move(s->parts, sizeof *s->parts, before, i, 1);
}

/* "1-02:03:04" or "02:03:04" in seconds; -1: none of these, such as UNLIMITED. */
static int64_t span_parse(const char *text) {
    unsigned long long d = 0, h, m, sec;
    const char *dash = text ? strchr(text, '-') : NULL;
    char rest;

    if (!text || (dash && sscanf(text, "%6llu-", &d) != 1) ||
        sscanf(dash ? dash + 1 : text, "%3llu:%2llu:%2llu%c", &h, &m, &sec, &rest) != 3)
        return -1;
    return (int64_t)(((d * 24 + h) * 60 + m) * 60 + sec);
}

uint64_t step_parse_kill_wait(const char *text) {
    const char *at = strstr(text, "KillWait");

    at = at ? strchr(at, '=') : NULL;
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* Slurm 26.05 says OverSubscribe=NO of jobs that share their nodes, too, and has a word of its own
 * for those that do not: Exclusive=NODE, or TOPO. */
static int is_exclusive(const char *text) {
    char *exclusive = word_value(text, "Exclusive"), *shared = word_value(text, "OverSubscribe");
    int is = exclusive ? strcmp(exclusive, "NODE") == 0 || strcmp(exclusive, "TOPO") == 0
                       : shared && strcmp(shared, "NO") == 0;

    free(exclusive);
    free(shared);
    return is;
}

/* Who shares its nodes, and where a batch script's output goes: to the end of the line, it may have
 * blanks. */
void step_parse_kind(struct step *s, const char *text) {
    char *batch = word_value(text, "BatchFlag"), *limit = word_value(text, "TimeLimit"),
         *run = word_value(text, "RunTime");
    int64_t all = span_parse(limit), over = span_parse(run);
    const char *out = strstr(text, " StdOut=");

    s->batch = batch && strcmp(batch, "0") != 0;
    s->exclusive = is_exclusive(text);
    if (out && !s->stdout_path)
        s->stdout_path = strndup(out + 8, strcspn(out + 8, "\n"));
    s->left = all > 0 && over >= 0 ? all > over ? (uint64_t)(all - over) : 1 : 0;
    free(batch);
    free(limit);
    free(run);
}

int step_parse_overcounts(const char *text) {
    const char *at = strstr(text, "JobAcctGatherParams");
    char *line;
    int over;

    if (!at || !(line = strndup(at, strcspn(at, "\n"))))
        return 0;
    over = strcasestr(line, "OverMemoryKill") && !strcasestr(line, "NoShare") &&
           !strcasestr(line, "UsePss");
    free(line);
    return over;
}

int step_ask(const char *scontrol, char *const *envp, const char *id, char **text) {
    char *argv[] = {(char *)(uintptr_t)scontrol, (char *)(uintptr_t) "show",
                    (char *)(uintptr_t) "step", (char *)(uintptr_t)id, NULL};
    char why[DD_ERRMSG_MAX];
    int rc, tries = 0;

    while ((rc = command_read(argv, envp, DD_SCONTROL_MS, text)) == -EIO && ++tries < DD_STEP_ASKS)
        poll(NULL, 0, DD_STEP_ASK_MS);
    if (rc == -ENODATA) /* it says on its stdout that there is none */
        return dd_error(-ENOENT, "Slurm does not know step %s", id);
    if (rc != -EIO)
        return rc;
    snprintf(why, sizeof why, "%s", dd_errmsg());
    return dd_error(-EAGAIN, "Slurm does not say where step %s runs: %s", id, why);
}

/* Add the nodes of step `step` of a job, which may be a component. 0 or a negative code. */
static int nodes_of_step(struct step *s, const char *scontrol, char *const *envp, const char *job,
                         int group, const char *step) {
    char id[64], *text, *record;
    int rc;

    snprintf(id, sizeof id, "%s.%s", job, step);
    rc = step_ask(scontrol, envp, id, &text);
    if (rc < 0)
        return rc;
    record = step_record(text, job, step);
    rc = record ? step_parse_nodes(s, group, record)
                : dd_error(-ENOENT, "Slurm does not know step %s", id);
    free(record);
    free(text);
    return rc;
}

/* Forget the parts that were found. */
static void parts_drop(struct step *s) {
    while (s->nparts > 0)
        free(s->parts[--s->nparts].nodelist);
    hostlist_free(&s->nodes);
}

/* The nodes of each component and its memory there, of those that the step runs in. It does not run
 * in all: only if it is found in none that is an error. 1: text is of no heterogeneous job. */
static int components_look(struct step *s, const char *scontrol, char *const *envp,
                           const char *text, const char *step, const struct component *only) {
    const char *next = text;
    char *record, job[16];
    unsigned id;
    int group, all = 0, found = 0, rc = 0;

    while (rc >= 0 && (record = step_component(&next, &id, &group))) {
        all++;
        if (only && (only->job != 0 ? only->job != id : found > only->index)) {
            free(record);
            continue;
        }
        snprintf(job, sizeof job, "%u", id);
        rc = step ? nodes_of_step(s, scontrol, envp, job, group, step)
                  : step_parse_nodes(s, group, record);
        if (rc == 0 && s->nparts > 0 && s->parts[s->nparts - 1].group == group)
            s->parts[s->nparts - 1].job = id;
        if (rc == 0 && only && only->job == 0 && found++ < only->index)
            parts_drop(s);
        else if (rc == 0)
            rc = step_parse_memory(s, record);
        else if (step && rc == -ENOENT)
            rc = 0;
        free(record);
    }
    return rc < 0 ? rc : all == 0 ? 1 : s->nparts == 0 ? -ENOENT : 0;
}

int step_look(struct step *s, const char *scontrol, char *const *envp, const char *job,
              const char *step, const struct component *only) {
    char *show_job[] = {(char *)(uintptr_t)scontrol, (char *)(uintptr_t) "-d",
                        (char *)(uintptr_t) "show",  (char *)(uintptr_t) "job",
                        (char *)(uintptr_t)job,      NULL};
    char *text;
    int rc;

    memset(s, 0, sizeof *s);
    rc = command_read(show_job, envp, DD_SCONTROL_MS, &text);
    if (rc < 0)
        return rc;
    rc = components_look(s, scontrol, envp, text, step, only);
    if (rc == 1) {
        rc = step ? nodes_of_step(s, scontrol, envp, job, -1, step) : step_parse_nodes(s, -1, text);
        if (rc == 0)
            rc = step_parse_memory(s, text);
    }
    if (rc == 0)
        step_parse_kind(s, text);
    free(text);
    return rc;
}

int step_look_real_memory(struct step *s, const char *scontrol, char *const *envp) {
    char *argv[] = {(char *)(uintptr_t)scontrol, (char *)(uintptr_t) "show",
                    (char *)(uintptr_t) "node", NULL, NULL},
         *text;
    size_t i;
    int rc = 0;

    if (!s->exclusive || step_memory(s, s->nodes.count) != 0)
        return 0;
    for (i = 0; i < s->nparts && rc == 0; i++) {
        argv[3] = s->parts[i].nodelist;
        rc = command_read(argv, envp, DD_SCONTROL_MS, &text);
        if (rc == 0) {
            rc = step_parse_real_memory(s, text);
            free(text);
        }
    }
    return rc;
}

void step_free(struct step *s) {
    parts_drop(s);
    free(s->parts);
    free(s->mb);
    free(s->per_cpu);
    free(s->stdout_path);
    memset(s, 0, sizeof *s);
}
