/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h - one authenticated TCP connection between nodes, non-blocking, driven by the owner's
 * epoll loop. PROTOCOL 6. Single-threaded. The owner is told of messages through callbacks and
 * never sees a byte of an unauthenticated peer.
 */
#ifndef DDICT_WIRE_CONN_H
#define DDICT_WIRE_CONN_H

#include "identity.h"
#include "msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct conn;
struct conn_ops {
    /* Authenticated (both directions). peer: its manager or node id. May be NULL, as may drained.
     * */
    void (*up)(struct conn *c, void *arg, uint32_t peer, enum conn_role role);
    /*
     * A header has come and was checked. Where shall its payload go? Return the destination for
     * m->len - 64 bytes (the owner's memory, valid until `message` or `down`), or NULL for the
     * connection's own buffer (not aligned). For DATA of a value this is the block itself. Not
     * asked when there is no payload; NULL as function: always the connection's buffer.
     */
    void *(*payload_to)(struct conn *c, void *arg, const struct msg *m);
    /* The whole message is in; payload is where payload_to said. Return 0, or a negative code to
     * close the connection. */
    int (*message)(struct conn *c, void *arg, const struct msg *m, void *payload);
    /* The output queue has become shorter than DD_PEER_INFLIGHT again after conn_full() was true.
     * */
    void (*drained)(struct conn *c, void *arg);
    /* Closed: code says why (-ECONNRESET, DDICT_EAUTH, DDICT_EPROTO, -ETIMEDOUT, -EBADMSG: somebody
     * changed what came, ...). Comes once, also before `up`, never from within another call of this
     * header but conn_tick(). All done() have been called. The owner calls conn_free(). */
    void (*down)(struct conn *c, void *arg, int code);
    /*
     * Optional, for payloads that payload_to gave no place to and that need not be whole to be
     * taken: where may their bytes from `got` on go? *room: as many are left; receives how many
     * have room there. NULL: nowhere now; the rest comes from the connection's buffer, or when it
     * was asked at got 0, as a message; or when the owner pauses the connection here, it is asked
     * again after the pause. Each place is given back by part() before anything else happens,
     * unless nothing came.
     */
    void *(*part_to)(struct conn *c, void *arg, const struct msg *m, uint32_t got, uint32_t *room);
    /* n bytes of the payload, those from `got` on, are at `at`: where part_to said, or in the
     * connection's buffer. No message() follows. Return as message(). */
    int (*part)(struct conn *c, void *arg, const struct msg *m, uint32_t got, const void *at,
                uint32_t n);
};

/*
 * Opener: starts a non-blocking connect to the addresses in turn (DD_CONNECT_MS + DD_HANDSHAKE_MS
 * together, shared evenly; again from the first where the network refuses), then HELLO. An address
 * where somebody else answers (no proof of its key) is passed over like one that does not answer.
 * Copies what it needs. Negative: no address could even be tried; nothing was made.
 */
int conn_open(struct conn **out, int epoll_fd, const struct conn_identity *me, enum conn_role role,
              uint32_t to, const struct sockaddr_storage *addr, int naddr,
              const struct conn_ops *ops, void *arg);
/* Acceptor: takes over fd (closed with the connection). */
int conn_accept(struct conn **out, int epoll_fd, const struct conn_identity *me, int fd,
                const struct conn_ops *ops, void *arg);
/*
 * At most n accepted connections of this process that have not proved themselves (default
 * DD_STRANGERS). Beyond that the oldest is closed (-EUSERS), of those whose address has most of
 * them: who opens many costs nobody else his place. n: as many as honest peers may open at once,
 * and some more.
 */
void conn_strangers(unsigned n);
/* NULL is allowed; allowed in every callback. Closes, calls the done() of what is queued and
 * nothing else. What is not written is lost: a last word wants conn_flush() and !conn_full()
 * before, or better the peer's end first. */
void conn_free(struct conn *c);

