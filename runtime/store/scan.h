/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.h - the scan after which retired blocks are free. A small one is made at once (lease.c); a
 * large one in parts, some in a turn: it begins with the fence, notes all leases, and then frees
 * what was retired before the fence (I6) and is held by nobody. Blocks that are retired meanwhile
 * are for the next scan. The store's own thread calls all of it.
 */
#ifndef DDICT_STORE_SCAN_H
#define DDICT_STORE_SCAN_H

#include "state.h"

bool scan_wanted(const struct store *s);
/* True: a scan takes a millisecond or two, if there are about as many leases as last time. */
bool scan_small(const struct store *s);
/* make a scan if it is small; a large one only for a request that cannot wait */
bool scan_at_once(struct store *s);
/*
 * For a caller that wants retired blocks to be free, or to know which blocks are leased (look), and
 * that can call again in later turns: true when a scan that began after the first call is over.
 * *number: 0 at the first call, and 0 again when the scan is over. A small scan is made at once.
 */
bool scan_over(struct store *s, uint64_t *number, bool look);
/* The same for the request at hand: 0, or -EINPROGRESS. A request that cannot wait goes on without
 * a large scan, which is made soon. */
int scan_for_room(struct store *s);

#endif
