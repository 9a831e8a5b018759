/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c - does each manager of this node still turn? The manager counts the turns of its loop in
 * its page. ddictd looks once a second; where the count stands still, ddictd sends a PING, which
 * wakes a manager that merely had nothing to do. A manager that still does not turn is logged with
 * its state in the kernel, and after a longer time it is lost. Otherwise a process that is stopped,
 * waits for a disk that does not answer, or loops forever in one call would hang the whole
 * dictionary, and nobody would know which one it is.
 *
 * Where a cgroup of the job has more memory than its memory.high, the kernel stops each process that
 * takes memory for up to 2 s at a time, in D state. That is said once, and managers get more time.
 */
#include "watch.h"

#include "life_events.h"
#include "managers.h"
#include "owner_steps.h"
#include "shadows.h"
#include "startup_output.h"
#include "supervisor.h"
#include <base/log.h>
#include <base/process.h>

#include <signal.h>
#include <stdio.h>

#define SLOWED "its memory is above memory.high, and the kernel slows it"

static const char *state_text(char state) {
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

/* The longest silence allowed. A manager that runs may be starved or busy, and one whose memory is
 * above memory.high is slowed: it gets more time. */
static unsigned limit_ms(char state, bool slowed) {
    return slowed || state == 'R' ? DD_MANAGER_BUSY_MS : DD_MANAGER_LOST_MS;
}

/* Moments above memory.high are usual, so only what lasts is said, and once. */
static void memory_check(struct supervisor *s, uint64_t now) {
    const char *limit;
    if (!memlimit_slowed(&limit)) {
        if (now - s->slowed_to > DD_MANAGER_LOST_MS * 1000000ull)
            s->slowed_from = s->slowed_to = 0;
        return;
    }
    s->slowed_from = s->slowed_from ? s->slowed_from : now;
    s->slowed_to = now;
    if (s->slowed_said || now - s->slowed_from < DD_MANAGER_SAY_MS * 1000000ull)
        return;
    s->slowed_said = true;
    log_warn("node %s is above %s: the kernel slows all that takes memory there", s->node, limit);
    startup_print("warn node %s is above %s: the kernel slows all that takes memory there", s->node,
                  limit);
}

static void manager_check(struct local_manager *mgr, uint64_t now) {
    struct supervisor *s = mgr->s;
    struct sup_msg ping = {.type = SUP_PING};
    uint64_t turns = __atomic_load_n(&mgr->page->turns, __ATOMIC_RELAXED);
    if (turns != mgr->turns || mgr->turned_ns == 0) {
        if (mgr->silent)
            log_info("%s (pid %d) goes on", mgr->name, (int)mgr->pid);
        mgr->turns = turns;
        mgr->turned_ns = now;
        mgr->pinged = mgr->silent = false;
        return;
    }
    if (!mgr->pinged)
        manager_send(mgr, &ping, NULL, 0);
    mgr->pinged = true;
    uint64_t ms = (now - mgr->turned_ns) / 1000000;
    if (ms < DD_MANAGER_SAY_MS)
        return;
    char state = process_state(mgr->pid);
    bool slowed = s->slowed_to && (state == 'D' || state == 'S'); /* S: for a lock of one in D */
    const char *why = slowed ? SLOWED : state_text(state);
    if (!mgr->silent)
        log_warn("%s on node %s (pid %d) has not answered for %u s: %s", mgr->name, s->node,
                 (int)mgr->pid, (unsigned)(ms / 1000), why);
    mgr->silent = true;
    if (ms < limit_ms(state, slowed))
        return;
    char text[160];
    snprintf(text, sizeof text, "has not answered for %u s: %s", (unsigned)(ms / 1000), why);
    if (process_moves(mgr, text)) {
        kill(mgr->pid, SIGKILL);
        return;
    }
    if (shadow_can_go(mgr)) {
        shadow_lost(mgr, text);
        shadow_kill(mgr);
        return;
    }
    if (!s->lost)
        s->lost_manager = mgr->id;
    if (!s->lost)
        s->lost_node = s->node_id;
    supervisor_lost(s, "%s on node %s (pid %d) has not answered for %u s: %s", mgr->name, s->node,
                    (int)mgr->pid, (unsigned)(ms / 1000), why);
}

static void watch_fire(struct timer *t) {
    struct supervisor *s =
        (struct supervisor *)(void *)((char *)t - offsetof(struct supervisor, watch));
    uint64_t now = timers_now(&s->timers);
    memory_check(s, now);
    shadows_look(s);
    owner_steps_take(s); /* whose own timer may have found no memory */
    for (unsigned i = 0; i < processes_n(s) && s->stage < STAGE_ENDING; i++)
        if (s->local[i].pid > 0)
            manager_check(&s->local[i], now);
    if (s->stage < STAGE_ENDING && timer_after(&s->timers, t, DD_MANAGER_LOOK_MS * 1000000ull) < 0)
        log_error("no memory to watch the managers");
}

void watch_start(struct supervisor *s) {
    s->watch.fire = watch_fire;
    watch_fire(&s->watch);
}
