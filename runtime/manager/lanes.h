/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h - clients. */
#ifndef DDICT_MANAGER_LANES_H
#define DDICT_MANAGER_LANES_H

#include "manager.h"

/* of SUP_CLIENT_ADD; 0: it keeps the last two, the eventfds of client and lane */
int client_add(struct manager *m, uint64_t id, uint32_t pid, const int fds[4]);
void client_del(struct manager *m, uint64_t id);
void client_ban(struct manager *m, uint64_t id); /* of SUP_CLIENT_BAN */
int hold_add(struct manager *m, uint64_t id, uint32_t pid, int fd);
void hold_del(struct manager *m, uint64_t id);
/* serve the lanes that are watched in turn, a bounded share of work; true when there was work */
bool lanes_turn(struct manager *m);
/* after `sleeping` was announced: is there work after all? */
bool lanes_ready(struct manager *m);
void lanes_unstall(struct manager *m); /* a connection has room again */
/* the spill made progress: those that waited for it go on */
void lanes_look(struct manager *m);
void lanes_reap(struct manager *m); /* drop those that broke a rule, and tell ddictd */
void lanes_end(struct manager *m);
void lanes_settle(struct manager *m); /* give up the pins of completions that were consumed */
/* of manager.shrink: memory of lanes that are idle goes back */
void lanes_shrink(struct timer *t);
/* Sum of the read counters of all clients that ever were, for this arena; memory of the lanes. Of
 * many clients those of some may be older. */
void lanes_figures(struct manager *m, struct lease_counters *reads, uint64_t *bytes);

#endif
