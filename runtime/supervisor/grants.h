/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grants.h - leases, with --replicas=2 (PROTOCOL 13): a node serves only for a while after it said
 * something to who decides, which that has answered; and that answers only when a majority of the
 * voters has answered what it asked them since (a round). Who decides needs a lease as well, from
 * when it began such a round, but where there are two nodes from the start. Times are of
 * CLOCK_BOOTTIME, so that a node which was suspended finds its lease over.
 */
#ifndef DDICT_SUPERVISOR_GRANTS_H
#define DDICT_SUPERVISOR_GRANTS_H

#include "supervisor.h"

/* beats that may be answered; an answer to an older one is too old anyhow */
#define GRANT_BEATS 32u

struct grant_ask { /* a beat of another node */
    uint32_t number,
        round; /* to be answered when a majority has answered this round; number 0: none */
};
struct grants {
    struct supervisor *s;
    /* a timerfd: when the lease ends. Timers of base/timers.h stand still while we do, but nobody may
     * read here in the meantime */
    struct io_handler over;
    uint32_t number;            /* of the last beat to who decides; from 1 */
    uint64_t sent[GRANT_BEATS]; /* by number */
    uint64_t lease;             /* serve until then; 0: our managers are not ready */
    bool suspended;
    /* who decides */
    uint32_t round, reached; /* the last one, and the last that a majority answered; from 1 */
    uint64_t round_sent[GRANT_BEATS]; /* by round */
    uint64_t round_at;                /* of the last one, by our timers */
    uint32_t *answered;               /* [nodes]: their last round */
    struct grant_ask (*asks)[2];      /* [nodes]: in the order of their rounds */
    struct timer next_round;
};

int grants_init(struct supervisor *s); /* -ENOMEM, or the failure of timerfd_create() */
/* READY goes to node 0 next, without which it does not say that all are: the first lease counts from
 * here. */
void grants_begin(struct supervisor *s);
/* A beat goes to who decides now: its number; 0: leases are not needed. */
uint32_t grants_beat(struct supervisor *s);
/* It has heard that one, and answers. */
void grants_heard(struct supervisor *s, uint32_t number);
/* All nodes are ready: from now on this one needs a lease. */
void grants_ready(struct supervisor *s);
/* A manager or shadow that is about to start. */
void grants_page(const struct local_manager *mgr);
/* We serve, as far as that depends on a lease. */
bool grants_valid(const struct supervisor *s);
void grants_end(struct supervisor *s);

/* --- who decides --- */
void grants_decide(struct supervisor *s); /* we do from now on */
void grants_round(struct supervisor *s);  /* each beat */
void grants_asked(struct supervisor *s, uint32_t node,
                  uint32_t number); /* a node has sent this beat */
void grants_answered(struct supervisor *s, uint32_t node, uint32_t round);

#endif
