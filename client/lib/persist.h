/* SPDX-License-Identifier: Apache-2.0 */
/* persist.h - states on disk, for the other files of libddict. */
#ifndef DDICT_LIB_PERSIST_H
#define DDICT_LIB_PERSIST_H

#include "handle.h"

/*
 * The checkpoints from .. to - 1 are about to be retired: those that --persist's freq= says are saved
 * first. One process of the dictionary saves, and the others wait for it, for at most
 * DD_PERSIST_TURN_MS, whatever the time of the call is; one that dies is replaced. 0, at once where
 * there is nothing to do; or a negative code with the sentence: they must not be retired.
 */
int persist_retiring(ddict_t *d, const struct session *s, uint64_t from, uint64_t to);

#endif
