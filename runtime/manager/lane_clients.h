/* SPDX-License-Identifier: Apache-2.0 */
/* lane_clients.h - the clients of this node, as ddictd tells of them. */
#ifndef DDICT_MANAGER_LANE_CLIENTS_H
#define DDICT_MANAGER_LANE_CLIENTS_H

#include "lane_client.h"

/* NULL: there is none */
struct lane_client *lane_client_find(const struct manager *m, uint64_t id);
bool client_is_served(const struct manager *m, uint64_t id);
/* SUP_CLIENT_ADD. 0: the client has taken over the last two descriptors, the eventfds of client and
 * lane. */
int client_add(struct manager *m, uint64_t id, uint32_t pid, const int fds[4]);
void client_del(struct manager *m, uint64_t id);
void client_ban(struct manager *m, uint64_t id); /* SUP_CLIENT_BAN */
int hold_add(struct manager *m, uint64_t id, uint32_t pid, int fd);
void hold_del(struct manager *m, uint64_t id);
void lanes_reap(struct manager *m); /* drop clients that broke a rule, and tell ddictd */
void lanes_end(struct manager *m);
/* Sums over all clients that ever were: reads from this arena; and the memory of the lanes. Where
 * there are many clients, some figures are older. */
void lanes_figures(struct manager *m, struct lease_counters *reads, uint64_t *bytes);

#endif
