/* SPDX-License-Identifier: Apache-2.0 */
/*
 * card.c - what one node tells the others at wire-up: its name, addresses, ports; node 0 also the dictionary's id and cookie, or that there is another
 * dictionary of the name, which is to be used.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/error.h>
#include <manager/supervisor.h>

#define CARD_MAGIC 0x3244524143444444ull

struct card_address {
    uint16_t family;
    uint16_t room;
    uint32_t scope;
    uint8_t bytes[16];
};
struct card {
    uint64_t magic;
    uint32_t node_id, ports_n;
    uint16_t naddr, control_port;
    uint32_t managers;
    uint32_t room;
    uint8_t dict_id[16], cookie[COOKIE_SIZE]; /* node 0's count */
    struct standing other;                    /* node 0's */
    char node[NODE_NAME_MAX];
    char error[256];                          /* "" or why this node can not serve */
    struct card_address addr[ADDRS_MAX];
    uint16_t port[];                          /* of its managers, by local index */
};

static struct card_address address_pack(const struct sockaddr_storage *a) {
    struct card_address c = {.family = a->ss_family == AF_INET6 ? 6 : 4};
    if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)a;
        memcpy(c.bytes, &in->sin6_addr, 16);
        c.scope = in->sin6_scope_id;
    } else memcpy(c.bytes, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
    return c;
}

static void address_unpack(struct sockaddr_storage *a, const struct card_address *c, uint16_t port) {
    memset(a, 0, sizeof *a);
    if (c->family == 6) {
        struct sockaddr_in6 *in = (void *)a;
        in->sin6_family = AF_INET6;
        in->sin6_port = htons(port);
        in->sin6_scope_id = c->scope;
        memcpy(&in->sin6_addr, c->bytes, 16);
    } else {
        struct sockaddr_in *in = (void *)a;
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, c->bytes, 4);
    }
}

struct card *card_make(const struct supervisor *s, const char *error, size_t *len) {
    struct sockaddr_storage addr[ADDRS_MAX];
    unsigned ports = error ? 0 : s->shards_n;
    *len = sizeof(struct card) + ports * sizeof(uint16_t);
    struct card *c = calloc(1, *len);
    if (!c) return NULL;
    c->magic = CARD_MAGIC;
    c->node_id = s->node_id;
    c->managers = s->managers;
    c->ports_n = ports;
    c->control_port = s->control_port;
    memcpy(c->dict_id, s->identity.dict_id, sizeof c->dict_id);
    memcpy(c->cookie, s->identity.cookie, sizeof c->cookie);
    c->other = s->other;
    snprintf(c->node, sizeof c->node, "%s", s->node);
    snprintf(c->error, sizeof c->error, "%s", error ? error : "");
    int n = s->nodes > 1 ? conn_addresses(s->node, addr, ADDRS_MAX) : 0;
    for (int i = 0; i < n && i < ADDRS_MAX; i++) c->addr[c->naddr++] = address_pack(&addr[i]);
    for (unsigned i = 0; i < ports; i++) c->port[i] = s->shards[i].port;
    return c;
}

int card_check(const void *bytes, size_t len, uint32_t node_id) {
    const struct card *c = bytes;
    if (len < sizeof *c || c->magic != CARD_MAGIC || c->node_id != node_id || c->naddr > ADDRS_MAX || c->ports_n > DD_LOCAL_MANAGERS_MAX ||
        len != sizeof *c + c->ports_n * sizeof(uint16_t) || !memchr(c->node, 0, sizeof c->node) || !memchr(c->error, 0, sizeof c->error))
        return dd_error(DDICT_EPROTO, "the card of node %u is malformed: do all nodes run the same version?", node_id);
    return 0;
}

int card_exists(const void *bytes, size_t len) { return card_check(bytes, len, 0) == 0 && ((const struct card *)bytes)->other.managers > 0; }

const char *card_error(const struct card *c) { return c->error[0] ? c->error : NULL; }

void card_take(struct supervisor *s, const struct card *c) {
    if (c->node_id == 0) {
        memcpy(s->identity.dict_id, c->dict_id, sizeof c->dict_id);
        memcpy(s->identity.cookie, c->cookie, sizeof c->cookie);
        s->other = c->other;
    }
    if (s->control_at) {
        struct node_address *at = &s->control_at[c->node_id];
        for (int a = 0; a < c->naddr; a++) address_unpack(&at->addr[a], &c->addr[a], c->control_port);
        at->naddr = c->naddr;
    }
    snprintf(s->node_names[c->node_id], NODE_NAME_MAX, "%s", c->node);
    for (unsigned i = 0; i < c->ports_n; i++) {
        uint32_t m = c->node_id + i * s->nodes;
        if (m >= s->managers || !s->peers) break;
        snprintf(s->peers[m].node, NODE_NAME_MAX, "%s", c->node);
        s->peers[m].naddr = c->naddr;
        for (int a = 0; a < c->naddr; a++) address_unpack(&s->peers[m].addr[a], &c->addr[a], c->port[i]);
    }
}
