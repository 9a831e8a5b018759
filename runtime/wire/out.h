/* SPDX-License-Identifier: Apache-2.0 */
/*
 * out.h - the bytes that wait to be written to one socket: copies, gathered in blocks, and bodies
 * that are sent from where they lie, by one sendmsg(). Messages are copied, so that nothing has to
 * be pinned for them; a value larger than DD_MSG_INLINE that is read goes in pieces, and each piece
 * is a body in the arena. One thread. done() of a body is called when its last byte is written or
 * the queue is cleared; it may add to the queue.
 */
#ifndef DDICT_WIRE_OUT_H
#define DDICT_WIRE_OUT_H

#include "msg.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* bytes of a block of copies: takes hundreds of small messages, and one malloc() size */
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
    struct out_block *current; /* takes the next copies */
    struct out_block *spare;   /* ready for use */
    unsigned spares;
    size_t bytes;     /* all together */
    uint64_t written; /* bytes that the socket has taken so far */
};

/* Make sure that copies of `copy` bytes together and one body can be added: 0 or -ENOMEM. The adds
 * that follow cannot fail. */
int out_reserve(struct out *o, size_t copy);
void out_copy(struct out *o, const void *data, size_t len);
void out_body(struct out *o, const void *body, size_t len, void (*done)(void *arg), void *arg);
/* A message: its header, whose len is set here, a copy of head, and the body. 0; -ENOMEM;
 * DDICT_EPROTO for one that must not travel: too long, a body without done(), or not as msg_check()
 * wants it. On failure nothing is added. */
int out_message(struct out *o, struct msg *m, const void *head, size_t head_len, const void *body,
                size_t body_len, void (*done)(void *arg), void *done_arg);
/* Write what the socket takes. 0: all is written; 1: the socket is full; negative: it is broken. */
int out_write(struct out *o, int fd);
/* For what is no socket. The bytes from the skip-th on: at most max places and *bytes bytes; *bytes
 * receives how many. Returns the number of places. They stay where they are until they are taken.
 */
unsigned out_gather(const struct out *o, size_t skip, struct iovec *iov, unsigned max,
                    size_t *bytes);
void out_take(struct out *o, size_t bytes); /* the first so many are written */
void out_clear(struct out *o);              /* calls every done(), frees everything */

#endif
