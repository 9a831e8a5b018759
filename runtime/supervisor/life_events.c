/* SPDX-License-Identifier: Apache-2.0 */
/* life_events.c - pass events to the lifecycle. */
#include "life_events.h"

#include "supervisor.h"
#include <base/text.h>

#include <stdarg.h>
#include <stdio.h>

static life_handler *handler;

void life_events_go_to(life_handler *fn) {
    handler = fn;
}

void supervisor_ready(struct supervisor *s) {
    handler(s, EVENT_READY, NULL);
}

void supervisor_drain(struct supervisor *s, int wait_ms, enum end_reason why) {
    if (s->opt.results && wait_ms < DD_RESULTS_END_MS)
        wait_ms = DD_RESULTS_END_MS;
    handler(s, EVENT_DRAIN, &(struct drain_wish){.wait_ms = wait_ms, .why = why});
}

void supervisor_end(struct supervisor *s) {
    handler(s, EVENT_END, NULL);
}

void supervisor_lost(struct supervisor *s, const char *fmt, ...) {
    va_list ap;
    if (s->lost || s->stage == STAGE_OVER)
        return;
    va_start(ap, fmt);
    vsnprintf(s->text, sizeof s->text, fmt, ap);
    va_end(ap);
    text_plain(s->text); /* the text may come from another node */
    s->lost = true;
    handler(s, EVENT_LOST, NULL);
}

void lifecycle_become_head(struct supervisor *s) {
    handler(s, EVENT_HEAD, NULL);
}

void lifecycle_moved(struct supervisor *s) {
    handler(s, EVENT_MOVED, NULL);
}

void lifecycle_check(struct supervisor *s) {
    handler(s, EVENT_CHANGE, NULL);
}
