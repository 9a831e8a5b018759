/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_info.c - what one node tells the others at wire-up: its name, addresses, ports, public key;
 * node 0 also the dictionary's id, or that another dictionary of this name is there and is to be
 * used.
 */
#include "node_info.h"

#include "supervisor.h"
#include "transport.h"
#include <base/error.h>
#include <base/shadow.h>

#include <errno.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE_INFO_MAGIC 0x3944524143444444ull

/* Packed: each of a thousand nodes is given the node infos of all. */
struct node_info {
    uint64_t magic;
    uint32_t node_id, managers, keyed_nodes;
    uint16_t ports_n, control_port, working_set;
    uint8_t working_flags;
    uint8_t naddr, node_n, error_n; /* error_n 0: this node can serve */
    uint8_t has_head;               /* node 0's */
    uint8_t provider_n;             /* 0: messages by TCP */
    uint8_t replicas;               /* copies of each value */
    uint8_t refill;                 /* 1: with --refill */
    uint8_t key[KEY_SIZE];          /* public */
    /* head, addresses, ports of its managers by local index and of its shadows
     * in the order of their numbers, name of the node, error, provider of
     * libfabric */
    uint8_t tail[];
};
struct node_info_head {
    uint8_t dict_id[16];
    struct standing other;
    uint64_t spill_bytes;
};
#define NODE_INFO_FIXED offsetof(struct node_info, tail) /* not its size, which is rounded up */
#define ADDRESS_4       5u /* bytes: the family, as 4 or 6, the address; for 6 the scope */
#define ADDRESS_6       21u
#define ERROR_MAX       255

static uint8_t *address_pack(uint8_t *to, const struct sockaddr_storage *a) {
    if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)a;
        *to = 6;
        memcpy(to + 1, &in->sin6_addr, 16);
        memcpy(to + 17, &in->sin6_scope_id, 4);
        return to + ADDRESS_6;
    }
    *to = 4;
    memcpy(to + 1, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
    return to + ADDRESS_4;
}

static const uint8_t *address_unpack(struct sockaddr_storage *a, const uint8_t *from) {
    memset(a, 0, sizeof *a);
    if (*from == 6) {
        struct sockaddr_in6 *in = (void *)a;
        in->sin6_family = AF_INET6;
        memcpy(&in->sin6_addr, from + 1, 16);
        memcpy(&in->sin6_scope_id, from + 17, 4);
        return from + ADDRESS_6;
    }
    struct sockaddr_in *in = (void *)a;
    in->sin_family = AF_INET;
    memcpy(&in->sin_addr, from + 1, 4);
    return from + ADDRESS_4;
}

static void port_set(struct sockaddr_storage *a, uint16_t port) {
    if (a->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)a)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)(void *)a)->sin_port = htons(port);
}

static size_t node_info_head_size(const struct node_info *c) {
    return c->has_head ? sizeof(struct node_info_head) : 0;
}

/* What follows the addresses; NULL: they are malformed or do not fit into len bytes of tail. */
static const uint8_t *addresses_skip(const struct node_info *c, size_t len) {
    size_t at = node_info_head_size(c);
    for (unsigned i = 0; i < c->naddr; i++) {
        if (at >= len || (c->tail[at] != 4 && c->tail[at] != 6))
            return NULL;
        at += c->tail[at] == 6 ? ADDRESS_6 : ADDRESS_4;
    }
    return at <= len ? c->tail + at : NULL;
}

