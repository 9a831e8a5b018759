/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.h - where the ranks of a step meet (MASTER_ADDR, MASTER_PORT). */
#ifndef DDICT_SUPERVISOR_RENDEZVOUS_H
#define DDICT_SUPERVISOR_RENDEZVOUS_H

#include "supervisor.h"

/*
 * A process of this node asks; life: of rank 0, its pidfd (borrowed; -1: not known), which keeps
 * the port. 1: *text says; 0: clients_rendezvous_tell() will be called when it is known, or never;
 * or a negative code with a sentence.
 */
int rendezvous_ask(struct supervisor *s, const char *step, uint32_t rank, int life, char *text,
                   size_t cap);
/* Another node's ddictd says it (port > 0), or asks. 0 or DDICT_EPROTO. */
int rendezvous_hear(struct supervisor *s, uint32_t from, uint32_t node, uint64_t port,
                    const char *step, size_t len);
/* takeover.h: say to who decides now where steps meet on this node, and ask again. */
void rendezvous_below(struct supervisor *s);
void rendezvous_end(struct supervisor *s);

#endif
