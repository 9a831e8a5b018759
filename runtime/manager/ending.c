/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending.c - from ready to over.
 *
 *     STARTING -> READY      all nodes are ready (node 0 says so)
 *     READY -> DRAINING      stdin, SIGTERM, DOWN, or another node's DRAIN: no new clients
 *     DRAINING -> ENDING     node 0: no client on any node, or the time is over, and then all is saved (--save); node > 0: END from node 0, or no word of it
 *     any -> ENDING          LOST: a manager died, a node was lost, something could not start
 *     ENDING -> OVER         1. figures of our managers are in; 2. node > 0: gave them and was told DONE; the head: has those of all, has written the
 *                            record and told the others; 3. clients had DD_DRAIN_GRACE_MS to see it
 *
 * The head is node 0, or where that is gone the lowest node that lives (control.c). The board says READY, DRAINING, then GONE or LOST. Every wait ends by a
 * deadline of its own.
 */
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <base/text.h>
#include <manager/supervisor.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORPHAN_MS \
    2000u /* node > 0: after its own time to drain is over, so long until it ends without a word of node 0 */
#define RELEASE_MS \
    500u /* the head waits so long for the others to hang up first, so that DONE is not lost with the connection */

struct ending {
    struct timer drain, own, all, record, grace, release;
    bool own_over, all_over, record_over, grace_over, release_over;
    bool gave, recorded, done;
    int drain_ms;
};

static struct supervisor *the; /* timers lie in struct ending; there is one supervisor a process */

static void arm(struct supervisor *s, struct timer *t, unsigned ms) {
    if (timer_after(&s->timers, t, ms * 1000000ull) < 0)
        t->fire(t); /* no memory for a deadline: it is over */
}

static void drain_over(struct timer *t) {
    bool orphan = the->node_id > 0;
    if (orphan ? the->opt.save != NULL : saving_end(the))
        return; /* node 0 will say END, or be lost */
    supervisor_end(the);
    if (orphan)
        control_parent_late(the);
}
static void own_over(struct timer *t) {
    the->ending->own_over = true;
    shards_rescue(the);
    ending_look(the);
}
static void all_over(struct timer *t) {
    the->ending->all_over = true;
    control_parent_late(the);
    ending_look(the);
}
static void record_over(struct timer *t) {
    the->ending->record_over = true;
    scribe_late(the);
    ending_look(the);
}
static void grace_over(struct timer *t) {
    the->ending->grace_over = true;
    ending_look(the);
}
static void release_over(struct timer *t) {
    the->ending->release_over = true;
    ending_look(the);
}

int ending_init(struct supervisor *s) {
    struct ending *e = s->ending = calloc(1, sizeof *s->ending);
    if (!e)
        return dd_error(-ENOMEM, "no memory");
    the = s;
    e->drain.fire = drain_over;
    e->own.fire = own_over;
    e->all.fire = all_over;
    e->record.fire = record_over;
    e->grace.fire = grace_over;
    e->release.fire = release_over;
    return 0;
}

void supervisor_ready(struct supervisor *s) {
    if (s->stage != STAGE_STARTING)
        return;
    s->stage = STAGE_READY;
    s->was_ready = true;
    s->ready_at = clock_ns();
    timer_clear(&s->timers, &s->start_timer);
    board_say(s, BOARD_READY, "");
    log_info("ready: %u managers on this node, %u in all", s->shards_n, s->managers);
    char id[33];
    if (s->node_id == 0) /* before the answer by which another start says `exists` */
        say("ready id=%s managers=%u nodes=%u mem=%llu%s", hex_format(id, s->identity.dict_id),
            s->managers, s->nodes, (unsigned long long)(s->budget * s->managers),
            s->script.fd >= 0 ? " script=watched" : "");
    watch_start(s);
    clients_serve_parked(s);
    if (s->node_id != 0)
        return;
    record_start(s);
    results_start(s);
    tasks_ready(s);
    saving_begin(s);
}

void supervisor_drain(struct supervisor *s, int wait_ms, enum end_reason why) {
    struct ending *e = s->ending;
    if (s->opt.results && wait_ms < DD_RESULTS_END_MS)
        wait_ms = DD_RESULTS_END_MS;
    if (s->stage > STAGE_DRAINING)
        return;
    if (s->stage == STAGE_DRAINING && wait_ms >= e->drain_ms)
        return;
    bool first = s->stage != STAGE_DRAINING;
    s->stage = STAGE_DRAINING;
    if (first)
        s->reason = why;
    e->drain_ms = wait_ms;
    arm(s, &e->drain, (unsigned)wait_ms + (s->node_id > 0 ? ORPHAN_MS : 0));
    control_drain(s, wait_ms); /* who has heard it already stops it */
    if (!first)
        return;
    log_info("draining: %u clients are attached", s->attached);
    board_say(s, BOARD_DRAINING, "the dictionary is ending");
    clients_refuse_new(s);
    ending_look(s);
}

