/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recovery.h - a later life of the manager goes on with the requests of clients that the life before
 * had taken (PROTOCOL 12). recovery.c has a table of what can have become of them.
 */
#ifndef DDICT_MANAGER_RECOVERY_H
#define DDICT_MANAGER_RECOVERY_H

#include "manager.h"

/*
 * Once, before it knows a client: what requests name that wait is kept. A client could name the same
 * in its completion queue. 0; -ENOMEM with the sentence set: the process must end, and with it the
 * dictionary, rather than forget one.
 */
int recovery_begin(struct manager *m);
/*
 * Once, at SUP_GO: all clients and lease pages are known, and nothing was changed in the arena since
 * it was opened. Each request is answered, or waits again, or is in SQ for the first turn.
 */
void recovery_go_on(struct manager *m);

#endif
