/* SPDX-License-Identifier: Apache-2.0 */
/* lifecycle.c - stages, events and what is done for each; the picture is in lifecycle.h. */
#include "lifecycle.h"

#include "clients.h"
#include "control.h"
#include "grants.h"
#include "life_events.h"
#include "manager_events.h"
#include "managers.h"
#include "record.h"
#include "record_writer.h"
#include "report.h"
#include "results.h"
#include "save_passes.h"
#include "startup_output.h"
#include "status_page.h"
#include "supervisor.h"
#include "takeover.h"
#include "tasks.h"
#include "watch.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* who does not decide: after its own time to drain is over it waits this long for END */
#define ORPHAN_MS 2000u
/* the head waits this long for the others to close first, so that DONE is not lost with the
 * connection */
#define RELEASE_MS 500u

/* Behind those of life_events.h: one for each timer. A deadline that is over stays over. */
enum timer_event {
    EVENT_DRAIN_LATE = EVENT_SEEN_N,
    EVENT_STATS_LATE,  /* our managers */
    EVENT_NODES_LATE,  /* the head: the other nodes; others: DONE */
    EVENT_RECORD_LATE, /* the record is not written */
    EVENT_GRACE_OVER,  /* clients had their time to see the end */
    EVENT_RELEASE_LATE,
    EVENT_N
};
#define TIMER_N (EVENT_N - EVENT_SEEN_N)

struct life_timer {
    struct timer timer;
    struct supervisor *s;
    unsigned event; /* enum timer_event */
};
struct lifecycle {
    struct life_timer timers[TIMER_N];
    int drain_ms; /* the shortest time to drain that anybody asked for */
};

static const char *const stage_names[] = {
    [STAGE_STARTING] = "STARTING",   [STAGE_READY] = "READY",         [STAGE_DRAINING] = "DRAINING",
    [STAGE_SAVING] = "SAVING",       [STAGE_ENDING] = "ENDING",       [STAGE_REPORTED] = "REPORTED",
    [STAGE_GATHERING] = "GATHERING", [STAGE_RECORDING] = "RECORDING", [STAGE_OVER] = "OVER"};

static void lifecycle_event(struct supervisor *s, unsigned event, const struct drain_wish *wish);

/* The only place that changes the stage. */
static void stage_enter(struct supervisor *s, enum stage next) {
    log_debug("lifecycle: %s -> %s", stage_names[s->stage], stage_names[next]);
    s->stage = next;
}

/* --- timers --- */
static void life_timer_fire(struct timer *t) {
    struct life_timer *l =
        (struct life_timer *)(void *)((char *)t - offsetof(struct life_timer, timer));
    lifecycle_event(l->s, l->event, NULL);
}

static struct timer *life_timer(struct supervisor *s, enum timer_event event) {
    return &s->lifecycle->timers[event - EVENT_SEEN_N].timer;
}

static void life_timer_arm(struct supervisor *s, enum timer_event event, unsigned ms) {
    struct timer *t = life_timer(s, event);
    /* no memory for the timer: the deadline is now */
    if (timer_after(&s->timers, t, ms * 1000000ull) < 0)
        t->fire(t);
}

/* Of a timer that was armed before. */
static bool is_late(struct supervisor *s, enum timer_event event) {
    return !life_timer(s, event)->pos;
}

/* --- STARTING -> READY --- */
static void ready_begin(struct supervisor *s, const struct drain_wish *wish) {
    stage_enter(s, STAGE_READY);
    s->was_ready = true;
    s->ready_at = clock_ns();
    timer_clear(&s->timers, &s->start_timer);
    status_page_set(s, STATUS_READY, "");
    log_info("ready: %u managers on this node, %u in all", s->local_n, s->managers);
    char id[33];
    if (control_decides(s)) /* before the answer that lets another start print `exists` */
        startup_print("ready id=%s managers=%u nodes=%u mem=%llu%s",
                      hex_format(id, s->identity.dict_id), s->managers, s->nodes,
                      (unsigned long long)s->total_bytes,
                      s->script.fd >= 0 ? " script=watched" : "");
    watch_start(s);
    grants_ready(s);
    clients_serve_parked(s);
    if (!control_decides(s))
        return;
    record_start(s);
    results_start(s);
    tasks_ready(s);
    save_passes_begin(s);
}

