/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replica_primary.h - a primary and its backup (PROTOCOL 13): the connection, over which changes in
 * flight go in their order, and the end of that when the map has no backup any more.
 *
 *     SYNC, then of each key of which the backup may have what the life before had sent: its values
 *     as they are here (REPL_DEL, LIMIT, PUT, APPEND ...); then REPL of each change in flight    <- ACK
 *
 * A backup that is not whole is filled meanwhile (replica_copy.h).
 */
#ifndef DDICT_MANAGER_REPLICA_PRIMARY_H
#define DDICT_MANAGER_REPLICA_PRIMARY_H

#include "manager.h"

struct sup_msg;
struct ledger_entry;

/* Nothing where this process is no primary, or has no backup. */
int replica_primary_init(struct manager *m);
void replica_primary_free(struct manager *m);
/* Once a turn: send, commit what was acknowledged. True: something was committed. */
bool replica_primary_turn(struct manager *m);
/* Behind a share of requests: what they changed leaves with the next io_wait(). */
void replica_primary_send(struct manager *m);
/* SUP_MAP of its own keys; m->primary and m->flights may be gone behind it, or be there anew. */
void replica_primary_map(struct manager *m, const struct sup_msg *s);
/* A later life: the life before had sent this change (LEDGER_FLIGHT). go_on: before any request is
 * taken. */
void replica_primary_note(struct manager *m, struct ledger_entry *e);
void replica_primary_go_on(struct manager *m);
/* One of those is not undone on the backup yet: of whom it was is not known. */
bool replica_primary_doubts(const struct manager *m);

/* Of its keys: 2 with a whole backup, 1 without; 0: it owns none, or is without replicas. */
unsigned replica_copies(const struct manager *m);

#endif
