/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slurm_env.c - rank and node by the variables that Slurm gives every task of a step. A batch
 * script that was submitted from within a step has variables of that step beside its own. They
 * contradict each other, and are then ignored.
 */
#include "backend.h"
#include "place.h"
#include <base/hostlist.h>
#include <base/size.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int env_count(const char *name, int lo, int *out) {
    const char *v = getenv(name);
    uint64_t n;

    if (!v || count_parse(v, (uint64_t)lo, 1u << 30, &n) < 0)
        return -ENOENT;
    *out = (int)n;
    return 0;
}

/* One piece "2(x3)" or "1" of a text: tasks and times; where the next begins, or NULL when it is
 * malformed. */
static const char *piece_read(const char *text, int *tasks, int *times) {
    char *end;
    long n = strtol(text, &end, 10), x = 1;

    if (end == text || n < 1 || n > (1 << 30))
        return NULL;
    if (end[0] == '(' && end[1] == 'x') {
        x = strtol(end + 2, &end, 10);
        if (*end != ')' || x < 1 || x > (1 << 30))
            return NULL;
        end++;
    }
    if (*end != ',' && *end != '\0')
        return NULL;
    *tasks = (int)n;
    *times = (int)x;
    return *end == ',' ? end + 1 : end;
}

int slurm_tasks_on(const char *text, int node_id) {
    int node = 0, tasks, times;

    while (text && *text != '\0') {
        text = piece_read(text, &tasks, &times);
        if (!text)
            break;
        if (node_id - node < times)
            return tasks;
        node += times;
    }
    return -EINVAL;
}

int slurm_task_counts(const char *text, int *counts, int nodes) {
    int node = 0, tasks, times;

    while (text && *text != '\0') {
        text = piece_read(text, &tasks, &times);
        if (!text || times > nodes - node)
            return -EINVAL;
        while (times-- > 0)
            counts[node++] = tasks;
    }
    return node == nodes ? 0 : -EINVAL;
}

int slurm_layout(const int *counts, int nodes, int plane, int *node_of, int size) {
    int rank = 0, node, placed = 1, k;
    int *left = malloc((size_t)nodes * sizeof *left);

    if (!left)
        return -ENOMEM;
    memcpy(left, counts, (size_t)nodes * sizeof *left);
    while (placed) {
        placed = 0;
        for (node = 0; node < nodes; node++)
            for (k = 0; k < plane && left[node] > 0; k++, left[node]--) {
                if (rank == size) {
                    free(left);
                    return -EINVAL;
                }
                node_of[rank++] = node;
                placed = 1;
            }
    }
    free(left);
    return rank == size ? 0 : -EINVAL;
}

/* $SLURM_GTIDS, the ranks of this node in order of local rank: their number, or -ENOENT. */
static int locals_read(int *locals, int cap) {
    const char *s = getenv("SLURM_GTIDS");
    int n = 0;

    if (!s || *s == '\0')
        return -ENOENT;
    for (;; s++) {
        char *end;
        long r = strtol(s, &end, 10);

        if (end == s || r < 0 || r > (1 << 30))
            return -ENOENT;
        if (n < cap)
            locals[n] = (int)r;
        n++;
        if (*end == '\0')
            return n;
        if (*end != ',')
            return -ENOENT;
        s = end;
    }
}

/* Do the ranks of this node and our own variables say the same? */
static int locals_agree(const struct place *p) {
    int *locals = malloc((size_t)p->local_size * sizeof *locals), n, ok;

    if (!locals)
        return 1;
    n = locals_read(locals, p->local_size);
    ok = n < 0 || (n == p->local_size && locals[p->local_rank] == p->rank);
    free(locals);
    return ok;
}

/* The names of the step's nodes, when ours is where it has to be. */
static int names_read(const struct place *p, struct hostlist *list) {
    const char *text = getenv("SLURM_STEP_NODELIST"), *mine = getenv("SLURMD_NODENAME");

    memset(list, 0, sizeof *list);
    if (!text || hostlist_add(list, text) < 0 || list->count != (size_t)p->nodes ||
        (mine && strcmp(list->names[p->node_id], mine) != 0)) {
        hostlist_free(list);
        return -ENOENT;
    }
    return 0;
}