static void ending_begin(struct supervisor *s) {
    struct ending *e = s->ending;
    struct sup_msg m = {.type = SUP_STATS};
    bool head = control_is_head(s);
    s->stage = STAGE_ENDING;
    timer_clear(&s->timers, &e->drain);
    timer_clear(&s->timers, &s->start_timer);
    clients_refuse_new(s);
    shards_send(s, &m);
    arm(s, &e->own, DD_FIGURES_MS);
    arm(s, &e->all, DD_FIGURES_ALL_MS + (head ? 0 : DD_FIGURES_LATE_MS));
    arm(s, &e->record, DD_RECORD_MS + (head ? 0 : DD_FIGURES_LATE_MS));
    arm(s, &e->grace, DD_DRAIN_GRACE_MS);
    ending_look(s);
}

void supervisor_end(struct supervisor *s) {
    if (s->stage >= STAGE_ENDING)
        return;
    board_say(s, BOARD_GONE,
              s->reason == REASON_ALONE ? "the dictionary has ended: " ENDING_ALONE
                                        : "the dictionary has ended");
    control_end(s);
    ending_begin(s);
}

void supervisor_lost(struct supervisor *s, const char *fmt, ...) {
    va_list ap;
    if (s->lost || s->stage == STAGE_OVER)
        return;
    va_start(ap, fmt);
    vsnprintf(s->text, sizeof s->text, fmt, ap);
    va_end(ap);
    text_plain(s->text); /* it may be another node's */
    s->lost = true;
    /* At the end of a job nodes are killed in any order: that is no error of the dictionary. */
    if (s->stage < STAGE_DRAINING || s->reason != REASON_SIGNAL)
        s->exit_code = 1;
    board_say(s, BOARD_LOST, s->text);
    log_error("%s", s->text);
    say("error %s", s->text);
    control_lost(s);
    if (s->was_ready && control_is_head(s))
        record_lost(s);
    saving_lost(s);
    if (s->stage < STAGE_ENDING)
        ending_begin(s);
}

void ending_headed(struct supervisor *s) {
    struct ending *e = s->ending;
    log_info("writes the record: the nodes before this one are gone");
    if (s->lost)
        record_lost(s);
    e->all_over = false;
    arm(s, &e->all,
        e->gave ? DD_FIGURES_LATE_MS
                : DD_FIGURES_MS + DD_FIGURES_LATE_MS); /* the others are on their way to us */
    arm(s, &e->record, DD_RECORD_MS - DD_FIGURES_MS);
}

static bool figures_in(const struct supervisor *s) {
    for (unsigned i = 0; i < s->shards_n; i++)
        if (!s->shards[i].gone && s->shards[i].pid > 0 && !s->shards[i].has_stats)
            return false;
    return true;
}

static void drain_look(struct supervisor *s) {
    if (s->node_id > 0)
        control_drained(s);
    else if (s->attached == 0 && control_all_drained(s) && !saving_end(s))
        supervisor_end(s);
}

/* The head has written what there is to write, and the others may go. True when that is over. */
static bool head_done(struct supervisor *s) {
    struct ending *e = s->ending;
    if (!control_all_ended(s) && !e->all_over)
        return false;
    if (!e->recorded) {
        e->recorded = true;
        if (s->was_ready)
            report_record(s);
        control_release(s); /* the child that writes needs nobody */
        arm(s, &e->release, RELEASE_MS);
    }
    if (scribe_busy(s) && !e->record_over)
        return false;
    return control_alone(s) || e->release_over;
}

void ending_look(struct supervisor *s) {
    struct ending *e = s->ending;
    if (s->stage == STAGE_DRAINING)
        drain_look(s);
    if (s->stage != STAGE_ENDING || e->done)
        return;
    if (!figures_in(s) && !e->own_over)
        return;
    if (!e->gave) {
        e->gave = true;
        control_give(s);
    }
    if (!(control_is_head(s) ? head_done(s) : control_released(s) || e->record_over))
        return;
    if (s->attached > 0 && !e->grace_over)
        return;
    if (s->stage == STAGE_OVER)
        return; /* one of these came back here */
    e->done = true;
    s->stage = STAGE_OVER;
    struct timer *all[] = {&e->own, &e->all, &e->record, &e->grace, &e->release};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        timer_clear(&s->timers, all[i]);
    if (s->node_id != 0)
        return;
    if (s->was_ready)
        report_say(s);
    if (s->was_ready)
        report_summary(s);
    if (s->was_ready || !s->lost)
        say("end");
}
