/* SPDX-License-Identifier: Apache-2.0 */
/* gather.h - the wire-up by stdio: node 0 gathers the node infos of all nodes, and a tree of nodes
 * gives them to all (STARTUP 2). */
#ifndef DDICT_SUPERVISOR_GATHER_H
#define DDICT_SUPERVISOR_GATHER_H

#include "supervisor.h"
#include <launch/startup_lines.h>

struct gather_word { /* of the starter, to all nodes */
    uint8_t digest[STARTUP_DIGEST];
    uint8_t secret[STARTUP_SECRET];
};
/* mine, first: the node infos of this node and of node 0, in base64. 0 and *set: those of all, in
 * base64, in the order of node ids with a blank between, malloc'ed; they have the digest. Or a
 * negative code with the sentence set. */
int node_infos_gather(struct supervisor *s, const struct gather_word *word, const char *mine,
                      const char *first, char **set);

#endif
