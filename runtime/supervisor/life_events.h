/* SPDX-License-Identifier: Apache-2.0 */
/*
 * life_events.h - what happens to a dictionary. Whoever sees it says it here; lifecycle.c decides
 * what is done about it.
 */
#ifndef DDICT_SUPERVISOR_LIFE_EVENTS_H
#define DDICT_SUPERVISOR_LIFE_EVENTS_H

#include "supervisor.h"

enum life_event {
    EVENT_READY, /* all nodes are ready */
    EVENT_DRAIN, /* stdin, SIGTERM, `ddict down`, or DRAIN of another node */
    EVENT_END,   /* nobody needs the dictionary any more, or END of who decides */
    EVENT_LOST,  /* a manager died, a node was lost, something could not start */
    EVENT_HEAD,  /* the nodes before this one are gone */
    EVENT_MOVED, /* another node decides than before: we, or our parent, which knows nothing of us */
    EVENT_CHANGE, /* a client left, statistics came, the record is written, ... */
    EVENT_SEEN_N
};
struct drain_wish { /* what comes with EVENT_DRAIN */
    int wait_ms;
    enum end_reason why;
};
typedef void life_handler(struct supervisor *s, enum life_event event,
                          const struct drain_wish *wish);

/* Who gets the events; to be said before the first one. */
void life_events_go_to(life_handler *fn);

void supervisor_ready(struct supervisor *s);
void supervisor_drain(struct supervisor *s, int wait_ms, enum end_reason why);
void supervisor_end(struct supervisor *s);
/* The first cause counts: s->text is why. */
void supervisor_lost(struct supervisor *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void lifecycle_moved(struct supervisor *s);
void lifecycle_become_head(struct supervisor *s); /* we write the record */
void lifecycle_check(struct supervisor *s);       /* the end may have waited for what has changed */

#endif
