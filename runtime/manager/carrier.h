/* SPDX-License-Identifier: Apache-2.0 */
/*
 * carrier.h - what takes a requester's answers to it: the lane of a client (lanes.c), a connection
 * of another node's manager (peer_server.c), or nothing, where a manager asks for itself
 * (prefetch.c). Each has one constant table. Who answers calls it through requester.h and knows
 * neither lanes nor connections.
 */
#ifndef DDICT_MANAGER_CARRIER_H
#define DDICT_MANAGER_CARRIER_H

#include <wire/msg.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link;
struct requester;

struct carrier_ops {
    const char *name;    /* what is logged before the number of who asks */
    unsigned pieces_max; /* of its streams, sent at a time before others have their turn */

    /* --- of each --- */
    /* A message with a copied payload; r->len is set. Never fails: a requester that can not be told
     * anything any more is `gone`. */
    void (*send)(struct requester *a, struct msg *r, const void *payload, size_t len);
    bool (*idle)(struct requester *a); /* no answer waits before pieces: they may be sent */

    /* --- of who takes values in pieces --- */
    /* A piece of n bytes that stay where they are until done(arg), which may come before this
     * returns. false: no room; nothing was done. */
    bool (*piece)(struct requester *a, struct msg *r, const void *data, uint32_t n,
                  void (*done)(void *arg), void *arg);
    /* Of several connections the one for a large value, as a requester; itself where there are no
     * more. NULL: there never are, so where one piece has no room no other has. */
    struct requester *(*bulk)(struct requester *a);
    const struct link *(*link)(const struct requester *a); /* its connection; NULL: it has none */

    /* --- of lanes --- */
    /* r names a block of our arena; takes over one pin of off */
    void (*send_placed)(struct requester *a, const struct msg *r, uint64_t off);
    uint64_t (*position)(struct requester *a); /* of the request at hand in its ring, */
    uint64_t (*filled)(struct requester *a);   /* and where the last that is there ends */
    /* what stands in its area, until the next call; NULL: none such */
    const uint8_t *(*place)(struct requester *a, uint64_t off, uint64_t len);
    /* Room for the payload of a piece of up to *room bytes that comes from a connection: *room
     * receives how many. NULL: none; with *room 0 it is worth to wait for peers_resume(). */
    void *(*part)(struct requester *a, uint32_t *room);
    /* n bytes of it came */
    void (*part_done)(struct requester *a, struct msg *r, const void *at, uint32_t n);
};

#endif
