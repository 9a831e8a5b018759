/* SPDX-License-Identifier: Apache-2.0 */
/* aside.h - a thread that gives back the memory of clients that have gone. */
#ifndef DDICT_MANAGER_ASIDE_H
#define DDICT_MANAGER_ASIDE_H

#include "backlog.h"
#include "manager.h"

/* Takes over lane, leases and backlog: unmaps, closes and frees them. */
void aside_free(struct manager *m, struct lane *lane, const struct lease_chunk *leases,
                struct backlog *backlog);
void aside_end(struct manager *m);

#endif
