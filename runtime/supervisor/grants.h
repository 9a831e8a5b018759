/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grants.h - leases, with --replicas=2 (PROTOCOL 13): a node other than 0 serves only for a while
 * after it said something that node 0 has heard. Times are of CLOCK_BOOTTIME, so that a node which
 * was suspended finds its lease over.
 */
#ifndef DDICT_SUPERVISOR_GRANTS_H
#define DDICT_SUPERVISOR_GRANTS_H

#include "supervisor.h"

/* beats that may be answered; an answer to an older one is too old anyhow */
#define GRANT_BEATS 32u

struct grants {
    struct supervisor *s;
    /* a timerfd: when the lease ends. Timers of base/timers.h stand still while we do, but nobody may
     * read here in the meantime */
    struct io_handler over;
    uint32_t number;            /* of the last beat to node 0; from 1 */
    uint64_t sent[GRANT_BEATS]; /* by number */
    uint64_t lease;             /* serve until then; 0: our managers are not ready */
    bool suspended;
};

int grants_init(struct supervisor *s); /* -ENOMEM, or the failure of timerfd_create() */
/* READY goes to node 0 next, without which it does not say that all are: the first lease counts from
 * here. */
void grants_begin(struct supervisor *s);
/* A beat goes to node 0 now: its number; 0: leases are not needed. */
uint32_t grants_beat(struct supervisor *s);
/* Node 0 has heard that one. */
void grants_heard(struct supervisor *s, uint32_t number);
/* All nodes are ready: from now on this one needs a lease. */
void grants_ready(struct supervisor *s);
/* A manager or shadow that is about to start. */
void grants_page(const struct local_manager *mgr);
void grants_end(struct supervisor *s);

#endif
