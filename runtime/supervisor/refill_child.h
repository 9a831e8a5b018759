/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refill_child.h - the child of ddictd that reads sets again, for keys that began anew on this node:
 * `ddict load --refill` (SETS 4). It is a client for which the dictionary does not wait at its end,
 * and ends with ddictd.
 */
#ifndef DDICT_SUPERVISOR_REFILL_CHILD_H
#define DDICT_SUPERVISOR_REFILL_CHILD_H

#include "supervisor.h"

struct refill_said {      /* what became of it */
    uint64_t sets, items; /* sets of which something was put */
    bool failed;          /* of a set at least: why, else "" */
    bool again;           /* it did, and another try may help */
    char why[256];
};

/* The child that had begun for these owners has ended. */
typedef void refill_ended(struct supervisor *s, const uint32_t *owners, unsigned n,
                          const struct refill_said *said);
/* Begins to read what belongs to these owners; ended() is called once, at the latest after
 * DD_REFILL_MS. One at a time: 0, -EBUSY, or negative with the sentence. */
int refill_child_begin(struct supervisor *s, const uint32_t *owners, unsigned n,
                       refill_ended *ended);
bool refill_child_is(pid_t pid);
void refill_child_reap(struct supervisor *s); /* SIGCHLD */
/* Kills it; ended() is not called any more. refill_child_begin() says -EBUSY until it was reaped. */
void refill_child_stop(struct supervisor *s);
void refill_child_end(struct supervisor *s); /* likewise, for good */

#endif
