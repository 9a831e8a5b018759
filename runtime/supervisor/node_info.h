/* SPDX-License-Identifier: Apache-2.0 */
/* node_info.h - what one node tells the others at wire-up. */
#ifndef DDICT_SUPERVISOR_NODE_INFO_H
#define DDICT_SUPERVISOR_NODE_INFO_H

#include "supervisor.h"

struct node_info;
/* Of this node; malloc'ed. error: NULL, or why the node cannot serve. */
struct node_info *node_info_make(const struct supervisor *s, const char *error, size_t *len);
/* Of base64, of len characters; malloc'ed, of *n bytes, and not checked. */
int node_info_decode(const char *text, size_t len, void **info, size_t *n);
int node_info_check(const void *bytes, size_t len, uint32_t node_id);
/* The node info of node 0 says that another dictionary of the name exists. This start ends then: no
 * other node info is needed, and the other nodes may be gone. */
int node_info_says_exists(const void *bytes, size_t len);
/* True: the node cannot serve, and text says why. */
bool node_info_error(const struct node_info *c, char *text, size_t cap);
/* 0, or DDICT_EPROTO: that node was started for other managers, with keys on other nodes, or for other copies. */
int node_info_agrees(const struct supervisor *s, const struct node_info *c);
/* Its node's name, and where its ddictd listens. */
void node_info_where(const struct node_info *c, char name[NODE_NAME_MAX], struct node_address *to);
/* Takes what a checked node info says into peers, names, identity. */
void node_info_apply(struct supervisor *s, const struct node_info *c);

#endif
