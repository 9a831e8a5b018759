/* SPDX-License-Identifier: Apache-2.0 */
/* peer_server.h - connections that managers of other nodes have opened for their requests. */
#ifndef DDICT_MANAGER_PEER_SERVER_H
#define DDICT_MANAGER_PEER_SERVER_H

#include "manager.h"

int peer_server_listen(struct manager *m);
/* The listener that accepted others until now (replica_backup.c) accepts managers. */
void peer_server_take_over(struct manager *m);
/* try requests that said TAKE_LATER; true: there was one */
bool peer_servers_later(struct manager *m);
void peer_servers_reap(struct manager *m);
void peer_servers_end(struct manager *m);
void peer_servers_look(struct manager *m); /* as lanes_look() */
bool peer_servers_tick(struct manager *m);
uint64_t peer_servers_links(const struct manager *m); /* that are up */

#endif
