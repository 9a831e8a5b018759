/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clients.h - processes of this node that attach. The states of one:
 *
 *     NEW --hello--> PARKED --the dictionary is ready--> ADDING
 *      |                |                                  | all managers know it
 *      |                | a task, or one that watches      v
 *      |                +--> TASK, WATCHING             WELCOMED
 *      |                                                   | descriptors are sent
 *      +--meet----> RENDEZVOUS, until it is known          v
 *      |            where its step meets                ATTACHED
 *      +--listen--> SOCKET_FILE                            | it breaks a rule
 *      |                                                   v
 *      +--look, gpus: answered and dropped               BANNED
 *
 * Any of them ends with the client's socket or its process. A client that is BANNED sees its socket
 * end and is not served any more, but it may go on reading in place, so its leases count until it
 * ends. A TASK is one of --tasks; a task that came before is WATCHING, to see when it can come
 * again. A SOCKET_FILE is no client, but a process that lends us the socket file through which the
 * processes of a container reach us (socket_files.c).
 */
#ifndef DDICT_SUPERVISOR_CLIENTS_H
#define DDICT_SUPERVISOR_CLIENTS_H

#include "supervisor.h"

int clients_listen(struct supervisor *s);
void clients_serve_parked(struct supervisor *s); /* The dictionary is ready. */
void client_added(struct local_manager *mgr, const struct sup_msg *m);
void client_bad(struct supervisor *s, uint64_t id);
void clients_tell(struct local_manager *mgr);  /* a new life of it: who there is */
void clients_refuse_new(struct supervisor *s); /* draining */
void clients_end(struct supervisor *s);
/* The lease pages of those that are attached, mapped to read: *maps (malloc'ed) of the returned
 * number, each LEASE_FILE_SIZE. */
unsigned clients_leases(struct supervisor *s, const struct lease_chunk ***maps);

/* Tell those that watch how the dictionary ended. */
void clients_end_tell(struct supervisor *s, const char *text);
/* Tell those that ask where this step meets. */
void clients_rendezvous_tell(struct supervisor *s, const char *step, const char *text);

#endif