struct node_info *node_info_make(const struct supervisor *s, const char *error, size_t *len) {
    struct sockaddr_storage addr[ADDRS_MAX];
    unsigned ports = error ? 0 : processes_n(s);
    int n = s->nodes > 1 ? conn_addresses(s->node, addr, ADDRS_MAX) : 0;
    struct node_info *c =
        calloc(1, NODE_INFO_FIXED + sizeof(struct node_info_head) + ADDRS_MAX * ADDRESS_6 +
                      ports * sizeof(uint16_t) + NODE_NAME_MAX + ERROR_MAX + FABRIC_NAME_MAX);
    if (!c)
        return NULL;
    c->magic = NODE_INFO_MAGIC;
    c->node_id = s->node_id;
    c->managers = s->managers;
    c->keyed_nodes = s->deal.keyed;
    c->replicas = (uint8_t)s->opt.replicas;
    c->refill = s->opt.refill;
    c->working_set = (uint16_t)s->opt.working_set;
    c->working_flags = (uint8_t)s->opt.working_flags;
    c->ports_n = (uint16_t)ports;
    c->control_port = s->control_port;
    c->node_n = (uint8_t)strlen(s->node);
    c->error_n = (uint8_t)(error ? strnlen(error, ERROR_MAX) : 0);
    c->provider_n = (uint8_t)strlen(s->transport.own);
    c->has_head = s->node_id == 0;
    memcpy(c->key, s->public_key, sizeof c->key);
    uint8_t *at = c->tail;
    if (c->has_head) {
        struct node_info_head h = {.other = s->other, .spill_bytes = s->spill_bytes};
        memcpy(h.dict_id, s->identity.dict_id, sizeof h.dict_id);
        memcpy(at, &h, sizeof h);
        at += sizeof h;
    }
    for (int i = 0; i < n && i < ADDRS_MAX; i++, c->naddr++)
        at = address_pack(at, &addr[i]);
    for (unsigned i = 0; i < ports; i++, at += sizeof(uint16_t))
        memcpy(at, &s->local[i].port, sizeof(uint16_t));
    memcpy(at, s->node, c->node_n);
    at += c->node_n;
    if (c->error_n)
        memcpy(at, error, c->error_n);
    at += c->error_n;
    memcpy(at, s->transport.own, c->provider_n);
    *len = (size_t)(at + c->provider_n - (uint8_t *)c);
    return c;
}

int node_info_decode(const char *text, size_t len, void **info, size_t *n) {
    *info = malloc(len + 1);
    if (!*info)
        return -ENOMEM;
    if (sodium_base642bin(*info, len, text, len, NULL, n, NULL, sodium_base64_VARIANT_ORIGINAL) ==
        0)
        return 0;
    free(*info);
    *info = NULL;
    return dd_error(DDICT_EPROTO, "a node info is not base64");
}

int node_info_check(const void *bytes, size_t len, uint32_t node_id) {
    const struct node_info *c = bytes;
    const uint8_t *ports = NULL;
    if (len >= NODE_INFO_FIXED && c->magic == NODE_INFO_MAGIC && c->node_id == node_id &&
        c->has_head == (node_id == 0) && c->naddr <= ADDRS_MAX &&
        c->ports_n <= 2 * DD_LOCAL_MANAGERS_MAX && c->provider_n < FABRIC_NAME_MAX &&
        c->node_n > 0 && c->node_n < NODE_NAME_MAX)
        ports = addresses_skip(c, len - NODE_INFO_FIXED);
    if (!ports || len != (size_t)(ports - (const uint8_t *)c) + c->ports_n * sizeof(uint16_t) +
                             c->node_n + c->error_n + c->provider_n)
        return dd_error(DDICT_EPROTO,
                        "the node info of node %u is malformed: do all nodes run the same version?",
                        node_id);
    return 0;
}

static struct node_info_head node_info_head_of(const struct node_info *c) {
    struct node_info_head h = {0};
    if (c->has_head)
        memcpy(&h, c->tail, sizeof h);
    return h;
}

int node_info_says_exists(const void *bytes, size_t len) {
    return node_info_check(bytes, len, 0) == 0 && node_info_head_of(bytes).other.managers > 0;
}

bool node_info_error(const struct node_info *c, char *text, size_t cap) {
    const uint8_t *ports = addresses_skip(c, SIZE_MAX);
    snprintf(text, cap, "%.*s", (int)c->error_n,
             (const char *)ports + c->ports_n * sizeof(uint16_t) + c->node_n);
    return c->error_n > 0;
}

