/* SPDX-License-Identifier: Apache-2.0 */
/* peer_client.h - managers that we ask. */
#ifndef DDICT_MANAGER_PEER_CLIENT_H
#define DDICT_MANAGER_PEER_CLIENT_H

#include "manager.h"

struct forward;
struct peer;
/* What is done with what comes of them. */
struct peer_ops {
    /* where the payload of r is received; NULL: anywhere */
    void *(*place)(struct manager *m, uint32_t from, const struct msg *r);
    /* Where bytes of a piece that is passed on may be received: in the lane itself. See part_to and
     * part of conn_ops. */
    void *(*part_to)(struct manager *m, uint32_t from, const struct msg *r, uint32_t got,
                     uint32_t *room);
    int (*part)(struct manager *m, const struct msg *r, uint32_t got, const void *at, uint32_t n);
    int (*answer)(struct manager *m, uint32_t from, const struct msg *r, const uint8_t *payload);
    /* again: what only reads is asked once more, over a new connection */
    void (*lost)(struct manager *m, struct peer *p, const char *text, bool again);
};
int peers_init(struct manager *m, const struct peer_ops *use);
void peers_end(struct manager *m);
void peers_reap(struct manager *m);
/* connecting at the first need */
struct peer *peer_get(struct manager *m, uint32_t id, int *code);
/* Of its connections, `via`: 0 the first; else one of those for large values. */
unsigned peer_via(struct peer *p); /* for a large value that is to go there */
/* large values are under way: open those for them, if they are not */
void peer_more(struct peer *p);
bool peer_full(struct peer *p, unsigned via);
bool peer_stuck(struct manager *m, uint32_t id); /* it was asked, and does not move */
void peer_asked(struct peer *p);                 /* about to be: from now on it has to */
struct forward **peer_forwards(struct peer *p);  /* those that it was asked and has not answered */
int peer_send(struct peer *p, unsigned via, struct msg *r, const void *payload, size_t len);
/* over the first; an error is the connection's, whose end answers everything */
void peer_tell(struct peer *p, struct msg *r);
/* see link_read() */
int peer_read(struct peer *p, void *to, const struct fabric_place *from,
              void (*done)(void *arg, int code), void *arg);
uint64_t peer_position(struct peer *p); /* see link_position() */
bool peer_unsent(struct peer *p, uint64_t position);
void peers_resume(struct manager *m); /* a lane has room again, or waited too long for it */
bool peers_tick(struct manager *m);
uint64_t peers_links(const struct manager *m); /* connections that are open */

#endif
