/* SPDX-License-Identifier: Apache-2.0 */
/* refill_child.h - the child of ddictd that reads sets again, for keys that began anew on this node. */
#ifndef DDICT_SUPERVISOR_REFILL_CHILD_H
#define DDICT_SUPERVISOR_REFILL_CHILD_H

#include "supervisor.h"

struct refill_said { /* what became of it */
    uint64_t sets, items, bytes;
    bool failed; /* of a set at least: why, else "" */
    char why[256];
};

/* Begins to read what belongs to these owners; refill_over() (refill.h) tells of the end. One at a time:
 * 0, -EBUSY, or negative with the sentence. */
int refill_begin(struct supervisor *s, const uint32_t *owners, unsigned n);
void refill_child_end(struct supervisor *s);

#endif