int node_info_agrees(const struct supervisor *s, const struct node_info *c) {
    if (c->managers != s->managers || c->keyed_nodes != s->deal.keyed)
        return dd_error(
            DDICT_EPROTO,
            "node %u was started for %u managers with keys on %u nodes, this one for %u on %u",
            c->node_id, c->managers, c->keyed_nodes, s->managers, s->deal.keyed);
    if (c->replicas != s->opt.replicas)
        return dd_error(DDICT_EPROTO,
                        "node %u was started for %u cop%s of each value, this one for %u",
                        c->node_id, c->replicas, c->replicas == 1 ? "y" : "ies", s->opt.replicas);
    if (c->refill != s->opt.refill)
        return dd_error(DDICT_EPROTO, "node %u was started with%s --refill, this one with%s",
                        c->node_id, c->refill ? "" : "out", s->opt.refill ? "" : "out");
    if (c->working_set != s->opt.working_set || c->working_flags != s->opt.working_flags)
        return dd_error(
            DDICT_EPROTO, "node %u was started for %u checkpoints (flags %u), this one for %u (%u)",
            c->node_id, c->working_set, c->working_flags, s->opt.working_set, s->opt.working_flags);
    return 0;
}

/* What follows the addresses. */
static const uint8_t *addresses_of(const struct node_info *c, struct sockaddr_storage *addr) {
    const uint8_t *at = c->tail + node_info_head_size(c);
    for (unsigned a = 0; a < c->naddr; a++)
        at = address_unpack(&addr[a], at);
    return at;
}

static void address_list_set(struct sockaddr_storage *to, int *n, const struct node_info *c,
                             const struct sockaddr_storage *addr, uint16_t port) {
    for (*n = 0; *n < c->naddr; ++*n) {
        to[*n] = addr[*n];
        port_set(&to[*n], port);
    }
}

void node_info_where(const struct node_info *c, char name[NODE_NAME_MAX], struct node_address *to) {
    struct sockaddr_storage addr[ADDRS_MAX];
    const char *words = (const char *)addresses_of(c, addr) + c->ports_n * sizeof(uint16_t);
    snprintf(name, NODE_NAME_MAX, "%.*s", (int)c->node_n, words);
    address_list_set(to->addr, &to->naddr, c, addr, c->control_port);
}

/* The place in peers of the process whose port is the i-th in the node info of this node; UINT32_MAX:
 * there is none, that node has other options than this one. */
static uint32_t slot_of_port(const struct supervisor *s, uint32_t node, unsigned i) {
    unsigned managers = s->managers / s->nodes + (node < s->managers % s->nodes ? 1 : 0);
    if (i < managers)
        return node + i * s->nodes;
    if (!has_copies(s) || node >= s->deal.keyed)
        return UINT32_MAX;
    uint32_t owner = shadowed_node(&s->deal, node) + (i - managers) * s->nodes;
    return owner < s->managers ? s->managers + owner : UINT32_MAX;
}

void node_info_apply(struct supervisor *s, const struct node_info *c) {
    struct sockaddr_storage addr[ADDRS_MAX];
    struct node_address control;
    const uint8_t *at = addresses_of(c, addr);
    char *node = s->node_names[c->node_id];
    if (s->keys)
        memcpy(s->keys[c->node_id], c->key, sizeof c->key);
    if (c->has_head) {
        struct node_info_head h = node_info_head_of(c);
        memcpy(s->identity.dict_id, h.dict_id, sizeof h.dict_id);
        s->other = h.other;
        if (!node_has_keys(s))
            s->spill_bytes = h.spill_bytes;
    }
    char provider[FABRIC_NAME_MAX];
    const char *words = (const char *)at + c->ports_n * sizeof(uint16_t);
    snprintf(provider, sizeof provider, "%.*s", (int)c->provider_n, words + c->node_n + c->error_n);
    transport_heard(s, c->node_id, provider);
    node_info_where(c, node, s->control_at ? &s->control_at[c->node_id] : &control);
    for (unsigned i = 0; i < c->ports_n; i++, at += sizeof(uint16_t)) {
        uint32_t m = slot_of_port(s, c->node_id, i);
        uint16_t port;
        if (m == UINT32_MAX || !s->peers)
            break;
        memcpy(&port, at, sizeof port);
        memcpy(s->peers[m].node, node, NODE_NAME_MAX);
        address_list_set(s->peers[m].addr, &s->peers[m].naddr, c, addr, port);
    }
}
