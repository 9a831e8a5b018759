/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h - one authenticated TCP connection between nodes, non-blocking, driven by the owner's epoll loop. PROTOCOL 6.
 * Single-threaded. The owner is told of messages through callbacks and never sees a byte of an unauthenticated peer.
 */
#ifndef DDICT_WIRE_CONN_H
#define DDICT_WIRE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <wire/msg.h>

#define COOKIE_SIZE 32
enum conn_role { ROLE_DATA = 1, ROLE_CONTROL = 2 };

struct conn_identity {          /* what both ends prove */
    uint8_t dict_id[16];
    uint8_t cookie[COOKIE_SIZE];
    uint32_t self;              /* manager id (DATA) or node id (CONTROL) */
};

struct conn;
struct conn_ops {
    /* Authenticated (both directions). peer: its manager or node id. */
    void (*up)(struct conn *c, void *arg, uint32_t peer, enum conn_role role);
    /*
     * A header has come and was checked. Where shall its payload go? Return the destination for m->len - 64 bytes (the owner's
     * memory, valid until `message`), or NULL for the connection's own buffer. For DATA of a value this is the block itself.
     */
    void *(*payload_to)(struct conn *c, void *arg, const struct msg *m);
    /* The whole message is in; payload is where payload_to said. Return 0, or a negative code to close the connection. */
    int (*message)(struct conn *c, void *arg, const struct msg *m, void *payload);
    /* The output queue has become shorter than DD_PEER_INFLIGHT again after conn_full() was true. */
    void (*drained)(struct conn *c, void *arg);
    /* Closed: code says why (-ECONNRESET, DDICT_EAUTH, DDICT_EPROTO, -ETIMEDOUT, ...). The owner calls conn_free(). */
    void (*down)(struct conn *c, void *arg, int code);
};

/* Opener: starts a non-blocking connect to the addresses in turn (DD_CONNECT_MS together), then HELLO. Copies what it needs. */
int conn_open(struct conn **out, int epoll_fd, const struct conn_identity *me, enum conn_role role, uint32_t to,
              const struct sockaddr_storage *addr, int naddr, const struct conn_ops *ops, void *arg);
/* Acceptor: takes over fd (closed with the connection). */
int conn_accept(struct conn **out, int epoll_fd, const struct conn_identity *me, int fd, const struct conn_ops *ops, void *arg);
void conn_free(struct conn *c); /* NULL is allowed; closes, calls nothing */

/*
 * Queue a message. header and `head` (head_len bytes: key, or a small value) are copied. `body` (body_len bytes) is sent from where it lies and must
 * stay until done(done_arg) is called (also at close); done may be NULL when body_len is 0. m->len is set here. Requests may be queued before `up`.
 */
int conn_send(struct conn *c, struct msg *m, const void *head, size_t head_len, const void *body, size_t body_len,
              void (*done)(void *arg), void *done_arg);
bool conn_full(const struct conn *c); /* more than DD_PEER_INFLIGHT bytes queued */
void conn_pause(struct conn *c, bool paused); /* stop reading: leave the bytes in the socket */

/* epoll: data.ptr of every connection points at its struct conn, whose first member is a struct io_handler (see loop.h). */
/* Deadlines of handshake and connect; call at least every 100 ms. */
void conn_tick(struct conn *c, uint64_t now_ns);

/* Listen on a port chosen by the kernel, on all addresses or one. Descriptor; *port receives it. Non-blocking, CLOEXEC. */
int conn_listen(const struct sockaddr_storage *addr, uint16_t *port);
/* Addresses of this node that peers may try, best first: that of the node's own name, then the other non-loopback ones; loopback last. Returns their number. */
int conn_addresses(const char *node, struct sockaddr_storage *out, int max);

#endif
