/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach_counts.c - how many processes of which steps were attached. A process is identified by its
 * pid and the time it began, so that one that attaches twice counts once. Each node counts its own
 * processes. A count of another node replaces the one before of that node and step, so a repeated
 * message does no harm.
 */
#include "attach_counts.h"

#include "supervisor.h"
#include <base/hash.h>
#include <base/hashset.h>
#include <base/process.h>
#include <base/vec.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attach_count {
    uint32_t node;
    char step[STEP_NAME_MAX];
    uint64_t processes;
};
struct attach_counts {
    struct attach_count *at;
    size_t n, cap;
    struct hashset seen; /* uint64_t: processes of this node */
};
/* further steps are not counted: the names come from clients, so there could be any number */
#define STEPS_MAX 65536u

/* True when it was not there. */
static bool seen_add(struct attach_counts *st, uint64_t h) {
    bool is_new;
    h += h == 0;
    return !hashset_add(&st->seen, &h, &is_new) || is_new;
}

static struct attach_count *attach_count_of(struct attach_counts *st, uint32_t node,
                                            const char *step) {
    for (size_t i = 0; i < st->n; i++)
        if (st->at[i].node == node && strcmp(st->at[i].step, step) == 0)
            return &st->at[i];
    if (st->n == STEPS_MAX)
        return NULL;
    if (VEC_ROOM(&st->at, &st->cap, st->n + 1, 16) < 0)
        return NULL;
    struct attach_count *c = &st->at[st->n++];
    memset(c, 0, sizeof *c);
    c->node = node;
    snprintf(c->step, sizeof c->step, "%s", step);
    return c;
}

int attach_counts_init(struct supervisor *s) {
    s->attach_counts = calloc(1, sizeof *s->attach_counts);
    if (!s->attach_counts)
        return -1;
    s->attach_counts->seen = HASHSET_OF(uint64_t, 1);
    return 0;
}

void attach_counts_add(struct supervisor *s, const char *step, pid_t pid) {
    struct {
        uint64_t began;
        int64_t pid;
        char step[STEP_NAME_MAX];
    } who;
    if (!*step || strspn(step, "0123456789.abcdefghijklmnopqrstuvwxyz+-") != strlen(step))
        step = "-";
    memset(&who, 0, sizeof who);
    snprintf(who.step, sizeof who.step, "%s", step);
    who.pid = pid;
    /* pid 0, a process that is not visible from here: each attach counts */
    who.began = pid > 0 ? process_began(pid) : ++s->next_id;
    struct attach_count *c = attach_count_of(s->attach_counts, s->node_id, step);
    if (c && seen_add(s->attach_counts, key_hash(&who, sizeof who)))
        c->processes++;
}

void attach_counts_set(struct supervisor *s, uint32_t node, const char *step, uint64_t processes) {
    struct attach_count *c = attach_count_of(s->attach_counts, node, step);
    if (c)
        c->processes = processes;
}

void attach_counts_each(const struct supervisor *s,
                        void (*fn)(void *arg, uint32_t node, const char *step, uint64_t processes),
                        void *arg) {
    for (size_t i = 0; i < s->attach_counts->n; i++)
        fn(arg, s->attach_counts->at[i].node, s->attach_counts->at[i].step,
           s->attach_counts->at[i].processes);
}

static int by_step(const void *a, const void *b) {
    const struct attach_count *x = a, *y = b;
    unsigned long long jx = strtoull(x->step, NULL, 10), jy = strtoull(y->step, NULL, 10);
    if (jx != jy)
        return jx < jy ? -1 : 1;
    return strverscmp(x->step, y->step);
}

void attach_counts_json(const struct supervisor *s, FILE *f) {
    struct attach_counts *st = s->attach_counts;
    bool first = true;
    if (st->n)
        qsort(st->at, st->n, sizeof *st->at, by_step);
    fputc('[', f);
    for (size_t i = 0; i < st->n;) {
        size_t from = i;
        uint64_t sum = 0;
        for (; i < st->n && strcmp(st->at[i].step, st->at[from].step) == 0; i++)
            sum += st->at[i].processes;
        if (sum == 0)
            continue;
        fprintf(f, "%s{\"step\":\"%s\",\"processes\":%llu}", first ? "" : ",", st->at[from].step,
                (unsigned long long)sum);
        first = false;
    }
    fputc(']', f);
}

void attach_counts_end(struct supervisor *s) {
    if (!s->attach_counts)
        return;
    free(s->attach_counts->at);
    hashset_free(&s->attach_counts->seen);
    free(s->attach_counts);
    s->attach_counts = NULL;
}
