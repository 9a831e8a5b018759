/* SPDX-License-Identifier: Apache-2.0 */
/* aside.h - the memory of clients that have gone is given back in a thread of its own. */
#ifndef DDICT_MANAGER_ASIDE_H
#define DDICT_MANAGER_ASIDE_H

#include "backlog.h"
#include "manager.h"

/* Unmap, close and free what was a client's; the caller must not use it any more. */
void aside_free(struct manager *m, struct lane *lane, const struct lease_chunk *leases,
                struct backlog *backlog);
void aside_end(struct manager *m);

#endif
