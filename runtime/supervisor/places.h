/* SPDX-License-Identifier: Apache-2.0 */
/* places.h - what hwloc knows of this node. */
#ifndef DDICT_SUPERVISOR_PLACES_H
#define DDICT_SUPERVISOR_PLACES_H

#include "supervisor.h"

void manager_places_find(struct supervisor *s); /* before managers start */
/* Of the i-th manager of this node, NULL: it is not bound; *need: bytes of all arenas there. */
const struct numa_place *manager_place(const struct supervisor *s, unsigned i, uint64_t *need);

/* of the map of this node's GPUs, ours; or a negative code with a sentence */
int gpus_fd(struct supervisor *s);

#endif
