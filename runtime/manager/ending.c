/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending.c - from ready to over.
 *
 *     STARTING -> READY      all nodes are ready (node 0 says so)
 *     READY -> DRAINING      stdin, SIGTERM, DOWN, or another node's DRAIN: no new clients
 *     DRAINING -> ENDING     node 0: no client on any node, or the time is over; node > 0: END from node 0, or no word of it
 *     any -> ENDING          LOST: a manager died, a node was lost, something could not start
 *     ENDING -> OVER         figures are gathered, clients had DD_DRAIN_GRACE_MS to see it
 *
 * The board says READY, DRAINING, then GONE or LOST. Every wait ends by a deadline of its own.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <manager/supervisor.h>

#define ORPHAN_MS 3000u /* node > 0: after its own time to drain is over, so long until it ends without a word of node 0 */

struct ending {
    struct timer drain, figures, grace;
    bool figures_over, grace_over, gave; /* node > 0: gave its figures to node 0 */
    int drain_ms;
};

static struct supervisor *the; /* timers lie in struct ending; there is one supervisor a process */

static void arm(struct supervisor *s, struct timer *t, unsigned ms) {
    if (timer_after(&s->timers, t, ms * 1000000ull) < 0) t->fire(t); /* no memory for a deadline: it is over */
}

static void drain_over(struct timer *t) { supervisor_end(the); }
static void figures_over(struct timer *t) {
    the->ending->figures_over = true;
    ending_look(the);
}
static void grace_over(struct timer *t) {
    the->ending->grace_over = true;
    ending_look(the);
}

int ending_init(struct supervisor *s) {
    s->ending = calloc(1, sizeof *s->ending);
    if (!s->ending) return dd_error(-ENOMEM, "no memory");
    the = s;
    s->ending->drain.fire = drain_over;
    s->ending->figures.fire = figures_over;
    s->ending->grace.fire = grace_over;
    return 0;
}

void supervisor_ready(struct supervisor *s) {
    if (s->stage != STAGE_STARTING) return;
    s->stage = STAGE_READY;
    s->was_ready = true;
    timer_clear(&s->timers, &s->start_timer);
    board_say(s, BOARD_READY, "");
    clients_serve_parked(s);
    log_info("ready: %u managers on this node, %u in all", s->shards_n, s->managers);
    if (s->node_id != 0) return;
    char id[33];
    say("ready id=%s managers=%u nodes=%u mem=%llu", hex_format(id, s->identity.dict_id), s->managers, s->nodes, (unsigned long long)(s->budget * s->managers));
}

void supervisor_drain(struct supervisor *s, int wait_ms) {
    struct ending *e = s->ending;
    if (s->stage > STAGE_DRAINING) return;
    if (s->stage == STAGE_DRAINING && wait_ms >= e->drain_ms) return;
    bool first = s->stage != STAGE_DRAINING;
    s->stage = STAGE_DRAINING;
    e->drain_ms = wait_ms;
    arm(s, &e->drain, (unsigned)wait_ms + (s->node_id > 0 ? ORPHAN_MS : 0));
    control_drain(s, wait_ms); /* who has heard it already stops it */
    if (!first) return;
    log_info("draining: %u clients are attached", s->attached);
    board_say(s, BOARD_DRAINING, "the dictionary is ending");
    clients_refuse_new(s);
    ending_look(s);
}

static void ending_begin(struct supervisor *s) {
    struct ending *e = s->ending;
    struct sup_msg m = {.type = SUP_STATS};
    s->stage = STAGE_ENDING;
    timer_clear(&s->timers, &e->drain);
    timer_clear(&s->timers, &s->start_timer);
    clients_refuse_new(s);
    shards_send(s, &m);
    arm(s, &e->figures, s->node_id == 0 && s->nodes > 1 ? 2 * DD_DRAIN_GRACE_MS : DD_DRAIN_GRACE_MS); /* node 0 waits for those who wait for theirs */
    arm(s, &e->grace, DD_DRAIN_GRACE_MS);
    ending_look(s);
}

void supervisor_end(struct supervisor *s) {
    if (s->stage >= STAGE_ENDING) return;
    board_say(s, BOARD_GONE, "the dictionary has ended");
    control_end(s);
    ending_begin(s);
}

void supervisor_lost(struct supervisor *s, const char *fmt, ...) {
    va_list ap;
    if (s->lost || s->stage == STAGE_OVER) return;
    va_start(ap, fmt);
    vsnprintf(s->text, sizeof s->text, fmt, ap);
    va_end(ap);
    s->lost = true;
    s->exit_code = 1;
    board_say(s, BOARD_LOST, s->text);
    log_error("%s", s->text);
    say("error %s", s->text);
    control_lost(s);
    if (s->stage < STAGE_ENDING) ending_begin(s);
}

static bool figures_in(const struct supervisor *s) {
    for (unsigned i = 0; i < s->shards_n; i++)
        if (!s->shards[i].gone && s->shards[i].pid > 0 && !s->shards[i].has_stats) return false;
    return true;
}

static void drain_look(struct supervisor *s) {
    if (s->node_id > 0) control_drained(s);
    else if (s->attached == 0 && control_all_drained(s)) supervisor_end(s);
}

void ending_look(struct supervisor *s) {
    struct ending *e = s->ending;
    if (s->stage == STAGE_DRAINING) drain_look(s);
    if (s->stage != STAGE_ENDING) return;
    if (!figures_in(s) && !e->figures_over) return;
    if (s->node_id > 0 && !e->gave) {
        e->gave = true;
        control_give(s);
    }
    bool others = control_all_ended(s) || e->figures_over;
    bool clients = s->attached == 0 || e->grace_over;
    if (!others || !clients) return;
    s->stage = STAGE_OVER;
    timer_clear(&s->timers, &e->figures);
    timer_clear(&s->timers, &e->grace);
    if (s->node_id == 0 && s->was_ready) report_say(s);
    if (s->node_id == 0 && (s->was_ready || !s->lost)) say("end");
}
