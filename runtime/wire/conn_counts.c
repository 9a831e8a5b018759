/* SPDX-License-Identifier: Apache-2.0 */
/* conn_counts.c - what the connections of this process have carried. */
#include "conn_counts.h"

#include <base/log.h>

#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 900 /* less than that of log.c */

static struct {
    uint64_t opened, accepted;
    struct {
        uint64_t sent, sent_bytes, heard, heard_bytes;
    } of[MSG_TYPE_N];
} counts;

void conn_counts_up(bool opener) {
    counts.opened += opener;
    counts.accepted += !opener;
}

void conn_counts_sent(const struct msg *m) {
    counts.of[m->type].sent++;
    counts.of[m->type].sent_bytes += m->len;
}

void conn_counts_heard(const struct msg *m) {
    counts.of[m->type].heard++;
    counts.of[m->type].heard_bytes += m->len;
}

void conn_counts_reset(void) {
    memset(&counts, 0, sizeof counts);
}

void conn_counts_log(void) {
    char line[LINE_MAX_BYTES];
    size_t at = 0;
    line[0] = '\0';
    for (unsigned t = 0; t < MSG_TYPE_N && at < sizeof line; t++)
        if (counts.of[t].sent || counts.of[t].heard)
            at += (size_t)snprintf(line + at, sizeof line - at, " %s=%llu/%llu/%llu/%llu",
                                   msg_name(t), (unsigned long long)counts.of[t].sent,
                                   (unsigned long long)counts.of[t].sent_bytes,
                                   (unsigned long long)counts.of[t].heard,
                                   (unsigned long long)counts.of[t].heard_bytes);
    log_debug("counts opened=%llu accepted=%llu%s", (unsigned long long)counts.opened,
              (unsigned long long)counts.accepted, line);
}
