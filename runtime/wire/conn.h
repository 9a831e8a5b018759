/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h - one authenticated TCP connection between nodes: non-blocking, driven by the owner's
 * epoll loop. PROTOCOL 6. Single-threaded. The owner gets messages by callbacks, and never a byte
 * of an unauthenticated peer.
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
    /* The handshake is done. peer: its manager or node id. May be NULL, as may drained. */
    void (*up)(struct conn *c, void *arg, uint32_t peer, enum conn_role role);
    /*
     * A header has come and was checked: where is its payload to be received? Returns room for
     * m->len - 64 bytes (the owner's memory, valid until `message` or `down`; for DATA of a value
     * its block), or NULL for the connection's own buffer (not aligned). Not called without a
     * payload. If this function is NULL, the connection's buffer is always used.
     */
    void *(*payload_to)(struct conn *c, void *arg, const struct msg *m);
    /* The message is complete; payload is where payload_to said. Returns 0, or a negative code to
     * end the connection. */
    int (*message)(struct conn *c, void *arg, const struct msg *m, void *payload);
    /* After conn_full() was true, the queue has become shorter than DD_PEER_INFLIGHT. */
    void (*drained)(struct conn *c, void *arg);
    /* The connection has ended, for code (-ECONNRESET, DDICT_EAUTH, DDICT_EPROTO, -ETIMEDOUT,
     * -EBADMSG: the bytes were tampered with, ...). Called once, perhaps before `up`, and never
     * within another call of this header except conn_tick(). All done() have been called. The owner
     * calls conn_free(). */
    void (*down)(struct conn *c, void *arg, int code);
    /*
     * Optional, for payloads without a place from payload_to that can be used in parts: where are
     * their bytes from `got` on to be received? *room is how many are left; set it to how many fit.
     * NULL: nowhere now; then the rest is given from the connection's buffer, or, when got is 0, as
     * a message. If the owner pauses the connection in this call, it is asked again after the
     * pause. part() gives each place back before anything else happens, unless nothing was
     * received.
     */
    void *(*part_to)(struct conn *c, void *arg, const struct msg *m, uint32_t got, uint32_t *room);
    /* n bytes of the payload, from `got` on, are at `at`: the place of part_to, or the connection's
     * buffer. No message() follows. Returns as message(). */
    int (*part)(struct conn *c, void *arg, const struct msg *m, uint32_t got, const void *at,
                uint32_t n);
};

/*
 * Opener: begins a non-blocking connect to the addresses in turn (within DD_CONNECT_MS +
 * DD_HANDSHAKE_MS, shared evenly; again from the first if the network refuses), then sends HELLO.
 * An address whose listener does not know the key is skipped like one that does not answer. The
 * arguments are copied. Negative: no address could be tried, nothing was made.
 */
int conn_open(struct conn **out, int epoll_fd, const struct conn_identity *me, enum conn_role role,
              uint32_t to, const struct sockaddr_storage *addr, int naddr,
              const struct conn_ops *ops, void *arg);
/* Behind conn_open(): ms instead of these two. An address that gives no answer may do so later, so all
 * are tried again until then, whatever the others say: loopback, which refuses, is among them. */
void conn_patience(struct conn *c, int ms);
/* Acceptor: takes over fd, and closes it with the connection. */
int conn_accept(struct conn **out, int epoll_fd, const struct conn_identity *me, int fd,
                const struct conn_ops *ops, void *arg);
/*
 * At most n accepted connections of this process may be unauthenticated at a time (default
 * DD_STRANGERS). Beyond that, the address with most of them loses its oldest (-EUSERS), so that
 * nobody can take the places of others. n: as many as honest peers may open at once, and some more.
 */
void conn_strangers(unsigned n);
/* NULL is allowed, and so is a call within a callback. Closes, and calls done() of queued bodies,
 * but no other callback. Unsent bytes are lost: for a last message call conn_flush() and wait for
 * an empty queue, or better let the peer close first. */
void conn_free(struct conn *c);

