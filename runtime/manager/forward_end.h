/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward_end.h - the end of a forward. A forward is freed once, by the manager's only thread, and
 * in any state: what it holds (block, RMA read, places in lists, id, peer) is given back with it.
 * Nobody is answered and the owner is told nothing here. Its followers must have left, or been
 * answered, before.
 */
#ifndef DDICT_MANAGER_FORWARD_END_H
#define DDICT_MANAGER_FORWARD_END_H

#include "manager.h"

struct forward;
struct ledger_entry;

void forward_detach(struct forward *f); /* the requester is gone, or was answered */
void forward_free(struct manager *m, struct forward *f);
void forward_end(struct manager *m, struct forward *f); /* after its answer: counts its time, too */
/* An answer that waited for room stands in CQ, or nobody takes it any more: the entry of its request
 * ends, and if that went to another manager what is kept for it. */
void forward_entry_over(struct manager *m, struct ledger_entry *e);

#endif
