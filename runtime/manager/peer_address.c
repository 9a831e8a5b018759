/* SPDX-License-Identifier: Apache-2.0 */
/* peer_address.c - where the processes of other nodes listen. */
#include "peer_address.h"

#include <base/shadow.h>

#include <netinet/in.h>

/* Manager n of the dictionary is on node n, for each node. */
const char *peer_node(const struct manager_setup *s, uint32_t number) {
    return s->peers[number % s->nodes].node;
}

static void port_set(struct sockaddr_storage *a, uint16_t port) {
    if (a->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)a)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)(void *)a)->sin_port = htons(port);
}

void peer_address_find(const struct manager_setup *s, uint32_t number, uint16_t port,
                       struct peer_address *to) {
    *to = s->peers[port ? number % s->nodes : shadow_slot(&s->deal, number)];
    for (int i = 0; port && i < to->naddr; i++)
        port_set(&to->addr[i], port);
}
