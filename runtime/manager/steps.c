/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps.c - how many processes of which steps were attached. A process is told from another by its pid and the time it began, so that one that
 * attaches twice counts once. Each node counts its own; the counts of the others replace each other by node and step, so hearing them twice does no harm.
 */
#include <base/hash.h>
#include <base/process.h>
#include <manager/supervisor.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct step_count {
    uint32_t node;
    char step[STEP_NAME_MAX];
    uint64_t processes;
};
struct steps {
    struct step_count *at;
    size_t n, cap;
    uint64_t *seen;          /* a hash set of processes of this node; 0: free */
    size_t seen_n, seen_cap; /* cap: a power of two */
};
#define STEPS_MAX \
    65536u /* what more steps say is left out: nobody reads it, and names are what a client says */

static bool seen_insert(uint64_t *table, size_t cap, uint64_t h) {
    size_t i = h & (cap - 1);
    while (table[i] && table[i] != h)
        i = (i + 1) & (cap - 1);
    bool is_new = !table[i];
    table[i] = h;
    return is_new;
}

/* True when it was not there. */
static bool seen_add(struct steps *st, uint64_t h) {
    if (2 * st->seen_n >= st->seen_cap) {
        size_t cap = st->seen_cap ? 2 * st->seen_cap : 256;
        uint64_t *t = calloc(cap, sizeof *t);
        if (!t)
            return true;
        for (size_t i = 0; i < st->seen_cap; i++)
            if (st->seen[i])
                seen_insert(t, cap, st->seen[i]);
        free(st->seen);
        st->seen = t;
        st->seen_cap = cap;
    }
    bool is_new = seen_insert(st->seen, st->seen_cap, h ? h : 1);
    st->seen_n += is_new;
    return is_new;
}

static struct step_count *count_of(struct steps *st, uint32_t node, const char *step) {
    for (size_t i = 0; i < st->n; i++)
        if (st->at[i].node == node && strcmp(st->at[i].step, step) == 0)
            return &st->at[i];
    if (st->n == STEPS_MAX)
        return NULL;
    if (st->n == st->cap) {
        size_t cap = st->cap ? 2 * st->cap : 16;
        struct step_count *at = realloc(st->at, cap * sizeof *at);
        if (!at)
            return NULL;
        st->at = at;
        st->cap = cap;
    }
    struct step_count *c = &st->at[st->n++];
    memset(c, 0, sizeof *c);
    c->node = node;
    snprintf(c->step, sizeof c->step, "%s", step);
    return c;
}

int steps_init(struct supervisor *s) {
    s->steps = calloc(1, sizeof *s->steps);
    return s->steps ? 0 : -1;
}

void steps_attached(struct supervisor *s, const char *step, pid_t pid) {
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
    who.began =
        pid > 0 ? process_began(pid) : ++s->next_id; /* not visible from here: each attach counts */
    struct step_count *c = count_of(s->steps, s->node_id, step);
    if (c && seen_add(s->steps, key_hash(&who, sizeof who)))
        c->processes++;
}

void steps_take(struct supervisor *s, uint32_t node, const char *step, uint64_t processes) {
    struct step_count *c = count_of(s->steps, node, step);
    if (c)
        c->processes = processes;
}

void steps_each(const struct supervisor *s,
                void (*fn)(void *arg, uint32_t node, const char *step, uint64_t processes),
                void *arg) {
    for (size_t i = 0; i < s->steps->n; i++)
        fn(arg, s->steps->at[i].node, s->steps->at[i].step, s->steps->at[i].processes);
}

static int by_step(const void *a, const void *b) {
    const struct step_count *x = a, *y = b;
    unsigned long long jx = strtoull(x->step, NULL, 10), jy = strtoull(y->step, NULL, 10);
    if (jx != jy)
        return jx < jy ? -1 : 1;
    return strverscmp(x->step, y->step);
}

void steps_json(const struct supervisor *s, FILE *f) {
    struct steps *st = s->steps;
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

void steps_end(struct supervisor *s) {
    if (!s->steps)
        return;
    free(s->steps->at);
    free(s->steps->seen);
    free(s->steps);
    s->steps = NULL;
}