/* --- DRAINING, SAVING --- */

/* How much longer END is awaited. Who decides may be lost just now, and another one be found: but
 * after a signal SIGKILL is next, for which nobody waits. */
static unsigned orphan_ms(const struct supervisor *s) {
    if (control_decides(s))
        return 0;
    return survives_nodes(s) && s->reason != REASON_SIGNAL ? DD_TAKEOVER_MS : ORPHAN_MS;
}

static void drain_time_set(struct supervisor *s, int wait_ms) {
    s->lifecycle->drain_ms = wait_ms;
    life_timer_arm(s, EVENT_DRAIN_LATE, (unsigned)wait_ms + orphan_ms(s));
    control_drain(s, wait_ms); /* a node that has heard it already does not pass it on */
}

static void drain_begin(struct supervisor *s, const struct drain_wish *wish) {
    stage_enter(s, STAGE_DRAINING);
    s->reason = wish->why;
    drain_time_set(s, wish->wait_ms);
    log_info("draining: %u clients are attached", s->attached);
    status_page_set(s, STATUS_DRAINING, "the dictionary is ending");
    clients_refuse_new(s);
    lifecycle_check(s);
}

static void drain_hurry(struct supervisor *s, const struct drain_wish *wish) {
    if (wish->wait_ms < s->lifecycle->drain_ms)
        drain_time_set(s, wish->wait_ms);
}

/* Who decides: nobody uses the dictionary any more, or the time for it is over. */
static void drain_done(struct supervisor *s) {
    if (save_passes_last_begin(s))
        stage_enter(s, STAGE_SAVING); /* supervisor_end() follows */
    else
        supervisor_end(s);
}

static void drain_check(struct supervisor *s, const struct drain_wish *wish) {
    if (!control_decides(s))
        control_drained(s);
    else if (!takeover_waits(s) &&
             ((s->attached == 0 && control_all_drained(s)) || is_late(s, EVENT_DRAIN_LATE)))
        drain_done(s);
}

static void drain_moved(struct supervisor *s, const struct drain_wish *wish) {
    if (control_decides(s)) {
        drain_time_set(s, s->lifecycle->drain_ms);
        return;
    }
    control_drain(s, s->lifecycle->drain_ms);
    control_drained(s);
}

/* Another node leads the last pass now. */
static void saving_moved(struct supervisor *s, const struct drain_wish *wish) {
    stage_enter(s, STAGE_DRAINING);
    drain_time_set(s, s->lifecycle->drain_ms);
    drain_check(s, wish);
}

static void drain_late(struct supervisor *s, const struct drain_wish *wish) {
    if (control_decides(s)) {
        drain_check(s, wish);
        return;
    }
    if (s->opt.save) /* who decides will send END, or be lost */
        return;
    supervisor_end(s);
    control_parent_late(s);
}

/* --- ENDING: statistics of our managers --- */
static void ending_begin(struct supervisor *s, const struct drain_wish *wish) {
    unsigned late_ms = control_is_head(s) ? 0 : DD_FIGURES_LATE_MS;
    stage_enter(s, STAGE_ENDING);
    timer_clear(&s->timers, life_timer(s, EVENT_DRAIN_LATE));
    timer_clear(&s->timers, &s->start_timer);
    clients_refuse_new(s);
    managers_stats_ask(s);
    life_timer_arm(s, EVENT_STATS_LATE, DD_FIGURES_MS);
    life_timer_arm(s, EVENT_NODES_LATE, DD_FIGURES_ALL_MS + late_ms);
    life_timer_arm(s, EVENT_RECORD_LATE, DD_RECORD_MS + late_ms);
    life_timer_arm(s, EVENT_GRACE_OVER, DD_DRAIN_GRACE_MS);
    lifecycle_check(s);
}

