/* SPDX-License-Identifier: Apache-2.0 */
/*
 * election.h - with --replicas=2 on three nodes or more: which of them decides (PROTOCOL 13). Node 0
 * does at the start, in term 0. A node that has lost who decides looks for another: it asks all for
 * their votes in a term of its own, or gives its own to one that asks. Who has a majority goes on
 * from the newest map among theirs. A node that finds nobody within DD_VOTE_LOST_MS is lost. One
 * thread.
 */
#ifndef DDICT_SUPERVISOR_ELECTION_H
#define DDICT_SUPERVISOR_ELECTION_H

#include "control.h"
#include "held_map.h"
#include "supervisor.h"

struct election {
    struct supervisor *s;
    uint64_t term;                /* the newest that we know of: nothing older is accepted */
    uint64_t since;               /* we decide since then, by our timers; 0: from the start */
    uint64_t began;               /* looks: since when, by our timers */
    uint64_t voted;               /* when we gave our vote to another, likewise; 0: not */
    bool looks;                   /* nobody decides, as far as we know */
    bool stands;                  /* ... and we have asked for votes in `term` */
    bool counted;                 /* who decides: a map of our term counts */
    bool closed;                  /* the connection of `before` ended */
    uint32_t before;              /* who decided before, as we know */
    bool *yes;                    /* [nodes]: voted for us in `term` */
    struct map_state best, heard; /* the newest of those that voted; of a message */
    struct timer timer;
    bool due; /* there was no memory for the timer: the next beat takes its place */
};

int election_init(struct supervisor *s); /* behind held_map_init(); -ENOMEM */
void election_end(struct supervisor *s);
/* Who decides is lost to us; closed: its connection has ended. True: we look for another; false: there
 * can be none. */
bool election_begin(struct supervisor *s, uint32_t node, bool closed);
/* There can be one if that node is lost. */
bool election_can_lose(const struct supervisor *s, uint32_t node);
/* Who decides: if our lease is over others may have gone on without us: we look as well. True: so it
 * is. */
bool election_steps_down(struct supervisor *s);
/* Each beat. A look that has no timer is made. Who decides, but has lost so many nodes that no map can
 * count, steps down when its lease is over; else nodes that do not hold its map are told again. */
void election_look(struct supervisor *s);
uint64_t election_since(const struct supervisor *s); /* we decide since then, by our timers */
void election_counts(struct supervisor *s);          /* a map that we have proposed counts */
void election_connected(struct supervisor *s, uint32_t node); /* our connection to ask it is up */

struct round_word { /* payload of CTL_ROUND */
    uint64_t term;
    uint32_t round, unused;
};
control_heard vote_heard, voted_heard, hold_map_heard, held_heard, map_heard, round_heard;

#endif
