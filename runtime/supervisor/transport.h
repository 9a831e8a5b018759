/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h - what carries the messages between managers. */
#ifndef DDICT_SUPERVISOR_TRANSPORT_H
#define DDICT_SUPERVISOR_TRANSPORT_H

#include "supervisor.h"

/* Before the wire-up, which may start threads. Negative: the transport asked for is not there. */
int transport_find(struct supervisor *s);
/* the node info of a node says so; that of node 0 comes first */
void transport_heard(struct supervisor *s, uint32_t node, const char *provider);
int transport_agree(struct supervisor *s); /* all node infos are in */

#endif
