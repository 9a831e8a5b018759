/* SPDX-License-Identifier: Apache-2.0 */
/* peer_client.h - connections to managers of other nodes, for our requests. */
#ifndef DDICT_MANAGER_PEER_CLIENT_H
#define DDICT_MANAGER_PEER_CLIENT_H

#include "manager.h"

struct forward;
struct peer;
/* What happens to messages of peers; one for all. */
struct peer_ops {
    /* where to receive the payload of r; NULL: anywhere */
    void *(*place)(struct manager *m, uint32_t from, const struct msg *r);
    /* Where to receive bytes of a piece that is passed on: in the lane itself. See part_to and part
     * of struct conn_ops. */
    void *(*part_to)(struct manager *m, uint32_t from, const struct msg *r, uint32_t got,
                     uint32_t *room);
    int (*part)(struct manager *m, const struct msg *r, uint32_t got, const void *at, uint32_t n);
    int (*answer)(struct manager *m, uint32_t from, const struct msg *r, const uint8_t *payload);
    /* All that was under way ends, or with `again` what may be sent again goes before what is in
     * peer_again() already. */
    void (*lost)(struct manager *m, struct peer *p, const char *text, bool again);
    /* Send what is in peer_again(), up to so many values in pieces: the rest stays behind them. 0, or
     * why more is still there. */
    int (*again)(struct manager *m, struct peer *p, unsigned values);
    void (*give_up)(struct manager *m, struct peer *p, const char *text); /* end what is there */
};
int peers_init(struct manager *m, const struct peer_ops *use);
void peers_end(struct manager *m);
void peers_reap(struct manager *m);
struct peer *peer_know(struct manager *m, uint32_t id); /* connects not; NULL: no memory */
/* Send what is in peer_again() of any peer. */
void peers_again(struct manager *m);
/* The keys of this manager are served by the process of this number from now on: all that is under
 * way is asked again there. SHADOW_NONE: it is gone, and all that is under way ends. */
void peer_moved(struct manager *m, uint32_t id, uint32_t where, uint16_t port);
/* From now on, or no more, keys of this manager are being read again: what is asked may wait long. */
void peer_refills(struct manager *m, uint32_t id, bool refilling);
bool peer_is_refilling(const struct manager *m, uint32_t id);
/* It had no keys, and is gone with its node: nobody serves in its place. */
bool peer_is_gone(const struct manager *m, uint32_t id);
/* Nothing can come of what was sent to it over connections that have ended, also by an earlier life. */
bool peer_is_settled(const struct manager *m, uint32_t id);
void peer_settle(struct manager *m,
                 uint32_t id); /* it has said so over the connection that is up */
/* Connects at the first need. NULL: *code says why. */
struct peer *peer_get(struct manager *m, uint32_t id, int *code);
/* A peer has several connections, numbered `via`: 0 is the first, the others are for large
 * values. */
unsigned peer_via(struct peer *p); /* which to use for a large value */
/* Large values are under way: open the connections for them. */
void peer_more(struct peer *p);
bool peer_full(struct peer *p, unsigned via);
/* What is still in peer_again(), and not for want of a connection, is sent now. */
void peer_hurry(struct manager *m, uint32_t id);
bool peer_stuck(struct manager *m, uint32_t id); /* it has open requests, and shows no progress */
/* a request is about to be sent: progress is expected from now on */
void peer_asked(struct peer *p);
void peer_answered(struct peer *p); /* ... was answered, to its end */
/* More of a value than by any connection before has come to it, or from it. */
void peer_advances(struct peer *p);
struct forward **peer_forwards(struct peer *p); /* requests without an answer */
/* Requests that are to be sent again, in this order, before any other. */
struct forward **peer_again(struct peer *p);
int peer_send(struct peer *p, unsigned via, struct msg *r, const void *payload, size_t len);
/* The same, with more of the payload that is sent from where it lies: see conn_send(). */
int peer_send_body(struct peer *p, unsigned via, struct msg *r, const void *payload, size_t len,
                   const void *body, size_t body_len, void (*done)(void *arg), void *done_arg);
/* Over the first connection. Errors are left to the end of the connection. */
void peer_tell(struct peer *p, struct msg *r);
/* see link_read() */
int peer_read(struct peer *p, void *to, const struct fabric_place *from,
              void (*done)(void *arg, int code), void *arg);
uint64_t peer_position(struct peer *p); /* see link_position() */
bool peer_unsent(struct peer *p, uint64_t position);
void peers_resume(struct manager *m); /* a lane has room again, or its time for that is over */
bool peers_tick(struct manager *m);
uint64_t peers_links(
    const struct manager *m); /* to all peers, those included that are not up yet */

#endif
