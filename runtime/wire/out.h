/* SPDX-License-Identifier: Apache-2.0 */
/*
 * out.h - bytes that wait to be written to one socket: copies, gathered in blocks, and bodies,
 * which are sent from where they lie; both by one sendmsg(). Messages are copied, so that nothing
 * must be pinned for them. A value larger than DD_MSG_INLINE goes in pieces, each a body in the
 * arena. Single-threaded. done() of a body is called when its last byte is written or the queue is
 * cleared; it may add to the queue.
 */
#ifndef DDICT_WIRE_OUT_H
#define DDICT_WIRE_OUT_H

#include "msg.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* bytes of a block of copies: room for hundreds of small messages, in one malloc() */
#define OUT_BLOCK (64u << 10)

struct out_block;
struct out_segment {
    const uint8_t *base;
    size_t len;
    struct out_block *block; /* NULL: a body */
    void (*done)(void *arg);
    void *arg;
};

struct out {                  /* all zero at first */
    struct out_segment *ring; /* cap is a power of two */
    unsigned cap, head, count;
    struct out_block *current; /* where copies go next */
    struct out_block *spare;   /* ready for use */
    unsigned spares;
    size_t bytes;     /* in the queue */
    uint64_t written; /* bytes that the socket has taken */
};

/* Make room for copies of `copy` bytes in all and for one body, so that the next adds cannot fail.
 * 0 or -ENOMEM. */
int out_reserve(struct out *o, size_t copy);
void out_copy(struct out *o, const void *data, size_t len);
void out_body(struct out *o, const void *body, size_t len, void (*done)(void *arg), void *arg);
/* Add a message: its header, whose len is set here, a copy of head, and the body. 0; -ENOMEM; or
 * DDICT_EPROTO: too long, a body without done(), or refused by msg_check(). On failure nothing is
 * added. */
int out_message(struct out *o, struct msg *m, const void *head, size_t head_len, const void *body,
                size_t body_len, void (*done)(void *arg), void *done_arg);
/* Write what the socket takes. 0: everything is written; 1: the socket is full; negative: it is
 * broken. */
int out_write(struct out *o, int fd);
/* For transports other than sockets: the bytes from the skip-th on, at most max places and *bytes
 * bytes; *bytes is set. Returns the number of places, valid until out_take(). */
unsigned out_gather(const struct out *o, size_t skip, struct iovec *iov, unsigned max,
                    size_t *bytes);
void out_take(struct out *o, size_t bytes); /* the first so many bytes are written */
void out_clear(struct out *o);              /* calls each done(), frees everything */

#endif
