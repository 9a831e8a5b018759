/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.h - a channel over libfabric, one for each link: messages in order to the channel of a
 * peer, and reads of its memory. Single-threaded, driven by the fabric's part in the owner's epoll
 * loop. The owner frees all channels before fabric_close().
 */
#ifndef DDICT_WIRE_FABRIC_CHANNEL_H
#define DDICT_WIRE_FABRIC_CHANNEL_H

#include "fabric_types.h"
#include <wire/msg.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fabric;
struct channel;
struct channel_ops {
    void *(*payload_to)(void *arg, const struct msg *m); /* these three as in struct link_ops */
    int (*message)(void *arg, const struct msg *m, void *payload);
    void (*drained)(void *arg);
    /* The peer may not have noticed what was sent: make it look by other means, and give its answer
     * to channel_heard(). */
    void (*nudge)(void *arg);
    /* the channel does not work any more; called once, from the loop */
    void (*broken)(void *arg, int code);
};
/* Messages that are sent before channel_connect() are queued. */
int channel_new(struct channel **out, struct fabric *f, const struct channel_ops *ops, void *arg);
uint32_t channel_id(const struct channel *c); /* for the peer */
/*
 * Connect to the peer's endpoint and its channel there. Each frame that is sent carries the secret
 * `sends`, each that is accepted the secret `takes`. Other frames are dropped and counted
 * (conn_refused()).
 */
int channel_connect(struct channel *c, const uint8_t *address, size_t len, uint32_t id,
                    const uint8_t sends[CHANNEL_TOKEN], const uint8_t takes[CHANNEL_TOKEN]);
/* NULL is allowed, and so is a call within a callback. done() of bodies that the provider still
 * reads is called later. */
void channel_free(struct channel *c);
/* The others are as in link.h. */
int channel_send(struct channel *c, struct msg *m, const void *head, size_t head_len,
                 const void *body, size_t body_len, void (*done)(void *arg), void *done_arg);
size_t channel_queued(const struct channel *c);
uint64_t channel_position(const struct channel *c);
bool channel_unsent(const struct channel *c, uint64_t position);
void channel_pause(struct channel *c, bool paused);
/* For a nudge of the peer. channel_taken(): look, and return how many frames were received so far.
 * channel_heard(): the peer's number. */
uint64_t channel_taken(const struct channel *c);
void channel_heard(struct channel *c, uint64_t taken);

/* As link_read(). */
int channel_read(struct channel *c, void *to, const struct fabric_place *from,
                 void (*done)(void *arg, int code), void *arg);

#endif
