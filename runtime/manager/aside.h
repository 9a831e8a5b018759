/* SPDX-License-Identifier: Apache-2.0 */
/* aside.h - a thread that gives back the memory of clients that have gone. */
#ifndef DDICT_MANAGER_ASIDE_H
#define DDICT_MANAGER_ASIDE_H

#include "backlog.h"
#include "manager.h"

/* Takes over lane and leases: unmaps and closes them. */
void aside_free(struct manager *m, struct lane *lane, const struct lease_chunk *leases);
/* Takes over the memory of a backlog, which is empty then. */
void aside_backlog(struct manager *m, struct backlog *backlog);
void aside_end(struct manager *m);

#endif
