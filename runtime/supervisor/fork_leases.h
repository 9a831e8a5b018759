/* SPDX-License-Identifier: Apache-2.0 */
/* fork_leases.h - leases that a child inherits over a fork. */
#ifndef DDICT_SUPERVISOR_FORK_LEASES_H
#define DDICT_SUPERVISOR_FORK_LEASES_H

#include "supervisor.h"

/* Takes over both descriptors. The client (by id) gets HELD when all managers know the page. */
void fork_lease_begin(struct supervisor *s, uint64_t client, uint32_t pid, int page_fd,
                      int pipe_fd);
void fork_lease_added(struct local_manager *mgr, const struct sup_msg *m);
/* A new life of the manager: which pages there are. */
void fork_leases_tell(struct local_manager *mgr);
void client_fork_lease_answer(struct supervisor *s, uint64_t client, int status);
void fork_leases_end(struct supervisor *s);

#endif