static void end_begin(struct supervisor *s, const struct drain_wish *wish) {
    status_page_set(s, STATUS_GONE,
                    s->reason == REASON_ALONE ? "the dictionary has ended: " REASON_ALONE_TEXT
                                              : "the dictionary has ended");
    control_end(s);
    ending_begin(s, wish);
}

static void stats_check(struct supervisor *s, const struct drain_wish *wish) {
    if (!managers_stats_are_in(s) && !is_late(s, EVENT_STATS_LATE))
        return;
    stage_enter(s, control_is_head(s) ? STAGE_GATHERING : STAGE_REPORTED);
    control_stats_send(s);
    lifecycle_check(s);
}

static void stats_late(struct supervisor *s, const struct drain_wish *wish) {
    managers_stats_rescue(s);
    stats_check(s, wish);
}

/* The other nodes still have to connect to us. */
static void head_times_set(struct supervisor *s, unsigned nodes_ms) {
    life_timer_arm(s, EVENT_NODES_LATE, nodes_ms);
    life_timer_arm(s, EVENT_RECORD_LATE, DD_RECORD_MS - DD_FIGURES_MS);
}

static void head_begin_early(struct supervisor *s, const struct drain_wish *wish) {
    head_times_set(s, DD_FIGURES_MS + DD_FIGURES_LATE_MS);
}

/* --- REPORTED: not the head --- */
static void head_begin(struct supervisor *s, const struct drain_wish *wish) {
    stage_enter(s, STAGE_GATHERING);
    head_times_set(s, DD_FIGURES_LATE_MS);
    lifecycle_check(s);
}

static void parent_late(struct supervisor *s, const struct drain_wish *wish) {
    control_parent_late(s);
    lifecycle_check(s);
}

static void over_begin(struct supervisor *s);

static void clients_see_end(struct supervisor *s) {
    if (s->attached == 0 || is_late(s, EVENT_GRACE_OVER))
        over_begin(s);
}

static void reported_check(struct supervisor *s, const struct drain_wish *wish) {
    if (control_released(s) || is_late(s, EVENT_RECORD_LATE))
        clients_see_end(s);
}

/* --- GATHERING, RECORDING: the head --- */
static void nodes_check(struct supervisor *s, const struct drain_wish *wish) {
    if (!control_all_ended(s) && !is_late(s, EVENT_NODES_LATE))
        return;
    stage_enter(s, STAGE_RECORDING);
    if (s->was_ready)
        report_record(s);
    control_release(s); /* the child that writes the record does not need them */
    life_timer_arm(s, EVENT_RELEASE_LATE, RELEASE_MS);
    lifecycle_check(s);
}

static void recording_check(struct supervisor *s, const struct drain_wish *wish) {
    if (record_writer_is_busy(s) && !is_late(s, EVENT_RECORD_LATE))
        return;
    if (control_alone(s) || is_late(s, EVENT_RELEASE_LATE))
        clients_see_end(s);
}

static void record_late(struct supervisor *s, const struct drain_wish *wish) {
    record_writer_late(s);
    recording_check(s, wish);
}

/* --- OVER --- */
static void over_begin(struct supervisor *s) {
    char summary[REPORT_SUMMARY_MAX];
    stage_enter(s, STAGE_OVER);
    for (size_t i = 0; i < TIMER_N; i++)
        timer_clear(&s->timers, &s->lifecycle->timers[i].timer);
    /* without replicas the loss of node 0 is all that the starter hears */
    if (s->cut_off || (survives_nodes(s) ? !control_is_head(s) : s->node_id != 0))
        return;
    if (s->was_ready) {
        report_print(s);
        report_summary(s, summary);
        clients_end_tell(s, summary);
        startup_print_text("summary", summary);
    }
    if (s->was_ready || !s->lost)
        startup_print("end");
}

void lifecycle_abandon(struct supervisor *s) {
    stage_enter(s, STAGE_OVER);
}

