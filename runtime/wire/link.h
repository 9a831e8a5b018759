/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - messages between managers of different nodes, over TCP or libfabric. PROTOCOL 6. A link
 * begins as an authenticated TCP connection, and ends with it. With libfabric, both ends exchange
 * addresses over TCP, and messages then go by the fabric: both ends of a link that is up use the
 * same transport. This header is all that owners know of a transport. Single-threaded, driven by
 * the owner's epoll loop.
 */
#ifndef DDICT_WIRE_LINK_H
#define DDICT_WIRE_LINK_H

#include "conn.h"
#include <wire/fabric/fabric_types.h>

struct link_offer { /* payload of MSG_LINK_OFFER */
    /* reads: the other end may read the memory that this process shares */
    uint32_t channel, address_len, reads;
    uint32_t room;
    char provider[FABRIC_NAME_MAX];
    uint8_t address[FABRIC_ADDRESS_MAX];
};

struct fabric;
struct link;
struct link_ops {
    /* The handshake is done. peer: its manager id. */
    void (*up)(struct link *l, void *arg, uint32_t peer);
    /* payload_to, message and drained: as in struct conn_ops. */
    void *(*payload_to)(struct link *l, void *arg, const struct msg *m);
    int (*message)(struct link *l, void *arg, const struct msg *m, void *payload);
    void (*drained)(struct link *l, void *arg);
    /* The link has ended, for code. Called once, perhaps before `up`, and never within another call
     * of this header except link_tick(). The owner calls link_free(). */
    void (*down)(struct link *l, void *arg, int code);
    /* Optional: as in struct conn_ops. Some transports give whole messages all the same. */
    void *(*part_to)(struct link *l, void *arg, const struct msg *m, uint32_t got, uint32_t *room);
    int (*part)(struct link *l, void *arg, const struct msg *m, uint32_t got, const void *at,
                uint32_t n);
};

struct link_setup { /* the same for all links of a process; borrowed while there are links */
    int epoll_fd;
    const struct conn_identity *me;
    struct fabric *fabric; /* NULL: messages go by TCP */
};

/* Opener and acceptor: as conn_open() with ROLE_DATA, and conn_accept(). */
int link_open(struct link **out, const struct link_setup *setup, uint32_t to,
              const struct sockaddr_storage *addr, int naddr, const struct link_ops *ops,
              void *arg);
/* Opener: one more link to the same manager, beside `first`. Allowed after the first message of the
 * acceptor over `first`. */
int link_open_more(struct link **out, const struct link *first, const struct link_setup *setup,
                   uint32_t to, const struct sockaddr_storage *addr, int naddr,
                   const struct link_ops *ops, void *arg);
int link_accept(struct link **out, const struct link_setup *setup, int fd,
                const struct link_ops *ops, void *arg);
void link_free(struct link *l); /* NULL is allowed, and so is a call within a callback */

/* As conn_send(): header and head are copied; body is sent from where it lies, and must stay until
 * done(), which may be called after link_free(). */
int link_send(struct link *l, struct msg *m, const void *head, size_t head_len, const void *body,
              size_t body_len, void (*done)(void *arg), void *done_arg);
bool link_full(const struct link *l);     /* more than DD_PEER_INFLIGHT bytes queued */
size_t link_queued(const struct link *l); /* bytes */
/* As conn_position() and conn_unsent(). */
uint64_t link_position(const struct link *l);
bool link_unsent(const struct link *l, uint64_t position);
void link_pause(struct link *l, bool paused); /* while paused, no messages are given */
/* Deadlines. Call it at least every 100 ms until the link is up, then every second. */
void link_tick(struct link *l, uint64_t now_ns);
/* Acceptor, from `up` on: whether it is a further link beside another of the same peer and
 * group. */
bool link_is_more(const struct link *l);
uint64_t link_group(const struct link *l);
uint32_t link_life(const struct link *l); /* of the opener, a manager; from `up` on */
/* What carries its messages: "tcp", or the fabric's provider. */
const char *link_carrier(const struct link *l);
/* Our address of its TCP connection. 0, or a negative code. */
int link_address(const struct link *l, struct sockaddr_storage *a);
/* From `up` on: whether each end may read memory that the other shares (fabric_share()). */
bool link_reads(const struct link *l);
/*
 * Read from->len bytes of the other end's shared memory into `to`. Both must stay until done(arg,
 * code), which is called from the loop, from link_free(), or, while the network still uses them,
 * later, at the latest from fabric_close(). done() may call all of this header, but not for a link
 * that is being freed. Several reads may be under way; they end in any order. Negative: nothing was
 * begun, and done is not called.
 */
int link_read(struct link *l, void *to, const struct fabric_place *from,
              void (*done)(void *arg, int code), void *arg);
/* Whether several links to one peer carry large values faster than one does. */
bool link_more_is_faster(const struct link *l);

#endif
