/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - an exchange between ranks through the dictionary, by the public calls of libddict.
 * One thread at a time uses a struct gather. */
#ifndef DDICT_RT_EXCHANGE_H
#define DDICT_RT_EXCHANGE_H

#include <base/clock.h>
#include <ddict.h>
#include <ddict_runtime.h>

struct gather {
    ddict_t *d;
    const char *group; /* borrowed */
    int rank, size;
    unsigned generation; /* exchanges begun */
    int unread;          /* rank 0: some ranks may not have read the last exchange yet */
};

/* Attach, as one of `size` ranks of a group. 0 or a DDICT_E* code, -ETIMEDOUT, ... with the
 * sentence set. */
int gather_open(struct gather *g, const char *group, int rank, int size, struct deadline *d);
/* As ddict_rt_exchange(). */
int gather_exchange(struct gather *g, const void *data, size_t len, struct ddict_rt_bytes **all,
                    struct deadline *d);
/* Leave. Rank 0 waits, at most until d, until the others have read, and removes the keys that are
 * left. */
void gather_close(struct gather *g, struct deadline *d);

#endif
