/* SPDX-License-Identifier: Apache-2.0 */
/* peer_address.h - where the processes of other nodes listen. */
#ifndef DDICT_MANAGER_PEER_ADDRESS_H
#define DDICT_MANAGER_PEER_ADDRESS_H

#include "manager.h"

/* Of process `number` (base/shadow.h): the addresses of its node; port: as the map of owners says, 0:
 * as the node infos say. */
void peer_address_find(const struct manager_setup *s, uint32_t number, uint16_t port,
                       struct peer_address *to);
/* The name of its node. */
const char *peer_node(const struct manager_setup *s, uint32_t number);

#endif
