/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.h - libfabric beside TCP: one reliable-datagram endpoint of this process (fabric.c), and
 * channels over it, one for each link (channel.c). PROTOCOL 6. The library is opened at run time.
 * Single-threaded, driven by the owner's epoll loop; nothing spins. Where it is not built in, all
 * calls but the last say -ENOSYS.
 *
 *     fabric_find(wanted, name, ...)      in a process of its own: what providers do may leave
 *                                         threads and mappings behind
 *     fabric_open(&f, epoll_fd, name...)  once, in the process that uses it
 *     channel_new(), channel_connect()    a link: link.c
 *     fabric_close(f)                     after all channels were freed
 */
#ifndef DDICT_WIRE_FABRIC_FABRIC_H
#define DDICT_WIRE_FABRIC_FABRIC_H

#include "fabric_types.h"
#include <wire/msg.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bytes of an endpoint's address; libfabric's own are up to 64 */
#define FABRIC_ADDRESS_MAX 256

/* --- fabric_find.c --- */
/* Whether this node has a device of a network that libfabric serves (InfiniBand, RoCE, EFA,
 * Omni-Path, Slingshot); reads /sys. */
bool fabric_devices(void);
/*
 * The provider, by libfabric's full name ("tcp;ofi_rxm"), for a wanted one ("tcp"; "": the best one
 * of an HPC network). 0; -ENOENT: there is none, and the sentence (base/error.h) names those that
 * there are; -ENOSYS: no library.
 */
int fabric_find(const char *wanted, const char *node, char name[FABRIC_NAME_MAX]);

/* --- fabric.c --- */
struct fabric;
/* name: from fabric_find(); node: whose addresses are preferred, NULL: any; epoll_fd -1: for a
 * trial only. Negative, with a sentence. */
int fabric_open(struct fabric **out, int epoll_fd, const char *name, const char *node);
/* Calls the done() that are left. NULL is allowed. */
void fabric_close(struct fabric *f);
const char *fabric_name(const struct fabric *f);
size_t fabric_address(const struct fabric *f, uint8_t address[FABRIC_ADDRESS_MAX]);
/* Do now what the loop would do. */
void fabric_work(struct fabric *f);
/* For tests. True: until fabric_work() it ignores completions, as if each wake-up were lost. */
void fabric_deafen(struct fabric *f, bool deaf);

/*
 * --- fabric_memory.c: memory that peers may read (RMA) ---
 * Peers with a key may read [base, base + len) from `from` on; nobody can write there. The range
 * must stay mapped. fabric_places() registers the memory that it is asked for, and its
 * surroundings, for good; the network may then keep all of that in memory. 0, or -EOPNOTSUPP with a
 * sentence.
 */
int fabric_share(struct fabric *f, uint8_t *base, uint64_t from, uint64_t len);
bool fabric_shares(const struct fabric *f);
/* Where a peer finds [off, off + len) of it; `top`: memory below is populated. Number of places; or
 * -E2BIG: more than n; or -EIO with a sentence. */
int fabric_places(struct fabric *f, uint64_t off, uint64_t len, uint64_t top,
                  struct fabric_place *place, unsigned n);
/* [off, off + len) is about to lose its memory: it is not registered any more. */
void fabric_forget(struct fabric *f, uint64_t off, uint64_t len);
/* Whether the provider's hardware reads without the peer's processor. */
bool fabric_has_hardware(const char *name);

/* --- channel.c --- */
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
