/* SPDX-License-Identifier: Apache-2.0 */
/* wireup.h - which node is this one, and what are the addresses of the others. */
#ifndef DDICT_SUPERVISOR_WIREUP_H
#define DDICT_SUPERVISOR_WIREUP_H

#include "supervisor.h"

int wireup_place(struct supervisor *s); /* fills in node_id, nodes, managers */
/* Gives our node info, gets those of all nodes, and fills in peers, names and identity from them.
 * error: NULL, or why this node cannot serve. 0; 1: node 0 found another dictionary, which is in
 * s->other then; negative, also when the node info of another node has an error. */
int wireup_exchange(struct supervisor *s, const char *error);

#endif
