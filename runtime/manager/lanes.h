/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h - the clients of this node, and their lanes. */
#ifndef DDICT_MANAGER_LANES_H
#define DDICT_MANAGER_LANES_H

#include "manager.h"

struct lane_client;
struct lane_client *lane_client_find(const struct manager *m,
                                     uint64_t id); /* NULL: there is none */
bool client_is_served(const struct manager *m, uint64_t id);
void lane_client_watch(struct lane_client *c); /* serve its lane in the next turns */
/* SUP_CLIENT_ADD. 0: the client has taken over the last two descriptors, the eventfds of client and
 * lane. */
int client_add(struct manager *m, uint64_t id, uint32_t pid, const int fds[4]);
void client_del(struct manager *m, uint64_t id);
void client_ban(struct manager *m, uint64_t id); /* SUP_CLIENT_BAN */
int hold_add(struct manager *m, uint64_t id, uint32_t pid, int fd);
void hold_del(struct manager *m, uint64_t id);
/* Serve the watched lanes in turn, a bounded share of work. True: there was work. */
bool lanes_turn(struct manager *m);
/* After `sleeping` was announced: whether there is work after all. */
bool lanes_ready(struct manager *m);
void lanes_unstall(struct manager *m); /* a connection has room again: serve the stalled lanes */
/* The spill made progress: lanes that waited for it may go on. */
void lanes_look(struct manager *m);
void lanes_popped_alone(struct manager *m, uint32_t owner); /* see struct upcalls */
void lanes_reap(struct manager *m); /* drop clients that broke a rule, and tell ddictd */
void lanes_end(struct manager *m);
/* Sums over all clients that ever were: reads from this arena; and the memory of the lanes. Where
 * there are many clients, some figures are older. */
void lanes_figures(struct manager *m, struct lease_counters *reads, uint64_t *bytes);

#endif
