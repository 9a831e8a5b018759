/* SPDX-License-Identifier: Apache-2.0 */
/* managers.h - the managers of this node. */
#ifndef DDICT_SUPERVISOR_MANAGERS_H
#define DDICT_SUPERVISOR_MANAGERS_H

#include "supervisor.h"

/* Before the wire-up: budget, ports, spill files. */
int managers_listen(struct supervisor *s);
/* 0 when the memory of our managers fits into what the job has on this node: the room in its cgroup
 * and the free memory. */
int managers_fit(const struct supervisor *s);
struct manager_handlers {
    void (*message)(struct local_manager *mgr, const struct sup_msg *m);
    void (*died)(struct local_manager *mgr, int status); /* of waitpid(); not when it is all over */
};
/* After the wire-up: make the arenas, fork the managers. */
int managers_start(struct supervisor *s, struct manager_handlers to);
/* Fork the manager over what outlives it. 0 or a negative code. */
int manager_start(struct local_manager *mgr);
/* A shadow behind the start: forked, with a new arena; NULL with a sentence, also where its memory
 * might be more than the job has on this node. SUP_READY follows, or its death. */
struct local_manager *shadow_begin(struct supervisor *s, uint32_t number);
void manager_send(struct local_manager *mgr, const struct sup_msg *m, const int *fds, int nfds);
void managers_send(struct supervisor *s, const struct sup_msg *m);  /* to managers alone */
void processes_send(struct supervisor *s, const struct sup_msg *m); /* to shadows, too */
/* A listening TCP socket, in the range of --ports where one is given. */
int port_listen(const struct supervisor *s, uint16_t *port);
void managers_reap(struct supervisor *s); /* SIGCHLD */
void managers_stop(struct supervisor *s); /* stop, wait, kill what does not stop */

#endif
