/* SPDX-License-Identifier: Apache-2.0 */
/* conn_inside.h - what the files of a connection share: conn.c, its life; conn_parts.c, payloads
 * that the owner takes as they come; conn_sealed.c, the bytes between the messages and the socket
 * where they are protected. */
#ifndef DDICT_WIRE_CONN_INSIDE_H
#define DDICT_WIRE_CONN_INSIDE_H

#include "handshake.h"
#include "identity.h"
#include "live.h"
#include "loop.h"
#include "msg.h"
#include "out.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define IN_BUFFER (256u << 10) /* takes many small messages per recv(), and any whole message */
/* looked at behind a large payload, so that the next one goes to its place without a copy */
#define IN_AFTER_BULK 4096u
#define BULK          16384u /* a payload from here on is large */
#define ROUNDS        8      /* recv() calls before other connections have their turn */
_Static_assert(MSG_LEN_MAX <= IN_BUFFER / 2, "a whole message fits behind part of another");

struct conn_ops;
enum conn_state { CONNECTING, AUTH, UP, ENDED };

struct conn {
    struct io_handler io; /* first: see loop.h */
    struct io_deferred later;
    int epoll_fd;
    uint32_t interest; /* epoll events asked for */
    enum conn_state state;
    int code;      /* why it ends; 0 while it does not */
    unsigned busy; /* calls under way in this connection */
    bool freed;    /* by conn_free() while busy */
    bool opener, paused, blocked, full_seen;

    const struct conn_ops *ops;
    void *arg;
    struct conn_identity me;

    struct sockaddr_storage *addr; /* opener's, until UP */
    int naddr, next_addr;
    /* an address where somebody else answered: better to report than the last refusal */
    int auth_code;
    uint64_t deadline_ns; /* opener: of this address; acceptor: of the handshake */
    uint64_t give_up_ns;  /* opener: of all addresses together */
    uint64_t tick_ns;     /* the last look at the clock */

    struct handshake hs;
    /* acceptor that is not UP: in the list of strangers, with a hash of where it comes from */
    bool stranger;
    uint8_t from;
    TAILQ_ENTRY(conn) strangers;

    struct out out;
    struct live live;
    struct sealed *sealed; /* NULL: messages go as they are */

    uint8_t *in; /* IN_BUFFER bytes, from UP on */
    uint32_t in_pos, in_end;
    bool have_msg, bulk;
    bool parts;   /* of this message: the owner takes it as it comes */
    struct msg m; /* when have_msg: its payload is coming */
    uint8_t *dst; /* NULL: into `in` */
    uint32_t got; /* bytes at dst, or taken in parts */
    /* place of the part that is coming, only while we receive; NULL: none */
    uint8_t *part;
    uint32_t room, fill; /* of it */
};

static inline void conn_fail(struct conn *c, int code) {
    if (c->code == 0)
        c->code = code;
}

static inline bool conn_may_read(const struct conn *c) {
    return c->code == 0 && !c->freed && !c->paused;
}

/* --- conn_parts.c: the message in c->m --- */
/* ask the owner where the next part goes; false: nowhere now */
bool conn_part_begin(struct conn *c);
bool conn_part_take(struct conn *c); /* what the buffer has of it; false: more has to come */
void conn_part_end(struct conn *c);  /* give what came of the part that is coming */

/* --- conn_sealed.c: messages <-> records <-> socket --- */
int sealed_begin(struct conn *c); /* at `up`, where the two ends agreed on it */
int sealed_write(struct conn *c); /* as out_write() */
/* one recv(): how many bytes came, -EAGAIN, or why it has ended; *room: as many could have come */
int sealed_read(struct conn *c, size_t *room);
/* one record more of what was read into `in`: 1; 0: none is whole; or why the connection ends */
int sealed_next(struct conn *c);
/* bytes of messages in the record that the socket has not taken whole */
size_t sealed_left(const struct conn *c);
void sealed_end(struct conn *c);

#endif
