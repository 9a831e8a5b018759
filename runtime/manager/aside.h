/* SPDX-License-Identifier: Apache-2.0 */
/* aside.h - the memory of clients that have gone is given back in a thread of its own. */
#ifndef DDICT_MANAGER_ASIDE_H
#define DDICT_MANAGER_ASIDE_H

#include "manager.h"

/* unmap and close what was a client's; it is not there any more for the caller */
void aside_free(struct manager *m, struct lane *lane, const struct lease_chunk *leases);
void aside_end(struct manager *m);

#endif