/* --- the table --- */
typedef void event_handler(struct supervisor *s, const struct drain_wish *wish);

/* What an event does in a stage; NULL: nothing. */
static event_handler *const handlers[STAGE_OVER + 1][EVENT_N] = {
    [STAGE_STARTING] = {[EVENT_READY] = ready_begin,
                        [EVENT_DRAIN] = drain_begin,
                        [EVENT_END] = end_begin,
                        [EVENT_LOST] = ending_begin},
    [STAGE_READY] =
        {[EVENT_DRAIN] = drain_begin, [EVENT_END] = end_begin, [EVENT_LOST] = ending_begin},
    [STAGE_DRAINING] = {[EVENT_DRAIN] = drain_hurry,
                        [EVENT_END] = end_begin,
                        [EVENT_LOST] = ending_begin,
                        [EVENT_MOVED] = drain_moved,
                        [EVENT_CHANGE] = drain_check,
                        [EVENT_DRAIN_LATE] = drain_late},
    [STAGE_SAVING] = {[EVENT_DRAIN] = drain_hurry,
                      [EVENT_MOVED] = saving_moved,
                      [EVENT_END] = end_begin,
                      [EVENT_LOST] = ending_begin},
    [STAGE_ENDING] = {[EVENT_HEAD] = head_begin_early,
                      [EVENT_CHANGE] = stats_check,
                      [EVENT_STATS_LATE] = stats_late},
    [STAGE_REPORTED] = {[EVENT_HEAD] = head_begin,
                        [EVENT_CHANGE] = reported_check,
                        [EVENT_NODES_LATE] = parent_late,
                        [EVENT_RECORD_LATE] = reported_check,
                        [EVENT_GRACE_OVER] = reported_check},
    [STAGE_GATHERING] = {[EVENT_CHANGE] = nodes_check, [EVENT_NODES_LATE] = nodes_check},
    [STAGE_RECORDING] = {[EVENT_CHANGE] = recording_check,
                         [EVENT_RECORD_LATE] = record_late,
                         [EVENT_GRACE_OVER] = recording_check,
                         [EVENT_RELEASE_LATE] = recording_check},
};

static void lifecycle_event(struct supervisor *s, unsigned event, const struct drain_wish *wish) {
    event_handler *handler = handlers[s->stage][event];
    if (handler)
        handler(s, wish);
}

/* Of the first cause of a loss. */
static void lost_tell(struct supervisor *s) {
    /* At the end of a job Slurm kills nodes in any order: that is no error of the dictionary. */
    if (s->stage < STAGE_DRAINING || s->reason != REASON_SIGNAL)
        s->exit_code = 1;
    status_page_set(s, STATUS_LOST, s->text);
    log_error("%s", s->text);
    startup_print("error %s%s",
                  s->cut_off       ? "cause=cut "
                  : s->lost_memory ? "cause=memory "
                                   : "",
                  s->text);
    control_lost(s);
    if (s->was_ready && control_is_head(s))
        record_lost(s);
    save_passes_lost(s);
}

static void head_tell(struct supervisor *s) {
    log_info("writes the record: the nodes before this one are gone");
    if (s->lost)
        record_lost(s);
}

/* Some are told in every stage. */
static void event_seen(struct supervisor *s, enum life_event event, const struct drain_wish *wish) {
    if (event == EVENT_LOST)
        lost_tell(s);
    if (event == EVENT_HEAD)
        head_tell(s);
    lifecycle_event(s, event, wish);
}

int lifecycle_init(struct supervisor *s) {
    s->lifecycle = calloc(1, sizeof *s->lifecycle);
    if (!s->lifecycle)
        return dd_error(-ENOMEM, "no memory");
    for (unsigned i = 0; i < TIMER_N; i++)
        s->lifecycle->timers[i] =
            (struct life_timer){.timer.fire = life_timer_fire, .s = s, .event = EVENT_SEEN_N + i};
    life_events_go_to(event_seen);
    return 0;
}
