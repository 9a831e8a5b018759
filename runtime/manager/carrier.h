/* SPDX-License-Identifier: Apache-2.0 */
/*
 * carrier.h - what carries answers to a requester: the lane of a client (lane_answers.c), a
 * connection of another manager (peer_server.c), or nothing, for a manager's own requests
 * (prefetch.c). Each has one constant table. Modules that answer use it through requester.h, and know
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
struct store_source;

struct carrier_ops {
    const char *name;    /* for the log, before the requester's number */
    unsigned pieces_max; /* of its streams, sent before other requesters have their turn */

    /* --- of each --- */
    /* Send a message with a copy of the payload; r->len is set. Never fails: a requester that
     * cannot be reached any more is `gone`. */
    void (*send)(struct requester *a, struct msg *r, const void *payload, size_t len);
    bool (*idle)(struct requester *a); /* no answer is queued, so pieces may be sent */

    /* --- of who takes values in pieces --- */
    /* Send a piece of n bytes that stay where they are until done(arg) is called, perhaps before
     * this returns. False: no room; nothing was done. */
    bool (*piece)(struct requester *a, struct msg *r, const void *data, uint32_t n,
                  void (*done)(void *arg), void *arg);
    /* Which of several connections sends a large value, as a requester; the requester itself if it
     * has only one. NULL: this kind never has several, so if one piece has no room no other has. */
    struct requester *(*bulk)(struct requester *a);
    const struct link *(*link)(const struct requester *a); /* its connection, or NULL */

    /* --- of lanes --- */
    /* Send r, which names the block at off of our arena. Takes over a pin of the block. */
    void (*send_placed)(struct requester *a, const struct msg *r, uint64_t off);
    /* Request id is answered: its record, if it is at hand, leaves the ring. Of a connection: the
     * entry of a value in pieces ends. */
    void (*taken)(struct requester *a, uint64_t id);
    /* Whose answers, and where they end, for the record of a change (LAYOUT I24). */
    void (*source)(const struct requester *a, struct store_source *from);
    bool (*unread)(const struct requester *a); /* it does not read its answers: its records wait */
    uint64_t (*position)(struct requester *a); /* of the current request in its ring, */
    uint64_t (*filled)(struct requester *a);   /* and the end of the last one in the ring */
    /* Bytes of its area, valid until the next call; NULL: there are no such bytes. */
    const uint8_t *(*place)(struct requester *a, uint64_t off, uint64_t len);
    /* Room for up to *room bytes of a piece's payload that is being received from a connection;
     * *room is set to the bytes that fit. NULL: none; if *room is 0, peers_resume() will be
     * called. */
    void *(*part)(struct requester *a, uint32_t *room);
    /* n bytes were received into that room */
    void (*part_done)(struct requester *a, struct msg *r, const void *at, uint32_t n);
};

#endif