/*
 * Queue a message. Header and `head` (head_len bytes: a key, or a small value) are copied. `body`
 * (body_len bytes) is sent from where it lies, and must stay until done(done_arg) is called (also
 * when the connection closes; never within conn_send()). done may be NULL if body_len is 0. m->len
 * is set here. Messages may be queued before `up`. The queue is written at the next io_wait(), so
 * that one system call takes all messages of a turn; conn_flush() writes at once. 0; or -ENOMEM,
 * DDICT_EPROTO (the message would not pass the peer's check), or the code with which the connection
 * ends: then nothing was queued, and done is not called.
 */
int conn_send(struct conn *c, struct msg *m, const void *head, size_t head_len, const void *body,
              size_t body_len, void (*done)(void *arg), void *done_arg);
void conn_flush(struct conn *c);
/* End the connection with this code, as if it had broken. `down` is called from the loop, or at the
 * end of the current callback. */
void conn_end(struct conn *c, int code);
bool conn_full(const struct conn *c);     /* more than DD_PEER_INFLIGHT bytes queued */
size_t conn_queued(const struct conn *c); /* bytes */
/* conn_position(): bytes queued so far. conn_unsent(): whether some byte before this position is
 * not written yet; then the peer cannot have acted on the message that ends there. */
uint64_t conn_position(const struct conn *c);
bool conn_unsent(const struct conn *c, uint64_t position);
/* Stop reading: bytes stay in the socket, also those of a payload that has begun. */
void conn_pause(struct conn *c, bool paused);
/* A secret that only both ends of this connection know, from `up` on. letter tells several apart;
 * 'A', 'B', '1' and '2' are taken. */
void conn_secret(const struct conn *c, char letter, uint8_t secret[32]);
void conn_count_refused(void);                  /* count one more for conn_refused() */
uint64_t conn_group(const struct conn *c);      /* of the opener; from `up` on */
uint32_t conn_life(const struct conn *c);       /* likewise */
enum seal_mode conn_wire(const struct conn *c); /* from `up` on */
int conn_fd(const struct conn *c);              /* for logs and tests; -1 when closed */
/* connections of this process that failed the handshake or sent malformed bytes; not those whose
 * other side closed them before it had said anything wrong */
uint64_t conn_refused(void);

/* epoll: data.ptr of every connection points at its struct conn, whose first member is a struct
 * io_handler (see loop.h). */
/* Enforces the deadlines of connect and handshake, and ends the connection if the peer's kernel
 * acknowledges nothing for DD_CONN_LOST_MS. Call it at least every 100 ms; once the connection is
 * up, every second. It may call callbacks. A peer of ROLE_DATA or ROLE_MORE may leave bytes unread
 * as long as its kernel answers. */
void conn_tick(struct conn *c, uint64_t now_ns);

/* --- net.c --- */
/* Listen on a port that the kernel chooses, on one address or all. Descriptor (non-blocking,
 * CLOEXEC); *port is set. */
int conn_listen(const struct sockaddr_storage *addr, uint16_t *port);
/* The same on all addresses, with a free port of low..high; -EADDRINUSE: none is free. Begins at a
 * random one, so that several processes seldom collide. */
int conn_listen_range(uint16_t low, uint16_t high, uint16_t *port);
/*
 * Reserve a port of low..high (0, 0: any) of all addresses for a program that will listen on it
 * with SO_REUSEADDR, as torch's stores and nearly all servers do. No program gets it by chance; one
 * that asks for this number with SO_REUSEADDR does. The reservation ends when the descriptor is
 * closed; that does not harm the program.
 */
int conn_hold(uint16_t low, uint16_t high, uint16_t *port);
/*
 * Accept from a listener that epoll reported: a non-blocking CLOEXEC descriptor, or -EAGAIN: none
 * is left. When this process is out of descriptors, the connection is accepted with a spare one and
 * closed, so that the caller's loop neither spins nor stalls; the log says so once a minute.
 * conn_take_ready() opens the spare one. conn_take_anew(): after a fork whose child has closed what
 * was its parent's, another one.
 */
int conn_take(int listen_fd);
void conn_take_ready(void);
void conn_take_anew(void);
/* Addresses of this node that peers may try, the best first: that of the node's own name, then
 * other non-loopback ones, loopback last. Ports are 0. Returns their number. */
int conn_addresses(const char *node, struct sockaddr_storage *out, int max);

#endif
