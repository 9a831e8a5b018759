/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replica_backup.h - the shadow of an owner (setup->shadow): a second process with all of its keys
 * (PROTOCOL 13). While it is the backup it takes changes of its primary by one connection of
 * ROLE_REPLICA, carries them out in the order in which they come, judges nothing, and acknowledges
 * them. It serves nobody. When the map names it as the primary it becomes a manager as any other
 * that has no lanes, and never goes back.
 *
 *     the primary's connection -> SYNC -> REPL, DATA ... <- ACK
 *     SUP_MAP: primary is this process -> listens as peer_server.c does
 *
 * One that is made behind the start (setup->fills) is filled first (replica_copy.h): SYNC with NEW empties
 * it, and it is whole with WHOLE. It is not promoted before.
 *
 * Results of requests are written with the changes (results_enter()), so proxies that ask again
 * after the promotion are answered as by a next life of the primary. What is here of a value in
 * pieces is freed when its connection ends: the primary sends all that it is not sure of again.
 */
#ifndef DDICT_MANAGER_REPLICA_BACKUP_H
#define DDICT_MANAGER_REPLICA_BACKUP_H

#include "manager.h"

struct sup_msg;

int replica_backup_init(struct manager *m); /* nothing where it is no shadow */
void replica_backup_free(struct manager *m);
/* It holds a copy, and nobody is served: requests are not accepted. */
bool replica_backup_is(const struct manager *m);
/* As peer_server_listen(), while replica_backup_is(). */
int replica_backup_listen(struct manager *m);
/* SUP_MAP of its owner. */
void replica_backup_map(struct manager *m, const struct sup_msg *s);
/* Once a turn: what waited for room, and ACK for all that was done since. True: more waits. */
bool replica_backup_turn(struct manager *m);
void replica_backup_look(struct manager *m); /* the spill made progress */
bool replica_backup_tick(struct manager *m); /* as peer_servers_tick() */
void replica_backup_reap(struct manager *m);

#endif
