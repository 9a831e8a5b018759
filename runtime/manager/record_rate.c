/* SPDX-License-Identifier: Apache-2.0 */
/* record_rate.c - events that a manager reports to ddictd for the record: the first at once, then
 * at most one message in DD_NOTE_MS, with the number of events since. */
#include "record_rate.h"

#include "manager.h"
#include "supmsg.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>

#include <stdio.h>

static void note_send(struct manager *m, enum sup_type type, struct note_pace *p,
                      const char *text) {
    static struct sup_msg s;
    uint64_t now = clock_ns();
    if (p->count == 0 || (p->said && now - p->said < DD_NOTE_MS * 1000000ull))
        return;
    s.type = type;
    s.count = p->count;
    s.used_bytes = m->header->used_bytes;
    s.total_bytes = m->header->budget;
    snprintf(s.text, sizeof s.text, "%s", text);
    /* the socket is full: they go with the next one */
    if (sup_send(m->setup->sup_fd, &s, NULL, 0) < 0)
        return;
    p->said = now;
    p->count = 0;
}

void note_full(struct manager *m, const char *text) {
    m->full.count++;
    note_send(m, SUP_FULL, &m->full, text);
}

void note_trouble(struct manager *m, const char *text) {
    log_error("%s", text);
    m->full.count++;
    m->full.said = 0; /* at once */
    note_send(m, SUP_FULL, &m->full, text);
}

void note_refused(struct manager *m, int code) {
    uint64_t all = conn_refused();
    m->refused.count += all - m->refused_all;
    m->refused_all = all;
    note_send(m, SUP_REFUSED, &m->refused, dd_strerror(code));
}
