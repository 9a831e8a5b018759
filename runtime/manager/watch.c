/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c - does each manager of this node still turn? Its loop counts its turns in its page. ddictd looks once a second; where the count stands, it sends a PING, which
 * wakes a manager that only had nothing to do. Who does not turn all the same is named, with what the kernel says of it, and at the end it is lost: a process that was
 * stopped, that waits for a disk that does not answer, or that goes round in a call for ever would else take all of the dictionary with it and be known to nobody.
 */
#include <base/log.h>
#include <base/process.h>
#include <manager/supervisor.h>

#include <stdio.h>

static const char *doing(char state) {
    switch (state) {
    case 'T':
        return "it is stopped (SIGSTOP?)";
    case 't':
        return "a debugger has stopped it";
    case 'D':
        return "it is in D state: the kernel waits for a disk or a file system";
    case 'R':
        return "it runs, or waits for a core";
    case 'S':
        return "it sleeps in a system call";
    default:
        return "nobody knows what it does";
    }
}

/* Silence that is too long. One that runs may be starved or busy: it has more time. */
static unsigned limit_ms(char state) {
    return state == 'R' ? DD_MANAGER_BUSY_MS : DD_MANAGER_LOST_MS;
}

static void shard_look(struct shard *h, uint64_t now) {
    struct supervisor *s = h->s;
    struct sup_msg ping = {.type = SUP_PING};
    uint64_t turns = __atomic_load_n(&h->page->turns, __ATOMIC_RELAXED);
    if (turns != h->turns || h->turned_ns == 0) {
        if (h->silent)
            log_info("manager %u (pid %d) goes on", h->id, (int)h->pid);
        h->turns = turns;
        h->turned_ns = now;
        h->pinged = h->silent = false;
        return;
    }
    if (!h->pinged)
        shard_send(h, &ping, NULL, 0);
    h->pinged = true;
    uint64_t ms = (now - h->turned_ns) / 1000000;
    if (ms < DD_MANAGER_SAY_MS)
        return;
    char state = process_state(h->pid);
    if (!h->silent)
        log_warn("manager %u on node %s (pid %d) has not answered for %u s: %s", h->id, s->node,
                 (int)h->pid, (unsigned)(ms / 1000), doing(state));
    h->silent = true;
    if (ms < limit_ms(state))
        return;
    if (!s->lost)
        s->lost_manager = h->id;
    if (!s->lost)
        s->lost_node = s->node_id;
    supervisor_lost(s, "manager %u on node %s (pid %d) has not answered for %u s: %s", h->id,
                    s->node, (int)h->pid, (unsigned)(ms / 1000), doing(state));
}

static void watch_fire(struct timer *t) {
    struct supervisor *s =
        (struct supervisor *)(void *)((char *)t - offsetof(struct supervisor, watch));
    uint64_t now = timers_now(&s->timers);
    for (unsigned i = 0; i < s->shards_n && s->stage < STAGE_ENDING; i++)
        if (s->shards[i].pid > 0)
            shard_look(&s->shards[i], now);
    if (s->stage < STAGE_ENDING && timer_after(&s->timers, t, DD_MANAGER_LOOK_MS * 1000000ull) < 0)
        log_error("no memory to watch the managers");
}

void watch_start(struct supervisor *s) {
    s->watch.fire = watch_fire;
    watch_fire(&s->watch);
}
