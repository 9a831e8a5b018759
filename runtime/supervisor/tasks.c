/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks.c - --tasks N: the dictionary is of N processes that each come once (`ddict run` in the
 * tasks of a step: ELECTION 6), and ends with them. Each node counts those that came to it; who
 * decides hears the counts of all. When N have come and none is left it drains; also when none has been
 * here for DD_TASKS_ALONE_MS and some never came.
 */
#include "tasks.h"

#include "control.h"
#include "life_events.h"
#include "supervisor.h"
#include "takeover.h"
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <stdlib.h>

struct task_count {
    uint32_t came, here;
};
struct tasks {
    struct supervisor *s;
    uint8_t *came;            /* a bit for each task: it came to this node */
    struct task_count *nodes; /* [nodes]; ours on all, the others where all is decided */
    struct task_count all;    /* their sum */
    struct timer alone;       /* who decides: runs while nobody is here */
};

static void tasks_over(struct supervisor *s) {
    if (s->stage == STAGE_READY)
        supervisor_drain(s, s->opt.drain_ms, REASON_DRAINED);
}

static void alone_fire(struct timer *t) {
    struct tasks *k = (struct tasks *)(void *)((char *)t - offsetof(struct tasks, alone));
    log_info("no task is left, and some never came");
    tasks_over(k->s);
}

/* Who decides: is it over? */
static void tasks_check(struct tasks *k) {
    struct supervisor *s = k->s;
    if (takeover_waits(s))
        return;
    if (k->all.here > 0)
        timer_clear(&s->timers, &k->alone);
    else if (k->all.came >= s->opt.tasks)
        tasks_over(s);
    else if (!k->alone.pos)
        timer_after(&s->timers, &k->alone, DD_TASKS_ALONE_MS * 1000000ull);
}

static void count_set(struct tasks *k, uint32_t node, struct task_count to) {
    struct task_count *c = &k->nodes[node];
    k->all.came += to.came - c->came;
    k->all.here += to.here - c->here;
    *c = to;
}

/* Ours. */
static void tasks_changed(struct tasks *k, uint32_t came, uint32_t here) {
    struct supervisor *s = k->s;
    count_set(k, s->node_id, (struct task_count){.came = came, .here = here});
    if (!control_decides(s))
        control_tasks(s, came, here);
    else
        tasks_check(k);
}

int tasks_init(struct supervisor *s) {
    if (s->opt.tasks == 0)
        return 0;
    struct tasks *k = calloc(1, sizeof *k);
    if (!k)
        return -ENOMEM;
    s->tasks = k;
    k->s = s;
    k->alone.fire = alone_fire;
    k->came = calloc(1, s->opt.tasks / 8 + 1);
    k->nodes = calloc(s->nodes, sizeof *k->nodes);
    return k->came && k->nodes ? 0 : -ENOMEM;
}

void tasks_ready(struct supervisor *s) {
    if (s->tasks && control_decides(s))
        tasks_check(s->tasks);
}

void tasks_below(struct supervisor *s) {
    if (!s->tasks)
        return;
    timer_clear(&s->timers, &s->tasks->alone); /* we may have decided before */
    control_tasks(s, s->tasks->nodes[s->node_id].came, s->tasks->nodes[s->node_id].here);
}

int tasks_join(struct supervisor *s, uint32_t task) {
    struct tasks *k = s->tasks;
    if (!k || task >= s->opt.tasks)
        return dd_error(-EINVAL, "the dictionary is not of %u tasks or more", task + 1);
    if (k->came[task / 8] >> task % 8 & 1)
        return dd_error(-EALREADY, "task %u has come already", task);
    k->came[task / 8] |= (uint8_t)(1 << task % 8);
    struct task_count c = k->nodes[s->node_id];
    tasks_changed(k, c.came + 1, c.here + 1);
    return 0;
}

void tasks_left(struct supervisor *s) {
    if (!s->tasks)
        return;
    struct task_count c = s->tasks->nodes[s->node_id];
    tasks_changed(s->tasks, c.came, c.here - 1);
}

void tasks_set(struct supervisor *s, uint32_t node, uint32_t came, uint32_t here) {
    if (!s->tasks)
        return;
    count_set(s->tasks, node, (struct task_count){.came = came, .here = here});
    tasks_check(s->tasks);
}

void tasks_node_lost(struct supervisor *s, uint32_t node) {
    if (s->tasks)
        tasks_set(s, node, s->tasks->nodes[node].came, 0);
}

void tasks_end(struct supervisor *s) {
    if (!s->tasks)
        return;
    timer_clear(&s->timers, &s->tasks->alone);
    free(s->tasks->came);
    free(s->tasks->nodes);
    free(s->tasks);
    s->tasks = NULL;
}
