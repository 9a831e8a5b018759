/* SPDX-License-Identifier: Apache-2.0 */
/* lost_keys.h - whether keys of a manager were lost with a node (--refill). */
#ifndef DDICT_COMMON_LOST_KEYS_H
#define DDICT_COMMON_LOST_KEYS_H

#include <ddict.h>

#define LOST_LOOK_MS 2000 /* time for a manager whose keys may be read again now */
/* how keys of copies begin by which sets are read again (SETS 4) */
#define SET_COPY_HEAD "t\x0d\0\0\0sddict.refill"

/* 1: they began anew, and what is not there may have been lost; 0: they did not, or the manager owns
 * no keys; or a negative code of libddict. While they are read again it waits for that, at most the
 * time, as of libddict's calls: then -ETIMEDOUT. */
int manager_lost_keys_within(ddict_t *d, unsigned manager, int timeout_ms);

#endif
