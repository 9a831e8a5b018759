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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attach_key { /* as a whole the hash of a hashset: no two keys are one */
    uint64_t hash, node;
    char step[STEP_NAME_MAX];
};
struct attach_count {
    struct attach_key key;
    uint64_t processes;
};
#define KEY_WORDS (sizeof(struct attach_key) / sizeof(uint64_t))
struct attach_counts {
    struct hashset counts; /* struct attach_count */
    struct hashset seen;   /* uint64_t: processes of this node */
};
/* further steps are not counted: the names come from clients, so there could be any number */
#define STEPS_MAX 65536u

static uint64_t hash_of(const void *what, size_t len) {
    uint64_t h = key_hash(what, len);
    return h + (h == 0);
}

/* True when it was not there. */
static bool seen_add(struct attach_counts *st, uint64_t h) {
    bool is_new;
    return !hashset_add(&st->seen, &h, &is_new) || is_new;
}

static struct attach_count *attach_count_of(struct attach_counts *st, uint32_t node,
                                            const char *step) {
    struct attach_key key = {.node = node};
    bool is_new;
    snprintf(key.step, sizeof key.step, "%s", step);
    key.hash = hash_of(&key, sizeof key);
    if (st->counts.n == STEPS_MAX)
        return hashset_find(&st->counts, &key.hash);
    return hashset_add(&st->counts, &key.hash, &is_new);
}

int attach_counts_init(struct supervisor *s) {
    s->attach_counts = calloc(1, sizeof *s->attach_counts);
    if (!s->attach_counts)
        return -1;
    s->attach_counts->counts = HASHSET_OF(struct attach_count, KEY_WORDS);
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
    if (c && seen_add(s->attach_counts, hash_of(&who, sizeof who)))
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
    const struct attach_count *c;
    for (size_t at = 0; (c = hashset_next(&s->attach_counts->counts, &at));)
        fn(arg, (uint32_t)c->key.node, c->key.step, c->processes);
}

static int by_step(const void *a, const void *b) {
    const char *x = (*(struct attach_count *const *)a)->key.step;
    const char *y = (*(struct attach_count *const *)b)->key.step;
    unsigned long long jx = strtoull(x, NULL, 10), jy = strtoull(y, NULL, 10);
    if (jx != jy)
        return jx < jy ? -1 : 1;
    return strverscmp(x, y);
}

void attach_counts_json(const struct supervisor *s, FILE *f) {
    const struct hashset *counts = &s->attach_counts->counts;
    const struct attach_count **sorted = calloc(counts->n + 1, sizeof *sorted);
    size_t n = 0;
    bool first = true;
    for (size_t at = 0; sorted && (sorted[n] = hashset_next(counts, &at));)
        n++;
    if (n)
        qsort(sorted, n, sizeof *sorted, by_step);
    fputc('[', f);
    for (size_t i = 0; i < n;) {
        const char *step = sorted[i]->key.step;
        uint64_t sum = 0;
        for (; i < n && strcmp(sorted[i]->key.step, step) == 0; i++)
            sum += sorted[i]->processes;
        if (sum == 0)
            continue;
        fprintf(f, "%s{\"step\":\"%s\",\"processes\":%llu}", first ? "" : ",", step,
                (unsigned long long)sum);
        first = false;
    }
    fputc(']', f);
    free(sorted);
}

void attach_counts_end(struct supervisor *s) {
    if (!s->attach_counts)
        return;
    hashset_free(&s->attach_counts->counts);
    hashset_free(&s->attach_counts->seen);
    free(s->attach_counts);
    s->attach_counts = NULL;
}
