/* SPDX-License-Identifier: Apache-2.0 */
/* peer_server.h - managers that ask us. */
#ifndef DDICT_MANAGER_PEER_SERVER_H
#define DDICT_MANAGER_PEER_SERVER_H

#include "manager.h"

int peer_server_listen(struct manager *m);
bool peer_servers_later(struct manager *m); /* requests that said TAKE_LATER; true: there was one */
void peer_servers_reap(struct manager *m);
void peer_servers_end(struct manager *m);
void peer_servers_look(struct manager *m); /* as lanes_look() */
bool peer_servers_tick(struct manager *m);
uint64_t peer_servers_links(const struct manager *m); /* connections that are open */

#endif