int slurm_env_init(struct place *p) {
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    struct place q = *p;
    int rc, job_nodes;

    if (env_count("SLURM_PROCID", 0, &q.rank) < 0 ||
        env_count("SLURM_STEP_NUM_TASKS", 1, &q.size) < 0 ||
        env_count("SLURM_NODEID", 0, &q.node_id) < 0 ||
        env_count("SLURM_STEP_NUM_NODES", 1, &q.nodes) < 0 ||
        env_count("SLURM_LOCALID", 0, &q.local_rank) < 0)
        return -ENOENT;
    if (q.rank >= q.size || q.node_id >= q.nodes || q.nodes > q.size)
        return -ENOENT;
    if (env_count("SLURM_JOB_NUM_NODES", 1, &job_nodes) == 0 && q.nodes > job_nodes)
        return -ENOENT;
    rc = slurm_tasks_on(getenv("SLURM_STEP_TASKS_PER_NODE"), q.node_id);
    q.local_size = rc > q.local_rank ? rc : q.local_rank + 1;
    if (!locals_agree(&q))
        return -ENOENT;
    q.how = PLACE_SLURM;
    snprintf(q.group, sizeof q.group, "slurm.%s.%s", job ? job : "-", step ? step : "-");
    *p = q;
    return 0;
}

static int rank_compare(const void *a, const void *b) {
    return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

/* Does the layout put on this node just the ranks that are there? */
static int layout_fits(const struct place *p, const int *node_of) {
    int r, n = 0;

    for (r = 0; r < p->size; r++)
        if (node_of[r] == p->node_id && (n == p->local_size || p->locals[n++] != r))
            return 0;
    return n == p->local_size;
}

/* The distributions to try: what was asked for, else Slurm's default and then the other one.
 * Numbers as slurm_layout()'s plane; how many. */
static int planes_of(int *planes) {
    const char *asked = getenv("SLURM_DISTRIBUTION");
    int n = 0;

    if (!asked || *asked == '\0' || strncmp(asked, "block", 5) == 0)
        planes[n++] = 1 << 30;
    if (!asked || *asked == '\0' || strncmp(asked, "cyclic", 6) == 0)
        planes[n++] = 1;
    if (asked && strncmp(asked, "plane", 5) == 0 &&
        env_count("SLURM_DIST_PLANESIZE", 1, planes) == 0)
        n = 1;
    return n;
}

static int layout_find(const struct place *p, int *node_of) {
    int *counts = malloc((size_t)p->nodes * sizeof *counts), planes[2], n, i, rc = -ENOENT;

    if (!counts)
        return -ENOMEM;
    if (slurm_task_counts(getenv("SLURM_STEP_TASKS_PER_NODE"), counts, p->nodes) == 0) {
        n = planes_of(planes);
        for (i = 0; i < n && rc < 0; i++)
            if (slurm_layout(counts, p->nodes, planes[i], node_of, p->size) == 0 &&
                layout_fits(p, node_of))
                rc = 0;
    }
    free(counts);
    return rc;
}

int slurm_env_maps(struct place *p) {
    struct hostlist list;

    p->locals = malloc((size_t)p->local_size * sizeof *p->locals);
    p->node_of = malloc((size_t)p->size * sizeof *p->node_of);
    if (!p->locals || !p->node_of)
        return -ENOMEM;
    if (locals_read(p->locals, p->local_size) != p->local_size) {
        free(p->locals);
        p->locals = NULL;
    } else {
        qsort(p->locals, (size_t)p->local_size, sizeof *p->locals, rank_compare);
    }
    if (!p->locals || layout_find(p, p->node_of) < 0) {
        free(p->node_of);
        p->node_of = NULL;
    }
    if (names_read(p, &list) == 0)
        p->names = list.names; /* malloc'ed each, as ours */
    return 0;
}

int slurm_env_init_whole(struct place *p) {
    struct place q = *p, maps;
    int whole;

    if (getenv("SLURM_HET_SIZE") || slurm_env_init(&q) < 0)
        return -ENOENT;
    maps = q;
    whole = slurm_env_maps(&maps) == 0 && maps.locals && maps.node_of && maps.names;
    place_drop(&maps);
    if (!whole)
        return -ENOENT;
    *p = q;
    return 0;
}