/*
 * Queue a message. header and `head` (head_len bytes: key, or a small value) are copied. `body`
 * (body_len bytes) is sent from where it lies and must stay until done(done_arg) is called (also at
 * close; never from within conn_send()); done may be NULL when body_len is 0. m->len is set here.
 * Requests may be queued before `up`. What is queued is written at the next io_wait(), so that one
 * system call takes what one round of the loop produced; conn_flush() writes at once. 0; -ENOMEM,
 * DDICT_EPROTO (the message would not pass the peer's check), or the code the connection ends with:
 * nothing was queued then, done is not called.
 */
int conn_send(struct conn *c, struct msg *m, const void *head, size_t head_len, const void *body,
              size_t body_len, void (*done)(void *arg), void *done_arg);
void conn_flush(struct conn *c);
/* End it with this code, as if the connection had broken: `down` comes from the loop, or at the end
 * of the callback that this is called in. */
void conn_end(struct conn *c, int code);
bool conn_full(const struct conn *c);     /* more than DD_PEER_INFLIGHT bytes queued */
size_t conn_queued(const struct conn *c); /* bytes */
/* Of what was queued up to a moment when conn_position() was `position`: has the last byte not been
 * written yet? Then the peer can not have acted on the last message. */
uint64_t conn_position(const struct conn *c);
bool conn_unsent(const struct conn *c, uint64_t position);
/* stop reading: leave the bytes in the socket. The message whose payload is coming waits too */
void conn_pause(struct conn *c, bool paused);
/* A secret that only the two ends of this connection know, once it is up; letter tells several
 * apart ('A', 'B', '1' and '2' are taken). */
void conn_secret(const struct conn *c, char letter, uint8_t secret[32]);
void conn_count_refused(void);                  /* one more for conn_refused() */
uint64_t conn_group(const struct conn *c);      /* the opener's, from `up` on */
enum seal_mode conn_wire(const struct conn *c); /* from `up` on */
int conn_fd(const struct conn *c);              /* for logs and tests; -1 when closed */
/* connections of this process that failed the handshake or sent what is malformed */
uint64_t conn_refused(void);

/* epoll: data.ptr of every connection points at its struct conn, whose first member is a struct
 * io_handler (see loop.h). */
/* Deadlines of handshake and connect, and a peer that acknowledges nothing for DD_CONN_LOST_MS;
 * call at least every 100 ms (every second once all are up). The callbacks may come from here. A
 * ROLE_DATA or ROLE_MORE peer may leave its bytes unread as long as its kernel answers. */
void conn_tick(struct conn *c, uint64_t now_ns);

/* --- net.c --- */
/* Listen on a port chosen by the kernel, on all addresses or one. Descriptor; *port receives it.
 * Non-blocking, CLOEXEC. */
int conn_listen(const struct sockaddr_storage *addr, uint16_t *port);
/* The same on all addresses, with a port of low..high that is free; -EADDRINUSE when none is. Looks
 * from a random one on, so that several do not meet. */
int conn_listen_range(uint16_t low, uint16_t high, uint16_t *port);
/*
 * Keep a port of low..high (0, 0: any) of all addresses for a program that will listen on it with
 * SO_REUSEADDR, as torch's stores and nearly all servers do: nobody is given it or takes it by
 * number, unless with SO_REUSEADDR too: that guards against chance, not against another user who
 * wants it. Closing the descriptor, also while that program listens, takes nothing from it.
 */
int conn_hold(uint16_t low, uint16_t high, uint16_t *port);
/*
 * Accept from a listener that epoll found ready: a non-blocking CLOEXEC descriptor, or -EAGAIN when
 * there is none (left). Out of descriptors the connection is accepted with one that is kept for
 * this and closed, so that the caller's loop neither spins nor sleeps; that is said once a minute.
 * conn_take_ready() keeps it.
 */
int conn_take(int listen_fd);
void conn_take_ready(void);
/* Addresses of this node that peers may try, best first: that of the node's own name, then the
 * other non-loopback ones; loopback last. Ports are 0. Returns their number. */
int conn_addresses(const char *node, struct sockaddr_storage *out, int max);

#endif
